#include "Overlap.h"

#include "AsideOrder.h"

#include <algorithm>

namespace dtc {
namespace {

// What a step may take, for the order alone: a GPU's usual memory, matrix units and links, of none in particular.
constexpr double kStartNs = 2000, kMeetNs = 15000;
constexpr double kBytesPerNs = 2000, kFlopsPerNs = 300000, kSentBytesPerNs = 200;

class Overlap {
public:
  Overlap(const Module& m, Program& program, const GraphBackend* graphs)
      : m_(m), program_(program), graphs_(graphs) {}
  void list(StepList& steps);

private:
  // A collective of the stretch that is gone through.
  struct Begun {
    uint32_t meeting = 0, info = 0, number = 0;
    size_t at = 0; // where it stands in the new list
  };
  using Tasks = std::vector<AsideTask>;

  void within(const Step& s);
  bool isBoundary(const Step& s) const;
  bool meets(const Step& s) const {
    return s.kind == StepKind::Collective && program_.meetings[s.index].plan.meets();
  }
  double nanoseconds(const Step& s) const;
  Tasks tasksOf(const StepList& stretch) const;
  void flush(StepList& stretch, StepList& out);
  uint32_t freeNumber(int64_t joined, int64_t order);
  void join(StepList& out, const std::vector<Begun>& begun, int64_t upTo, int64_t joined);

