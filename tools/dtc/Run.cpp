// dtc run: compiles and runs a program.

#include "Execute.h"
#include "Interrupt.h"
#include "Verbs.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

namespace dtc {

// Groups of flags shown only by --help-all.
constexpr const char *kDevices = "Devices", *kGpus = "GPUs", *kReports = "Reports", *kTraining = "Training";

// A CLI11 check: returns "" or an error message.
static std::string isSeconds(const std::string& text) {
  constexpr double maxSeconds = 1e9;
  double seconds = 0;
  if (CLI::detail::lexical_cast(text, seconds) && seconds > 0 && seconds <= maxSeconds) return {};
  return "expected seconds in (0, 1e9], got '" + text + "'";
}

// Flags for communication and launch behavior.
static void addDeviceOptions(CLI::App& app, RunOptions& o) {
  app.add_option("--comm", o.comm,
                 "communicator (default: nccl if each device has its own GPU, else local); mpi, nccl: also "
                 "in the processes of mpirun")
      ->type_name("local|nccl|mpi")
      ->group(kDevices);
  app.add_option("--devices-per-process", o.devicesPerProcess,
                 "in several processes: devices of each (default: the mesh's over the processes)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->group(kDevices);
  app.add_option("--comm-timeout", o.commTimeout,
                 "abort a run whose devices wait for each other this long (600)")
      ->type_name("SECONDS")
      ->check(isSeconds)
      ->each([&o](const std::string&) { o.commTimeoutGiven = true; })
      ->group(kDevices);
  app.add_option("--comm-dump", o.commDump,
                 "after a failure, write the last collectives of each device to this file, of process R to "
                 "FILE-R.json")
      ->type_name("FILE.json")
      ->group(kDevices);
  app.add_flag("--deterministic", o.deterministic, "bitwise reproducible runs (always on for CPUs)")
      ->group(kDevices);
  app.add_option("--matmul-precision", o.matmulPrecision,
                 "tf32: GPUs may round operands of f32 matmuls to tf32 (highest)")
      ->type_name("highest|tf32")
      ->check(CLI::IsMember({"highest", "tf32"}))
      ->group(kGpus);
  app.add_flag("--no-graphs", o.noGraphs, "launch each kernel separately, without CUDA graphs")->group(kGpus);
  app.add_flag("--host-predicates", o.hostPredicates,
               "evaluate predicates of while and cond on the host instead of in CUDA graphs")
      ->group(kGpus);
  app.add_flag("--no-cudnn", o.noCudnn, "use generated kernels for convolution and attention")->group(kGpus);
  app.add_flag("--library-relu", o.libraryRelu, "fuse relu into the cuBLASLt epilogue (NaN becomes 0)")
      ->group(kGpus);
  app.add_flag("--no-emu-checks", o.noEmuChecks,
               "on cuda-emu: skip memory checks and run the threads of a kernel in one order only")
      ->group(kGpus);
}

// Data, logs and checkpoints of training runs.
static void addTrainOptions(CLI::App& app, TrainFlags& t) {
  const auto count = [&](const char* name, int& to, const char* doc) {
    app.add_option(name, to, doc)->type_name("N")->check(CLI::Range(1, 1000000000))->group(kTraining);
  };
  app.add_option("--data", t.data,
                 "each step takes samples of a file, shuffled; for text also :window=N,seed=S")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  app.add_option("--checkpoint", t.checkpoint, "write checkpoints to this folder")->type_name("DIR");
  count("--checkpoint-every", t.checkpointEvery, "every N steps; always after the last one");
  count("--checkpoint-keep", t.checkpointKeep, "keep the newest N checkpoints (2)");
  app.add_flag("--resume", t.resume, "go on from the newest checkpoint, if there is one");
  app.add_option("--log", t.log, "write a line of JSON per step; - is standard output")
      ->type_name("FILE.jsonl");
  app.add_option("--eval", t.eval, "evaluate on held-back data, without updates")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false)
      ->group(kTraining);
  count("--eval-every", t.evalEvery, "evaluate every N steps; always after the last one");
}

Verb runVerb() {
  Verb v;
  v.name = "run";
  v.usage = "FILE --input NAME=VALUE … [flags]";
  v.summary = "compile and run a program";
  v.examples =
      "  dtc run train.dt --input 'weights=randn(7,0.02)' --loop 2000 --data tokens=text.bin:window=129 "
      "--checkpoint DIR --checkpoint-every 100 --resume --log metrics.jsonl\n"
      "  dtc run gpt.dt --input tokens=raw:text.txt --input 'weights=randn(7,0.02)' --check\n"
      "  dtc run mlp.dt --input '*=randn(1)' --output y=y.npy --mesh pod=dp:3,tp:5\n"
      "  dtc opt mlp.dt -p propagate | dtc run - --input '*=randn(1)' --print y --json\n"
      "values: FILE.npy FILE.npz FILE.safetensors raw:FILE text:WORDS randn(SEED[,STD]) "
      "uniform(SEED,LO,HI) randint(SEED,LO,HI) zeros ones iota const(V)\n"
      "names may be patterns ('blocks.*'); 'weights' matches all unbound float arguments, '*' all "
      "unbound ones";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<RunOptions>();
    addProgramOptions(app, o->program);
    auto many = [&app](const char* name, std::vector<std::string>& to, const char* doc, const char* type) {
      app.add_option(name, to, doc)->type_name(type)->allow_extra_args(false);
    };
    many("--input", o->inputs, "set the value of an argument (see below)", "NAME=VALUE");
    many("--output", o->outputs,
         "write a result (y=FILE.npy) or all results (FILE.npz, FILE.safetensors) to a file", "NAME=FILE");
    many("--print", o->prints, "print only the named results", "NAME");
    many("--print-text", o->texts, "print the bytes of a u8 result as text", "NAME");
    app.add_option("--backend", o->backend, "backend to run on")
        ->type_name("cpu|cuda-emu|cuda")
        ->check(CLI::IsMember({"cpu", "cuda-emu", "cuda"}));
    addLoweringOptions(app, o->lowering);
    app.add_flag("--check", o->check, "compare with the unsharded reference evaluator");
    app.add_flag("--nan", o->nan,
                 "find the op, device and element that produces the first NaN, and out-of-range indices");
    app.add_option("--repeat", o->repeat, "run N times and report the median")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000));
    app.add_option("--warmup", o->warmup, "untimed runs before the timed ones")
        ->type_name("N")
        ->check(CLI::Range(0, 1000000))
        ->group(kReports);
    app.add_option("--threads", o->threads, "number of CPU threads (default: one per core)")
        ->type_name("N")
        ->check(CLI::Range(1, 1024))
        ->group(kDevices);
    app.add_option("--loop", o->loop, "run N steps; {carry = true} results become arguments of the next step")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000000));
    addTrainOptions(app, o->train);
    app.add_option("--trace", o->trace, "write a Perfetto trace of the last run; - is standard output")
        ->type_name("T.json");
    app.add_flag("--stats", o->stats,
                 "print time, bytes and throughput of each step, and live buffers at peak memory");
    app.add_flag("--log-ops", o->logOps, "log each step of each device to stderr")->group(kReports);
    addPrintAfterOptions(app, o->printAfter, kReports);
    app.add_flag("--timing", o->timing, "print the time of each pass and phase to stderr")->group(kReports);
    addDeviceOptions(app, *o);
    app.add_flag("--json", o->json, "print results and reports as JSON");
    return [o](Environment& env) {
      std::optional<CheckpointRequests> requests; // before the compilation: SIGUSR1 would end the process
      if (!o->train.checkpoint.empty()) requests.emplace();
      return executeProgram(env, *o);
    };
  };
  return v;
}

} // namespace dtc
