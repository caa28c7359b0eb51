#include "CollectResults.h"

#include "dtc/Runtime/comm/ProcessWriters.h"
#include "dtc/Session/ArgumentSizes.h"
#include "dtc/Support/ElementCount.h"

#include <algorithm>
#include <sstream>

namespace dtc {

Status ResultCollection::gather(Executable& executable, const std::vector<const RunResult*>& needed,
                                bool all) {
  whole_.assign(results_.all.size(), !job_ || all);
  if (!job_) return Ok{};
  for (const RunResult* r : needed) whole_[static_cast<size_t>(r - results_.all.data())] = true;
  const auto divides = [&](const std::string& output) { return results_.divides(output); };
  job_->processes().stage("the gathering of results");
  // By the file system of process 0.
  DTC_TRY(const uint8_t undivided,
          job_->processes().combine(leads() && !std::ranges::all_of(outputs_, divides)));
  divided_ = undivided == 0 && !outputs_.empty();
  for (const std::string& output : outputs_)
    for (const size_t i : results_.written(output)) whole_[i] = whole_[i] || !divided_;
  return executable.gatherResults(whole_, all);
}

Status ResultCollection::collect(const Module& m, FuncId f, Executable& executable) {
  std::vector<PiecedTensor> shared(results_.all.size());
  if (job_) {
    DTC_TRY(shared, pieces(m, f, executable));
    if (Status s = addCounts(shared); !s) return s;
  }
  for (size_t i = 0; i < results_.all.size() && leads(); ++i) {
    RunResult& r = results_.all[i];
    if (!whole_[i]) continue;
    DTC_TRY(r.value, executable.result(i));
    r.nonFinite = countNonFinite(r.value);
    r.elements = r.value.numElements();
  }
  if (divided_) {
    ProcessWriters group(job_->processes(), "the results");
    for (const std::string& output : outputs_)
      if (Status s = results_.writeTogether(output, shared, group); !s) return s;
  } else if (leads()) {
    for (const std::string& output : outputs_)
      if (Status s = results_.write(output); !s) return s;
  }
  return Ok{};
}

// Of the results that process 0 does not have, or that all write. Others are empty.
Result<std::vector<PiecedTensor>> ResultCollection::pieces(const Module& m, FuncId f,
                                                           Executable& executable) {
  std::vector<PiecedTensor> out(results_.all.size());
  std::vector<int64_t> written;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!inPieces(i)) continue;
    const Type& type = globalTypeOf(m, m[f].results[i]);
    DTC_TRY(auto own, executable.pieces(i, written));
    out[i] = {results_.all[i].name, type.dtype, type.staticShape(), std::move(own)};
  }
  return out;
}

// Process 0 gets the counts of all.
Status ResultCollection::addCounts(const std::vector<PiecedTensor>& shared) {
  std::string counts;
  for (size_t i = 0; i < shared.size(); ++i) {
    if (!inPieces(i)) continue;
    NonFiniteCount sum;
    for (const TensorPiece& p : shared[i].pieces) {
      if (p.writer != job_->processes().rank()) continue;
      const NonFiniteCount n = countNonFinite(p.value);
      sum.nan += n.nan, sum.infinite += n.infinite;
    }
    results_.all[i].elements = elementCount(shared[i].shape).value_or(0);
    counts += std::to_string(sum.nan) + " " + std::to_string(sum.infinite) + " ";
  }
  DTC_TRY(const auto texts, job_->processes().gather(counts));
  for (const std::string& text : texts) {
    std::istringstream numbers(text);
    for (size_t i = 0; i < shared.size(); ++i) {
      if (!inPieces(i)) continue;
      NonFiniteCount n, &sum = results_.all[i].nonFinite;
      numbers >> n.nan >> n.infinite;
      sum.nan += n.nan, sum.infinite += n.infinite;
    }
  }
  return Ok{};
}

} // namespace dtc
