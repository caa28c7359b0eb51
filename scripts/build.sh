#!/usr/bin/env bash
# Configures and builds:  scripts/build.sh [PRESET [TARGET...]]
# PRESET: release (the default), debug, asan, tsan, fuzz. The result is build/PRESET/bin/dtc.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${1:-release}
shift || true

configured=$(cmake --preset "$preset" 2>&1) || {
  echo "$configured" >&2
  echo "build: cmake could not configure the preset '$preset'; scripts/setup.sh installs what is missing." >&2
  exit 1
}
grep -A4 'CMake Warning' <<<"$configured" >&2 || true
if [ $# -gt 0 ]; then
  cmake --build --preset "$preset" --target "$@"
else
  cmake --build --preset "$preset"
fi
