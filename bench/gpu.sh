#!/bin/sh
# dtc on this machine's GPU, in under eight minutes: is it right, and how fast is it. bench/gpu.sh [--quick] [--only layers|right|speed]
# Needs Python (its standard library alone) and a built dtc: build/release/bin/dtc, or carry/dtc, which bench/carry.sh makes for a machine that
# cannot build. Writes bench/results/gpu.json and prints the table. Without a GPU it says so, runs the emulator's part, and exits 0.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
exec python3 "$top/bench/gpu.py" --out "$top/bench/results" "$@"
