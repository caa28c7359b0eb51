"""Standard input as SARIF 2.1.0: the members that the schema requires, and what GitHub code scanning reads."""

import json
import sys
from urllib.parse import urlparse

log = json.load(sys.stdin)
assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
(run,) = log["runs"]
driver = run["tool"]["driver"]
assert driver["name"] == "dtc" and driver["version"]
rules = [rule["id"] for rule in driver["rules"]]
assert len(set(rules)) == len(rules) and all(rule["help"]["text"] for rule in driver["rules"])
assert run["columnKind"] == "unicodeCodePoints"
for result in run["results"]:
    assert result["level"] in ("error", "warning", "note") and result["message"]["text"]
    assert rules[result["ruleIndex"]] == result["ruleId"]
    for place in result["locations"] + result["relatedLocations"]:
        physical = place.get("physicalLocation")
        if not physical:
            continue
        uri = physical["artifactLocation"]["uri"]
        assert uri and " " not in uri and "<" not in uri and urlparse(uri)
        region = physical.get("region", {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1})
        assert (region["startLine"], region["startColumn"]) <= (region["endLine"], region["endColumn"])
        assert region["startLine"] > 0 and region["startColumn"] > 0
print(len(run["results"]), "results,", len(rules), "rules:", *[r["ruleId"] for r in run["results"]])
for result in run["results"]:
    for place in result["locations"]:
        region = place["physicalLocation"]["region"]
        print(place["physicalLocation"]["artifactLocation"]["uri"], *region.values())
