#!/bin/sh
# Models of PyTorch compiled by dtc and by Inductor: bench/torch_models.sh [--model gpt2] [--seconds 10]. Needs the
# Python package of dtc, and PyTorch, torchvision, timm and transformers; PYTHON is the interpreter that has them. Writes
# bench/results/torch-models.json.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
exec "${PYTHON:-python3}" "$top/bench/torch_models.py" --out "$top/bench/results" "$@"
