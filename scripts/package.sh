#!/usr/bin/env bash
# Makes packages of dtc in build/packages:  scripts/package.sh [deb|tarball|wheel]...   (default: all three)
#   deb      for Debian and Ubuntu, with dependencies on their LLVM, Clang and oneDNN
#   tarball  for any Linux on x86-64 with glibc 2.36 or later: unpack it anywhere, run bin/dtc
#   wheel    the Python package dtc-compiler, with the command dtc, for the Python that runs this (PYTHON=...)
# The tarball and the wheel have LLVM and oneDNN within them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kinds=("$@")
[ ${#kinds[@]} -gt 0 ] || kinds=(deb tarball wheel)
for kind in "${kinds[@]}"; do
  case $kind in deb | tarball | wheel) ;; *)
    echo "package: unknown kind '$kind'; expected deb, tarball or wheel" >&2
    exit 2
    ;;
  esac
done
scripts/setup.sh
build=$PWD/build/release out=$PWD/build/packages
mkdir -p "$out"

say() { printf 'package: %s\n' "$*"; }
# pack GENERATOR
pack() {
  cpack --config "$build/CPackConfig.cmake" -G "$1" -B "$out" >"$out/cpack.log" || { cat "$out/cpack.log" >&2; exit 1; }
}

say "building"
targets=(dtc libdtc libdtc-runtime dtc-onednn dtc-jit-clang dtc-pages)
case " ${kinds[*]} " in *" tarball "* | *" wheel "*) targets+=(dtc-thin dtc-jit-clang-static) ;; esac
scripts/build.sh release "${targets[@]}"

for kind in "${kinds[@]}"; do
  case $kind in
    deb)
      say "Debian package"
      pack DEB
      ;;
    tarball)
      say "tarball"
      pack TGZ
      ;;
    wheel)
      say "wheel"
      "${PYTHON:-python3}" -m pip wheel --quiet --no-deps --wheel-dir "$out" --config-settings=cmake.define.DTC_BUILD_DIR="$build" .
      ;;
  esac
done
rm -rf "$out/_CPack_Packages" "$out/cpack.log"
ls -l "$out"
