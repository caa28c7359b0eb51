#!/usr/bin/env bash
# Installs what building and testing dtc needs, with apt, on Debian 12 and Ubuntu 24.04; says what and why first.
#   scripts/setup.sh           install what is missing
#   scripts/setup.sh --list    only say what is missing (exit 1 if anything is)
set -euo pipefail

# package(s, the first that apt knows is taken) | what dtc wants it for
read -r -d '' packages <<'TABLE' || true
cmake                              | configures the build (3.25 or later)
ninja-build                        | runs the build
clang-19 clang-18                  | compiles dtc (C++20); its own headers serve the CPU kernels
lld-19 lld-18                      | links dtc in a second instead of ten
llvm-19-dev llvm-18-dev            | LLVM, which turns CPU kernels into machine code while a program runs
libclang-19-dev libclang-18-dev    | Clang as a library, which reads the CPU kernels that dtc writes
libclang-cpp19-dev libclang-cpp18-dev | the shared library of it, which the plugin links
libdnnl-dev                        | oneDNN: matrix products and convolutions on the CPU
libcli11-dev                       | CLI11: reads the command line
nlohmann-json3-dev                 | JSON: reports, traces, machine files
zlib1g-dev                         | zlib: inflates the parts of .npz files
libgtest-dev                       | GoogleTest: the unit tests
llvm-19-tools llvm-18-tools        | lit and FileCheck: the tests in test/
clang-format-19 clang-format-18    | scripts/test.sh checks the layout of the code
clang-tidy-19 clang-tidy-18        | scripts/test.sh looks for bugs in the code
libclang-rt-19-dev libclang-rt-18-dev | sanitizers and fuzzing
python3                            | the test runner
git                                | scripts/test.sh asks it which files are the tree's
ccache                             | a second build takes seconds
TABLE

by_hand() {
  cat >&2 <<'TEXT'
By hand, on any system: a C++20 compiler (Clang 19 is what is tested), CMake 3.25, Ninja, the LLVM and Clang 19 or 18
shared libraries with headers (under /usr/lib/llvm-19, or -DDTC_LLVM_INCLUDE=…/include), oneDNN, CLI11, nlohmann/json,
zlib and GoogleTest with headers, lit and FileCheck, Python 3.8. Then: scripts/build.sh
TEXT
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
known() { [ -n "$(apt-cache madison "$1" 2>/dev/null)" ]; }

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "setup: this system has no apt; scripts/setup.sh knows Debian 12 and Ubuntu 24.04." >&2
  by_hand
  exit 0 # the build says itself what it lacks
fi

missing=()
while IFS='|' read -r names why; do
  read -ra names <<<"$names"
  [ ${#names[@]} -gt 0 ] || continue
  found=
  for name in "${names[@]}"; do installed "$name" && found=1 && break; done
  [ -n "$found" ] || missing+=("${names[*]}|$why")
done <<<"$packages"

[ ${#missing[@]} -gt 0 ] || exit 0

if [ "${1-}" = --list ]; then
  echo "setup: missing:"
  for entry in "${missing[@]}"; do printf '  %-40s%s\n' "${entry%%|*}" "${entry#*|}"; done
  exit 1
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
  if command -v sudo >/dev/null; then
    as_root=(sudo)
  else
    echo "setup: packages are missing, and installing them needs root or sudo:" >&2
    for entry in "${missing[@]}"; do printf '  %-40s%s\n' "${entry%%|*}" "${entry#*|}" >&2; done
    by_hand
    exit 3
  fi
fi

echo "setup: refreshing apt's list of packages"
"${as_root[@]}" apt-get update -qq || echo "setup: apt-get update failed; going on with the lists that are here" >&2

chosen=()
echo "setup: installing what is missing:"
for entry in "${missing[@]}"; do
  read -ra names <<<"${entry%%|*}"
  pick=
  for name in "${names[@]}"; do known "$name" && pick=$name && break; done
  if [ -z "$pick" ]; then
    echo "setup: apt knows none of: ${names[*]} (for:${entry#*|})" >&2
    by_hand
    exit 3
  fi
  printf '  %-22s%s\n' "$pick" "${entry#*|}"
  chosen+=("$pick")
done
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${chosen[@]}" \
  >/tmp/dtc-setup.$$.log 2>&1 || {
  tail -n 20 /tmp/dtc-setup.$$.log >&2
  echo "setup: apt-get install failed; its whole output is in /tmp/dtc-setup.$$.log" >&2
  exit 3
}
rm -f /tmp/dtc-setup.$$.log
echo "setup: done"
