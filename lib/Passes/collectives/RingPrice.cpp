// The price of a ring: the stretch of the block around it, list-scheduled as on a GPU, with and without it.
#include "analysis/OverlapOrder.h"
#include "collectives/CollectiveRing.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/OpWork.h"

#include <algorithm>

namespace dtc {

constexpr size_t kAround = 512;      // ops before and after the ring that may overlap with its messages
constexpr double kLeastSaving = 0.1; // of the collective's time; less is within the error of the estimate
constexpr double kNsPerSecond = 1e9;

double RingPricer::bytesOf(ValueId v) const {
  return static_cast<double>(largestBytes(m_, m_[v].type, mesh_).value_or(0));
}

// Of a kernel that reads and writes so many bytes.
double RingPricer::copySeconds(double bytes) const {
  return machine_.kernelSeconds + bytes / machine_.nominal.memoryBytesPerSecond;
}

double RingPricer::computeSeconds(OpId o) {
  const OpRecord& rec = m_.record(o);
  if (rec.lowering == Lowering::Annotation || m_[o].numResults == 0) return 0;
  if (rec.rewrites >= 0) { // in place: only the elements that are written
    double bytes = 0;
    for (uint32_t i = 0; i < m_[o].numOperands; ++i)
      if (static_cast<int>(i) != rec.rewrites) bytes += 2 * bytesOf(m_.operand(o, i));
    return bytes / machine_.nominal.memoryBytesPerSecond;
  }
  const auto work = localWork(m_, o, mesh_);
  if (!work) return 0;
  if (!isContraction(m_, o)) return work->seconds(machine_.nominal);
  const bool wide = dtypeBytes(m_.typeOf(m_.result(o)).dtype) >= 4;
  const double flops = wide ? machine_.wideFlopsPerSecond : machine_.nominal.flopsPerSecond;
  return std::max(work->flops / flops, work->bytes / machine_.nominal.memoryBytesPerSecond);
}

double RingPricer::seconds(OpId o) {
  if (known_.size() <= o.index) known_.resize(m_.ops.size(), -1);
  if (known_[o.index] >= 0) return known_[o.index];
  double out = 0;
  if (sendsMessages(m_.record(o).collective)) {
    const auto price = priceOfCollective(m_, o, mesh_, machine_.nominal);
    out = price ? price->seconds : 0;
  } else if (m_[o].numRegions == 0) {
    out = computeSeconds(o);
  }
  if (isContraction(m_, o)) out += machine_.kernelSeconds;
  return known_[o.index] = out;
}

// Tasks of a stretch of ops.
struct RingPricer::Window {
  explicit Window(RingPricer& pricer) : p(pricer), number(++pricer.windows_) {
    p.makers_.resize(p.m_.values.size());
  }
  RingPricer& p;
  uint32_t number;
  std::vector<OverlapTask> tasks;

  uint32_t add(double seconds, bool overlapped, std::vector<uint32_t> after) {
    std::ranges::sort(after);
    after.erase(std::ranges::unique(after).begin(), after.end());
    tasks.push_back({std::move(after), seconds * kNsPerSecond, overlapped});
    return static_cast<uint32_t>(tasks.size() - 1);
  }
  [[nodiscard]] std::vector<uint32_t> makersOf(OpId o) const {
    std::vector<uint32_t> out;
    forEachRead(p.m_, o, [&](ValueId v) {
      if (p.makers_[v.index].window == number) out.push_back(p.makers_[v.index].task);
    });
    return out;
  }
  void setMaker(ValueId v, uint32_t task) const { p.makers_[v.index] = {number, task}; }
  void addOp(OpId o) {
    const CollectiveKind kind = p.m_.record(o).collective;
    const bool message = sendsMessages(kind);
    const uint32_t task = add(p.seconds(o), message, makersOf(o));
    for (uint32_t r = 0; r < p.m_[o].numResults; ++r) setMaker(p.m_.result(o, r), task);
  }
  void addRing(const RingPlan&);

