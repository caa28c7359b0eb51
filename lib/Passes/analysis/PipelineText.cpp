#include "dtc/Passes/analysis/PipelineText.h"

#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/Collectives.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

namespace dtc {
namespace {

class PipelineReader {
public:
  PipelineReader(Module& m, FuncId entry)
      : m_(m), entry_(entry), mesh_(meshValueOf(m, entry)), stage_(m.strings.find("stage")),
        phase_(m.strings.find("phase")), microbatch_(m.strings.find("microbatch")) {}

  std::optional<PipelineRun> read() {
    if (!microbatch_.valid() || !stage_.valid() || !phase_.valid()) return std::nullopt;
    const std::vector<FuncId> functions = functionsOfProgram(m_, entry_);
    if (functions.size() < 2) return std::nullopt;
    for (FuncId f : functions) {
      run_.order.emplace_back();
      for (OpId o : m_[m_[f].body].ops) op(o);
    }
    run_.shape.devices = static_cast<int>(functions.size());
    const int stages = 1 + (stages_.empty() ? -1 : *stages_.rbegin());
    if (stages < run_.shape.devices || stages % run_.shape.devices != 0) return std::nullopt;
    run_.shape.chunks = stages / run_.shape.devices;
    if (!isComplete()) return std::nullopt;
    setSeconds();
    if (!setPipelineTimes(run_.shape, run_.order)) return std::nullopt;
    const StrId key = m_.strings.find("pipeline");
    if (const AttrId written = key.valid() ? findAttr(m_[entry_].attrs, key) : AttrId(); written.valid())
      run_.schedule = m_.strings[m_.attrs[written].text];
    run_.bubble = bubbleOf(run_.order);
    if (const auto schedule = pipelineScheduleOf(run_.schedule))
      run_.closedForm = closedFormBubble(*schedule, run_.shape);
    return std::move(run_);
  }

private:
  using Key = std::tuple<PipelinePhase, int, int>;

  std::optional<int64_t> mark(OpId o, StrId key) const {
    const AttrId written = findAttr(m_[o].attrs, key);
    return written.valid() ? std::optional(m_.attrs[written].i) : std::nullopt;
  }

  void op(OpId o) {
    if (m_.record(o).collective == CollectiveKind::P2p) return message(o);
    const auto stage = mark(o, stage_), microbatch = mark(o, microbatch_);
    const AttrId written = findAttr(m_[o].attrs, phase_);
    if (!stage || !microbatch || !written.valid()) return;
    const auto phase = parsePhase(m_.strings[m_.attrs[written].text]).value_or(PipelinePhase::Weights);
    const Key key{phase, static_cast<int>(*stage), static_cast<int>(*microbatch)};
    const auto [at, isNew] = seconds_.try_emplace(key, 0);
    at->second += nominalSeconds(m_, o, mesh_);
    if (!isNew) return;
    run_.order.back().push_back({phase, std::get<1>(key), std::get<2>(key)});
    stages_.insert(std::get<1>(key));
    run_.shape.microbatches = std::max(run_.shape.microbatches, std::get<2>(key) + 1);
    run_.shape.hasBackward = run_.shape.hasBackward || phase != PipelinePhase::Forward;
    run_.shape.splitsWeights = run_.shape.splitsWeights || phase == PipelinePhase::Weights;
  }

  // Each is in the functions of its sender and of its receivers: counted where it is sent.
  void message(OpId o) {
    if (m_.record(o).async == AsyncForm::Done) return;
    const std::vector<AxisRef> axes = collectiveAxes(m_, o);
    const int64_t groups = mesh_.numDevices() / std::max<int64_t>(mesh_.sizeOf(axes), 1);
    bool sends = false;
    for (const P2pSend& s : sendsOf(m_, o)) {
      if (s.from != std::ssize(run_.order) - 1) continue;
      sends = true;
      if (s.operand < m_[o].numOperands)
        run_.bytes += groups * largestBytes(m_, m_[m_.operand(o, s.operand)].type, mesh_).value_or(0);
    }
    run_.messages += sends ? groups : 0;
  }

  // Each stage computes each micro-batch, on the device that has it.
  bool isComplete() const {
    for (size_t d = 0; d < run_.order.size(); ++d)
      for (const PipelineAction& a : run_.order[d])
        if (a.stage % run_.shape.devices != static_cast<int>(d)) return false;
    for (int v = 0; v < run_.shape.stages(); ++v)
      for (int i = 0; i < run_.shape.microbatches; ++i)
        if (!seconds_.contains({PipelinePhase::Forward, v, i})) return false;
    return true;
  }

  void setSeconds() {
    run_.shape.hasBackward = std::ranges::any_of(
        seconds_, [](const auto& s) { return std::get<0>(s.first) != PipelinePhase::Forward; });
    for (auto& seconds : run_.shape.seconds) seconds.assign(static_cast<size_t>(run_.shape.stages()), 0);
    for (const auto& [key, seconds] : seconds_)
      run_.shape.seconds[static_cast<size_t>(std::get<0>(key))][static_cast<size_t>(std::get<1>(key))] +=
          seconds / run_.shape.microbatches;
  }

  Module& m_;
  FuncId entry_;
  Mesh mesh_;
  StrId stage_, phase_, microbatch_;
  PipelineRun run_;
  std::map<Key, double> seconds_;
  std::set<int> stages_;
};

} // namespace

bool hasStages(const Module& m, FuncId entry) {
  const StrId stage = m.strings.find("stage"), axis = m.strings.find("pp");
  if (!stage.valid() || !axis.valid()) return false;
  const Mesh mesh = meshValueOf(m, entry);
  const int index = mesh.axisIndex(axis);
  if (index < 0 || mesh.axes[static_cast<size_t>(index)].size < 2) return false;
  bool marked = false;
  for (FuncId f : m.order)
    forEachOp(m, m[f].body, [&](OpId o) {
      const AttrId mark = findAttr(m[o].attrs, stage);
      marked = marked || (mark.valid() && m.attrs[mark].i != 0);
    });
  return marked;
}

bool isPipeline(const Module& m, FuncId entry) {
  const StrId key = m.strings.find("pipeline");
  return key.valid() && findAttr(m[entry].attrs, key).valid();
}

std::optional<PipelineRun> readPipeline(Module& m, FuncId entry) { return PipelineReader(m, entry).read(); }

static std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", share * 100);
  return text;
}

std::string pipelineTitle(const PipelineRun& run) {
  std::string title = "pipeline";
  if (!run.schedule.empty()) title += " " + run.schedule;
  title += ": " + std::to_string(run.shape.devices) + " devices along pp";
  if (run.shape.chunks > 1) title += " of " + std::to_string(run.shape.chunks) + " stages each";
  title += ", " + std::to_string(run.shape.microbatches) +
           (run.shape.microbatches == 1 ? " micro-batch" : " micro-batches") + "; bubble " +
           percent(run.bubble);
  if (run.closedForm) title += " (" + percent(*run.closedForm) + " if stages take equal times)";
  return title;
}

} // namespace dtc
