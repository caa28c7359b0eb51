// Validates the flags of `dtc run`: contradictions, and flags without effect on the backend.
#include "Execute.h"

#include "dtc/Files/InputFile.h"

#include <filesystem>

namespace dtc {

// The flags of a training run that need another one.
static Status checkTrainFlags(const RunOptions& o) {
  const TrainFlags& t = o.train;
  struct Need {
    bool given;
    const char* flag;
    bool has;
    const char* other;
  };
  const Need needs[] = {
      {!t.checkpoint.empty(), "--checkpoint DIR", o.loop > 0, "--loop N, the number of steps"},
      {!t.log.empty(), "--log", o.loop > 0, "--loop N, the number of steps"},
      {!t.eval.empty(), "--eval", o.loop > 0, "--loop N, the number of steps"},
      {t.evalEvery > 0, "--eval-every", !t.eval.empty(), "--eval NAME=FILE, the held-back data"},
      {t.checkpointEvery > 0, "--checkpoint-every", !t.checkpoint.empty(), "--checkpoint DIR"},
      {t.checkpointKeep > 0, "--checkpoint-keep", !t.checkpoint.empty(), "--checkpoint DIR"},
      {t.resume, "--resume", !t.checkpoint.empty(), "--checkpoint DIR, where the checkpoints are"},
  };
  for (const Need& n : needs)
    if (n.given && !n.has) return usageError(std::string(n.flag) + " needs " + n.other);
  if (t.log == "-" && (o.json || o.trace == "-"))
    return usageError("--log - and " + std::string(o.json ? "--json" : "--trace -") +
                      " both write to standard output: choose one");
  if (o.check && t.resume)
    return usageError("--check takes all steps in the reference: it excludes --resume");
  if (o.check && o.loop > 1 && !t.data.empty())
    return usageError("--check with --data compares one step: use --loop 1");
  return Ok{};
}

// What a run of several processes does not do yet.
static Status checkProcessFlags(const RunOptions& o) {
  if (o.comm == "mpi" && o.backend != "cpu")
    return usageError("--comm mpi needs --backend cpu, got " + o.backend +
                      (o.backend == "cuda" ? ": use --comm nccl" : ""));
  if (!o.inProcesses()) {
    if (o.devicesPerProcess == 0) return Ok{};
    return usageError(o.comm == "nccl" ? "--devices-per-process: no launcher has started several processes"
                                       : "--devices-per-process needs --comm mpi or nccl");
  }
  return Ok{};
}

bool RunOptions::inProcesses() const {
  return comm == "mpi" || (comm == "nccl" && transportOfLauncher() != ProcessTransport::None);
}

void warnIfAlone(Environment& env, const RunOptions& o) {
  const LaunchedProcess process = launchedProcess();
  if (!o.comm.empty() || process.size < 2 || process.rank > 0) return; // rank 0 warns for all
  const bool byTorchrun = process.launcher == std::string_view("torchrun");
  env.err("warning: each of the " + std::to_string(process.size) + " processes of " + process.launcher +
          " runs the whole program alone: " +
          (o.backend == "cuda" ? "add --comm nccl\n"
           : byTorchrun        ? "start them by mpirun, and add --comm mpi\n"
                               : "add --comm mpi\n"));
}

Status checkProcesses(const RunOptions& o, int64_t numDevices, int64_t numProcesses) {
  if (Status s = checkShares(numDevices, numProcesses); !s) return s;
  if (o.devicesPerProcess && o.devicesPerProcess * numProcesses != numDevices)
    return usageError("the mesh has " + std::to_string(numDevices) + " devices, but " +
                      std::to_string(numProcesses) + " processes with --devices-per-process " +
                      std::to_string(o.devicesPerProcess) + " have " +
                      std::to_string(o.devicesPerProcess * numProcesses));
  return Ok{};
}

static Status checkFolder(const char* flag, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code unknown;
  if (folder.empty() || std::filesystem::is_directory(folder, unknown)) return Ok{};
  return usageError(std::string(flag) + ": " + quotedPath(folder.string()) + " is not a folder");
}

Status checkWrittenFolders(const RunOptions& o) {
  if (Status s = checkFolder("--trace", o.trace); !s) return s;
  for (const std::string& output : o.outputs)
    if (Status s = checkFolder("--output", output.substr(output.find('=') + 1)); !s) return s;
  return Ok{};
}

// Unsupported combinations are errors, never ignored.
Status checkFlags(const RunOptions& o) {
  if (Status s = checkPasses(o.printAfter); !s) return s;
  if (!o.comm.empty() && o.comm != "local" && o.comm != "nccl" && o.comm != "mpi")
    return usageError("unknown communicator '" + o.comm + "'; expected local, nccl or mpi");
  if (Status s = checkProcessFlags(o); !s) return s;
  if (o.comm == "nccl" && o.backend != "cuda")
    return usageError("--comm nccl needs --backend cuda: devices of " + o.backend +
                      " share one memory (--comm local)");
  if (Status s = checkFolder("--comm-dump", o.commDump); !s) return s;
  if (!o.texts.empty() && o.json)
    return usageError("--print-text and --json both write to standard output: choose one");
  if (o.trace == "-" && o.json)
    return usageError("--trace - and --json both write to standard output: choose one");
  if (o.loop && (o.repeat > 1 || o.warmup))
    return usageError("--loop runs consecutive steps, --repeat and --warmup rerun one step: choose one");
  if (Status s = checkTrainFlags(o); !s) return s;
  return checkChoices(o.lowering);
}

void noteUnusedFlags(Environment& env, const RunOptions& o) {
  auto note = [&](bool given, const char* flag, const std::string& why = "") {
    if (given) env.err("note: " + std::string(flag) + " has no effect on " + o.backend + why + "\n");
  };
  if (o.backend != "cuda-emu")
    note(o.noEmuChecks, "--no-emu-checks", ": only cuda-emu checks memory accesses of kernels");
  if (o.backend == "cuda") return;
  note(o.lowering.libraryGelu, "--library-gelu");
  note(o.matmulPrecision == "tf32", "--matmul-precision tf32", ": it computes f32 matmuls in f32");
  note(o.libraryRelu, "--library-relu");
  note(o.noCudnn, "--no-cudnn", ": cuDNN is used by --backend cuda only");
  note(o.noGraphs, "--no-graphs", ": CUDA graphs are used by --backend cuda only");
  note(o.hostPredicates, "--host-predicates", ": CUDA graphs are used by --backend cuda only");
  if (o.backend == "cpu")
    note(o.lowering.noOverlap, "--no-overlap", ": collectives overlap kernels on GPUs only");
  note(!o.commDump.empty() && o.comm != "mpi", "--comm-dump",
       ": its devices cannot time out waiting for each other");
  note(o.commTimeoutGiven && o.comm != "mpi", "--comm-timeout",
       ": its devices cannot time out waiting for each other");
}

} // namespace dtc
