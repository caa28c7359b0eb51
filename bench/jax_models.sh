#!/bin/sh
# Programs of JAX on dtc's plugin and on JAX's own CPU backend: bench/jax_models.sh [--model gpt] [--seconds 4]. Needs JAX
# (PYTHON is the interpreter that has it) and a build (scripts/build.sh release). Writes bench/results/jax-models.json.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
exec "${PYTHON:-python3}" "$top/bench/jax_models.py" --out "$top/bench/results" "$@"
