#pragma once
// Explains one value's sharding or one reshard from propagate's reasons: the chain back to an annotation, and
// the annotations' locations in the text.
#include "dtc/IR/text/TextNames.h"
#include "dtc/Passes/propagate/Propagate.h"
#include "dtc/Support/Lines.h"

namespace dtc {

// One step of a chain: dim `dim` of `reason->value` is sharded so because of the next step.
struct ReasonStep {
  const ShardingReason* reason = nullptr;
  uint16_t dim = 0;
};

// A user's annotation that decided something.
struct AnnotationUse {
  ValueId value; // in the propagated program
  uint16_t dim = 0;
  bool ofResult = false; // written on the result of the function that returns the value
  uint32_t result = 0;   // its index
  PartList parts;        // the parts that it adds to the dim
  SourceRange range;     // of the sharding in the text, otherwise of the annotated value
  friend bool operator==(const AnnotationUse& a, const AnnotationUse& b) {
    return a.value == b.value && a.dim == b.dim && a.ofResult == b.ofResult;
  }
};

// The origin of a pending value: an op that reduces a sharded dim, or an argument that is annotated as
// pending.
struct PendingOrigin {
  OpId op;       // or invalid
  ValueId value; // the op's pending result, or the argument
};

class Reasons {
public:
  // `m` is propagated, and `report` is the report of that run.
  Reasons(const Module& m, const PropagationReport& report);

  // The original of a value that propagate's reshards produce: the value for which shardings were found.
  [[nodiscard]] ValueId source(ValueId) const;
  // The value that has the user's name: the reshard's result, if one was inserted after the value.
  [[nodiscard]] ValueId shown(ValueId) const;
  // The name in the text (TextNames), as words of a report and as a name to look up.
  [[nodiscard]] std::string name(ValueId v) const { return names_.shown(v); }
  [[nodiscard]] std::string lookupName(ValueId v) const { return names_(v); }
  [[nodiscard]] bool isGenerated(ValueId v) const { return names_.isGenerated(v); }
  // placeText with its column, cached for many calls.
  [[nodiscard]] std::string place(SourceRange r) const { return lines_.text(r, true); }
  [[nodiscard]] uint32_t line(SourceRange r) const { return r.valid() ? lines_.at(r.begin).at.line : 0; }
  // The reason of a reshard inserted by propagate, or nullptr.
  [[nodiscard]] const ReshardReason* reshard(OpId) const;
  // Why dim `dim` of the value is sharded (along `axis`, if given), back to an annotation; empty if unsharded.
  // At most 64 steps.
  [[nodiscard]] std::vector<ReasonStep> chain(ValueId, uint16_t dim, const AxisRef* axis = nullptr) const;
  // The origins of the pending axes `axes` (all if empty) of `v`, through all ops, loops and branches that
  // pass pending values. In the order of discovery, each once.
  [[nodiscard]] std::vector<PendingOrigin> pendingOrigins(ValueId v, std::span<const AxisRef> axes) const;
  // The location of the annotation that ends a chain; of the annotated value if the text does not have it.
  [[nodiscard]] SourceRange annotationLocation(const ShardingReason&) const;
  // Why there is something to reduce along `axis`: the chain of the sharded operand dim of the op that left
  // the value pending.
  [[nodiscard]] std::vector<ReasonStep> pendingChain(const ReshardReason&, const AxisRef& axis) const;
  // Every annotation involved in the reshard, in the order of the text.
  [[nodiscard]] std::vector<AnnotationUse> annotations(const ReshardReason&) const;
  // Every annotation because of which an axis of `axes` (all if empty) shards one of the op's tensors.
  [[nodiscard]] std::vector<AnnotationUse> annotations(OpId, std::span<const AxisRef> axes) const;
  // Every annotation along an axis of `axes` of what flows into the op through tensors that are sharded along it:
  // without one of them, the others shard the op's operands. At most `limit`; empty if there are more.
  [[nodiscard]] std::vector<AnnotationUse> reaching(OpId, std::span<const AxisRef> axes, size_t limit) const;

private:
  using Uses = std::vector<AnnotationUse>;
  [[nodiscard]] uint32_t variable(ValueId) const;
  [[nodiscard]] bool shardsAlong(const ShardingReason&, const AxisRef* axis) const;
  [[nodiscard]] const ShardingReason* last(ValueId, uint16_t dim, const AxisRef* axis,
                                           const ShardingReason* before) const;
  [[nodiscard]] uint16_t sourceDim(const ShardingReason&, const AxisRef* axis) const;
  [[nodiscard]] std::vector<ValueId> readFor(ValueId) const;
  [[nodiscard]] AnnotationUse annotation(const ShardingReason&) const;
  void addOrigin(const PendingOrigin&, std::span<const AxisRef> axes, Uses&) const;
  void addEnd(const std::vector<ReasonStep>&, Uses&) const;
  void addTensor(ValueId, std::span<const AxisRef> axes, Uses&) const;
  void addOp(OpId, std::span<const AxisRef> axes, Uses&) const;

  const Module& m_;
  const PropagationReport& report_;
  TextNames names_;
  LineTable lines_;
  std::unordered_map<OpId, const ReshardReason*> reshards_;
  std::unordered_map<ValueId, OpId>
      reshardOf_; // by value: the first reshard that propagate inserted after it
};

// The annotated sharding of the value named at `name` (an argument, a result, an op's result): "@pod{dp, _}".
// If there is none, `name` itself.
[[nodiscard]] SourceRange shardingRange(const SourceText&, SourceRange name);

} // namespace dtc
