// pipeline: the stages of a program become the programs of the devices along a mesh axis.
//
// The loop over micro-batches is unrolled, each op gets a stage (the marks of the text, else that of its largest
// operand) and a phase, a schedule orders the parts of micro-batches on each device, and values that cross stages are
// sent by `p2p` as soon as they are computed. Sums over micro-batches keep their order, so that a pipeline computes
// the bits of the loop.
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/Pass.h"
#include "dtc/Passes/analysis/Collectives.h"
#include "stages/StagePrograms.h"

#include <algorithm>
#include <unordered_set>

namespace dtc {
namespace {

constexpr DiagKind kPipelineAxis{"pipeline-axis",
                                 "{0} along '{1}', the axis of the pipeline's stages: use another "
                                 "axis, or --pipeline-schedule none"};
constexpr DiagKind kPipeline{"pipeline", "@{0}: {1}"};

class Stages {
public:
  Stages(Module& m, FuncId f, const PassOptions& options, Diagnostics& diags)
      : m_(m), func_(f), diags_(diags), mesh_(meshValueOf(m, f)),
        schedule_(*pipelineScheduleOf(options.word("schedule", pipelineWordOf(kDefaultPipeline)))),
        axis_(options.word("axis", "pp")), microbatches_(options.integer("microbatches")),
        chunks_(options.integer("chunks").value_or(0)), fixedOrder_(options.word("order", "any") == "fixed") {
  }

  bool run() {
    const int index = mesh_.axisIndex(m_.strings.find(axis_));
    if (index < 0 || mesh_.axes[static_cast<size_t>(index)].size == 1) return true; // not a pipeline
    if (!marksInRange()) return false;
    const int64_t marks = numStageMarks(m_, func_);
    if (marks < 2) return true;
    shape_.devices = static_cast<int>(mesh_.axes[static_cast<size_t>(index)].size);
    if (const std::string why = unfit(marks); !why.empty())
      return diags_.fail(kPipeline, m_[func_].loc, m_.strings[m_[func_].name], why);
    if (!staysWithinStages()) return false;
    StagedFunction staged;
    if (!unrollMicroBatches(m_, func_, !fixedOrder_, staged, diags_)) return false;
    shape_.microbatches = staged.microbatches;
    if (const std::string why = unfitMicroBatches(); !why.empty())
      return diags_.fail(kPipeline, m_[func_].loc, m_.strings[m_[func_].name], why);
    shape_.splitsWeights = schedule_ == PipelineSchedule::ZeroBubble;
    if (!assignStages(m_, staged, mesh_, shape_.stages(), shape_.splitsWeights, diags_)) return false;
    shape_.hasBackward = staged.hasBackward;
    measure(staged);
    const auto order = pipelineOrder(schedule_, shape_);
    m_[func_].attrs.push_back(
        {m_.strings.intern("pipeline"), m_.attrs.string(m_.strings.intern(pipelineWordOf(schedule_)))});
    return writeStagePrograms(m_, func_, staged, order, m_.strings.find(axis_), diags_);
  }

private:
  std::string unfit(int64_t marks) {
    const int devices = shape_.devices;
    const bool interleaves = schedule_ == PipelineSchedule::Interleaved;
    shape_.chunks = interleaves ? static_cast<int>(chunks_ > 0 ? chunks_ : marks / devices) : 1;
    if (!interleaves && chunks_ > 1) return "only the schedule 'interleaved' has several chunks per device";
    if (marks < shape_.stages())
      return "the text has " + std::to_string(marks) + " stages, fewer than the " +
             (shape_.chunks == 1 ? "" : std::to_string(shape_.chunks) + " chunks on each of the ") +
             std::to_string(devices) + " devices along '" + axis_ + "'";
    if (interleaves && shape_.chunks == 1)
      return "the schedule 'interleaved' needs two chunks per device or more: the text has " +
             std::to_string(marks) + " stages for " + std::to_string(devices) + " devices";
    return "";
  }
  bool marksInRange() {
    constexpr int64_t kMostStages = 65536;
    const StrId key = m_.strings.find("stage");
    bool fits = true;
    if (key.valid())
      forEachOp(m_, m_[func_].body, [&](OpId o) {
        const AttrId mark = findAttr(m_[o].attrs, key);
        if (mark.valid() && (m_.attrs[mark].i < 0 || m_.attrs[mark].i >= kMostStages))
          fits = diags_.fail(kPipeline, m_[o].loc, m_.strings[m_[func_].name],
                             "stage = " + std::to_string(m_.attrs[mark].i) + " is not in 0 to " +
                                 std::to_string(kMostStages - 1));
      });
    return fits;
  }

