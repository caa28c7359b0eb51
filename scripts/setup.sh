#!/usr/bin/env bash
# Installs the packages for building and testing dtc, with apt, on Debian 12 and Ubuntu 24.04; lists them first.
#   scripts/setup.sh           install the missing packages
#   scripts/setup.sh --list    only list the missing packages (exit 1 if there are any)
set -euo pipefail

# package (alternatives: the first that apt knows) | purpose; one that begins with "optional" may stay missing
read -r -d '' packages <<'TABLE' || true
cmake                              | configures the build (3.25 or later)
ninja-build                        | runs the build
clang-19 clang-18                  | compiles dtc (C++20); its own headers serve the CPU kernels
lld-19 lld-18                      | links dtc in a second instead of ten
llvm-19-dev llvm-18-dev            | LLVM: compiles CPU kernels to machine code at run time
libclang-19-dev libclang-18-dev    | Clang as a library: parses the generated CPU kernels
libclang-cpp19-dev libclang-cpp18-dev | its shared library, linked by the plugin
libdnnl-dev                        | oneDNN: matrix products and convolutions on the CPU
liblapack3 libopenblas0            | LAPACK: matrix factorizations on the CPU, opened at run time
libcli11-dev                       | CLI11: parses the command line
nlohmann-json3-dev                 | JSON: reports, traces, machine files
libjemalloc-dev                    | jemalloc: a faster allocator for the compiler
zlib1g-dev                         | zlib: decompresses .npz files
libzstd-dev                        | zstd: LLVM's static archives refer to it (packages)
dpkg-dev                           | finds the dependencies of the Debian package
libgtest-dev                       | GoogleTest: the unit tests
llvm-19-tools llvm-18-tools        | lit and FileCheck: the tests in test/
clang-format-19 clang-format-18    | scripts/test.sh checks the formatting
clang-tidy-19 clang-tidy-18        | scripts/test.sh runs static analysis
libclang-rt-19-dev libclang-rt-18-dev | sanitizers and fuzzing
libgraphviz-dev                    | optional: Graphviz: lays out the graphs of dtc report
libopenmpi-dev                     | MPI: runs a program in several processes (--comm mpi)
openmpi-bin                        | mpirun: starts them, in the tests too
bible-kjv                          | optional: the text that examples/text learns (King James Bible)
python3                            | the test runner
git                                | scripts/test.sh lists the tree's files
ccache                             | makes a second build take seconds
TABLE

by_hand() {
  cat >&2 <<'TEXT'
Manual setup, on any system: a C++20 compiler (tested: Clang 19), CMake 3.25, Ninja, the LLVM and Clang 19 or 18
shared libraries with headers (under /usr/lib/llvm-19, or -DDTC_LLVM_INCLUDE=…/include), oneDNN, CLI11, nlohmann/json,
jemalloc, zlib and GoogleTest with headers, lit and FileCheck, Python 3.8. Then: scripts/build.sh
TEXT
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
known() { [ -n "$(apt-cache madison "$1" 2>/dev/null)" ]; }

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "setup: this system has no apt; scripts/setup.sh supports Debian 12 and Ubuntu 24.04." >&2
  by_hand
  exit 0 # the build reports missing dependencies itself
fi

missing=() optional=()
while IFS='|' read -r names why; do
  read -ra names <<<"$names"
  [ ${#names[@]} -gt 0 ] || continue
  found=
  for name in "${names[@]}"; do installed "$name" && found=1 && break; done
  [ -z "$found" ] || continue
  case "$why" in *optional:*) optional+=("${names[*]}|$why") ;; *) missing+=("${names[*]}|$why") ;; esac
done <<<"$packages"

[ ${#missing[@]} -gt 0 ] || [ ${#optional[@]} -gt 0 ] || exit 0

if [ "${1-}" = --list ]; then
  echo "setup: missing:"
  for entry in "${missing[@]}" "${optional[@]}"; do printf '  %-40s%s\n' "${entry%%|*}" "${entry#*|}"; done
  exit 1
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
  if command -v sudo >/dev/null; then
    as_root=(sudo)
  elif [ ${#missing[@]} -eq 0 ]; then
    exit 0
  else
    echo "setup: packages are missing; installing them needs root or sudo:" >&2
    for entry in "${missing[@]}"; do printf '  %-40s%s\n' "${entry%%|*}" "${entry#*|}" >&2; done
    by_hand
    exit 3
  fi
fi

echo "setup: updating apt's package lists"
"${as_root[@]}" apt-get update -qq || echo "setup: apt-get update failed; continuing with the existing package lists" >&2

install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
    >/tmp/dtc-setup.$$.log 2>&1
}

chosen=()
[ ${#missing[@]} -eq 0 ] || echo "setup: installing the missing packages:"
for entry in "${missing[@]}"; do
  read -ra names <<<"${entry%%|*}"
  pick=
  for name in "${names[@]}"; do known "$name" && pick=$name && break; done
  if [ -z "$pick" ]; then
    echo "setup: apt has none of: ${names[*]} (purpose:${entry#*|})" >&2
    by_hand
    exit 3
  fi
  printf '  %-22s%s\n' "$pick" "${entry#*|}"
  chosen+=("$pick")
done
[ ${#chosen[@]} -eq 0 ] || install "${chosen[@]}" || {
  tail -n 20 /tmp/dtc-setup.$$.log >&2
  echo "setup: apt-get install failed; the complete output is in /tmp/dtc-setup.$$.log" >&2
  exit 3
}
for entry in "${optional[@]}"; do
  name=${entry%%|*}
  echo "setup: installing $name (${entry#*| })"
  install "$name" || echo "setup: $name is not available; what needs it is skipped" >&2
done
rm -f /tmp/dtc-setup.$$.log
echo "setup: done"
