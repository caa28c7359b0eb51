"""What page.json (of dtc report), view.json (of dtc view trace.json), explain and diff call the message of the gradients."""

import json
from pathlib import Path

[program] = json.loads(Path("page.json").read_text())["programs"]
[schedule] = program["schedule"]
words, columns = schedule["words"], schedule["steps"]["columns"]
for row in schedule["steps"]["rows"]:
    step = dict(zip(columns, row, strict=True))
    what, value = words[step["what"]], words[step["value"]].replace("#", str(step["number"]))
    if what in ("pack", "all_reduce", "unpack"):
        print(what, value)
print("communication:", *[c["name"] for c in program["communication"]["collectives"] if c["kind"] == "all_reduce"])
print("trace:", *[o["value"] for o in json.loads(Path("view.json").read_text())["ops"] if o["name"].startswith("all_reduce")])
explained = json.loads(Path("explain.json").read_text())
print("explain:", *[c["name"] for c in explained["collectives"] if c["kind"] == "all_reduce"])
print("explain text:", *[line for line in Path("explain.txt").read_text().splitlines() if line.startswith("1. all_reduce over")])
print("diff:", *[c["what"] for c in json.loads(Path("diff.json").read_text())["collectives"] if "all_reduce" in json.dumps(c)])
