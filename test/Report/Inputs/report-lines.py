# Lines of steps and buffers in a report (stdin) of a program (first argument): those of the layer that they are named after.
import json, re, sys
p = json.load(sys.stdin)["programs"][0]
text = open(sys.argv[1]).read().split("\n")


def rows(table, words):
    assert "shared" not in table
    for r in table["rows"]:
        one = dict(zip(table["columns"], r))
        yield one, words[one["what"]], words[one["value"]].replace("#", str(one["number"]))


found, messages = 0, set()
for part, kind in (("schedule", "steps"), ("memory", "buffers")):
    for f in p[part]:
        for row, what, name in rows(f[kind], f["words"]):
            assert not re.search(r"%[0-9]", name), f"{f['function']}: {what} {name}"
            if what == "p2p":
                messages.add(name)
            layer = re.search(r"(?<=%)(?:loss_)?(blocks_\d+_)", name)  # a gradient is computed where its value is read
            if layer and row["line"] >= 0:
                found += 1
                line = text[row["line"]]
                assert layer[1] in line, f"{f['function']}: {what} {name}: line {row['line'] + 1}: {line}"
shown, out = {line["line"] for line in p["source"]["lines"]}, p["source"]["left_out"]
left = {first + i: to + i for first, count, to in out for i in range(count)}
assert not shown & left.keys() and set(left.values()) <= shown and len(shown) + len(left) == len(text) - 1
print("named after layers:", found > 1000, "lines left out:", bool(left))
for name in sorted(messages):
    print(name)
