#include "dtc/Passes/analysis/PipelineOrder.h"

#include "dtc/Support/Result.h"

#include <algorithm>

namespace dtc {
namespace {

using Actions = std::vector<PipelineAction>;
using enum PipelinePhase;

// The k-th forward or backward part of a device with chunks: runs of one micro-batch per device, chunk by chunk.
PipelineAction chunkAction(const PipelineShape& s, PipelinePhase phase, int device, int k) {
  const int chunk = k / s.devices % s.chunks;
  const int at = phase == Forward ? chunk : s.chunks - 1 - chunk;
  return {phase, at * s.devices + device, k / (s.devices * s.chunks) * s.devices + k % s.devices};
}

// `warmup` forward parts, then one forward and one backward part in turn, then the other backward parts.
Actions alternating(const PipelineShape& s, int device, int warmup) {
  const int all = s.microbatches * s.chunks;
  Actions out;
  const auto add = [&](PipelinePhase phase, int k) {
    out.push_back(s.chunks == 1 ? PipelineAction{phase, device, k} : chunkAction(s, phase, device, k));
  };
  warmup = s.hasBackward ? std::min(warmup, all) : all;
  for (int k = 0; k < warmup; ++k) add(Forward, k);
  for (int k = 0; s.hasBackward && k < all; ++k) {
    if (k + warmup < all) add(Forward, k + warmup);
    add(Backward, k);
  }
  return out;
}

// Times of actions under the order of each device and the dependences between stages.
class Clock {
public:
  explicit Clock(const PipelineShape& s)
      : shape_(s), ends_(3 * static_cast<size_t>(s.stages()) * static_cast<size_t>(s.microbatches), -1),
        free_(static_cast<size_t>(s.devices), 0) {}
  Clock(const PipelineShape& s, const std::vector<Actions>& order) : Clock(s) {
    missing_.assign(ends_.size(), true);
    for (const Actions& actions : order)
      for (const PipelineAction& a : actions) missing_[index(a.phase, a.stage, a.microbatch)] = false;
    for (size_t i = 0; i < ends_.size(); ++i)
      if (missing_[i]) ends_[i] = 0;
  }

  // When the action can begin; nothing while one that it waits for has no time yet.
  [[nodiscard]] std::optional<double> ready(const PipelineAction& a) const {
    double at = free_[static_cast<size_t>(a.stage % shape_.devices)];
    const auto after = [&](PipelinePhase phase, int stage) {
      while (phase == Backward && stage + 1 < shape_.stages() && isMissing(phase, stage, a.microbatch))
        ++stage;
      const double end = ends_[index(phase, stage, a.microbatch)];
      at = end < 0 || at < 0 ? -1 : std::max(at, end);
    };
    if (a.phase == Forward && a.stage > 0) after(Forward, a.stage - 1);
    if (a.phase == Backward) after(Forward, a.stage);
    if (a.phase == Backward && a.stage + 1 < shape_.stages()) after(Backward, a.stage + 1);
    if (a.phase == Weights) after(Backward, a.stage);
    return at < 0 ? std::nullopt : std::optional(at);
  }
  void run(PipelineAction& a, double begin) {
    const std::vector<double>& seconds = shape_.seconds[static_cast<size_t>(a.phase)];
    a.begin = begin;
    a.end = begin + (seconds.empty() ? 0 : seconds[static_cast<size_t>(a.stage)]);
    ends_[index(a.phase, a.stage, a.microbatch)] = a.end;
    free_[static_cast<size_t>(a.stage % shape_.devices)] = a.end;
  }

private:
  [[nodiscard]] size_t index(PipelinePhase phase, int stage, int microbatch) const {
    const auto stages = static_cast<size_t>(shape_.stages()),
               microbatches = static_cast<size_t>(shape_.microbatches);
    return (static_cast<size_t>(phase) * stages + static_cast<size_t>(stage)) * microbatches +
           static_cast<size_t>(microbatch);
  }
  [[nodiscard]] bool isMissing(PipelinePhase phase, int stage, int microbatch) const {
    return !missing_.empty() && missing_[index(phase, stage, microbatch)];
  }
  const PipelineShape& shape_;
  std::vector<double> ends_;  // by phase, stage and micro-batch; -1: not yet
  std::vector<bool> missing_; // actions without ops; empty: none
  std::vector<double> free_;  // by device
};

// Of the actions that can begin first on a device, a forward part, a backward part (in this order, or in the other
// one), or else a weight part. A forward part needs fewer micro-batches between their forward and backward parts than
// in 1F1B, and at most `kept` of which the device keeps activations.
class ZeroBubble {
public:
  ZeroBubble(const PipelineShape& s, bool forwardFirst, int kept)
      : shape_(s), forwardFirst_(forwardFirst), kept_(kept), clock_(s),
        devices_(static_cast<size_t>(s.devices)) {}

