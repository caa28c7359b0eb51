#!/bin/sh
# Training steps of GPT, Llama, ViT and ResNet on one device, compared with JAX, PyTorch and torch.compile:
# bench/blocks.sh [--quick] [--models gpt,vit]
# Prints ratios within one run and writes bench/results/blocks.json. Needs a build (scripts/build.sh release) and bench/setup-peers.sh.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
exec python3 "$top/bench/steps.py" blocks --build "$top/build/release" --out "$top/bench/results" "$@"
