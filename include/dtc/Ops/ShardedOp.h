#pragma once
// Ops that communicate (sharding.md): if a contracted, scanned, windowed, … dim is sharded, each device
// computes its shard of the results from its shards of the operands and from what it receives. The op's
// record builds this local program (OpRecord::shard); `partition` emits it, propagation uses its cost, and the
// prover compares it with the unsharded op.
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Sharding/Machine.h"

namespace dtc {

// How one factor of the op's rule is sharded.
struct ShardedFactor {
  std::vector<AxisRef> axes; // major to minor; empty: unsharded
  int64_t devices = 1;       // product of the axes' sizes
  [[nodiscard]] bool isSharded() const { return devices > 1; }
};

// Rows of a value of the local program that an op has already received, keyed by the request (numbers chosen
// by the requesting code), and the buffer that holds them. Later ops of the block with the same request reuse
// it.
struct ReceivedRows {
  ValueId of;
  std::vector<int64_t> asked;
  std::vector<ValueId> values;
  ValueId buffer;
  ValueId like;            // the buffer holds the rows of this value, after `moves`
  std::vector<OpId> moves; // the data-movement ops, last first; invalid: this is the first op
};

class ShardedOp {
public:
  // `factors` has one entry per factor of `rule`; `global` is the query of the unsharded op.
  ShardedOp(Builder& builder, const OpQuery& global, const Rule& rule, std::vector<ValueId> operands,
            std::vector<TypeId> results, std::vector<ShardedFactor> factors);

  Builder& b;
  const OpQuery& global;
  const Rule& rule;
  // this device's shards; literals unchanged; invalid: an absent optional operand
  std::vector<ValueId> operands;
  std::vector<TypeId> results;           // the required local types
  std::vector<ShardedFactor> factors;    // by factor of `rule`
  std::optional<DType> reduceDType = {}; // communication dtype of float sums; empty: defaultCommDType

  std::vector<ReceivedRows>* received = nullptr; // by earlier ops of the block; null: not recorded

  // Set by the record if it chooses between programs, for reports: which one, and why. `seconds`: the time of
  // communication and compute together if they overlap; 0: not set.
  std::string choice;
  double seconds = 0;

  // The axes of all sharded factors of communicating kinds, and of those that exchange rows, in factor order.
  [[nodiscard]] const std::vector<AxisRef>& axes() const { return axes_; }
  [[nodiscard]] int64_t devices() const; // product of their sizes
  [[nodiscard]] const Mesh& mesh() const;
  // How dim `dim` of an operand or result is sharded.
  [[nodiscard]] const ShardedFactor& shardedOf(const TensorMap&, size_t dim) const;
  [[nodiscard]] const ShardedFactor& operandFactor(size_t operand, size_t dim) const;
  [[nodiscard]] const ShardedFactor& resultFactor(size_t result, size_t dim) const;

  // --- ops of the local program ---
  [[nodiscard]] DType dtypeOf(ValueId) const;
  [[nodiscard]] const Type& typeOf(ValueId) const;
  Expr value(ValueId v) { return {b, v}; }
  Expr operand(size_t i) { return {b, operands[i]}; }
  Expr convert(ValueId v, DType to) { return value(v).as(to); }             // v itself if it has the dtype
  Expr wide(ValueId v) { return convert(v, accumulationType(dtypeOf(v))); } // to the accumulation dtype
  Expr over(PendingKind, ValueId, std::span<const int64_t> dims, bool keepdim = true);
  Expr allReduce(ValueId, PendingKind, std::span<const AxisRef> axes);
  Expr allReduce(ValueId v, PendingKind kind) { return allReduce(v, kind, axes_); }
  // Broadcasts the value of one device: a sum in which the others contribute zeros (false), so that it is
  // exact.
  Expr fromOne(ValueId);
  // Gathers the shards along `dim`.
  Expr allGather(ValueId, int64_t dim, std::span<const AxisRef> axes);
  // The values of all devices along a new dim 0 of size devices(), ordered by their index along axes().
  Expr gatherAll(ValueId);
  // This device's index, and the offset and size of its shard of `size`. i32[].
  Expr index(std::span<const AxisRef> axes);
  Expr shardOffset(Dim size, std::span<const AxisRef> axes);
  Expr shardSize(Dim size, std::span<const AxisRef> axes);
  // Row `row` of dim 0, without that dim.
  Expr row(ValueId, int64_t row);

  // Whether one gather of `count` summaries of this size is cheaper than reducing them one after the other.
  [[nodiscard]] bool gatherIsCheaper(ValueId summary, int count) const;

private:
  std::vector<AxisRef> axes_;
};

// Appends the op's local program to `b.out`, using OpRecord::shard. False if the record does not support these
// shardings; what was appended must then be discarded.
[[nodiscard]] bool writeSharded(ShardedOp&, std::vector<ValueId>& results);

// Whether factor f, which is not of a communicating kind, is sharded by axes that also shard its partner
// (Factor::alongside), so that rows are exchanged. `factors` is indexed by factor of the rule.
[[nodiscard]] bool exchanges(const Rule&, std::span<const PartList> factors, size_t f);
// Whether a factor of a communicating kind is sharded, or rows are exchanged.
[[nodiscard]] bool communicates(const Rule&, std::span<const PartList> factors);
// The axes over which results are pending because factor f is sharded by them, except for results that these
// axes shard: for reductions, the axes that exchange nothing.
[[nodiscard]] PartList leftPending(const Rule&, std::span<const PartList> factors, size_t f);
// The axes of the lists, as required by ShardedOp. Empty if a communicating factor's list has blocks (strided).
[[nodiscard]] std::optional<std::vector<ShardedFactor>>
shardedFactors(const Rule&, std::span<const PartList> factors, const Mesh&);

} // namespace dtc
