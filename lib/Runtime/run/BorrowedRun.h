#pragma once
// Runs a program on tensors of the caller. The buffer of an argument that a run keeps, or of a result, is used in
// the caller's memory if the tensor is laid out like it and the backend's steps can be rebound. Any other tensor is
// copied.
#include "backend/PointerSlots.h"
#include "run/Transfer.h"
#include <deque>

namespace dtc {

class BorrowedRun {
public:
  // Of a loaded program, whose steps are all placed. `kept`: by argument.
  BorrowedRun(const Module& m, Program& program, Backend& backend, const std::vector<bool>& kept);

  [[nodiscard]] const std::vector<TransferPlan>& arguments() const { return arguments_; }
  [[nodiscard]] const std::vector<TransferPlan>& results() const { return results_; }
  // Later runs that skip the argument use this memory, a whole tensor in row-major order that nothing writes, until one
  // keeps another. False: it would have to be copied, so nothing changes.
  [[nodiscard]] bool lend(size_t argument, const std::byte* tensor);
  [[nodiscard]] bool lends(size_t argument) const { return !lent_[argument].empty(); }
  // Before an argument is set by other means.
  void beforeSet(size_t argument);
  // See Executable::keepArgument.
  [[nodiscard]] Status keep(size_t argument);
  // Error (Usage): a wrong number of tensors, or as fits(); nothing has changed.
  [[nodiscard]] Status check(const Borrowing& tensors) const;
  // Before a run, after check(): binds or copies the arguments, and binds results. Error: as copyShard.
  [[nodiscard]] Status begin(const Borrowing& tensors);
  // After it: copies the results that are not bound.
  [[nodiscard]] Status end(const Borrowing& tensors);
  // Whether a frozen argument has changed, or may have, since frozenIsComputed().
  [[nodiscard]] bool frozenChanged() const { return frozenChanged_; }
  // Around the computation of frozen results: between runs that keep all frozen arguments, calls read packed copies of
  // the results, too.
  void releaseFrozen();
  [[nodiscard]] Status frozenIsComputed();
  // Between tensors and buffers, in the last run.
  [[nodiscard]] int64_t copiedBytes() const { return copied_; }

private:
  // A buffer that can be bound to memory of the caller.
  struct Range {
    int64_t coordinate = 0;
    size_t movable = 0; // index into Program::movable[coordinate]
    std::byte* own = nullptr;
    bool kept = false; // see RebindBackend::keep
  };
  static constexpr uint32_t kNone = ~0u;
  using RangeNumbers = std::vector<std::vector<uint32_t>>; // by argument or result, and device; kNone: none

  struct Candidate {
    int64_t offset = 0, bytes = 0;
    uint32_t* number = nullptr;
  };
  [[nodiscard]] std::vector<Candidate> candidates(const Module& m, int64_t coordinate,
                                                  const std::vector<bool>& kept);
  void addFrozen(const Module& m, int64_t coordinate, std::vector<Candidate>& found);
  [[nodiscard]] bool canMove(const Module& m, size_t result, int64_t coordinate) const;
  bool bind(uint32_t range, std::byte* to); // whether the memory changed
  [[nodiscard]] Status keepRange(uint32_t range, bool changed);
  void releaseRange(uint32_t range);
  void bindResults(const Borrowing& tensors);
  [[nodiscard]] Status setArgument(size_t i, std::span<const BorrowedTensor> tensors, bool shards);
  [[nodiscard]] Status copy(const TransferPlan&, size_t device, const BorrowedTensor&, bool whole,
                            bool toBuffer);

  Program& program_;
  Backend& backend_;
  std::vector<TransferPlan> arguments_, results_;
  RangeNumbers argumentRanges_, resultRanges_;
  std::vector<Range> ranges_;
  std::vector<std::vector<std::byte*>> lent_; // by argument; empty, or by device
  int64_t copied_ = 0;
  std::vector<bool> frozen_;           // by argument
  std::deque<uint32_t> frozenResults_; // their ranges
  bool frozenChanged_ = true;
  std::optional<PointerSlots> rendezvous_; // the operands and results of collectives
};

} // namespace dtc
