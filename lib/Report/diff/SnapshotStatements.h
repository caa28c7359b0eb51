#pragma once
// The statements of a module as data.
#include "dtc/IR/text/TextNames.h"
#include "dtc/Passes/propagate/Propagate.h"
#include "dtc/Passes/propagate/Reasons.h"
#include "dtc/Report/diff/ProgramSnapshot.h"
#include "dtc/Support/Lines.h"

#include <optional>

namespace dtc {

// Reads the statements of all functions, those of regions too. Reshards that propagate inserted are left out:
// their results count as the values that they reshard.
class StatementReader {
public:
  // Of the text.
  StatementReader(const Module& m, FuncId entry) : StatementReader(m, entry, nullptr, nullptr) {}
  // `prepared`: the input of propagate, whose annotations are read; `report`: of the propagation that made `m`.
  StatementReader(const Module& m, FuncId entry, const Module* prepared, const PropagationReport* report);

  [[nodiscard]] std::vector<SnapshotStatement> run();
  // By the offset of an op's name, an argument or a result in the text: its statement.
  [[nodiscard]] const std::unordered_map<uint32_t, int32_t>& places() const { return places_; }
  // The statements of ops of `m`: for a reshard the value's, the producer's and the consumer's.
  [[nodiscard]] std::vector<int32_t> statementsOf(std::span<const OpId>) const;

private:
  void function(FuncId);
  void block(BlockId);
  void op(OpId);
  void results(FuncId);
  void reasons();
  SnapshotStatement& add(std::span<const ValueId> values);
  [[nodiscard]] int32_t of(ValueId v) const { return v.index < of_.size() ? of_[v.index] : -1; }
  [[nodiscard]] std::string annotation(ShardingId, ValueId) const;
  void readOperands(OpId, SnapshotStatement&) const;
  void carried(OpId loop, uint32_t region);
  void carriedOut(OpId loop);
  void place(SourceRange, SourceRange value);

  const Module& m_;
  const Module* prepared_;
  const PropagationReport* report_;
  std::optional<Reasons> shown_;
  TextNames names_;
  LineTable lines_;
  std::unordered_map<OpId, const ReshardReason*> reshards_;
  std::vector<int32_t> of_;                      // by value: its statement, or -1
  std::unordered_map<OpId, int32_t> statements_; // by op
  FuncId entry_;
  std::string function_;   // that is being read; "" for the entry
  int32_t within_ = -1;    // the loop or branch that is being read
  int64_t executions_ = 1; // of the loops around it; one of unknown length counts once
  std::unordered_map<uint32_t, int32_t> places_;
  std::vector<uint32_t> offsets_, valueOffsets_; // by statement
  std::vector<SnapshotStatement> out_;

public:
  // By statement: its place in the text.
  [[nodiscard]] const std::vector<uint32_t>& offsets() const { return offsets_; }
  // The place of its value: of what is inlined at the bounds of a function, that of the argument or result.
  [[nodiscard]] const std::vector<uint32_t>& valueOffsets() const { return valueOffsets_; }
};

} // namespace dtc
