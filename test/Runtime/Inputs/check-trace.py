"""Reads a Chrome trace as Perfetto would: names, tracks without overlap, arrows whose ends lie in a slice."""
import json
import sys

trace = json.load(open(sys.argv[1]))
events = trace["traceEvents"]
assert {"dtc", "program", "backend", "mesh", "host", "container", "system"} <= set(trace["otherData"])
names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
print("processes:", ", ".join(sorted(names.values())))
slices = [e for e in events if e["ph"] == "X"]
print("streams:", ", ".join(sorted({threads[e["pid"], e["tid"]] for e in slices if e["pid"]})))
print("collectives:", sum(e["cat"] == "collective" for e in slices))
for e in slices:
    if e["pid"] and e["cat"] != "copy":
        assert e["args"]["op"] and e["args"]["line"], e
for e in events:
    if e["ph"] in "sf":
        inside = [s for s in slices if (s["pid"], s["tid"]) == (e["pid"], e["tid"]) and
                  round(s["ts"] * 1000) <= round(e["ts"] * 1000) <= round((s["ts"] + s["dur"]) * 1000)]
        assert inside, e
print("arrows end where they should")
tracks = {}
for e in slices:
    begin = round(e["ts"] * 1000)
    tracks.setdefault((e["pid"], e["tid"]), []).append((begin, begin + round(e["dur"] * 1000)))
for track in tracks.values():
    track.sort()
    assert all(a[1] <= b[0] for a, b in zip(track, track[1:])), track
print("no overlap")