  std::vector<Actions> run() {
    for (;;) {
      std::optional<PipelineAction> best;
      for (int d = 0; d < shape_.devices; ++d)
        if (const std::optional<PipelineAction> a = nextOf(d); a && (!best || a->begin < best->begin))
          best = a;
      if (!best) break;
      clock_.run(*best, best->begin);
      Device& device = devices_[static_cast<size_t>(best->stage)];
      ++device.done[static_cast<size_t>(best->phase)];
      device.order.push_back(*best);
    }
    std::vector<Actions> out;
    for (Device& d : devices_) out.push_back(std::move(d.order));
    return out;
  }

private:
  struct Device {
    int done[3] = {0, 0, 0};
    Actions order;
  };
  [[nodiscard]] std::optional<PipelineAction> nextOf(int d) const {
    const Device& device = devices_[static_cast<size_t>(d)];
    const auto [forwards, backwards, weights] = device.done;
    std::optional<PipelineAction> best;
    const auto consider = [&](PipelinePhase phase, int microbatch) {
      PipelineAction a{phase, d, microbatch};
      const std::optional<double> begin = clock_.ready(a);
      if (!begin || (best && *begin >= best->begin)) return;
      a.begin = *begin;
      best = a;
    };
    const int inFlight = shape_.devices - d;
    const bool mayForward =
        forwards < shape_.microbatches && forwards - backwards < inFlight && forwards - weights < kept_;
    if (forwardFirst_ && mayForward) consider(Forward, forwards);
    if (backwards < forwards) consider(Backward, backwards);
    if (!forwardFirst_ && mayForward) consider(Forward, forwards);
    if (weights < backwards) consider(Weights, weights);
    return best;
  }

  const PipelineShape& shape_;
  bool forwardFirst_;
  int kept_;
  Clock clock_;
  std::vector<Device> devices_;
};

double endOf(const std::vector<Actions>& order) {
  double end = 0;
  for (const Actions& actions : order)
    for (const PipelineAction& a : actions) end = std::max(end, a.end);
  return end;
}

// With equal times of the three parts, the first choice is ZB-H1 of Qi et al. 2023. With others, a device that keeps
// one more micro-batch or ends one earlier may wait less.
std::vector<Actions> zeroBubble(const PipelineShape& s) {
  constexpr double kShorter = 0.99; // else the one before, which keeps less, is as good
  std::vector<Actions> best;
  for (auto [forwardFirst, more] : {std::pair(true, 0), {false, 0}, {false, 1}, {true, 1}}) {
    auto order = ZeroBubble(s, forwardFirst, s.devices + more).run();
    if (best.empty() || endOf(order) < endOf(best) * kShorter) best = std::move(order);
  }
  return best;
}

} // namespace

std::optional<PipelineSchedule> pipelineScheduleOf(std::string_view word) {
  const auto at = std::ranges::find(kPipelineWords, word);
  if (at == std::end(kPipelineWords)) return std::nullopt;
  return static_cast<PipelineSchedule>(at - std::begin(kPipelineWords));
}

bool setPipelineTimes(const PipelineShape& s, std::vector<Actions>& order) {
  Clock clock(s, order);
  std::vector<size_t> next(order.size(), 0);
  for (bool any = true; any;) {
    any = false;
    for (size_t d = 0; d < order.size(); ++d)
      for (; next[d] < order[d].size(); ++next[d], any = true) {
        const std::optional<double> begin = clock.ready(order[d][next[d]]);
        if (!begin) break;
        clock.run(order[d][next[d]], *begin);
      }
  }
  bool all = true;
  for (size_t d = 0; d < order.size(); ++d) all = all && next[d] == order[d].size();
  return all;
}

std::vector<std::vector<PipelineAction>> pipelineOrder(PipelineSchedule schedule, const PipelineShape& s) {
  if (schedule == PipelineSchedule::ZeroBubble && s.hasBackward && s.chunks == 1) return zeroBubble(s);
  std::vector<Actions> order;
  for (int d = 0; d < s.devices; ++d) {
    const int behind = s.devices - 1 - d; // stages after this one
    const int warmup = schedule == PipelineSchedule::GPipe ? s.microbatches * s.chunks
                       : s.chunks > 1                      ? 2 * behind + (s.chunks - 1) * s.devices
                                                           : behind;
    order.push_back(alternating(s, d, warmup));
  }
  const bool ends = setPipelineTimes(s, order);
  DTC_CHECK(ends, "a pipeline schedule in which devices wait for each other");
  return order;
}

double bubbleOf(const std::vector<std::vector<PipelineAction>>& order) {
  double busy = 0;
  for (const Actions& actions : order)
    for (const PipelineAction& a : actions) busy += a.end - a.begin;
  const double end = endOf(order);
  return end > 0 ? 1 - busy / (static_cast<double>(order.size()) * end) : 0;
}

std::optional<double> closedFormBubble(PipelineSchedule schedule, const PipelineShape& s) {
  if (schedule == PipelineSchedule::ZeroBubble && s.hasBackward) return std::nullopt;
  const double waits = s.devices - 1;
  return waits / (static_cast<double>(s.chunks) * s.microbatches + waits);
}

} // namespace dtc
