// schedule: the launch order of a device's steps, and the overlap of collectives with computation, written
// into the text.
//
// With {overlap = true} a collective that can be overlapped becomes `NAME_start` and `done`: it starts at its
// start op, after the steps launched before it, and the steps between the two do not wait for it. Steps
// between two barriers of overlap (the end of a block, control flow, a host op) are reordered under SSA
// dependences to overlap more with collectives. Collectives keep their relative order. If the reordering
// raises the memory lower bound of the function by more than a sixteenth, the steps keep their order and a
// collective overlaps a limited number of steps; if that is still too much, nothing overlaps.
//
// Otherwise the order is that of the text, but that steps which run once come first (FreezeSteps.h). In both cases the function gets {streams = N}: the number of
// streams per device. A function with that attribute is already scheduled, and unchanged.
#include "analysis/OverlapOrder.h"
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/Pass.h"
#include "dtc/Passes/analysis/Collectives.h"
#include "dtc/Passes/analysis/MemoryPlan.h"
#include "dtc/Passes/analysis/OpWork.h"
#include "dtc/Passes/analysis/TargetOf.h"
#include "dtc/Support/Result.h"
#include "schedule/FreezeSteps.h"

#include <algorithm>
#include <utility>

namespace dtc {
namespace {

// The estimated duration of a step on a GPU, used for the order only.
constexpr double kStepNs = 2000, kCollectiveNs = 15000;
constexpr double kBytesPerNs = 2000, kFlopsPerNs = 300000, kSentBytesPerNs = 200;

constexpr size_t kAnyNumber = SIZE_MAX;

// One scheduling strategy for a function.
struct Choice {
  bool reorders = false;
  size_t steps = kAnyNumber; // the max number of steps that a collective overlaps
  bool all = false;          // splits collectives that overlap nothing, too
};

class BlockScheduler {
public:
  BlockScheduler(Module& m, const Mesh& mesh, Choice choice) : m_(m), mesh_(mesh), choice_(choice) {}

  // True if anything overlaps.
  bool run(BlockId b) {
    std::vector<OpId> ops = std::exchange(m_[b].ops, {});
    bool overlaps = false;
    block_ = b;
    for (size_t i = 0; i < ops.size();) {
      size_t end = i;
      while (end < ops.size() && !isBoundary(ops[end])) ++end;
      overlaps = stretch(std::span(ops).subspan(i, end - i)) || overlaps;
      if (end < ops.size()) m_[b].ops.push_back(ops[end++]);
      i = end;
    }
    for (OpId o : ops)
      if (m_.record(o).regions != RegionKind::Fused)
        for (uint32_t r = 0; r < m_[o].numRegions; ++r)
          overlaps = BlockScheduler(m_, mesh_, choice_).run(m_.region(o, r)) || overlaps;
    return overlaps;
  }

private:
  // Control flow and host ops are not overlapped.
  bool isBoundary(OpId o) const {
    const OpRecord& record = m_.record(o);
    return (m_[o].numRegions > 0 && record.regions != RegionKind::Fused) || record.lowering == Lowering::Host;
  }
  // True if it takes time on a device.
  bool isStep(OpId o) const {
    return !isLoadTimeOp(m_, o) && !isViewRegion(m_, o) && m_.record(o).async != AsyncForm::Done;
  }
  // True for a collective with communication.
  bool communicates(OpId o) const {
    if (!m_.record(o).isCollective() || m_[o].numOperands == 0 || m_.record(o).async == AsyncForm::Done)
      return false;
    if (m_.record(o).collective == CollectiveKind::AllSlice) return false;
    const std::vector<AxisRef> axes = collectiveAxes(m_, o);
    return mesh_.sizeOf(axes) > 1;
  }
  double bytesOf(std::span<const ValueId> values) const {
    double bytes = 0;
    for (ValueId v : values)
      if (const auto n = largestBytes(m_, m_[v].type, mesh_)) bytes += static_cast<double>(*n);
    return bytes;
  }
  double nanoseconds(OpId o) const {
    if (!isStep(o)) return 0;
    if (communicates(o)) return kCollectiveNs + bytesOf(m_.operands(o)) / kSentBytesPerNs;
    const OpWork work = localWork(m_, o, mesh_).value_or(OpWork());
    return kStepNs + std::max(work.bytes / kBytesPerNs, work.flops / kFlopsPerNs);
  }

