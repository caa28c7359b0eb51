#pragma once
// The reference evaluator: the definition of "right" (trust.md). Naive, single-threaded, over whole host tensors.
#include "dtc/IR/OpRecord.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"
#include <functional>

namespace dtc {

// R64: every float value is kept in f64 and never rounded to its dtype (inputs are as given). Rd: every result of every op
// is rounded once to its dtype, and the partial sums of reductions and contractions to its accumulation type, in the order
// of the terms: the rounding error of a plain program, against which --check measures.
enum class Precision : uint8_t { R64, Rd };

struct EvalOptions {
  Precision precision = Precision::Rd;
  // Values of symbolic sizes, by name.
  std::vector<std::pair<std::string, int64_t>> symbols;
  // Not 0: the f32 and f64 operands of each op that computes are moved by up to one unit in the last place each, as this seed
  // says (Monte Carlo arithmetic, Parker 1997): how far results go apart is how much rounding can matter to them.
  uint64_t nudge = 0;
  // With Rd: matrix products and convolutions of f32 see no more of their operands than tf32 has, ten bits behind the leading one (the
  // others are dropped, which is the most that hardware does: it may also round). Sums stay in f32.
  bool tf32 = false;
  // Called after each op, once per device that ran it, with its results there (first differing op of --check; --log-ops).
  // `place` is 0 in a global program. May be null.
  void (*trace)(void* self, OpId op, int64_t place, std::span<const Tensor> results) = nullptr;
  void* traceSelf = nullptr;
  // Called after each op that computes, and for each result of a collective; may change its results there, as they are held. May be
  // null.
  void (*amend)(void* self, OpId op, std::span<const Tensor* const> operands,
                std::span<Tensor> results) = nullptr;
  void* amendSelf = nullptr;
};

// Runs a global function as if on one device: shardings mean nothing. Arguments and results are global tensors; with R64
// the float results have dtype f64. An error names the op and its line.
[[nodiscard]] Result<std::vector<Tensor>> evaluate(Module&, FuncId, std::span<const Tensor> args,
                                                   const EvalOptions&);

// Runs an spmd function on all devices of its mesh in lock step; collectives move data between them. `args[d][i]` is
// argument i on the device at place d; results likewise.
[[nodiscard]] Result<std::vector<std::vector<Tensor>>>
evaluateSpmd(Module&, FuncId, std::span<const std::vector<Tensor>> args, const EvalOptions&);

// The piece of a global tensor that the device at `place` holds, and back: results with P(op) are combined, replicated ones
// taken from place 0. `pieces` has one tensor per place.
[[nodiscard]] Tensor takePiece(const Tensor& global, const Sharding&, const Mesh&, int64_t place);
// The same of a tensor that is not in memory: `read` fills `out` with the tensor's bytes from `begin` on (row-major); it is
// called for runs that ascend where the piece's do. Its errors are passed on.
[[nodiscard]] Result<Tensor>
takePiece(DType, std::span<const int64_t> globalShape, const Sharding&, const Mesh&, int64_t place,
          const std::function<Status(int64_t begin, std::span<std::byte> out)>& read);
[[nodiscard]] Tensor assemble(std::span<const Tensor> pieces, const Sharding&, const Mesh&,
                              std::span<const int64_t> globalShape);

// One op of a local program on the device at `place`, its region with it, which sees what `operands` are; not a collective.
// options.trace is called for each op within.
[[nodiscard]] Result<std::vector<Tensor>> evaluateOpAt(Module&, OpId, const Mesh&, int64_t place,
                                                       std::span<const Tensor> operands, const EvalOptions&);

// One op by itself on host tensors (the prover's, and the constant folder's).
[[nodiscard]] Result<std::vector<Tensor>> evaluateOp(const OpQuery&, std::span<const Tensor> operands,
                                                     const EvalOptions&);

} // namespace dtc
