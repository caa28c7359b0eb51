#pragma once
// The type of every value of local text along each mesh axis (sharding.md): R (equal on all devices, used
// differently), I (equal, one computation), V (varying) or P (pending). Inferred from the arguments'
// shardings. Corresponds to "spmd_types" in PyTorch and to JAX's varying manual axes, but inferred instead of
// annotated.
#include "dtc/IR/infer/Varying.h"

namespace dtc {

class LocalTypes {
public:
  LocalTypes(Module&, FuncId);     // of an spmd function
  LocalTypes(Module&, OpId local); // of a `local` region

  // "dp: V, tp: P(sum)", in the order of the mesh; "" where the mesh has no axes.
  [[nodiscard]] std::string text(ValueId) const;
  [[nodiscard]] const Varying& varying() const { return varying_; }

  // The axes along which a value is pending, all of one kind. `declared`: stated by an argument's sharding,
  // so that the value may be read only as pending. Otherwise it was inferred (a contraction over a sharded
  // dim), and it may be read as any varying value.
  struct Pending {
    AxisSet axes = 0, declared = 0;
    PendingKind kind = PendingKind::None;
  };
  [[nodiscard]] Pending pending(ValueId) const;

  // An op that reads a declared pending value as something else.
  struct Lost {
    OpId op;
    ValueId value;
    AxisSet axes;
  };
  [[nodiscard]] const std::vector<Lost>& lost() const { return lost_; }
  // The op at which a value became varying (pending) along one of `axes`.
  [[nodiscard]] SourceRange origin(ValueId, AxisSet axes, bool asPending) const;

private:
  using ShardAxes = std::vector<std::vector<AxisRef>>; // by dim
  void argument(ValueId);
  void block(BlockId);
  void op(OpId);
  void regions(OpId);
  void plain(OpId);
  void collective(OpId);
  void axesOfCollective(OpId);
  void passPending(OpId, std::span<const Pending> operands);
  void setPending(ValueId, const Pending&);
  void lose(OpId, ValueId, AxisSet);
  [[nodiscard]] Pending join(std::span<const ValueId>) const;
  void shardAxesOf(OpId, const Rule&);
  [[nodiscard]] AxisSet axisSet(const std::vector<AxisRef>&) const;
  void usedDifferently(BlockId);
  bool spread(OpId);

  Module& m_;
  Varying varying_;
  std::unordered_map<ValueId, Pending> pending_;
  std::unordered_map<ValueId, ShardAxes> shardAxes_; // for values whose shardings are known
  // R: the axes along which some use produces a value that differs
  std::unordered_map<ValueId, AxisSet> different_;
  std::vector<Lost> lost_;
};

} // namespace dtc
