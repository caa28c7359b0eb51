#!/bin/sh
# Checks and measures dtc on the GPU of this machine: bench/gpu.sh [--only layers|right|speed|steps|rows] [--profile] [--quick]. Each part takes
# less than ten minutes, and continues what an earlier call has measured.
# Needs Python (standard library only) and a built dtc: build/release/bin/dtc, or carry/dtc, created by bench/carry.sh for a
# machine that cannot build. Writes gpu.json into $OUT, or bench/results, and prints the table. Without a GPU it reports so, runs the
# emulator's part, and exits 0.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
exec python3 "$top/bench/gpu.py" --out "${OUT:-$top/bench/results}" "$@"
