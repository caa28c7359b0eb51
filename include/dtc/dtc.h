/* The C API of dtc, a compiler for tensor programs on device meshes (docs/c-api.md).
 *
 * C99 and C++. No function ends the process, prints, or keeps a pointer to the caller's memory after it returns.
 * All functions may be called from any thread; a dtc_options, a dtc_error and a dtc_tensor are used by one thread
 * at a time. A null pointer is an error (usage) of a function that returns a dtc_status, unless its comment says what
 * it means; other functions then return 0, null or an empty string, and do nothing else. Strings are UTF-8 and end with a zero. A returned string belongs to the object that it was asked of. */
#ifndef DTC_DTC_H
#define DTC_DTC_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define DTC_API
#else
#define DTC_API __attribute__((visibility("default")))
#endif

/* Changes when a program that was compiled with an earlier header may not run with this library. Functions are
 * added without a change. */
#define DTC_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dtc_context dtc_context;       /* worker threads, compiled kernels, libraries */
typedef struct dtc_options dtc_options;       /* of a context or of a compilation */
typedef struct dtc_executable dtc_executable; /* a compiled program */
typedef struct dtc_tensor dtc_tensor;         /* a tensor in memory of the library */
typedef struct dtc_error dtc_error;           /* why a call failed */

/* Functions that can fail return one of these, and an error in their last argument unless that is null. The numbers
 * are the exit codes of the command line. */
typedef int32_t dtc_status;
#define DTC_OK 0
#define DTC_ERROR_INPUT 1   /* the program or a tensor is wrong */
#define DTC_ERROR_USAGE 2   /* the call is wrong: an option, a number of arguments */
#define DTC_ERROR_MACHINE 3 /* out of memory, no GPU, a missing library */
#define DTC_ERROR_BUG 70    /* dtc is wrong: please report it */

/* --- The library --- */
DTC_API uint32_t dtc_abi_version(void); /* DTC_ABI_VERSION of the library */
DTC_API const char* dtc_version(void);  /* "0.1.0" */

/* --- Errors --- */
DTC_API dtc_status dtc_error_status(const dtc_error* error);
/* What `dtc` would print: each error with its line of the program, a caret and notes. */
DTC_API const char* dtc_error_message(const dtc_error* error);
/* The same as JSON: [{"severity", "kind", "message", "file", "line", "column", "end", "notes"}, …]. The kind
 * "unbound-sizes": the program compiles when it is given shapes (dtc_options_set_argument_shape) or sizes. */
DTC_API const char* dtc_error_json(const dtc_error* error);
/* The same one by one. A line of 0: the diagnostic has no location. */
typedef struct dtc_diagnostic {
  const char* severity; /* "error", "warning" */
  const char* kind;     /* "unknown-op": dtc help KIND explains it */
  const char* message;
  const char* file;
  uint32_t line, column;         /* from 1; columns count characters */
  uint32_t end_line, end_column; /* past the last character */
  size_t num_notes;
} dtc_diagnostic;
DTC_API size_t dtc_error_num_diagnostics(const dtc_error* error);
DTC_API void dtc_error_diagnostic(const dtc_error* error, size_t index, dtc_diagnostic* out);
/* A note has the severity "note" and no kind. */
DTC_API void dtc_error_note(const dtc_error* error, size_t index, size_t note, dtc_diagnostic* out);
DTC_API void dtc_error_free(dtc_error* error); /* null: nothing */

/* --- Options: those of `dtc run`, by name without dashes --- */
DTC_API dtc_options* dtc_options_create(void); /* null: out of memory */
/* "backend" "cuda", "opt-level" "2", "mesh" "pod=dp:4,tp:2", "dim" "B=64"; flags take "true" and "false". Options of
 * a context: "threads", "cache-dir", "plugin-dir", "no-cache". "mesh" and "dim" may be given several times. */
DTC_API dtc_status dtc_options_set(dtc_options* options, const char* name, const char* value,
                                   dtc_error** error);
/* The shape of an argument, from which symbolic sizes are inferred. Compilation fails if the argument cannot have it. */
DTC_API dtc_status dtc_options_set_argument_shape(dtc_options* options, size_t argument, const int64_t* shape,
                                                  size_t rank, dtc_error** error);
DTC_API void dtc_options_free(dtc_options* options);

/* --- Contexts --- */
/* `options`: null for the defaults. Executables keep what they need of their context: it may be freed first. */
DTC_API dtc_status dtc_context_create(const dtc_options* options, dtc_context** context, dtc_error** error);
DTC_API void dtc_context_free(dtc_context* context);

