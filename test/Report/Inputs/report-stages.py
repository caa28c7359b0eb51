# Which devices have a value, as `values` of a report (stdin) say: the same as the memory of each stage.
import json, sys
p = json.load(sys.stdin)["programs"][0]
schedule, memory, values = p["schedule"], p["memory"], p["values"]
assert len(schedule) == int(sys.argv[1]) == len(memory)
arguments = {v["name"]: v.get("programs", list(range(len(schedule)))) for v in values if v and v["op"] == "argument"}
listed = 0
for f, m in enumerate(memory):
    column = {name: i for i, name in enumerate(m["buffers"]["columns"])}
    assert "shared" not in m["buffers"]
    for row in m["buffers"]["rows"]:
        name = m["words"][row[column["value"]]].replace("#", str(row[column["number"]]))
        if m["words"][row[column["what"]]] == "argument" and name in arguments:
            listed += 1
            assert f in arguments[name], f"{name} has memory in function {f}, but values say {arguments[name]}"
        # Kernels that read or write the buffer run while it is live.
        steps, first, last = schedule[f]["steps"], row[column["first_step"]], row[column["last_step"]]
        kernel = steps["columns"].index("kernel")
        assert set(row[column["kernels"]]) <= {s[kernel] for s in steps["rows"][first:last + 1]}, name
assert listed >= len(arguments) / 4, listed  # small ones are not listed
alone = [v["name"] for v in values if v and v.get("programs") == [len(schedule) - 1]]
print("arguments", len(arguments), "in one function", sum(len(f) == 1 for f in arguments.values()))
print("of the last function:", ", ".join(n for n in alone if not n.startswith(("%blocks", "%d_"))))
