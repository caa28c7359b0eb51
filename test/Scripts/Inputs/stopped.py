"""bench/gpu.py ends a command at its limit with all of its processes, and gives what they said."""

import pathlib
import sys
import time
import types

sys.path.insert(0, sys.argv[1])
import gpu

dtc = gpu.Dtc(types.SimpleNamespace(dtc="true"))
code, out, err = dtc.run("sleep 99 | (echo $BASHPID; exec sleep 98)", 0.5)
process = pathlib.Path("/proc") / out.strip() / "cmdline"
for _ in range(50):  # a process that was killed may take a moment to go
    if not process.exists() or not process.read_bytes():
        break
    time.sleep(0.1)
left = process.exists() and process.read_bytes()
print(f"{code}, {err.strip().removeprefix('error: ')}, {'some' if left else 'none'} of its processes is left")
