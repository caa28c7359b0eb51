#!/bin/sh
# Memory-bound kernels on this CPU, against the bandwidth measured in the same run: bench/cpu.sh [--quick] [--rows softmax,gelu]
# Prints percent of floor for each and writes bench/results/cpu.json. Needs a build (scripts/build.sh release).
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
exec python3 "$top/bench/cpu.py" --build "$top/build/release" --out "$top/bench/results" "$@"
