#pragma once
// What follows from the causes: for the statements of the compiled programs, the cause of each change.
#include "diff/Causes.h"

namespace dtc {

class StatementDiff {
public:
  StatementDiff(const ProgramSnapshot& a, const ProgramSnapshot& b);

  // Fills `causes`, `statements`, `shardings`, `types` and `generated`.
  void run(ProgramDiff&);

  [[nodiscard]] const MatchedStatements& compiled() const { return compiled_; }
  // The cause of a change of something that belongs to these nodes: their own, or one of their operands or users.
  // `ownFirst`: a change of one of the nodes, except for its type, comes before those that it follows from.
  [[nodiscard]] int causeOf(std::span<const size_t> nodes, bool ownFirst = false) const;

  // The statements of the text that compiled ones were made from: indices of ProgramDiff::statements.
  [[nodiscard]] DiffRowsOf writtenOf(std::span<const size_t> nodes) const;

private:
  void statements(ProgramDiff&);
  void compiledFacts(ProgramDiff&) const;
  void seed();
  [[nodiscard]] bool isRequired(int cause) const;
  void spread();
  void shardings(ProgramDiff&) const;
  [[nodiscard]] bool affected(size_t node) const;
  [[nodiscard]] std::vector<size_t> sourcesOf(size_t node) const;
  [[nodiscard]] int onlyCause() const;

  const ProgramSnapshot& a_;
  const ProgramSnapshot& b_;
  ShardingEquality equal_;
  MatchedStatements written_, compiled_;
  Causes causes_;
  std::vector<size_t> row_;                // by node of written_: its index among ProgramDiff::statements
  std::vector<int> cause_;                 // by node of compiled_
  std::vector<bool> own_;                  // by node: its statement itself changed
  std::vector<std::vector<size_t>> users_; // by node: those that it is an operand of
};

} // namespace dtc
