#!/bin/sh
# The cost of a call through the C API: bench/call.sh [BUILD]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cc -std=c99 -D_POSIX_C_SOURCE=199309L -O2 -Iinclude bench/call.c -L"$build/bin" -ldtc -Wl,-rpath,"$PWD/$build/bin" -o "$out/call"
for threads in 1 0; do
  for level in 1 2; do
    printf 'threads %s, -O%s: ' "$threads" "$level"
    "$out/call" "$threads" "$level"
  done
done
