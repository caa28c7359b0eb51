#pragma once
// Residuals: the forward values that the backward pass of a block needs.
#include "autodiff/GradientSweep.h"

namespace dtc {

// The values of a forward block that a backward block reads, of two kinds: residuals that the forward pass
// stores, and values that are recomputed from these and from outer values (indices, slices of outer values,
// broadcasts: data-movement ops without arithmetic).
class Residuals {
public:
  Residuals(Module& m, BlockId forward) : m_(m), forward_(forward) {}

  // `known`: an argument of the forward block that the backward pass has otherwise, or invalid. Fills kept().
  // Reads of results in `replaced` become reads of the new ops': of a `recompute`, the old op is now in the
  // backward block.
  void collect(std::span<const OpId> ops, std::span<ValueId> yields, ValueId known, const ValueMap& replaced);
  [[nodiscard]] const std::vector<ValueId>& kept() const { return kept_; }

  // Maps each kept value, and `known`, to its copy in the backward block.
  void provide(ValueId v, ValueId there) { there_.set(v, there); }
  // Replaces the values by these copies; puts the recomputing ops, and those in `b`, at the front of `ops`.
  void substitute(Builder& b, std::vector<OpId>& ops, std::vector<ValueId>& yields);

private:
  [[nodiscard]] bool owned(ValueId v) const;
  [[nodiscard]] bool isDataMovement(OpId o) const;
  [[nodiscard]] bool grows(OpId o) const;
  void findFree(ValueId known);
  void need(ValueId v);
  void remakeViews();

  Module& m_;
  BlockId forward_;
  std::unordered_map<ValueId, bool> free_; // computed from values visible in the backward block alone
  std::unordered_map<ValueId, bool> seen_; // needed; true: recomputed
  std::unordered_map<OpId, size_t> positions_;
  std::vector<ValueId> kept_, again_;
  ValueMap there_;
};

} // namespace dtc
