#!/bin/sh
# Compile times, on this machine and compared with peers: bench/compile.sh [--runs 5]. Writes bench/results/compile.json.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
exec python3 "$top/bench/compile.py" --build "$top/build/release" --out "$top/bench/results" "$@"
