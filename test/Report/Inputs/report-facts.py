# `p`, a program of a report, in words.
def rows(table):
    return [dict(zip(table["columns"], row)) for row in table["rows"]]


print(f"reached {p['reached']}, entry {p['entry']}, target {p['target']}")
for mesh in p["meshes"]:
    print("mesh", mesh["name"], *(f"{a['name']}={a['size']}" for a in mesh["axes"]), end=f", {mesh['devices']} devices\n")
values, collectives = p["values"], p["communication"]["collectives"]
for line in p["source"]["lines"]:
    if "values" in line:
        print("line", line["line"] + 1, "defines", " ".join(values[v]["name"] for v in line["values"])
              + (", computes" if line.get("us", 0) > 0 else "")
              + "".join(", needs " + " ".join([collectives[c]["kind"], *collectives[c]["axes"]]) for c in line.get("collectives", [])))
for v in values:
    if "before" in v:
        print(v["name"], v["type"], v["sharding"]["text"], "from", v["before"]["text"] + f": {v['device_bytes']:.0f} bytes of {v['bytes']}")
for c in collectives:
    print(c["kind"], *c["axes"], c["value"], "of", c["members"], end=f", {c['bytes_received']} bytes: because {c['sources'][0]['why'].split()[0]}\n")
    end = c["sources"][0]["chain"][-1]
    print("the chain ends at", "an annotation" if end["annotation"] else "?", "of", end["value"])
schedule = p["schedule"][0]
steps, words = rows(schedule["steps"]), schedule["words"]
for s in steps:
    print("step", words[s["what"]], words[s["value"]].replace("#", str(s["number"])), "line", s["line"] + 1, *(["kernel"] if s["kernel"] >= 0 else []),
          *([f"collective{', exposed' if s['exposed_us'] > 0 else ''}"] if s["collective"] >= 0 else []))
assert all(a["begin_us"] <= b["begin_us"] for a, b in zip(steps, steps[1:])), steps
print("each step begins after the one before it")
memory = p["memory"][0]
buffers = rows(memory["buffers"])
assert all(0 <= b["offset"] <= b["offset"] + b["bytes"] <= memory["arena_bytes"] for b in buffers)
peak = sum(b["bytes"] for b in buffers if b["at_peak"]) + memory["left_out"]["bytes"]
assert peak >= memory["least_bytes"] > 0 and memory["least_bytes"] == steps[memory["peak_step"]]["live_bytes"], (peak, memory)
print(f"buffers are in the arena, at the peak {peak} bytes of at least that")
assert p["kernels"] and all(k["uses"] >= 1 and k["bytes"] > 0 and k["lines"] for k in p["kernels"])
print("kernels have operations and bytes")
graph = p["graph"]["drawings"][0]
box = [n["box"] for n in graph["nodes"]]
assert all(box[e["from"]][1] < box[e["to"]][1] for e in graph["edges"])
print("graph", ", ".join(n["kind"] for n in graph["nodes"]) + "; edges go down")