  bool stretch(std::span<const OpId> ops) {
    if (std::ranges::none_of(ops, [&](OpId o) { return communicates(o); })) {
      m_[block_].ops.insert(m_[block_].ops.end(), ops.begin(), ops.end());
      return false;
    }
    const std::vector<OverlapTask> tasks = tasksOf(ops);
    std::vector<uint32_t> order(ops.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    if (choice_.reorders) order = overlapOrder(tasks);
    return write(ops, tasks, order);
  }

  std::vector<OverlapTask> tasksOf(std::span<const OpId> ops) const {
    std::unordered_map<OpId, uint32_t> taskOf;
    std::vector<OverlapTask> tasks(ops.size());
    for (uint32_t i = 0; i < ops.size(); ++i) {
      OverlapTask& t = tasks[i];
      t.overlapped = communicates(ops[i]);
      t.ns = nanoseconds(ops[i]);
      for (ValueId v : m_.operands(ops[i]))
        if (const auto at = taskOf.find(m_.definingOp(v)); at != taskOf.end()) t.after.push_back(at->second);
      std::ranges::sort(t.after);
      t.after.erase(std::ranges::unique(t.after).begin(), t.after.end());
      taskOf[ops[i]] = i;
    }
    return tasks;
  }

  // Writes the ops in this order. A collective that is overlapped with steps before its first reader is split
  // in two.
  bool write(std::span<const OpId> ops, const std::vector<OverlapTask>& tasks,
             const std::vector<uint32_t>& order) {
    std::vector<size_t> neededAt(ops.size(), order.size()); // by task: the position of its first reader
    for (size_t at = order.size(); at-- > 0;)
      for (uint32_t before : tasks[order[at]].after) neededAt[before] = at;
    std::vector<std::vector<OpId>> endsAt(order.size() + 1); // the `done` ops to insert before each position
    bool overlaps = false;
    for (size_t at = 0; at < order.size(); ++at) {
      std::vector<OpId>& out = m_[block_].ops;
      out.insert(out.end(), endsAt[at].begin(), endsAt[at].end());
      const OpId o = ops[order[at]];
      const size_t end = tasks[order[at]].overlapped && m_.record(o).async == AsyncForm::None
                             ? endOf(ops, tasks, order, at, neededAt[order[at]])
                             : at;
      const bool splits = choice_.all && tasks[order[at]].overlapped && m_.record(o).async == AsyncForm::None;
      out.push_back(end > at || splits ? split(o) : o);
      if (end > at || splits) endsAt[std::max(end, at + 1)].push_back(o);
      overlaps = overlaps || end > at;
    }
    m_[block_].ops.insert(m_[block_].ops.end(), endsAt.back().begin(), endsAt.back().end());
    return overlaps;
  }

  // The position before which the collective at `at` ends; `at` if no step is in between.
  size_t endOf(std::span<const OpId> ops, const std::vector<OverlapTask>& tasks,
               const std::vector<uint32_t>& order, size_t at, size_t needed) const {
    size_t overlapped = 0, last = at;
    for (size_t i = at + 1; i < needed && overlapped < choice_.steps; ++i)
      if (!tasks[order[i]].overlapped && isStep(ops[order[i]])) ++overlapped, last = i;
    return overlapped == 0 ? at : overlapped < choice_.steps ? needed : last + 1;
  }

  // The op becomes the `done` of the returned start, so that its readers are unchanged.
  OpId split(OpId o) {
    const std::vector<ValueId> operands(m_.operands(o).begin(), m_.operands(o).end());
    const OpKind start = m_.registry->find(m_.record(o).collective, AsyncForm::Start);
    DTC_CHECK(start != kNoOpKind, "a collective without an asynchronous form");
    const OpId made = m_.makeOp(start, operands, m_[o].numResults, m_[o].attrs, 0, m_[o].loc);
    m_[made].parent = block_;
    std::vector<ValueId> handles;
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      m_[m_.result(made, r)].type = m_[m_.result(o, r)].type;
      handles.push_back(m_.result(made, r));
    }
    AttrList kept;
    const OpRecord& record = m_.record(o);
    for (const NamedAttr& a : m_[o].attrs)
      if (std::ranges::none_of(record.attrs,
                               [&](const AttrSpec& spec) { return spec.name == m_.strings[a.name]; }))
        kept.push_back(a);
    m_[o].kind = m_.registry->find(CollectiveKind::None, AsyncForm::Done);
    m_[o].attrs = std::move(kept);
    m_.setOperands(o, handles);
    return made;
  }

