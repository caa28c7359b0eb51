#!/usr/bin/env bash
# From a fresh machine to a result: sets up, builds, and runs a small GPT, written for one device, on a mesh of eight.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh
echo "== build (the first time takes some minutes)"
scripts/build.sh release dtc
dtc=build/release/bin/dtc

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }
shown() {
  say "\$ dtc $*"
  "$dtc" "$@"
}

say "A two-layer GPT with its cross-entropy, over the bytes of a real text, on dp=2 × tp=4 logical devices:"
shown run examples/gpt.dt --input tokens=raw:examples/data/text.txt --input 'weights=randn(7,0.02)' \
  --check --trace gpt.json --stats

say "The trace is $PWD/gpt.json: open it at https://ui.perfetto.dev (it stays on your machine)."
echo "The program is examples/gpt.dt; \`$dtc opt examples/gpt.dt -p propagate\` shows how each value is sharded,"
echo "\`$dtc explain examples/mlp.dt %y\` explains why. Continue with README.md."
