/* An all_reduce over processes by dtc beside MPI_Allreduce called directly, alternating in one run: bench/mpi_all_reduce.sh.
 * Usage: mpi_all_reduce BYTES REPEATS. Process 0 prints one line of JSON: times of the slowest process, in ms. */
#define _POSIX_C_SOURCE 200809L
#include <dtc/dtc.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxRepeats = 1000, kWarmUps = 3 };

static int fail(dtc_error* error) {
  fputs(error ? dtc_error_message(error) : "error: out of memory\n", stderr);
  return 1;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

static double slowest(double begin) {
  double own = (MPI_Wtime() - begin) * 1e3, all = 0;
  MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

int main(int argc, char** argv) {
  int provided = 0, rank = 0, size = 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int64_t n = argc > 1 ? atoll(argv[1]) / 4 : 1 << 24;
  const int repeats = argc > 2 ? atoi(argv[2]) : 15;
  if (repeats < 1 || repeats > kMaxRepeats) return 2;

  /* Local text: the all_reduce is all of the program. */
  char text[512];
  snprintf(text, sizeof text,
           "mesh @m = [a=%d]\nspmd func @main(%%x: f32[%lld] of f32[%lld] @m{_ | sum(a)})\n"
           "    -> (%%y: f32[%lld] of f32[%lld] @m{_}) {\n"
           "  %%y = all_reduce %%x {axes = [a]} : f32[%lld]\n  return %%y\n}\n",
           size, (long long)n, (long long)n, (long long)n, (long long)n, (long long)n);
  dtc_error* error = NULL;
  dtc_context* context = NULL;
  dtc_executable* program = NULL;
  if (dtc_processes_join(NULL, &context, &error) != DTC_OK) return fail(error);
  if (dtc_compile(context, "all_reduce.dt", text, strlen(text), NULL, &program, &error) != DTC_OK)
    return fail(error);

  dtc_tensor *x = dtc_tensor_create(DTC_F32, &n, 1), *y = dtc_tensor_create(DTC_F32, &n, 1),
             *z = dtc_tensor_create(DTC_F32, &n, 1);
  dtc_buffer in, out, direct;
  dtc_tensor_buffer(x, &in);
  dtc_tensor_buffer(y, &out);
  dtc_tensor_buffer(z, &direct);
  for (int64_t i = 0; i < n; ++i) ((float*)in.data)[i] = (float)((i + rank) % 1001);
  memset(out.data, 0, (size_t)n * 4);
  memset(direct.data, 0, (size_t)n * 4);
  dtc_run_arguments run = {sizeof run, &in, 1, &out, 1, NULL, 1, 1, NULL};

  static double own[kMaxRepeats], mpi[kMaxRepeats];
  for (int i = -kWarmUps; i < repeats; ++i) {
    double begin = 0, ms = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    if (dtc_run(program, &run, &error) != DTC_OK) return fail(error);
    ms = slowest(begin);
    if (i >= 0) own[i] = ms;
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    MPI_Allreduce(in.data, direct.data, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    ms = slowest(begin);
    if (i >= 0) mpi[i] = ms;
  }
  if (memcmp(out.data, direct.data, (size_t)n * 4) != 0) { /* whole numbers: any order has the same sums */
    fputs("error: the sums differ\n", stderr);
    return 1;
  }
  if (rank == 0) {
    qsort(own, (size_t)repeats, sizeof *own, compare);
    qsort(mpi, (size_t)repeats, sizeof *mpi, compare);
    printf("{\"processes\": %d, \"bytes\": %lld, \"repeats\": %d, \"dtc ms\": %.3f, \"MPI_Allreduce ms\": %.3f, "
           "\"ratio\": %.3f, \"dtc min ms\": %.3f, \"MPI_Allreduce min ms\": %.3f, \"copied bytes\": %lld}\n",
           size, (long long)n * 4, repeats, own[repeats / 2], mpi[repeats / 2],
           own[repeats / 2] / mpi[repeats / 2], own[0], mpi[0], (long long)dtc_copied_bytes(program));
  }
  dtc_executable_free(program);
  if (dtc_processes_leave(context, &error) != DTC_OK) return fail(error);
  dtc_context_free(context);
  dtc_tensor_free(x), dtc_tensor_free(y), dtc_tensor_free(z);
  MPI_Finalize();
  return 0;
}
