#pragma once
// Matches the statements of two programs, finds the causes of changes, and what follows from each.
#include "dtc/Report/diff/ProgramDiff.h"
#include <set>

namespace dtc {

class StatementDiff {
public:
  StatementDiff(const ProgramSnapshot& a, const ProgramSnapshot& b);

  // Fills `causes`, `shardings`, `types` and `generated`.
  void run(ProgramDiff&);

  // Matched statements are one node, so that nodes compare across the programs.
  [[nodiscard]] size_t nodeA(size_t i) const { return ab_[i] >= 0 ? static_cast<size_t>(ab_[i]) : nB_ + i; }
  [[nodiscard]] size_t nodeB(size_t j) const { return j; }
  [[nodiscard]] size_t numNodes() const { return nB_ + ab_.size(); }
  // The statement of a node, or nullptr.
  [[nodiscard]] const SnapshotStatement* inA(size_t node) const;
  [[nodiscard]] const SnapshotStatement* inB(size_t node) const;
  // The cause of a change of something that belongs to these nodes: their own, or one of their operands.
  [[nodiscard]] int causeOf(std::span<const size_t> nodes) const;

private:
  void match();
  void compare(size_t i, size_t j);
  void compareTypes(size_t i, size_t j, bool attributes, bool operands);
  [[nodiscard]] bool operandsDiffer(size_t i, size_t j, bool& follows) const;
  [[nodiscard]] bool operandTypesDiffer(size_t i, size_t j) const;
  void unmatched(bool inB);
  void addRun(bool inB, std::span<const size_t> run);
  void addCause(DiffCause cause, const std::string& key, const std::string& name,
                std::span<const size_t> nodes);
  void mergeArguments();
  void order(ProgramDiff&);
  void settings();
  void findTrivialAxes();
  [[nodiscard]] bool sameShardings(const std::string& a, const std::string& b) const;
  [[nodiscard]] std::string placeKey(const SnapshotStatement&, bool inB) const;
  void spread();
  void shardings(ProgramDiff&) const;
  [[nodiscard]] bool affected(size_t node) const;
  [[nodiscard]] std::vector<size_t> sourcesOf(size_t node) const;
  [[nodiscard]] int onlyCause() const;

  struct Found {
    DiffCause cause;
    std::vector<std::string> names; // of the equal ones
    std::vector<size_t> nodes;
  };

  const ProgramSnapshot& a_;
  const ProgramSnapshot& b_;
  size_t nB_;
  std::vector<int32_t> ab_, ba_;
  std::vector<Found> found_;
  std::unordered_map<std::string, size_t> byKey_;
  std::unordered_map<std::string, size_t> locationsA_, locationsB_;
  std::set<std::string> trivialAxes_;
  std::vector<int> cause_;                 // by node
  std::vector<std::vector<size_t>> users_; // by node: those that it is an operand of
  size_t types_ = 0, generated_ = 0;
};

// "%blocks_{0..11}_w1" for names that differ in numbers only; otherwise the first of them.
[[nodiscard]] std::string namesText(const std::vector<std::string>& names);

} // namespace dtc
