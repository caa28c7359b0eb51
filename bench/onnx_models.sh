#!/bin/sh
# ONNX models run by dtc and by ONNX Runtime: bench/onnx_models.sh [--model bert] [--seconds 3]. Needs the Python package
# of dtc, onnx and onnxruntime, and to export the models PyTorch, onnxscript, torchvision and transformers; PYTHON is the
# interpreter that has them. Writes bench/results/onnx-models.json.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
exec "${PYTHON:-python3}" "$top/bench/onnx_models.py" --out "$top/bench/results" "$@"
