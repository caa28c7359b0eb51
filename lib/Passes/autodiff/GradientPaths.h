#pragma once
// Activity analysis: which values of a forward program get cotangents.

namespace dtc {

// A value gets a cotangent if it depends on the differentiated values and the loss depends on it. One graph
// of float values over all blocks, in which carried values are ordinary edges, so that each question is one
// search, linear in the program. Integers, bools, and operands with zero gradients have no edges.
class GradientPaths {
public:
  // Values with ids below `first` are outside the program.
  GradientPaths(const Module& m, uint32_t first) : m_(m), first_(first) {}
  void addOps(std::span<const OpId> ops); // including nested blocks
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
      zeroOperands(OpKind); // a bit for each operand whose gradient is `none` in the record
  [[nodiscard]] std::vector<bool> reached(std::span<const ValueId> from, bool backwards) const;

  const Module& m_;
  uint32_t first_;
  std::vector<Edge> edges_;
  std::unordered_map<OpKind, uint32_t> zero_;
  std::vector<bool> onPath_;
};

} // namespace dtc