/* --- Several processes (docs/cluster.md) --- */
/* Joins the processes that mpirun or srun (through the plugin dtc-mpi.so) or torchrun (through TCP) has started with
 * this one. With the option backend=cuda of dtc_compile, NCCL executes collectives. Programs that the context compiles
 * run on all of them: each process has a part of the mesh's devices (dtc_local_devices), passes the arguments of these
 * and receives their results. All processes make the same calls of dtc_compile, dtc_compile_file, dtc_load_package,
 * dtc_bind_file, dtc_run and dtc_processes_leave, in the same order. Each returns an error on all processes if it does on
 * one, wrong arguments included; an error of dtc_carry_over is also that of the next of these calls. If a step of the
 * program fails, or a process was killed, no further call succeeds. Process 0 prints.
 * `options`: of the context, and "comm-timeout", the seconds after which a collective fails that waits for another process.
 * A process joins once. */
DTC_API dtc_status dtc_processes_join(const dtc_options* options, dtc_context** context, dtc_error** error);
/* Waits for all processes, which all call this, and ends MPI, unless the caller had started it. Executables of the context
 * can then run no more. Without this call, it happens when the context and its executables are freed. Error (machine):
 * a process has failed, or has ended while others go on. */
DTC_API dtc_status dtc_processes_leave(dtc_context* context, dtc_error** error);
/* In place of the next of those calls, by a process that cannot make it, as the preparation of its arguments has failed: the
 * call of the others, of whatever kind, returns this reason as its error. Error (machine): a process has failed or left. */
DTC_API dtc_status dtc_processes_refuse(dtc_context* context, const char* why, dtc_error** error);
/* How many of those calls, of dtc_processes_refuse included, this process has made in which it met the others. */
DTC_API uint64_t dtc_processes_calls(const dtc_context* context);
DTC_API int32_t dtc_process_rank(const dtc_context* context);  /* 0 without other processes */
DTC_API int32_t dtc_process_count(const dtc_context* context); /* 1 without other processes */

/* --- Compilation --- */
/* `text`: a program of `size` bytes: .dt or StableHLO text, or the contents of a .pt2 or .onnx file, whose weights are
 * arguments. `name`: of the text in messages, such as a file name. */
DTC_API dtc_status dtc_compile(dtc_context* context, const char* name, const char* text, size_t size,
                               const dtc_options* options, dtc_executable** executable, dtc_error** error);
DTC_API dtc_status dtc_compile_file(dtc_context* context, const char* path, const dtc_options* options,
                                    dtc_executable** executable, dtc_error** error);
/* A program that `dtc compile --emit package` has compiled: needs no compiler. Weights in the package are used where the
 * file is mapped, which must not be changed while the executable is there (but may be deleted or replaced by another file):
 * dtc_argument_is_set. The only way in of libdtc_runtime.so, which has all functions of this header but the two above,
 * dtc_signature_…, dtc_command and dtc_main. Several processes run packages for CPUs; those for GPUs are an error. */
DTC_API dtc_status dtc_load_package(dtc_context* context, const char* path, dtc_executable** executable,
                                    dtc_error** error);
/* No call on the executable may be in progress. */
DTC_API void dtc_executable_free(dtc_executable* executable);

/* --- Arguments, results, devices --- */
typedef int32_t dtc_dtype;
#define DTC_BOOL 0
#define DTC_I8 1
#define DTC_I16 2
#define DTC_I32 3
#define DTC_I64 4
#define DTC_U8 5
#define DTC_U16 6
#define DTC_U32 7
#define DTC_U64 8
#define DTC_F8E4M3 9 /* OCP E4M3FN */
#define DTC_F8E5M2 10
#define DTC_BF16 11
#define DTC_F16 12
#define DTC_F32 13
#define DTC_F64 14
#define DTC_C64 15
#define DTC_C128 16
DTC_API const char* dtc_dtype_name(dtc_dtype dtype); /* "f32"; null: not a dtype */
DTC_API size_t dtc_dtype_size(dtc_dtype dtype);      /* bytes of an element; 0: not a dtype */

typedef struct dtc_value_info {
  const char* name;      /* in the program; for a result without a name its position */
  const char* user_name; /* in the program that was imported, "" if it has none */
  dtc_dtype dtype;
  int32_t rank;
  const int64_t* shape; /* of the whole tensor */
  const char* sharding; /* "{dp, _}"; "" if all devices hold the whole tensor */
  int32_t donated;      /* an argument: its value is lost in a run */
  int32_t carried;      /* the result that is this argument's next value, or the argument; else -1 */
} dtc_value_info;

