#pragma once
// The processes of a run as writers of files.
#include "dtc/Files/TensorPieces.h"
#include "dtc/Runtime/comm/Processes.h"

namespace dtc {

// In rounds of the background: a thread of each process, or all of them after a run.
class ProcessWriters final : public WriterGroup {
public:
  // `what` they write, for reports: "a checkpoint".
  ProcessWriters(Processes& processes, const std::string& what)
      : processes_(processes), where_("the writing of " + what) {}
  [[nodiscard]] int rank() const override { return processes_.rank(); }
  [[nodiscard]] int size() const override { return processes_.size(); }
  [[nodiscard]] Result<std::vector<std::string>> round(const Result<std::string>& mine) override {
    return processes_.backgroundRound(mine, where_);
  }

private:
  Processes& processes_;
  std::string where_;
};

} // namespace dtc