  Module& m_;
  const Mesh& mesh_;
  Choice choice_;
  BlockId block_;
};

bool isScheduled(const Module& m, FuncId f) {
  const StrId streams = m.strings.find("streams");
  return streams && findAttr(m[f].attrs, streams);
}

// The lower bound of the memory that the function needs, whatever its offsets; nothing if sizes are not
// bound.
std::optional<int64_t> minMemory(const Module& m, FuncId f) {
  Diagnostics quiet;
  return memoryLowerBound(m, f, quiet);
}

// Whether a schedule takes more memory than the text before it allows.
bool growsTooMuch(const Module& before, const Module& after, FuncId f) {
  const std::optional<int64_t> was = minMemory(before, f), is = minMemory(after, f);
  return was && is && *is > *was / 16 * 17;
}

// Functions of one program keep the order of their collectives and start the same ones, so that they match.
void schedule(Module& m, std::span<const FuncId> functions) {
  const Mesh mesh = meshValueOf(m, functions[0]);
  if (mesh.numDevices() == 1) return;
  const bool several = functions.size() > 1;
  for (Choice choice : {Choice{true}, Choice{false, 32}, Choice{false, 8}, Choice{false, 2}}) {
    choice.all = several;
    choice.reorders = choice.reorders && !several;
    Module tried = m;
    bool overlaps = false;
    for (FuncId f : functions) overlaps = BlockScheduler(tried, mesh, choice).run(tried[f].body) || overlaps;
    if (!overlaps) return;
    if (std::ranges::any_of(functions, [&](FuncId f) { return growsTooMuch(m, tried, f); })) continue;
    m = std::move(tried);
    return;
  }
}

bool starts(const Module& m, FuncId f) {
  bool any = false;
  forEachOp(m, m[f].body, [&](OpId o) { any = any || m.record(o).async == AsyncForm::Start; });
  return any;
}

} // namespace

bool schedulePass(Module& m, const PassOptions& options, Diagnostics&) {
  for (FuncId entry : std::vector<FuncId>(m.order)) { // schedule() replaces the module
    if (!m[entry].spmd || !m[entry].body || entryOfProgram(m, entry) != entry) continue;
    std::vector<FuncId> functions = functionsOfProgram(m, entry);
    const size_t all = functions.size();
    std::erase_if(functions, [&](FuncId f) { return isScheduled(m, f); });
    if (functions.empty()) continue;
    for (FuncId f : functions) freezeSteps(m, f);
    const bool gpu = targetOf(m, entry).gpu; // on a CPU, collectives are not overlapped
    if (options.flag("overlap", true) && functions.size() == all && gpu) schedule(m, functions);
    for (FuncId f : functions) putFrozenFirst(m, f);
    const bool two = gpu && std::ranges::any_of(functions, [&](FuncId f) { return starts(m, f); });
    for (FuncId f : functions)
      m[f].attrs.push_back({m.strings.intern("streams"), m.attrs.integer(two ? 2 : 1)});
  }
  return true;
}

} // namespace dtc
