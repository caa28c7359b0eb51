#pragma once
// What the backward pass of a block needs of the forward pass. Private to lib/Passes.
#include "GradientSweep.h"

namespace dtc {

// The values of a forward block that a backward block reads, in two kinds: those that the forward pass has to keep, and those
// that are made again from these and from what is visible anyway (indices, slices of outer values, broadcasts: what moves
// elements and computes nothing).
class Residuals {
public:
  Residuals(Module& m, BlockId forward) : m_(m), forward_(forward) {}

  // `known`: an argument of the forward block that the backward pass has by other means, or invalid. Fills kept().
  void collect(std::span<const OpId> ops, std::span<const ValueId> yields, ValueId known);
  [[nodiscard]] const std::vector<ValueId>& kept() const { return kept_; }

  // Where each kept value, and `known`, can be read in the backward block.
  void provide(ValueId v, ValueId there) { there_.set(v, there); }
  // Puts that in the place of the values; what makes others again, and all that is in `b`, comes first in `ops`.
  void substitute(Builder& b, std::vector<OpId>& ops, std::vector<ValueId>& yields);

private:
  [[nodiscard]] bool owned(ValueId v) const;
  [[nodiscard]] bool movesOnly(OpId o) const;
  [[nodiscard]] bool grows(OpId o) const;
  void findFree(ValueId known);
  void need(ValueId v);
  void remakeViews();

  Module& m_;
  BlockId forward_;
  std::unordered_map<ValueId, bool> free_; // made of nothing but what is visible in the backward block
  std::unordered_map<ValueId, bool> seen_; // needed; true: made again
  std::unordered_map<OpId, size_t> positions_;
  std::vector<ValueId> kept_, again_;
  ValueMap there_;
};

} // namespace dtc
