// Validates the flags of `dtc run`: contradictions, and flags without effect on the backend.
#include "Execute.h"

namespace dtc {

// Unsupported combinations are errors, never ignored.
Status checkFlags(const RunOptions& o) {
  if (Status s = checkPasses(o.printAfter); !s) return s;
  if (!o.comm.empty() && o.comm != "local" && o.comm != "nccl")
    return usageError("unknown communicator '" + o.comm + "'; expected local or nccl");
  if (o.comm == "nccl" && o.backend != "cuda")
    return usageError("--comm nccl needs --backend cuda: devices of " + o.backend +
                      " share one memory (--comm local)");
  if (o.trace == "-" && o.json)
    return usageError("--trace - and --json both write to standard output: choose one");
  if (o.loop && (o.repeat > 1 || o.warmup))
    return usageError("--loop runs consecutive steps, --repeat and --warmup rerun one step: choose one");
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
  note(!o.commDump.empty(), "--comm-dump", ": its devices cannot time out waiting for each other");
  note(o.commTimeoutGiven, "--comm-timeout", ": its devices cannot time out waiting for each other");
}

} // namespace dtc
