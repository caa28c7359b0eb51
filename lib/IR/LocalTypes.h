#pragma once
// What every value of local text is along each mesh axis (sharding.md §3): R (the same everywhere, used differently),
// I (the same, one computation), V (varies) or P (pending). Inferred from the arguments' shardings; the types of
// "spmd_types" in PyTorch and of JAX's varying manual axes, found rather than written.
#include "dtc/IR/Varying.h"

namespace dtc {

class LocalTypes {
public:
  LocalTypes(Module&, FuncId);     // of an spmd function
  LocalTypes(Module&, OpId local); // of a `local` region

  // "dp: V, tp: P(sum)", in the order of the mesh; "" where the mesh has no axes.
  [[nodiscard]] std::string text(ValueId) const;
  [[nodiscard]] const Varying& varying() const { return varying_; }

  // Where a value is pending: `axes` of one kind. `declared`: an argument's sharding says so, and nothing may read it but
  // as what it is; elsewhere it was found (a product over a cut dim), and reading it as any varying value is no mistake.
  struct Pending {
    AxisSet axes = 0, declared = 0;
    PendingKind kind = PendingKind::None;
  };
  [[nodiscard]] Pending pending(ValueId) const;

  // An op that reads what is declared pending otherwise than as that.
  struct Lost {
    OpId op;
    ValueId value;
    AxisSet axes;
  };
  [[nodiscard]] const std::vector<Lost>& lost() const { return lost_; }
  // Where a value began to vary (to be pending) along one of `axes`.
  [[nodiscard]] SourceRange origin(ValueId, AxisSet axes, bool asPending) const;

private:
  using Cuts = std::vector<std::vector<AxisRef>>; // by dim
  void argument(ValueId);
  void block(BlockId);
  void op(OpId);
  void regions(OpId);
  void plain(OpId);
  void collective(OpId);
  void cutsOfCollective(OpId);
  void passPending(OpId, std::span<const Pending> operands);
  void setPending(ValueId, const Pending&);
  void lose(OpId, ValueId, AxisSet);
  [[nodiscard]] Pending join(std::span<const ValueId>) const;
  void cutsOf(OpId, const Rule&);
  [[nodiscard]] AxisSet cutSet(const std::vector<AxisRef>&) const;
  void usedDifferently(BlockId);
  bool spread(OpId);

  Module& m_;
  Varying varying_;
  std::unordered_map<ValueId, Pending> pending_;
  std::unordered_map<ValueId, Cuts> cuts_; // of the values whose cuts are known
  std::unordered_map<ValueId, AxisSet>
      different_; // R: along these, some use gives what is not the same everywhere
  std::vector<Lost> lost_;
};

} // namespace dtc
