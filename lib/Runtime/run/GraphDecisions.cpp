// Control flow as conditional graph nodes: selection and capture.
#include "run/GraphSchedule.h"

#include <algorithm>

namespace dtc {

std::vector<GraphSchedule::Coordinates> GraphSchedule::groupsOf(const Step& step, const Coordinates& active) {
  const Leaders& leaders = leadersOf(step);
  std::vector<Coordinates> groups;
  std::vector<size_t> groupOf(all_.size(), SIZE_MAX); // by leader
  for (int64_t p : active) {
    size_t& group = groupOf[static_cast<size_t>(leaders[static_cast<size_t>(p)])];
    if (group == SIZE_MAX) group = groups.size(), groups.emplace_back();
    groups[group].push_back(p);
  }
  return groups;
}

bool GraphSchedule::canDecide(const Step& step) {
  if (options_.hostPredicates) return false;
  if (step.kind == ProgramStepKind::For) { // with constant bounds
    const ForStep& loop = program_.fors[step.index];
    if (loop.lo.offset >= 0 || loop.hi.offset >= 0 ||
        !iterationRange(loop, loop.lo.constant, loop.hi.constant))
      return false;
  }
  for (const StepList* list : innerLists(program_, step))
    for (const Step& s : *list)
      if (!(s.kind == ProgramStepKind::For ? canDecide(s) : canKeep(s))) return false;
  return std::ranges::all_of(groupsOf(step, all_), [&](const Coordinates& g) { return graphs_.decides(g); });
}

// Runs each library call once before capture: libraries allocate at a matmul's first call, which is illegal
// during capture, and a branch may not have been taken before. No live data can be overwritten at this point.
Status GraphSchedule::warm(const Step& step) {
  for (const StepList* list : innerLists(program_, step))
    for (const Step& s : *list) {
      if (Status done = warm(s); !done) return done;
      if (s.kind != ProgramStepKind::Gemm) continue;
      for (const Backend::Placed& at : program_.gemms[s.index].at)
        for (uint32_t part = 0; part < at.parts; ++part)
          if (Status done = backend_.runGemm(at.step, part, 0); !done) return located(s, done);
    }
  return Ok{};
}

size_t GraphSchedule::depthOf(const Step& step) const {
  size_t deepest = 0;
  for (const StepList* list : innerLists(program_, step))
    for (const Step& s : *list) deepest = std::max(deepest, depthOf(s));
  return innerLists(program_, step).empty() ? 0 : deepest + 1;
}

Status GraphSchedule::prepareDecisions() {
  size_t depth = 0;
  for (const auto& [list, items] : lists_)
    for (const Item& item : items)
      for (const Step* s : item.steps)
        if (item.kept && depthOf(*s)) {
          depth = std::max(depth, depthOf(*s));
          if (Status done = warm(*s); !done) return done;
        }
  if (depth == 0) return Ok{};
  decides_ = true;
  if (Status s = graphs_.prepareDecisions(depth, program_.whiles.size()); !s) return s;
  return backend_.finish();
}

Status GraphSchedule::captureList(const StepList& steps, const Coordinates& active) {
  for (const Step& s : steps)
    if (Status done = located(s, runDirect(s, active, 0)); !done) return done;
  return Ok{};
}

Status GraphSchedule::captureControl(const Step& s, const Coordinates& active) {
  for (const Coordinates& group : groupsOf(s, active))
    if (Status done = captureFor(s, group); !done) return done;
  return Ok{};
}

Status GraphSchedule::captureFor(const Step& s, const Coordinates& group) {
  const std::byte* first = program_.arenas[static_cast<size_t>(group[0])];
  if (s.kind == ProgramStepKind::Cond) {
    const CondStep& c = program_.conds[s.index];
    return graphs_.branch(
        group, first + c.predicate, [&] { return captureList(c.branch[0], group); },
        [&] { return captureList(c.branch[1], group); });
  }
  if (s.kind == ProgramStepKind::While) {
    const WhileStep& w = program_.whiles[s.index];
    if (Status done = captureList(w.condition, group); !done) return done;
    limited_[s.index] = &s;
    return graphs_.loop(group, {first + w.predicate, w.maxIterations, s.index}, [&]() -> Status {
      if (Status done = captureList(w.body, group); !done) return done;
      return captureList(w.condition, group);
    });
  }
  const ForStep& loop = program_.fors[s.index];
  DTC_TRY(auto range, iterationRange(loop, loop.lo.constant, loop.hi.constant));
  std::vector<std::byte*> indices;
  for (int64_t p : group) indices.push_back(program_.arenas[static_cast<size_t>(p)] + loop.index);
  return graphs_.count(group, indices, {range.lo, range.lo + range.count},
                       [&] { return captureList(loop.body, group); });
}

// Reads the decisions of conditional nodes after a run.
Status GraphSchedule::askGraphs() {
  if (!decides_) return Ok{};
  DTC_TRY(auto decided, graphs_.decided());
  cost_.decided = decided.asked;
  if (decided.tooMany == 0) return Ok{};
  const Step& s = *limited_.at(decided.tooMany - 1);
  return located(s, tooManyIterations(program_.whiles[s.index].maxIterations));
}

} // namespace dtc
