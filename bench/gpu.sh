#!/bin/sh
# Checks and measures dtc on this machine's GPU, in under eight minutes: bench/gpu.sh [--quick] [--only layers|right|speed]
# Needs Python (standard library only) and a built dtc: build/release/bin/dtc, or carry/dtc, created by bench/carry.sh for a
# machine that cannot build. Writes bench/results/gpu.json and prints the table. Without a GPU it reports so, runs the
# emulator's part, and exits 0.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
exec python3 "$top/bench/gpu.py" --out "$top/bench/results" "$@"
