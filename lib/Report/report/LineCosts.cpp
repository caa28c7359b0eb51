#include "report/LineCosts.h"

#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/Branches.h"
#include "dtc/Passes/analysis/OpWork.h"
#include "dtc/Passes/propagate/Reasons.h"

namespace dtc {

namespace {

class LineCosts {
public:
  LineCosts(CollectiveTrace& t, const SourceIndex& index, std::vector<LineFacts>& lines)
      : m_(t.local), index_(index), lines_(lines) {}

  void add() {
    for (FuncId f : m_.order) {
      if (!m_[f].spmd || !m_[f].body.valid()) continue;
      mesh_ = meshValueOf(m_, f);
      block(m_[f].body, 1);
    }
    for (LineFacts& l : lines_)
      if (l.seconds > 0 || l.commSeconds > 0)
        l.shape +=
            std::to_string(l.flops) + " " + std::to_string(l.bytes) + " " + std::to_string(l.commBytes);
  }

private:
  void block(BlockId b, int64_t executions) {
    const auto times = static_cast<double>(executions);
    for (OpId o : m_[b].ops) {
      const OpRecord& record = m_.record(o);
      const int64_t inside = countedExecutions(m_, o, executions);
      for (BlockId own : countedBlocks(m_, o, mesh_, NominalMachine())) block(own, inside);
      const bool message = record.isCollective() && record.collective != CollectiveKind::AllSlice;
      if (m_[o].numRegions != 0 || message || record.lowering == Lowering::Annotation) continue;
      const int at = index_.at(m_[o].loc);
      const auto work = at >= 0 ? localWork(m_, o, mesh_) : std::nullopt;
      if (!work) continue;
      LineFacts& line = lines_[static_cast<size_t>(at)];
      line.flops += times * work->flops;
      line.bytes += times * work->bytes;
      line.seconds += times * work->seconds(NominalMachine());
    }
  }

  Module& m_;
  const SourceIndex& index_;
  std::vector<LineFacts>& lines_;
  Mesh mesh_;
};

} // namespace

void addLineCosts(CollectiveTrace& t, const SourceIndex& index, std::vector<LineFacts>& lines) {
  LineCosts(t, index, lines).add();
}

} // namespace dtc
