#!/bin/sh
# An all_reduce of f32 over 2 and 4 processes by dtc, in one call through the C API, beside MPI_Allreduce called directly,
# alternating in one run: bench/mpi_all_reduce.sh [BUILD]. Needs mpicc, mpirun and a build; writes bench/results/mpi-all-reduce.json.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
mpicc -O2 -std=c99 -Iinclude bench/mpi_all_reduce.c -L"$build/bin" -ldtc -Wl,-rpath,"$PWD/$build/bin" -o "$out/all_reduce"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
cores=$(nproc)
load=$(cut -d' ' -f1 /proc/loadavg)
for bytes in 67108864 1048576 4096; do
  for processes in 2 4; do
    mpirun -n $processes "$out/all_reduce" $bytes 25 | tee -a "$out/lines"
  done
done
{
  printf '{\n "cores": %s,\n "load_before": %s,\n "mpi": "%s",\n "command": "bench/mpi_all_reduce.sh",\n "runs": [\n' \
    "$cores" "$load" "$(mpirun --version | head -1)"
  sed 's/^/  /; $!s/$/,/' "$out/lines"
  printf ' ]\n}\n'
} > bench/results/mpi-all-reduce.json
