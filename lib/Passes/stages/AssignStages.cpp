// The stage and the phase of each op.
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "stages/StagedFunction.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace dtc {
namespace {

constexpr DiagKind kStageOfOp{"pipeline-stage", "'{0}' {1}"};

class StageAssigner {
public:
  StageAssigner(Module& m, StagedFunction& f, const Mesh& mesh, int numStages, Diagnostics& diags)
      : m_(m), f_(f), mesh_(mesh), numStages_(numStages), diags_(diags) {}

  bool run(int64_t numMarks) {
    for (size_t i = 0; i < f_.steps.size(); ++i) {
      StagedStep& s = f_.steps[i];
      if (m_.record(s.op).lowering == Lowering::Host)
        return refuse(s.op,
                      "waits for all devices, and the stages of a pipeline never meet: remove it, or use "
                      "--pipeline-schedule none");
      const std::optional<int64_t> mark = stageMarkOf(m_, s.op);
      if (mark && *mark < 0)
        return refuse(s.op, "contains ops of several stages: mark them with one, or move the op out of them");
      if (isConstant(s.op)) // such as positions: cheaper to compute than to send
        for (uint32_t r = 0; r < m_[s.op].numResults; ++r) constants_.insert(m_.result(s.op, r));
      else
        s.stage = mark ? static_cast<int>(*mark * numStages_ / numMarks) : stageOfOperands(s.op);
      if (s.part == StagedStep::Part::Inside && s.stage != StagedStep::kAnywhere) s.phase = phaseOf(s);
      f_.hasBackward = f_.hasBackward || s.phase == PipelinePhase::Backward;
      for (uint32_t r = 0; r < m_[s.op].numResults; ++r) stepOf_[m_.result(s.op, r)] = i;
    }
    return true;
  }

  // Backward ops that a message to another stage, or an op of another micro-batch's backward part, needs keep their
  // phase; sums of gradients over micro-batches follow the weights.
  void splitWeights() {
    std::vector<bool> sent(f_.steps.size(), false);
    for (size_t i = f_.steps.size(); i-- > 0;) {
      const StagedStep& reader = f_.steps[i];
      forEachRead(m_, reader.op, [&](ValueId v) {
        const StagedStep* s = step(v);
        if (!s || s->part != StagedStep::Part::Inside || s->stage == StagedStep::kAnywhere) return;
        const bool other = reader.stage != s->stage && reader.part == StagedStep::Part::Inside;
        const bool same = sent[i] && reader.microbatch == s->microbatch;
        if (other || same) sent[stepOf_.at(v)] = true;
      });
    }
    for (size_t i = 0; i < f_.steps.size(); ++i)
      if (f_.steps[i].phase == PipelinePhase::Backward && !sent[i])
        f_.steps[i].phase = PipelinePhase::Weights;
  }

private:
  bool refuse(OpId o, const char* why) { return diags_.fail(kStageOfOp, m_[o].loc, m_.record(o).name, why); }
  const StagedStep* step(ValueId v) const {
    const auto at = stepOf_.find(v);
    return at == stepOf_.end() ? nullptr : &f_.steps[at->second];
  }

  // Computed from constants alone.
  bool isConstant(OpId o) const {
    if (m_.record(o).sideEffect || m_.record(o).isCollective() || m_[o].numRegions != 0) return false;
    return std::ranges::all_of(m_.operands(o), [&](ValueId v) {
      return m_[v].kind == ValueKind::Literal || constants_.contains(v);
    });
  }

  int stageOfOperands(OpId o) const {
    int stage = StagedStep::kAnywhere;
    int64_t most = -1;
    forEachRead(m_, o, [&](ValueId v) {
      const StagedStep* s = step(v);
      if (!s || s->stage == StagedStep::kAnywhere) return;
      const int64_t bytes = largestBytes(m_, m_[v].type, mesh_).value_or(0);
      if (bytes > most || (bytes == most && s->stage > stage)) most = bytes, stage = s->stage;
    });
    return stage;
  }

  // Backward: marked so, or computed from a later stage or from another backward op of the micro-batch.
  PipelinePhase phaseOf(const StagedStep& own) const {
    const StrId key = m_.strings.find("phase");
    const AttrId written = key.valid() ? findAttr(m_[own.op].attrs, key) : AttrId();
    bool backward =
        written.valid() && m_.strings[m_.attrs[written].text] != phaseWord(PipelinePhase::Forward);
    forEachRead(m_, own.op, [&](ValueId v) {
      const StagedStep* s = step(v);
      if (!s || s->part != StagedStep::Part::Inside || s->microbatch != own.microbatch) return;
      backward = backward || s->stage > own.stage || s->phase == PipelinePhase::Backward;
    });
    return backward ? PipelinePhase::Backward : PipelinePhase::Forward;
  }

  Module& m_;
  StagedFunction& f_;
  const Mesh& mesh_;
  int numStages_;
  Diagnostics& diags_;
  std::unordered_map<ValueId, size_t> stepOf_;
  std::unordered_set<ValueId> constants_;
};

} // namespace

bool assignStages(Module& m, StagedFunction& f, const Mesh& mesh, int numStages, bool splitWeights,
                  Diagnostics& diags) {
  int64_t numMarks = 0;
  for (const StagedStep& s : f.steps) numMarks = std::max(numMarks, stageMarkOf(m, s.op).value_or(-1) + 1);
  f.stages = numStages;
  StageAssigner assigner(m, f, mesh, numStages, diags);
  if (!assigner.run(numMarks)) return false;
  if (splitWeights) assigner.splitWeights();
  return true;
}

} // namespace dtc
