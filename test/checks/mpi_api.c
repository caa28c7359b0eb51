/* Errors of one process in programs that several run through the C API: mpi_api.py. Each process prints one line per call,
 * "RANK STATUS MESSAGE", with \n in place of line breaks. */
#define _POSIX_C_SOURCE 199309L
#include <dtc/dtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static dtc_context* context = NULL;
static dtc_options* options = NULL;
static int rank = 0;

static const char* kProgram = "mesh @m = [a=2]\n"
                              "func @main(%x: f32[4] @m{a}, %limit: f32[]) -> (%y: f32[4] @m{a}, %s: f32[]) {\n"
                              "  %y = add %x, 1.0\n"
                              "  %s = sum %y\n"
                              "  expect_close %s, %limit\n"
                              "  return %y, %s\n"
                              "}\n";

static void say(const char* call, dtc_status status, dtc_error* error) {
  char line[4096];
  int n = snprintf(line, sizeof line, "%d %s %d ", rank, call, (int)status);
  for (const char* c = error ? dtc_error_message(error) : "ok"; *c && n < (int)sizeof line - 4; ++c) {
    if (*c == '\n') line[n++] = '\\';
    line[n++] = *c == '\n' ? 'n' : *c;
  }
  line[n++] = '\n';
  fwrite(line, 1, (size_t)n, stdout);
  fflush(stdout);
  dtc_error_free(error);
}

static dtc_executable* compiled(const char* text) {
  dtc_error* error = NULL;
  dtc_executable* made = NULL;
  const dtc_status status = dtc_compile(context, "p.dt", text, strlen(text), options, &made, &error);
  say("compile", status, error);
  return made;
}

/* `elements`: of the shard; `wholeResult`: asks for all of %y, of which a process has half. */
static void run(dtc_executable* program, int64_t elements, float limit, int wholeResult) {
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[4], s;
  const int64_t two[] = {2}, four[] = {4}, given[] = {elements};
  const dtc_buffer in[] = {{x, DTC_F32, 1, given, NULL, DTC_DEVICE_CPU, 0},
                           {&limit, DTC_F32, 0, NULL, NULL, DTC_DEVICE_CPU, 0}};
  const dtc_buffer out[] = {{y, DTC_F32, 1, wholeResult ? four : two, NULL, DTC_DEVICE_CPU, 0},
                            {&s, DTC_F32, 0, NULL, NULL, DTC_DEVICE_CPU, 0}};
  const dtc_run_arguments arguments = {sizeof arguments, in, 2, out, 2, NULL, 1, !wholeResult, NULL};
  dtc_error* error = NULL;
  const dtc_status status = dtc_run(program, &arguments, &error);
  say("run", status, error);
}

/* What one process gets wrong before a call begins is an error of the call on all. */
static void early(dtc_executable* program) {
  dtc_run_arguments arguments = {0};
  const dtc_buffer unknown = {NULL, (dtc_dtype)99, 0, NULL, NULL, DTC_DEVICE_CPU, 0};
  const dtc_run_arguments bad[] = {{sizeof arguments, &unknown, 1, NULL, 0, NULL, 1, 0, NULL},
                                   {sizeof arguments, NULL, 1, NULL, 0, NULL, 1, 0, NULL},
                                   {1, NULL, 0, NULL, 0, NULL, 1, 0, NULL},
                                   {sizeof arguments, NULL, 0, &unknown, 7, NULL, 1, 0, NULL}};
  for (int i = 0; i < 5; ++i) {
    dtc_error* error = NULL;
    if (rank == 0) run(program, 2, 10, 0);
    if (rank == 1) say("run", dtc_run(program, i < 4 ? &bad[i] : NULL, &error), error);
  }
  dtc_error* error = NULL;
  dtc_executable* none = NULL;
  const char* text = rank == 1 ? NULL : kProgram;
  const dtc_status status = dtc_compile(context, "p.dt", text, strlen(kProgram), options, &none, &error);
  say("compile", status, error);
  error = NULL;
  if (rank == 0) run(program, 2, 10, 0);
  if (rank == 1) say("run", dtc_processes_refuse(context, "no batch", &error) == DTC_OK ? DTC_ERROR_USAGE : DTC_OK, error);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  options = dtc_options_create();
  dtc_error* error = NULL;
  dtc_status status = dtc_options_set(options, "comm-timeout", argc > 2 ? argv[2] : "60", &error);
  if (status == DTC_OK && argc > 3) status = dtc_options_set(options, "backend", argv[3], &error);
  if (status == DTC_OK) status = dtc_processes_join(options, &context, &error);
  rank = dtc_process_rank(context);
  if (status != DTC_OK) say("join", status, error);
  if (status != DTC_OK) return 1;

  if (!strcmp(what, "text")) compiled(rank == 1 ? "func @main() {\n  retur\n}\n" : kProgram);
  if (!strcmp(what, "other")) {
    char other[1024];
    strcpy(other, kProgram);
    if (rank == 1) *strstr(other, "1.0") = '2';
    compiled(other);
  }
  if (!strcmp(what, "calls")) { /* recovers: all know of the difference */
    dtc_executable* one = compiled(kProgram);
    rank == 0 ? run(one, 2, 14, 0) : dtc_executable_free(compiled(kProgram));
    dtc_executable_free(one);
  }
  dtc_executable* program = compiled(kProgram); /* works after an error of another compilation */
  const struct timespec longer = {2, 500000000}; /* than the time limit: the others wait, and say so once */
  if (!strcmp(what, "slow") && rank == 1) nanosleep(&longer, NULL);
  if (!strcmp(what, "shape")) run(program, rank == 1 ? 3 : 2, 10, 0);
  if (!strcmp(what, "whole")) run(program, 2, 10, 1);
  if (!strcmp(what, "early")) early(program);
  run(program, 2, 10, 0);
  if (!strcmp(what, "check")) run(program, 2, 11, 0); /* ends the runs of all */
  if (!strcmp(what, "check")) run(program, 2, 10, 0);
  if (!strcmp(what, "exit") && rank == 1) run(program, 2, 10, 0);
  if (strcmp(what, "late")) dtc_executable_free(program);
  error = NULL;
  status = dtc_processes_leave(context, &error);
  say("leave", status, error);
  if (!strcmp(what, "late") && program) { /* after leaving */
    run(program, 2, 10, 0);
    error = NULL;
    status = dtc_carry_over(program, &error);
    say("carry", status, error);
  }
  if (!strcmp(what, "late")) dtc_executable_free(program);
  const struct timespec two = {2, 0}; /* mpirun kills the others when a process exits without MPI_Finalize */
  if (status != DTC_OK) nanosleep(&two, NULL);
  dtc_context_free(context);
  dtc_options_free(options);
  return 0;
}