DTC_API size_t dtc_num_arguments(const dtc_executable* executable);
DTC_API size_t dtc_num_results(const dtc_executable* executable);
DTC_API void dtc_argument_info(const dtc_executable* executable, size_t index, dtc_value_info* out);
DTC_API void dtc_result_info(const dtc_executable* executable, size_t index, dtc_value_info* out);
/* The number of logical devices of the mesh; 1 without a mesh. */
DTC_API int64_t dtc_num_devices(const dtc_executable* executable);
/* The number of those that this process runs, and the first of them: all, from 0 on, without other processes. */
DTC_API int64_t dtc_local_devices(const dtc_executable* executable, int64_t* first);
DTC_API size_t dtc_num_mesh_axes(const dtc_executable* executable);
DTC_API const char* dtc_mesh_axis(const dtc_executable* executable, size_t axis, int64_t* size);
/* The shape of a device's shard, of the argument's or result's rank. */
DTC_API const int64_t* dtc_argument_shard_shape(const dtc_executable* executable, size_t index,
                                                int64_t device);
DTC_API const int64_t* dtc_result_shard_shape(const dtc_executable* executable, size_t index, int64_t device);
/* Warnings of the compilation, as text; "" if there are none. */
DTC_API const char* dtc_warnings(const dtc_executable* executable);
/* The compiled program as text, with its schedule and memory plan: what `dtc compile` prints. */
DTC_API const char* dtc_program_text(dtc_executable* executable);

/* --- Programs before they are compiled, whose sizes may be symbolic --- */
typedef struct dtc_signature dtc_signature; /* the arguments and results of a program */
/* As dtc_compile and dtc_compile_file, but nothing is compiled. */
DTC_API dtc_status dtc_signature_of(const char* name, const char* text, size_t size,
                                    const dtc_options* options, dtc_signature** signature, dtc_error** error);
DTC_API dtc_status dtc_signature_of_file(const char* path, const dtc_options* options,
                                         dtc_signature** signature, dtc_error** error);
DTC_API void dtc_signature_free(dtc_signature* signature);
DTC_API size_t dtc_signature_num_arguments(const dtc_signature* signature);
DTC_API size_t dtc_signature_num_results(const dtc_signature* signature);
/* In shapes, -1 is a symbolic size. */
DTC_API void dtc_signature_argument(const dtc_signature* signature, size_t index, dtc_value_info* out);
DTC_API void dtc_signature_result(const dtc_signature* signature, size_t index, dtc_value_info* out);
/* A size as the program has it: "B", "2*B", "64". */
DTC_API const char* dtc_signature_argument_size(const dtc_signature* signature, size_t index, size_t dim);
DTC_API const char* dtc_signature_result_size(const dtc_signature* signature, size_t index, size_t dim);
/* Which arguments a file has a tensor of: those that dtc_bind_file would bind. `bound`: a place per argument. */
DTC_API dtc_status dtc_signature_find(const dtc_signature* signature, const char* path, int32_t* bound,
                                      dtc_error** error);

/* --- Runs --- */
#define DTC_DEVICE_CPU 1 /* the numbers of DLPack */
#define DTC_DEVICE_CUDA 2

/* A tensor in memory of the caller. */
typedef struct dtc_buffer {
  void* data;
  dtc_dtype dtype;
  int32_t rank;
  const int64_t* shape;
  const int64_t* strides; /* in elements; null: row-major */
  int32_t device_type; /* DTC_DEVICE_CPU, or DTC_DEVICE_CUDA for the cuda backend: contiguous memory there */
  int32_t flags;       /* 0, DTC_SKIP or DTC_KEEP */
} dtc_buffer;

/* Flags of a buffer. KEEP: the executable keeps a copy of this argument, so that later calls may skip it; for one that is
 * donated, without effect. SKIP: an argument has the value that was kept or carried over; a result is not wanted. The
 * other fields are then ignored. */
#define DTC_SKIP 1
#define DTC_KEEP 2

typedef struct dtc_run_arguments {
  size_t struct_size; /* sizeof(dtc_run_arguments) */
  const dtc_buffer* arguments;
  size_t num_arguments;
  const dtc_buffer* results; /* memory to write to; with `data` null a tensor is returned in `tensors` */
  size_t num_results;
  dtc_tensor** tensors; /* num_results places, or null if all results have memory */
  /* 0: a buffer is a whole tensor, and there is one per argument (result). 1: it is the shard of a device, and
   * there is one per device and argument, first all devices' shards of argument 0. In several processes, devices are
   * those of this process. Whole arguments are the same on all; a whole result needs all of its elements here. */
  int32_t argument_shards, result_shards;
  /* The cuda backend waits for the work in this CUstream before it reads arguments; null: the default stream, whose
   * work must be complete. Results are complete when the call returns. */
  void* stream;
} dtc_run_arguments;

