#pragma once
// Brings the results of a run to where they are printed, checked and written.
#include "Job.h"
#include "RunResults.h"

#include "dtc/Runtime/run/Executable.h"

namespace dtc {

class ResultCollection {
public:
  // `job`: null for one process. `results` and `outputs` outlive this object.
  ResultCollection(RunResults& results, const std::vector<std::string>& outputs, Job* job)
      : results_(results), outputs_(outputs), job_(job) {}
  // After the last run, on all processes: brings what process 0 needs whole to it, such as what is printed; or all
  // results with their replicas.
  [[nodiscard]] Status gather(Executable&, const std::vector<const RunResult*>& needed, bool all);
  // Sets the values that process 0 has and counts what is not finite, and writes the files of --output.
  [[nodiscard]] Status collect(const Module&, FuncId, Executable&);

private:
  [[nodiscard]] bool leads() const { return !job_ || job_->speaks(); }
  [[nodiscard]] bool inPieces(size_t i) const { return !whole_[i] || divided_; }
  [[nodiscard]] Result<std::vector<PiecedTensor>> pieces(const Module&, FuncId, Executable&);
  [[nodiscard]] Status addCounts(const std::vector<PiecedTensor>&);

  RunResults& results_;
  const std::vector<std::string>& outputs_;
  Job* job_;
  std::vector<bool> whole_; // by result: process 0 needs it whole
  bool divided_ = false;    // all processes write the files together
};

} // namespace dtc
