#pragma once
// What propagate's reasons say of one value or one change of sharding: the chain back to an annotation, and where the
// annotations stand in the text.
#include "dtc/IR/Naming.h"
#include "dtc/Passes/Propagate.h"
#include "dtc/Support/Lines.h"

namespace dtc {

// One step of a chain: dim `dim` of `reason->value` was cut so, and the next step is why.
struct ReasonStep {
  const ShardingReason* reason = nullptr;
  uint16_t dim = 0;
};

// A sharding that a person wrote, which decided something.
struct AnnotationUse {
  ValueId value; // in the propagated program
  uint16_t dim = 0;
  bool ofResult = false; // written on a result of the function, which the value is returned as
  uint32_t result = 0;   // which
  PartList parts;        // what it puts on the dim
  SourceRange range;     // of the sharding in the text, else of what it is written on
  friend bool operator==(const AnnotationUse& a, const AnnotationUse& b) {
    return a.value == b.value && a.dim == b.dim && a.ofResult == b.ofResult;
  }
};

// Where a pending value comes from: an op that reduces a sharded dim, or an argument that is annotated as pending.
struct PendingOrigin {
  OpId op;       // else invalid
  ValueId value; // the op's pending result, or the argument
};

class Reasons {
public:
  // `m` has been propagated, and `report` is what that left.
  Reasons(const Module& m, const PropagationReport& report);

  // What propagate's own reshards reshard: its shardings were found for that.
  [[nodiscard]] ValueId source(ValueId) const;
  // The value that bears the name which people gave: that stands at the reshard where one was put behind the value.
  [[nodiscard]] ValueId shown(ValueId) const;
  // As printValueName and lineColumn, for many.
  [[nodiscard]] std::string name(ValueId v) const { return names_(v); }
  [[nodiscard]] LineCol at(uint32_t offset) const { return lines_.at(offset); }
  // The reason of a reshard that propagate wrote, or nullptr.
  [[nodiscard]] const ReshardReason* reshard(OpId) const;
  // Why dim `dim` of the value is cut, back to an annotation; empty where it is whole. At most 64 steps.
  [[nodiscard]] std::vector<ReasonStep> chain(ValueId, uint16_t dim) const;
  // Where what `v` is pending along `axes` (all where empty) comes from, through all ops, loops and branches that pass pending
  // values on. In the order they are found, each once.
  [[nodiscard]] std::vector<PendingOrigin> pendingOrigins(ValueId v, std::span<const AxisRef> axes) const;
  // Where the annotation stands that a chain ends at; of what it is written on where the text does not have it.
  [[nodiscard]] SourceRange annotationPlace(const ShardingReason&) const;
  // Why there is something to reduce: the chain of the operand dim, of the op that left the value pending, that is sharded.
  [[nodiscard]] std::vector<ReasonStep> pendingChain(const ReshardReason&) const;
  // Every annotation that has a part in the change of sharding, in the order of the text.
  [[nodiscard]] std::vector<AnnotationUse> annotations(const ReshardReason&) const;
  // Every annotation because of which an axis of `axes` (all where empty) cuts one of the op's tensors.
  [[nodiscard]] std::vector<AnnotationUse> annotations(OpId, std::span<const AxisRef> axes) const;

private:
  using Uses = std::vector<AnnotationUse>;
  [[nodiscard]] uint32_t variable(ValueId) const;
  [[nodiscard]] const ShardingReason* last(ValueId, uint16_t dim, const ShardingReason* before) const;
  [[nodiscard]] uint16_t sourceDim(const ShardingReason&) const;
  [[nodiscard]] std::vector<ValueId> readFor(ValueId) const;
  [[nodiscard]] AnnotationUse annotation(const ShardingReason&) const;
  void addOrigin(const PendingOrigin&, std::span<const AxisRef> axes, Uses&) const;
  void addEnd(const std::vector<ReasonStep>&, Uses&) const;
  void addTensor(ValueId, std::span<const AxisRef> axes, Uses&) const;
  void addOp(OpId, std::span<const AxisRef> axes, Uses&) const;

  const Module& m_;
  const PropagationReport& report_;
  ValueNames names_;
  LineTable lines_;
  std::unordered_map<OpId, const ReshardReason*> reshards_;
  std::unordered_map<ValueId, OpId> behind_; // by value: the first reshard that propagate put behind it
};

// The sharding that is written on what is named at `name` (an argument, a result, an op's result): "@pod{dp, _}". Where
// none stands there, `name` itself.
[[nodiscard]] SourceRange shardingRange(const SourceText&, SourceRange name);

} // namespace dtc
