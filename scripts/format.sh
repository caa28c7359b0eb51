#!/usr/bin/env bash
# Formats C++ files with clang-format:  scripts/format.sh [FILE...]  (default: all files of the tree)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# -gt 0 ] || mapfile -t files < <(git ls-files -co --exclude-standard '*.cpp' '*.h')
[ $# -eq 0 ] || files=("$@")
"$(command -v clang-format-19 || command -v clang-format-18)" -i "${files[@]}"
