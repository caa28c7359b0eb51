#include "print/RowThreads.h"

namespace dtc {

static std::string text(int n) { return std::to_string(n); }

std::string RowThreads::unit() const {
  const std::string declared = "const " + index_ + " unit = blockIdx.x";
  if (s_.cluster > 1) return declared + " / " + text(s_.cluster) + ";";
  if (s_.rows() == 1) return "";
  return declared + " * " + text(s_.rows()) + " + threadIdx.x / " + text(s_.perRow) + ";";
}

std::string RowThreads::thread() const {
  if (s_.perRow == 1) return "";
  const std::string number = s_.cluster > 1  ? "dtc_cluster_rank() * " + text(s_.threads) + " + threadIdx.x"
                             : s_.rows() > 1 ? "threadIdx.x % " + text(s_.perRow)
                                             : "threadIdx.x";
  return "const i32 thread = " + number + ";";
}

std::string RowThreads::present() const {
  return s_.rows() > 1 && !allExist() ? "unit < " + sizeText(row_.count) : "";
}

std::string RowThreads::presentLanes() const {
  const bool partOfWarp = s_.perRow > 1 && s_.perRow < kWarp;
  if (present().empty() || !partOfWarp) return "";
  return "const u32 present = __ballot_sync(0xffffffffu, " + present() + ");";
}

std::string RowThreads::barrier() const {
  if (s_.cluster > 1) return "dtc_cluster_sync();";
  if (s_.rows() == 1) return "__syncthreads();";
  return allExist() || s_.perRow == kWarp ? "__syncwarp();" : s_.perRow == 1 ? "" : "__syncwarp(present);";
}

std::string RowThreads::combined(loops::ReduceKind kind, const std::string& acc, int& slot,
                                 int blockThreads) const {
  if (s_.perRow == 1) return acc;
  const std::string name = reduceName(kind);
  if (s_.rows() > 1 || (s_.perRow == kWarp && s_.cluster == 1)) {
    const bool all = s_.perRow == kWarp || allExist();
    return "dtc_part_" + name + "<" + text(s_.perRow) + ">(" + acc + (all ? ", 0xffffffffu)" : ", present)");
  }
  return (s_.cluster > 1 ? "dtc_cluster_" : "dtc_row_") + name + "<" + text(slot++) + ", " +
         text(blockThreads) + (s_.cluster > 1 ? ", " + text(s_.cluster) : "") + ">(" + acc + ")";
}

} // namespace dtc
