#!/usr/bin/env bash
# Sets up, builds and runs every test, or the given ones:  scripts/test.sh [PATH|AREA...]
# A PATH is a test or a folder of tests (test/Ops/conv.dt, test/unit/Passes): only what it needs is built.
# An AREA is a folder of test/, case-insensitive (`passes`: its lit and unit tests), `sharding` (all tests of rules,
# propagation and partitioning) or one of the checks; `scripts/test.sh --list` lists them. DTC_PRESET=asan (or debug,
# tsan) tests another build; the default is release.
# The last line is `N passed, N failed`; the exit code is 0 only if nothing failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${DTC_PRESET:-release}

if [ "${1-}" != --list ]; then
  scripts/setup.sh || { echo "0 passed, 1 failed"; exit 3; }
  echo "== build ($preset)"
  # shellcheck disable=SC2046 # words
  scripts/build.sh "$preset" $(python3 test/run.py --targets "$@") || { echo "the build failed"; echo "0 passed, 1 failed"; exit 1; }
fi
exec python3 test/run.py --build "build/$preset" "$@"
