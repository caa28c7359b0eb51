#!/bin/sh
# A training step of GPT on 8 logical devices (dp=2, tp=4), compared with JAX on 8 host devices and DTensor over gloo:
# bench/sharded.sh [--quick]
# Prints ratios within one run and writes bench/results/sharded.json. Needs a build (scripts/build.sh release) and bench/setup-peers.sh.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
exec python3 "$top/bench/steps.py" sharded --build "$top/build/release" --out "$top/bench/results" "$@"
