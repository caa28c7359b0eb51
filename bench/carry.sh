#!/bin/sh
# Copies the parts of a build that bench/gpu.sh needs into a folder (carry/, ignored by git), stripped, for an x86-64 machine
# that has a GPU and cannot build: bench/carry.sh [FOLDER]. Copy it there with the tree. Needs a build (scripts/build.sh release).
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
to=${1:-$top/carry}
mkdir -p "$to/lib"
for file in dtc dtc-jit-clang.so dtc-onednn.so; do
  [ -e "$top/build/release/bin/$file" ] && strip -o "$to/$file" "$top/build/release/bin/$file"
done
# The C++ library, zlib and jemalloc of this machine; `dtc` finds them through LD_LIBRARY_PATH.
ldd "$to/dtc" | awk '/libstdc\+\+|libgcc_s|libz\.|libjemalloc/ { print $3 }' | while read -r library; do cp -L "$library" "$to/lib/"; done
size=$(du -sm "$to" | cut -f1)
echo "$to: $size MiB; $("$to/dtc" --version)"
[ "$size" -lt 64 ] || { echo "carry.sh: more than 64 MiB" >&2; exit 1; }