  // Stages are the only use of the axis: values are not sharded along it, and no op communicates along it.
  bool staysWithinStages() {
    const auto uses = [&](const AxisRef& a) { return m_.strings[a.name] == axis_; };
    const auto sharded = [&](ShardingId id) {
      if (!id.valid()) return false;
      const Sharding& s = m_.shardings[id];
      return std::ranges::any_of(s.dims,
                                 [&](const DimSharding& d) { return std::ranges::any_of(d.axes(), uses); }) ||
             std::ranges::any_of(s.pending, [&](const PendingAxis& p) { return uses(p.axis); });
    };
    bool stays = true;
    const auto refuse = [&](SourceRange at, const std::string& what) {
      stays = diags_.fail(kPipelineAxis, at, what, axis_);
    };
    for (const FuncArg& a : m_[func_].args)
      if (sharded(m_[a.value].sharding))
        refuse(m_[a.value].loc, "argument " + printValueName(m_, a.value) + " is sharded");
    for (size_t r = 0; r < m_[func_].results.size(); ++r)
      if (sharded(m_[func_].results[r].sharding))
        refuse(m_[func_].results[r].loc, "result " + std::to_string(r) + " is sharded");
    forEachOp(m_, m_[func_].body, [&](OpId o) {
      if (m_.record(o).isCollective() && std::ranges::any_of(axesOfOp(m_, o), uses))
        refuse(m_[o].loc, "'" + std::string(m_.record(o).name) + "' works");
    });
    return stays;
  }

  std::string unfitMicroBatches() const {
    if (microbatches_ && *microbatches_ != shape_.microbatches)
      return "it has " + std::to_string(shape_.microbatches) + " micro-batches, not " +
             std::to_string(*microbatches_) + ": their loop is part of the text (dtc model --microbatches N)";
    if (schedule_ == PipelineSchedule::Interleaved && shape_.microbatches % shape_.devices != 0)
      return "the schedule 'interleaved' needs a multiple of " + std::to_string(shape_.devices) +
             " micro-batches, one per device, not " + std::to_string(shape_.microbatches);
    return "";
  }

  // The times of the stages' parts, from the first micro-batch. Each is positive, so that all actions have a place.
  void measure(const StagedFunction& staged) {
    constexpr double kLeast = 1e-9;
    for (std::vector<double>& seconds : shape_.seconds)
      seconds.assign(static_cast<size_t>(shape_.stages()), kLeast);
    for (const StagedStep& s : staged.steps)
      if (s.part == StagedStep::Part::Inside && s.microbatch == 0 && s.stage != StagedStep::kAnywhere)
        shape_.seconds[static_cast<size_t>(s.phase)][static_cast<size_t>(s.stage)] +=
            nominalSeconds(m_, s.op, mesh_);
  }

  Module& m_;
  FuncId func_;
  Diagnostics& diags_;
  Mesh mesh_;
  PipelineSchedule schedule_;
  std::string axis_;
  std::optional<int64_t> microbatches_;
  int64_t chunks_;
  bool fixedOrder_;
  PipelineShape shape_;
};

} // namespace

bool pipelinePass(Module& m, const PassOptions& options, Diagnostics& diags) {
  std::unordered_set<StrId> called;
  for (FuncId f : m.order) forEachOp(m, m[f].body, [&](OpId o) { called.insert(m[o].callee); });
  for (FuncId f : std::vector<FuncId>(m.order))
    if (m[f].spmd && m[f].body.valid() && !called.contains(m[f].name) && devicesOf(m, f).empty() &&
        !Stages(m, f, options, diags).run())
      return false;
  return true;
}

} // namespace dtc
