# The names of collectives agree in `dtc explain`, `dtc report` and `dtc view --what schedule` of each program:
# collective-names.py PROGRAM ... -- DTC
import json, re, subprocess, sys

split = sys.argv.index("--")
files, command = sys.argv[1:split], sys.argv[split + 1:]

def dtc(*arguments):
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=True).stdout


def pattern(name):
    """"%blocks_{0..3}_h and 2 more" as a regular expression of its first names."""
    text = re.escape(re.sub(r" and \d+ more$", "", name) if "bucket of" not in name else name)
    return re.compile(re.sub(r"\\\{\d+\\\.\\\.\d+\\\}", r"\\d+", text))


def steps_of_report(program):
    for f in program["schedule"]:
        words, table = f["words"], f["steps"]
        assert "shared" not in table
        for row in table["rows"]:
            step = dict(zip(table["columns"], row))
            if words[step["kind"]] == "communicate":
                yield words[step["what"]], words[step["value"]].replace("#", str(step["number"])), step["collective"]


for file in files:
    explained, program = json.loads(dtc("explain", file, "--json")), json.loads(dtc("report", file, "--json"))["programs"][0]
    viewed = json.loads(dtc("view", file, "--what", "schedule", "--json"))
    steps = list(steps_of_report(program))
    kinds = {kind for kind, _, _ in steps}
    drawn = [(s["kind"], s["value"]) for f in viewed["functions"] for s in f["steps"] if s["kind"] in kinds and s["stream"].startswith("comm")]
    assert sorted(drawn) == sorted(s[:2] for s in steps), (file, set(drawn) ^ {s[:2] for s in steps})
    collectives = program["communication"]["collectives"]
    for kind, name, row in steps:
        if row >= 0:
            assert collectives[row]["kind"] == kind and pattern(collectives[row]["name"]).fullmatch(name), (file, kind, name, collectives[row]["name"])
    named = [g["name"] for g in explained["groups"]]
    assert named == [c["name"] for c in collectives], (file, named)
    assert not any(" and 1 more" in n for n in named if "bucket" not in n), (file, named)
    text = dtc("explain", file, "--full").split("\n\n")[0 if not explained.get("pipeline") else 1].split("\n")[1:]
    titles = [c["name"] for c in explained["collectives"]]
    assert len(text) > 0 or not titles, file
    for row in text:
        columns = re.split(r"  +", row.strip())
        value = re.sub(r" \(for .*\)$", "", columns[6])
        assert value in titles, (file, row)
    print(file.rsplit("/", 1)[-1], len(steps), "messages,", len(named), "collectives: one name each")
