#!/bin/sh
# Installs what bench/cpu.sh compares with, each the newest that the package index has, into a virtual environment of its own
# (build/peers; some gigabytes): bench/setup-peers.sh [FOLDER]. dtc itself needs none of it. What does not install is named
# and left out of the comparison.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$top/build/peers}
python3 -m venv "$folder" || { echo "setup-peers: python3 cannot make a virtual environment (Debian: apt-get install python3-venv)" >&2; exit 1; }
for peer in "jax" "onnxruntime onnx" "torch"; do
  # shellcheck disable=SC2086  # a peer is one or two packages
  if "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade numpy $peer; then
    echo "setup-peers: installed $peer"
  else
    echo "setup-peers: $peer does not install here; bench/cpu.sh will say that it is absent"
  fi
done
