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
  // `ofShardings`: a change of shardings, or of which collectives there are, follows from a size only if nothing else is
  // a cause.
  [[nodiscard]] int causeOf(std::span<const size_t> nodes, bool ofShardings = false) const;

  // The statements of the text that compiled ones were made from: indices of ProgramDiff::statements.
  [[nodiscard]] DiffRowsOf writtenOf(std::span<const size_t> nodes) const;

private:
  [[nodiscard]] CompiledNames compiledNames() const;
  void statements(ProgramDiff&);
  void compiledFacts(ProgramDiff&) const;
  void seed();
  [[nodiscard]] bool isRequired(int cause) const;
  [[nodiscard]] int roundOf(int cause, bool ofShardings) const;
  void spread();
  [[nodiscard]] std::vector<int> spread(const std::vector<std::vector<size_t>>& followers,
                                        bool ofShardings) const;
  void shardings(ProgramDiff&) const;
  [[nodiscard]] bool isResharded(size_t node) const;
  [[nodiscard]] bool affected(size_t node) const;
  [[nodiscard]] bool isRepeated(size_t node) const;
  [[nodiscard]] std::vector<size_t> sourcesOf(size_t node) const;
  [[nodiscard]] int onlyCause() const;
  [[nodiscard]] int causeOfOrigin(size_t node) const;

  const ProgramSnapshot& a_;
  const ProgramSnapshot& b_;
  ShardingEquality equal_;
  MatchedStatements written_, compiled_;
  Causes causes_;
  std::vector<size_t> row_;                // by node of written_: its index among ProgramDiff::statements
  std::vector<int> own_;                   // by node of compiled_: the change of its statement itself
  std::vector<int> cause_, shardingCause_; // by node: that it follows from; that its sharding does
  std::vector<std::vector<size_t>> users_; // by node: those that it is an operand of
  std::vector<int> originCause_;           // by node of written_: the cause of what was compiled from it
};

} // namespace dtc
