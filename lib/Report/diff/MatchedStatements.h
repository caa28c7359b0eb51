#pragma once
// The statements of two programs, matched.
#include "dtc/Report/diff/ProgramDiff.h"

namespace dtc {

using Statements = std::vector<SnapshotStatement>;

[[nodiscard]] inline bool isBoundary(const SnapshotStatement& s) {
  return s.op == "argument" || s.op == "result";
}

// Matched statements are one node: that of B. The nodes of statements of A alone follow.
class MatchedStatements {
public:
  MatchedStatements(const Statements& a, const Statements& b);

  const Statements& a;
  const Statements& b;
  [[nodiscard]] size_t nodeA(size_t i) const {
    return ab_[i] >= 0 ? static_cast<size_t>(ab_[i]) : b.size() + i;
  }
  [[nodiscard]] size_t nodeB(size_t j) const { return j; }
  [[nodiscard]] size_t numNodes() const { return a.size() + b.size(); }
  // The statement of a node, or nullptr. Both are nullptr for the unused node of a statement of A.
  [[nodiscard]] const SnapshotStatement* inA(size_t node) const;
  [[nodiscard]] const SnapshotStatement* inB(size_t node) const;

private:
  std::vector<int32_t> ab_, ba_;
};

// Whether the text names the statement, so that its name does not depend on its position.
[[nodiscard]] bool isNamed(const SnapshotStatement&);
// "%blocks_{0..11}_w1" for names that differ in numbers only; of several patterns the first ones.
[[nodiscard]] std::string namesText(const std::vector<std::string>& names);

} // namespace dtc
