#pragma once
// Which values of a forward part are kept for the backward part, and which are computed again: a minimum cut.
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/OpWork.h"
#include "dtc/Sharding/Machine.h"
#include <unordered_map>
#include <unordered_set>

namespace dtc {

// What may be computed again: all_gathers, whose operands are a part of their results on each device; also ops with
// little arithmetic per element; all ops without an effect.
enum class RecomputeScope : uint8_t { Gathers, Cheap, Any };

struct RecomputePrices {
  // of one byte that is kept, in seconds
  double kept = 2 / NominalMachine().memoryBytesPerSecond; // it is written once and read once
  RecomputeScope scope = RecomputeScope::Cheap;
};

// The forward part is a list of ops of one block, in order. Values that it reads from outside are available in
// the backward part; so are those for which `isFree` holds.
//
// The network (the method of the min-cut rematerialization partitioner of PyTorch, H. He and S. Yu, "Transcending
// runtime-memory tradeoffs in checkpointing by being fusion aware", 2023, with a price per op): an op on the sink
// side is computed again and pays its time; a value on the sink side whose op is not is kept and pays its bytes. An
// op on the sink side needs its operands there; values that the backward part reads are on the sink side.
class RecomputeCut {
public:
  RecomputeCut(Module& m, const Mesh& mesh, std::span<const OpId> forward,
               std::span<const ValueId> arguments);

  // No byte of this value has to be kept in addition.
  void setFree(ValueId v) { bytes_[v] = 0; }
  void solve(std::span<const ValueId> needed, const RecomputePrices&);
  [[nodiscard]] bool isAgain(OpId o) const { return again_.contains(o); }
  // False if there is nothing to gain: with RecomputeScope::Gathers, if no gather is computed again.
  [[nodiscard]] bool isUseful(const RecomputePrices&) const;
  // In the order of the forward part.
  [[nodiscard]] const std::vector<ValueId>& kept() const { return kept_; }

private:
  [[nodiscard]] int64_t price(OpId, const RecomputePrices&); // kInfinite: it cannot be computed again
  [[nodiscard]] int64_t collectivePrice(OpId) const;
  void findKept(std::span<const ValueId> needed);

  Module& m_;
  Mesh mesh_;
  NominalMachine machine_;
  std::vector<OpId> forward_;
  std::vector<ValueId> values_; // arguments, then results
  std::unordered_map<ValueId, int64_t> bytes_;
  std::unordered_set<OpId> again_;
  std::vector<ValueId> kept_;
};

} // namespace dtc
