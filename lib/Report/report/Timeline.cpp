#include "report/Timeline.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/Collectives.h"
#include "dtc/Passes/analysis/MemoryPlan.h"
#include "dtc/Passes/analysis/OpWork.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <unordered_map>

namespace dtc {

namespace {

class TimelineMaker {
public:
  TimelineMaker(Module& m, FuncId f, const NominalMachine& machine)
      : m_(m), machine_(machine), mesh_(meshValueOf(m, f)) {
    out_.streams.emplace_back("compute");
    block(m[f].body, 1);
    out_.seconds = now_;
    for (const TimelineStep& s : out_.steps)
      if (s.kind == TimelineStep::Communicate) out_.seconds = std::max(out_.seconds, s.begin + s.seconds);
  }

  Timeline take() { return std::move(out_); }

private:
  void block(BlockId b, double times) {
    for (OpId o : m_[b].ops) {
      const OpRecord& record = m_.record(o);
      if (isLoadTimeOp(m_, o)) continue;
      if (record.async == AsyncForm::Done)
        wait(m_.operand(o, 0), times);
      else if (hasGroups(record.collective))
        message(o, times, record.async == AsyncForm::Start);
      else if (m_[o].numRegions != 0 && record.regions != RegionKind::Fused)
        regions(o, times);
      else
        compute(o, times);
    }
  }

  size_t streamOf(OpId o) {
    const std::string name =
        joined(collectiveAxes(m_, o), ", ", [&](const AxisRef& a) { return printAxis(a, m_.strings); });
    const auto at = std::ranges::find(out_.streams, name.empty() ? "messages" : name);
    if (at != out_.streams.end()) return static_cast<size_t>(at - out_.streams.begin());
    out_.streams.push_back(name.empty() ? "messages" : name);
    return out_.streams.size() - 1;
  }

  void message(OpId o, double times, bool overlapped) {
    TimelineStep s{TimelineStep::Communicate, o, streamOf(o), now_};
    for (const AxisRef& a : collectiveAxes(m_, o)) s.begin = std::max(s.begin, free_[a.name]);
    const auto price = priceOfCollective(m_, o, mesh_, machine_);
    if (!price) out_.complete = false;
    s.seconds = price ? price->seconds : 0;
    s.bytes = price ? static_cast<double>(price->bytesReceived) : 0;
    s.times = times;
    for (const AxisRef& a : collectiveAxes(m_, o)) free_[a.name] = s.begin + s.seconds;
    out_.steps.push_back(s);
    for (uint32_t r = 0; r < m_[o].numResults; ++r) message_[m_.result(o, r)] = out_.steps.size() - 1;
    if (!overlapped) waitFor(out_.steps.size() - 1, times);
  }

  void wait(ValueId handle, double times) {
    if (auto it = message_.find(handle); it != message_.end()) waitFor(it->second, times);
  }

  void waitFor(size_t step, double times) {
    TimelineStep& s = out_.steps[step];
    const double end = s.begin + s.seconds;
    if (end <= now_) return;
    s.exposed += end - now_;
    out_.exposedSeconds += times * (end - now_);
    now_ = end;
  }

  void compute(OpId o, double times) {
    const auto work = localWork(m_, o, mesh_);
    const bool host = m_.record(o).lowering == Lowering::Host;
    if (!work && !host) out_.complete = false;
    TimelineStep s{host ? TimelineStep::Host : TimelineStep::Compute, o, 0, now_};
    if (work) s.seconds = work->seconds(machine_), s.flops = work->flops, s.bytes = work->bytes;
    s.times = times;
    now_ += s.seconds;
    out_.computeSeconds += times * s.seconds;
    out_.steps.push_back(s);
  }

  // The first iteration of a loop is listed; the rest is one step.
  void regions(OpId o, double times) {
    const auto known = executionsOf(m_, o);
    if (!known) out_.complete = false;
    const auto iterations = static_cast<double>(known.value_or(1));
    const double before = now_;
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) block(m_.region(o, r), boundedProduct(times, iterations));
    if (iterations <= 1) return;
    TimelineStep s{TimelineStep::Repeat, o, 0, now_};
    s.seconds = boundedProduct(iterations - 1, now_ - before);
    s.times = iterations;
    now_ += s.seconds;
    for (auto& [axis, free] : free_) free = std::max(free, now_);
    out_.steps.push_back(s);
  }

  Module& m_;
  const NominalMachine& machine_;
  Mesh mesh_;
  double now_ = 0;
  std::unordered_map<StrId, double> free_;      // by axis
  std::unordered_map<ValueId, size_t> message_; // by result: the step that brings it
  Timeline out_;
};

} // namespace

Timeline timelineOf(Module& m, FuncId f, const NominalMachine& machine) {
  return TimelineMaker(m, f, machine).take();
}

} // namespace dtc
