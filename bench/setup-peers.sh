#!/bin/sh
# Installs the peers of bench/cpu.sh, each in its newest version, into a virtual environment (build/peers; some gigabytes):
# bench/setup-peers.sh [FOLDER]. dtc itself needs none of them. Peers that do not install are reported and excluded from the
# comparison.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$top/build/peers}
python3 -m venv "$folder" || { echo "setup-peers: python3 cannot create a virtual environment (Debian: apt-get install python3-venv)" >&2; exit 1; }
for peer in "jax" "onnxruntime onnx" "torch"; do
  # shellcheck disable=SC2086  # a peer is one or two packages
  if "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade numpy $peer; then
    echo "setup-peers: installed $peer"
  else
    echo "setup-peers: $peer does not install on this machine; bench/cpu.sh will report it as absent"
  fi
done
