// The cost of a call through the C API: a warm dtc_run of a small program, per call. bench/call.sh builds and runs it.
#include <dtc/dtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kArguments = 10, kRuns = 20000, kSize = 16 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static int fail(dtc_error* error) {
  fputs(error ? dtc_error_message(error) : "error: out of memory\n", stderr);
  return 1;
}

// The sum of `arguments` vectors.
static void programOf(char* text, int arguments) {
  text += sprintf(text, "func @main(%%x0: f32[16]");
  for (int i = 1; i < arguments; ++i) text += sprintf(text, ", %%x%d: f32[16]", i);
  text += sprintf(text, ") -> (%%y: f32[16]) {\n  %%s1 = add %%x0, %%x1\n");
  for (int i = 2; i < arguments; ++i) text += sprintf(text, "  %%s%d = add %%s%d, %%x%d\n", i, i - 1, i);
  sprintf(text, "  return %%s%d\n}\n", arguments - 1);
}

int main(int argc, char** argv) {
  static double times[kRuns];
  char text[4096];
  float data[kArguments][kSize] = {{1}}, y[kSize];
  const int64_t shape[] = {kSize};
  dtc_error* error = NULL;
  dtc_context* context = NULL;
  dtc_executable* x = NULL;
  dtc_options* options = dtc_options_create();
  if (dtc_options_set(options, "threads", argc > 1 ? argv[1] : "0", &error) != DTC_OK) return fail(error);
  if (dtc_options_set(options, "opt-level", argc > 2 ? argv[2] : "1", &error) != DTC_OK) return fail(error);
  programOf(text, kArguments);
  if (dtc_context_create(options, &context, &error) != DTC_OK) return fail(error);
  const double begin = now();
  if (dtc_compile(context, "call.dt", text, strlen(text), options, &x, &error) != DTC_OK) return fail(error);
  const double compiled = now() - begin;
  dtc_buffer arguments[kArguments], result = {y, DTC_F32, 1, shape, NULL, DTC_DEVICE_CPU, 0};
  for (int i = 0; i < kArguments; ++i) {
    const dtc_buffer b = {data[i], DTC_F32, 1, shape, NULL, DTC_DEVICE_CPU, 0};
    arguments[i] = b;
  }
  dtc_run_arguments run = {sizeof run, arguments, kArguments, &result, 1, NULL, 0, 0, NULL};
  for (int i = 0; i < kRuns; ++i) {
    const double start = now();
    if (dtc_run(x, &run, &error) != DTC_OK) return fail(error);
    times[i] = now() - start;
  }
  qsort(times, kRuns, sizeof times[0], compare);
  printf("compile %.2f ms; dtc_run with %d arguments: median %.2f us, 99 %% %.2f us\n", compiled * 1e-3,
         kArguments, times[kRuns / 2], times[kRuns * 99 / 100]);
  dtc_executable_free(x);
  dtc_context_free(context);
  dtc_options_free(options);
  return 0;
}
