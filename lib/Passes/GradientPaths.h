#pragma once
// Which values of a forward program get cotangents. Private to lib/Passes.
#include "dtc/IR/OpRecord.h"

namespace dtc {

// What depends on the values that a gradient is asked for, and what the loss depends on: a value gets a cotangent where it is
// both. One graph of floats over all blocks, in which what a loop carries is an edge like others, so that each question is one
// search, linear in the program. No edge leads through integers, bools, or operands whose gradient is zero.
class GradientPaths {
public:
  // Values with ids below `first` are not of the program.
  GradientPaths(const Module& m, uint32_t first) : m_(m), first_(first) {}
  void addOps(std::span<const OpId> ops); // with the blocks inside
  void solve(std::span<const ValueId> from, ValueId to);

  [[nodiscard]] bool operator()(ValueId v) const {
    return v.index >= first_ && v.index - first_ < onPath_.size() && onPath_[v.index - first_];
  }

private:
  using Edge = std::pair<uint32_t, uint32_t>;
  [[nodiscard]] bool carries(ValueId v) const;
  void edge(ValueId from, ValueId to);
  void plain(OpId);
  void regions(OpId);
  [[nodiscard]] uint32_t
      zeroOperands(OpKind); // a bit for each operand whose gradient the record says is none
  [[nodiscard]] std::vector<bool> reached(std::span<const ValueId> from, bool backwards) const;

  const Module& m_;
  uint32_t first_;
  std::vector<Edge> edges_;
  std::unordered_map<OpKind, uint32_t> zero_;
  std::vector<bool> onPath_;
};

} // namespace dtc
