#!/usr/bin/env bash
# Lays out C++ files as .clang-format says:  scripts/format.sh [FILE...]  (none named: all of the tree's)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# -gt 0 ] || mapfile -t files < <(git ls-files -co --exclude-standard '*.cpp' '*.h')
[ $# -eq 0 ] || files=("$@")
"$(command -v clang-format-19 || command -v clang-format-18)" -i "${files[@]}"
