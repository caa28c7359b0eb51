#!/bin/sh
# 100 steps of training a GPT with AdamW, by dtc, PyTorch, torch.compile and JAX from the same weights and data: losses and steps per
# second. bench/training.sh [--quick]
# Writes bench/results/training.json. Needs a build (scripts/build.sh release) and bench/setup-peers.sh.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
exec "${PEERS:-$top/build/peers/bin/python}" "$top/bench/training.py" --dtc "$top/build/release/bin/dtc" --out "$top/bench/results" "$@"
