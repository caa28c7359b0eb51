#pragma once
// How the threads of a block, or of the blocks of a cluster, share rows (RowSchedule.h), as text.
#include "print/Text.h"
#include "schedule/RowSchedule.h"

namespace dtc {

class RowThreads {
public:
  // `index`: the type of loop variables.
  RowThreads(const RowNest& row, const RowSchedule& schedule, std::string index)
      : row_(row), s_(schedule), index_(std::move(index)) {}

  // Declares `unit`, the row or group of rows; empty where it is the block's number.
  [[nodiscard]] std::string unit() const;
  // Declares `thread`, the number of a thread among those of its row; empty where a row has one.
  [[nodiscard]] std::string thread() const;
  // The condition that the thread's row exists; empty where all do.
  [[nodiscard]] std::string present() const;
  // Declares `present`, the lanes of the warp whose rows exist; empty where nothing needs it.
  [[nodiscard]] std::string presentLanes() const;
  // Waits for the threads of the row.
  [[nodiscard]] std::string barrier() const;
  // Combines `acc` of the threads of a row. `slot`: the number of the reduction in the kernel, for its shared
  // memory; `blockThreads`: those of a block.
  [[nodiscard]] std::string combined(loops::ReduceKind kind, const std::string& acc, int& slot,
                                     int blockThreads) const;

private:
  [[nodiscard]] bool allExist() const { return row_.fillsBlocks(s_.rows()); }

  const RowNest& row_;
  const RowSchedule& s_;
  std::string index_;
};

} // namespace dtc
