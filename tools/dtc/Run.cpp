// dtc run: compile if need be, and run.

#include "Execute.h"
#include "Verbs.h"

#include <CLI/CLI.hpp>
#include <memory>

namespace dtc {

namespace {

// Groups of flags that --help leaves to --help-all.
constexpr const char *kDevices = "Devices", *kGpus = "GPUs", *kReports = "Reports";

// "", or what is wrong with it.
std::string isSeconds(const std::string& text) {
  constexpr double most = 1e9;
  double seconds = 0;
  if (CLI::detail::lexical_cast(text, seconds) && seconds > 0 && seconds <= most) return {};
  return "expected seconds in (0, 1e9], got '" + text + "'";
}

// What carries bytes between devices, and how their work is started.
void addDeviceOptions(CLI::App& app, RunOptions& o) {
  app.add_option("--comm", o.comm, "how devices communicate (nccl where each has a GPU, else local)")
      ->type_name("local|nccl")
      ->group(kDevices);
  app.add_option("--comm-timeout", o.commTimeout,
                 "end a run whose devices wait for each other this long (600)")
      ->type_name("SECONDS")
      ->check(isSeconds)
      ->each([&o](const std::string&) { o.commTimeoutGiven = true; })
      ->group(kDevices);
  app.add_option("--comm-dump", o.commDump, "where such a run writes the last collectives of each device")
      ->type_name("FILE.json")
      ->group(kDevices);
  app.add_flag("--deterministic", o.deterministic, "the same bits in every run (on CPUs always)")
      ->group(kDevices);
  app.add_option("--reduction-order", o.reductionOrder, "fixed: the same bits on every mesh too")
      ->type_name("any|fixed")
      ->check(CLI::IsMember({"any", "fixed"}))
      ->group(kDevices);
  app.add_option("--matmul-precision", o.matmulPrecision,
                 "tf32: GPUs may round the factors of f32 matmuls to ten bits (highest)")
      ->type_name("highest|tf32")
      ->check(CLI::IsMember({"highest", "tf32"}))
      ->group(kGpus);
  app.add_flag("--no-graphs", o.noGraphs, "launch each kernel separately, without CUDA graphs")->group(kGpus);
  app.add_flag("--host-predicates", o.hostPredicates,
               "the host reads the predicates of while and cond, not CUDA graphs themselves")
      ->group(kGpus);
  app.add_flag("--no-cudnn", o.noCudnn, "use generated kernels for convolution and attention")->group(kGpus);
  app.add_flag("--library-relu", o.libraryRelu, "fuse relu into the cuBLASLt epilogue (NaN becomes 0)")
      ->group(kGpus);
  app.add_flag("--no-overlap", o.noOverlap, "do not overlap collectives with kernels")->group(kGpus);
  app.add_flag("--no-emu-checks", o.noEmuChecks,
               "on cuda-emu: do not check memory accesses, and run each kernel in one order only")
      ->group(kGpus);
}

} // namespace

Verb runVerb() {
  Verb v;
  v.name = "run";
  v.usage = "FILE --input NAME=VALUE … [flags]";
  v.summary = "compile if need be, and run";
  v.examples =
      "  dtc run gpt.dt --input tokens=raw:text.txt --input 'weights=randn(7,0.02)' --check\n"
      "  dtc run mlp.dt --input '*=randn(1)' --output y=y.npy --mesh pod=dp:3,tp:5\n"
      "  dtc opt mlp.dt -p propagate | dtc run - --input '*=randn(1)' --print y --json\n"
      "values: FILE.npy FILE.npz FILE.safetensors raw:FILE randn(SEED[,STD]) uniform(SEED,LO,HI) "
      "randint(SEED,LO,HI) zeros iota "
      "const(V)\n"
      "names may be patterns ('blocks.*'); 'weights' is every float argument left, '*' every argument left";
  v.declare = [](CLI::App& app) -> std::function<int(Environment&)> {
    auto o = std::make_shared<RunOptions>();
    addProgramOptions(app, o->program);
    auto many = [&app](const char* name, std::vector<std::string>& to, const char* doc, const char* type) {
      app.add_option(name, to, doc)->type_name(type)->allow_extra_args(false);
    };
    many("--input", o->inputs, "the value of an argument (below)", "NAME=VALUE");
    many("--output", o->outputs, "write a result to a file: y=FILE.npy; FILE.npz or .safetensors: all",
         "NAME=FILE");
    many("--print", o->prints, "print this result, and only those named so", "NAME");
    app.add_option("--backend", o->backend, "where it runs")
        ->type_name("cpu|cuda-emu|cuda")
        ->check(CLI::IsMember({"cpu", "cuda-emu", "cuda"}));
    app.add_option("-O", o->optLevel, kOptLevelHelp)->type_name("0..3")->check(CLI::Range(0, 3));
    app.add_option("--policy", o->policy, "how conflicts of shardings are settled")
        ->type_name("shardy|dtensor|cost|explicit");
    app.add_option("--reduce-dtype", o->reduceDType, "the float dtype that sums between devices travel in")
        ->type_name("DTYPE");
    app.add_flag("--strict-nonfinite", o->strictNonFinite,
                 "infinities and NaN are those of the unsharded program: no rule that holds for finite "
                 "values alone");
    app.add_flag("--check", o->check, "compare with the unsharded reference evaluator");
    app.add_flag("--nan", o->nan,
                 "find the op, device and element that makes the first NaN, and indices out of range");
    app.add_option("--repeat", o->repeat, "run N times and report the median")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000));
    app.add_option("--warmup", o->warmup, "runs before those that are timed")
        ->type_name("N")
        ->check(CLI::Range(0, 1000000))
        ->group(kReports);
    app.add_option("--threads", o->threads, "CPU threads (as many as there are cores)")
        ->type_name("N")
        ->check(CLI::Range(1, 1024))
        ->group(kDevices);
    app.add_option("--loop", o->loop,
                   "run N steps; results that say {carry = true} become the next one's arguments")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000000));
    app.add_option("--trace", o->trace, "write what the last run did, for Perfetto; - is standard output")
        ->type_name("T.json");
    app.add_flag("--stats", o->stats,
                 "time, bytes and rates of each step, and what is alive at the peak of memory");
    app.add_flag("--log-ops", o->logOps, "show each step of each device, to stderr")->group(kReports);
    app.add_flag("--timing", o->timing, "time of each pass and phase, to stderr")->group(kReports);
    addDeviceOptions(app, *o);
    app.add_flag("--json", o->json, "results and reports as JSON");
    return [o](Environment& env) { return executeProgram(env, *o); };
  };
  return v;
}

} // namespace dtc