  [[nodiscard]] OverlapTime run() const {
    std::vector<double> done(tasks.size(), 0);
    double clock = 0, aside = 0, waits = 0;
    for (uint32_t t : overlapOrder(tasks)) {
      double ready = 0;
      for (uint32_t before : tasks[t].after)
        if (tasks[before].overlapped || tasks[t].overlapped) ready = std::max(ready, done[before]);
      if (tasks[t].overlapped) {
        done[t] = aside = std::max({aside, clock, ready}) + tasks[t].ns;
        continue;
      }
      waits += std::max(0.0, ready - clock);
      done[t] = clock = std::max(clock, ready) + tasks[t].ns;
    }
    return {clock / kNsPerSecond, waits / kNsPerSecond};
  }
};

// Each step waits for its chunk (all_gather), or adds the sum that arrived (reduce_scatter).
void RingPricer::Window::addRing(const RingPlan& plan) {
  const Module& m = p.m_;
  const auto n = static_cast<double>(plan.devices);
  const bool gather = plan.kind == CollectiveKind::AllGather;
  const ValueId part = gather ? m.operand(plan.collective, 0) : m.result(plan.collective);
  const auto bytes = static_cast<int64_t>(p.bytesOf(part));
  const double message =
      priceOf(StepKind::Permute, plan.axes, bytes, bytes, p.mesh_, p.machine_.nominal).seconds;
  double step = 0, sum = 0;
  std::vector<uint32_t> inputs;
  for (const RingProduct& product : plan.products) {
    const double result = p.bytesOf(m.result(product.op));
    step += (p.seconds(product.op) - p.machine_.kernelSeconds) / n + p.machine_.kernelSeconds;
    for (size_t i = 0; i < product.dims.size(); ++i)
      if (product.dims[i] >= 0 && !product.travels[i])
        step += p.copySeconds(2 * p.bytesOf(m.operand(product.op, static_cast<uint32_t>(i))) / n);
    // A sum is read, added to and written; a chunk of the result is filled, read and written.
    if (gather) step += p.copySeconds(product.resultDim < 0 ? 3 * result : 3 * result / n);
    const std::vector<uint32_t> makers = makersOf(product.op);
    inputs.insert(inputs.end(), makers.begin(), makers.end());
  }
  const double add3 = p.copySeconds(3 * static_cast<double>(bytes)); // of two chunks
  if (!gather) sum = add3, step += static_cast<double>(plan.adds.size()) * add3;
  const auto with = [&](std::optional<uint32_t> task) {
    std::vector<uint32_t> out = inputs;
    if (task) out.push_back(*task);
    return out;
  };
  std::optional<uint32_t> arrived, added;
  if (gather)
    for (uint32_t maker : makersOf(plan.collective)) inputs.push_back(maker);
  uint32_t last = 0;
  for (int64_t k = 0; k < plan.devices; ++k) {
    if (gather) {
      const auto here = arrived;
      if (k + 1 < plan.devices)
        arrived = add(message, true, here ? std::vector{*here} : makersOf(plan.collective));
      last = add(step, false, with(here));
    } else {
      if (k > 0) arrived = add(message, true, {*added});
      last = add(step, false, inputs);
      if (k > 0) last = add(sum, false, {*arrived, last});
      added = last;
    }
  }
  if (!gather) setMaker(m.result(plan.collective), last);
  for (const RingProduct& product : plan.products) setMaker(m.result(product.op), last);
}

RingTimes RingPricer::price(BlockId block, const RingPlan& plan) {
  const std::vector<OpId>& ops = m_[block].ops;
  const size_t from = plan.first - std::min(plan.first, kAround),
               to = std::min(ops.size(), plan.last + 1 + kAround);
  Window before(*this);
  for (size_t i = from; i < to; ++i) before.addOp(ops[i]);
  const OverlapTime was = before.run();
  Window after(*this);
  for (size_t i = from; i < plan.first; ++i) after.addOp(ops[i]);
  for (OpId o : plan.order) {
    if (o.valid())
      after.addOp(o);
    else
      after.addRing(plan);
  }
  for (size_t i = plan.last + 1; i < to; ++i) after.addOp(ops[i]);
  RingTimes out;
  const OverlapTime is = after.run();
  out.secondsBefore = was.seconds, out.exposedBefore = was.exposed;
  out.secondsAfter = is.seconds, out.exposedAfter = is.exposed;
  const bool known = largestBytes(m_, m_[m_.operand(plan.collective, 0)].type, mesh_).has_value();
  out.pays = known && out.secondsBefore - out.secondsAfter > kLeastSaving * seconds(plan.collective);
  return out;
}

OverlapTime RingPricer::timeOf(BlockId block) {
  Window window(*this);
  OverlapTime nested;
  for (OpId o : m_[block].ops) {
    window.addOp(o);
    const auto iterations = static_cast<double>(executionsOf(m_, o).value_or(1));
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
      const OverlapTime one = timeOf(m_.region(o, r));
      nested.seconds += iterations * one.seconds, nested.exposed += iterations * one.exposed;
    }
  }
  const OverlapTime own = window.run();
  return {own.seconds + nested.seconds, own.exposed + nested.exposed};
}

OverlapTime overlapTimeOf(Module& m, FuncId f, const RingMachine& machine) {
  const Mesh mesh = meshValueOf(m, f);
  return RingPricer(m, mesh, machine).timeOf(m[f].body);
}

} // namespace dtc