/* Sets all arguments, runs, and writes all results. Calls on one executable take turns. */
DTC_API dtc_status dtc_run(dtc_executable* executable, const dtc_run_arguments* run, dtc_error** error);
/* Reads the arguments of which a file has a tensor by their name: .npz, .safetensors, or the weights of a .pt2 or .onnx
 * program. `bound`: null, or a place per argument, which is set to 1 if the file had it, else to 0. Runs are then given
 * DTC_SKIP for those. */
DTC_API dtc_status dtc_bind_file(dtc_executable* executable, const char* path, int32_t* bound,
                                 dtc_error** error);
/* Whether a file has a program and, in its file, the weights that are arguments of it: a .pt2 or .onnx file or a package,
 * whatever it is called. dtc_bind_file then reads them. */
DTC_API int32_t dtc_file_has_weights(const char* path);
/* Whether an argument has a value that the next run may skip (DTC_SKIP): one that was kept or carried over, of a bound file,
 * or a weight in the package that was loaded. */
DTC_API int32_t dtc_argument_is_set(dtc_executable* executable, size_t index);
/* Makes carried results the arguments of the next run, which is then given DTC_SKIP for those. Error (usage): no run has
 * succeeded since the program was compiled or this was last called. */
DTC_API dtc_status dtc_carry_over(dtc_executable* executable, dtc_error** error);
/* Copied by the last run between your tensors and the memory of the executable: 0 if all were used in place. */
DTC_API int64_t dtc_copied_bytes(const dtc_executable* executable);
/* Where `print` statements of the program go: null for standard output. */
DTC_API void dtc_set_print(dtc_executable* executable, void (*print)(void* self, const char* text),
                           void* self);
/* `interrupted`: null, or asked between the steps of a run by the thread that called dtc_run. A result other than 0 ends
 * the run, which returns DTC_ERROR_MACHINE: its results, and arguments that it updates, are then undefined. */
DTC_API void dtc_set_interrupt(dtc_executable* executable, int32_t (*interrupted)(void* self), void* self);

/* --- The command line --- */
/* Runs a command of dtc in this process, {"explain", "gpt.dt"}, and returns its exit code, which is also a dtc_status.
 * `input`: what it reads as standard input. `write` is called at the end with what it printed: stream 1 is standard
 * output, 2 is standard error. */
DTC_API int32_t dtc_command(const char* const* words, size_t num_words, const char* input, size_t input_size,
                            void (*write)(void* self, int32_t stream, const char* text, size_t size),
                            void* self);

/* All that the program dtc does: its main() returns this. For programs that are nothing else: it changes how the process
 * handles signals and memory. */
DTC_API int dtc_main(int argc, char** argv);

/* --- Tensors that the library owns --- */
/* Contiguous, 64-byte aligned host memory of any content. Null: out of memory, or not a dtype or shape. */
DTC_API dtc_tensor* dtc_tensor_create(dtc_dtype dtype, const int64_t* shape, size_t rank);
DTC_API void dtc_tensor_buffer(const dtc_tensor* tensor, dtc_buffer* out); /* valid as long as the tensor */
DTC_API size_t dtc_tensor_bytes(const dtc_tensor* tensor);
DTC_API void dtc_tensor_free(dtc_tensor* tensor);

/* --- DLPack, whose structs are declared by dtc/dlpack.h, or by a DLPack header --- */
struct DLManagedTensor;
struct DLManagedTensorVersioned;
/* Views a tensor: `out` is valid until its deleter is called. Error (usage): a dtype or device that dtc does not
 * know; with a version: a major version other than 1. */
DTC_API dtc_status dtc_buffer_from_dlpack(const struct DLManagedTensor* from, dtc_buffer* out,
                                          dtc_error** error);
DTC_API dtc_status dtc_buffer_from_dlpack_versioned(const struct DLManagedTensorVersioned* from,
                                                    dtc_buffer* out, dtc_error** error);
/* Gives the tensor away: it is freed by the result's deleter. Null: out of memory, the tensor is unchanged. */
DTC_API struct DLManagedTensor* dtc_tensor_to_dlpack(dtc_tensor* tensor);
DTC_API struct DLManagedTensorVersioned* dtc_tensor_to_dlpack_versioned(dtc_tensor* tensor);

#ifdef __cplusplus
}
#endif

#endif
