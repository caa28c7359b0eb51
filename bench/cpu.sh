#!/bin/sh
# Kernels on this CPU against its bandwidth and against peers, all measured in the same run: bench/cpu.sh [--quick] [--rows softmax,gelu]
# Prints percent of the roofline and the ratio to each peer that bench/setup-peers.sh installed, and writes
# bench/results/cpu.json. Needs a build (scripts/build.sh release).
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
exec python3 "$top/bench/cpu.py" --build "$top/build/release" --out "$top/bench/results" "$@"
