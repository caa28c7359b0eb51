// The flags of `dtc run` that do not go together, or that say nothing of the backend.
#include "Execute.h"

namespace dtc {

// What is asked for and cannot be had is refused, never ignored.
Status checkFlags(const RunOptions& o) {
  if (!o.comm.empty() && o.comm != "local" && o.comm != "nccl")
    return usageError("unknown communicator '" + o.comm + "'; expected local or nccl");
  if (o.comm == "nccl" && o.backend != "cuda")
    return usageError("--comm nccl is for --backend cuda: the devices of " + o.backend +
                      " are in one memory (--comm local)");
  if (o.trace == "-" && o.json)
    return usageError("--trace - and --json both write to standard output: choose one");
  if (o.loop && (o.repeat > 1 || o.warmup))
    return usageError("--loop runs steps one after the other, --repeat the same step again: choose one");
  return checkChoices(o.policy, o.reduceDType);
}

void noteUnusedFlags(Environment& env, const RunOptions& o) {
  auto note = [&](bool given, const char* flag, const std::string& why = "") {
    if (given) env.err("note: " + std::string(flag) + " changes nothing on " + o.backend + why + "\n");
  };
  if (o.backend != "cuda-emu")
    note(o.noEmuChecks, "--no-emu-checks", ": only cuda-emu checks the accesses of kernels");
  if (o.backend == "cuda") return;
  note(o.matmulPrecision == "tf32", "--matmul-precision tf32", ": its products of f32 are computed in f32");
  note(o.libraryRelu, "--library-relu");
  note(o.noCudnn, "--no-cudnn", ": cuDNN is of --backend cuda");
  note(o.noGraphs, "--no-graphs", ": CUDA graphs are of --backend cuda");
  note(o.hostPredicates, "--host-predicates", ": CUDA graphs are of --backend cuda");
  note(o.noOverlap, "--no-overlap", ": collectives run beside kernels with --backend cuda only");
  note(!o.commDump.empty(), "--comm-dump", ": its devices cannot wait for each other in vain");
  note(o.commTimeoutGiven, "--comm-timeout", ": its devices cannot wait for each other in vain");
}

} // namespace dtc