  const Module& m_;
  Program& program_;
  const GraphBackend* graphs_;
  std::vector<int64_t> busyUntil_; // by number: the collective of this stretch that has it
};

void Overlap::within(const Step& s) {
  if (s.kind == StepKind::Cond)
    for (StepList& branch : program_.conds[s.index].branch) list(branch);
  if (s.kind == StepKind::While)
    list(program_.whiles[s.index].condition), list(program_.whiles[s.index].body);
  if (s.kind == StepKind::For) list(program_.fors[s.index].body);
}

// Does everything aside come to its end before this step?
bool Overlap::isBoundary(const Step& s) const {
  switch (s.kind) {
  case StepKind::Kernel:
  case StepKind::Collective: return false;
  case StepKind::Copy: return program_.copies[s.index].stacked;
  case StepKind::Gemm:
    return graphs_ && !std::ranges::all_of(program_.gemms[s.index].at, [&](const Backend::Placed& at) {
             return at.parts == 0 || graphs_->canKeep(at.step);
           });
  default: return true;
  }
}

double Overlap::nanoseconds(const Step& s) const {
  const StepInfo& info = program_.infos[s.info];
  const auto bytes = static_cast<double>(info.bytes), flops = static_cast<double>(info.flops);
  if (meets(s)) return kMeetNs + bytes / kSentBytesPerNs;
  return kStartNs + std::max(bytes / kBytesPerNs, flops / kFlopsPerNs);
}

Overlap::Tasks Overlap::tasksOf(const StepList& stretch) const {
  Tasks tasks(stretch.size());
  ByteUses touched;
  for (uint32_t i = 0; i < stretch.size(); ++i) {
    AsideTask& t = tasks[i];
    t.aside = meets(stretch[i]);
    t.ns = nanoseconds(stretch[i]);
    for (const ByteUse& u : byteUsesOf(m_, program_, stretch[i])) touched.add(u.bytes, u.writes, i, t.after);
    std::ranges::sort(t.after);
    t.after.erase(std::ranges::unique(t.after).begin(), t.after.end());
  }
  return tasks;
}

// One whose collective has been joined.
uint32_t Overlap::freeNumber(int64_t joined, int64_t order) {
  auto free = std::ranges::find_if(busyUntil_, [&](int64_t until) { return until <= joined; });
  if (free == busyUntil_.end()) free = busyUntil_.insert(free, 0);
  *free = order;
  return static_cast<uint32_t>(free - busyUntil_.begin());
}

// Those from `joined` on to `upTo`. Where all that is aside would be joined and nothing but that stands between, it stays where it is.
void Overlap::join(StepList& out, const std::vector<Begun>& begun, int64_t upTo, int64_t joined) {
  const auto first = static_cast<size_t>(joined + 1), last = static_cast<size_t>(upTo);
  if (last + 1 == begun.size() && out.size() - begun[first].at == begun.size() - first) {
    for (size_t i = first; i <= last; ++i) {
      program_.meetings[begun[i].meeting].aside.reset();
      program_.infos[begun[i].info].aside = false;
    }
    return;
  }
  out.push_back({StepKind::Join, begun[last].number, begun[last].info});
}

// Steps without a boundary among them go to `out`, and `stretch` is empty then.
void Overlap::flush(StepList& stretch, StepList& out) {
  if (std::ranges::none_of(stretch, [&](const Step& s) { return meets(s); })) {
    out.insert(out.end(), stretch.begin(), stretch.end());
    return stretch.clear();
  }
  const Tasks tasks = tasksOf(stretch);
  std::vector<Begun> begun;
  std::vector<int64_t> begunAs(stretch.size(), -1); // by task
  int64_t joined = -1;
  std::ranges::fill(busyUntil_, -1);
  const auto joinTo = [&](int64_t upTo) {
    if (upTo > joined) join(out, begun, upTo, joined), joined = upTo;
  };
  for (uint32_t t : asideOrder(tasks)) {
    const Step& s = stretch[t];
    if (tasks[t].aside) {
      const auto order = static_cast<int64_t>(begun.size());
      const uint32_t number = freeNumber(joined, order);
      begunAs[t] = order;
      program_.meetings[s.index].aside = number;
      program_.infos[s.info].aside = true;
      begun.push_back({s.index, s.info, number, out.size()});
    } else {
      int64_t upTo = -1;
      for (uint32_t before : tasks[t].after) upTo = std::max(upTo, begunAs[before]);
      joinTo(upTo);
    }
    out.push_back(s);
  }
  joinTo(static_cast<int64_t>(begun.size()) - 1);
  stretch.clear();
}

void Overlap::list(StepList& steps) {
  StepList out, stretch;
  for (const Step& s : steps) {
    // Nobody is met: it is a copy like others.
    if (s.kind == StepKind::Collective && !meets(s)) program_.infos[s.info].stream = "compute";
    if (!isBoundary(s)) {
      stretch.push_back(s);
      continue;
    }
    flush(stretch, out);
    out.push_back(s);
  }
  flush(stretch, out);
  steps = std::move(out);
  for (const Step& s : steps) within(s);
}

} // namespace

std::vector<ByteUse> byteUsesOf(const Module& m, const Program& program, const Step& step) {
  std::vector<ByteUse> uses;
  if (step.kind == StepKind::Copy) {
    const CopyStep& c = program.copies[step.index];
    const int64_t bytes = *std::ranges::max_element(c.bytes);
    return {{{c.from, c.from + bytes}, false}, {{c.to, c.to + bytes}, true}};
  }
  const auto add = [&](ValueId v, bool writes) {
    const auto at = program.plan.bufferOf.find(v);
    if (at == program.plan.bufferOf.end()) return;
    const MemoryPlan::Buffer& b = program.plan.buffers[at->second];
    uses.push_back({{b.offset, b.offset + b.bytes}, writes});
  };
  const OpId op = program.infos[step.info].id;
  for (ValueId v : m.operands(op)) add(v, false);
  for (uint32_t r = 0; r < m[op].numResults; ++r) add(m.result(op, r), true);
  return uses;
}

size_t overlapCollectives(const Module& m, Program& program, const GraphBackend* graphs) {
  Overlap(m, program, graphs).list(program.steps);
  size_t numbers = 0;
  for (const MeetingStep& step : program.meetings)
    if (step.aside) numbers = std::max<size_t>(numbers, *step.aside + 1);
  return numbers;
}

} // namespace dtc
