#pragma once
// The reference evaluator, which defines correct results (trust.md). Simple, single-threaded, over full host
// tensors.
#include "dtc/IR/OpRecord.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"
#include <functional>

namespace dtc {

// R64: every float value is kept in f64 and never rounded to its dtype (inputs are used as given). Rd: every
// result of every op is rounded once to its dtype, and the partial sums of reductions and contractions to the
// accumulation dtype, in term order: the rounding error of an unfused program, which is the yardstick of
// --check.
enum class Precision : uint8_t { R64, Rd };

struct EvalOptions {
  Precision precision = Precision::Rd;
  // The values of symbolic sizes, by name.
  std::vector<std::pair<std::string, int64_t>> symbols;
  // If nonzero: perturbs the f32 and f64 operands of each arithmetic op by up to one unit in the last place,
  // with this seed (Monte Carlo arithmetic, Parker 1997). The spread of the results measures their
  // sensitivity to rounding.
  uint64_t nudge = 0;
  // With Rd: truncates the operands of f32 matrix products and convolutions to tf32, ten bits after the
  // leading one (the max error of hardware, which may also round). Sums stay in f32.
  bool tf32 = false;
  // Called after each op, once per device that ran it, with its results there (first difference of --check;
  // --log-ops). `coordinate` is 0 in a global program. May be null.
  void (*trace)(void* self, OpId op, int64_t coordinate, std::span<const Tensor> results) = nullptr;
  void* traceSelf = nullptr;
  // Called after each arithmetic op, and for each result of a collective; may modify the stored results. May
  // be null.
  void (*amend)(void* self, OpId op, std::span<const Tensor* const> operands,
                std::span<Tensor> results) = nullptr;
  void* amendSelf = nullptr;
};

// Runs a global function on one device; shardings are ignored. Arguments and results are global tensors; with
// R64 float results have dtype f64. An error names the op and its line.
[[nodiscard]] Result<std::vector<Tensor>> evaluate(Module&, FuncId, std::span<const Tensor> args,
                                                   const EvalOptions&);

// Runs an spmd function on all devices of its mesh in lock step, with collectives between them. `args[d][i]`
// is argument i on the device with coordinate d; likewise for results.
[[nodiscard]] Result<std::vector<std::vector<Tensor>>>
evaluateSpmd(Module&, FuncId, std::span<const std::vector<Tensor>> args, const EvalOptions&);

// The scalar that a literal operand stands for.
[[nodiscard]] Tensor literalTensor(const Module&, ValueId literal);

// Runs a global function on one device, or an spmd function on its mesh. Arguments and results are global
// tensors. Error (Input): the replicas of a result differ (not checked with `amend`).
[[nodiscard]] Result<std::vector<Tensor>> evaluateGlobal(Module&, FuncId, std::span<const Tensor> args,
                                                         const EvalOptions&);

// The shard of a global tensor on the device at `coordinate`, and the inverse: results with P(op) are reduced,
// replicated ones are taken from the first device that has them. `shards` has one tensor per device coordinate,
// unread where `holds` is false; empty: all devices hold it.
[[nodiscard]] Tensor takeShard(const Tensor& global, const Sharding&, const Mesh&, int64_t coordinate);
// The same for a tensor that is not in memory: `read` fills `out` with the tensor's bytes from `begin` on
// (row-major). It is called for runs in the order of the shard. Its errors are returned.
[[nodiscard]] Result<Tensor>
takeShard(DType, std::span<const int64_t> globalShape, const Sharding&, const Mesh&, int64_t coordinate,
          const std::function<Status(int64_t begin, std::span<std::byte> out)>& read);
[[nodiscard]] Tensor assemble(std::span<const Tensor> shards, const Sharding&, const Mesh&,
                              std::span<const int64_t> globalShape, const std::vector<bool>& holds = {});
// The same from all devices: the value of the first replica of each shard, then that of each further set of
// replicas in which some shard has other bits. `coordinate`: the first device that holds such a shard.
struct Replica {
  int64_t coordinate;
  Tensor value;
};
[[nodiscard]] std::vector<Replica> assembleReplicas(std::span<const Tensor> shards, const Sharding&,
                                                    const Mesh&, std::span<const int64_t> globalShape,
                                                    const std::vector<bool>& holds = {});

// Runs one op of a local program, including its region, on the device at `coordinate`, with the given operands;
// not for collectives. options.trace is called for each nested op.
[[nodiscard]] Result<std::vector<Tensor>> evaluateOpAt(Module&, OpId, const Mesh&, int64_t coordinate,
                                                       std::span<const Tensor> operands, const EvalOptions&);

// Runs a single op on host tensors (for the prover and constant folding).
[[nodiscard]] Result<std::vector<Tensor>> evaluateOp(const OpQuery&, std::span<const Tensor> operands,
                                                     const EvalOptions&);

} // namespace dtc
