// Control flow that graphs do by themselves: which, and how it is captured.
#include "GraphSchedule.h"

#include <algorithm>

namespace dtc {
namespace {

std::vector<const StepList*> listsOf(const Program& program, const Step& s) {
  if (s.kind == StepKind::Cond) return {&program.conds[s.index].branch[0], &program.conds[s.index].branch[1]};
  if (s.kind == StepKind::While) return {&program.whiles[s.index].condition, &program.whiles[s.index].body};
  if (s.kind == StepKind::For) return {&program.fors[s.index].body};
  return {};
}

} // namespace

std::vector<GraphSchedule::Places> GraphSchedule::groupsOf(const Step& step, const Places& active) {
  const Leaders& leaders = leadersOf(step);
  std::vector<Places> groups;
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
  if (step.kind == StepKind::For) { // counted from one number to another
    const ForStep& loop = program_.fors[step.index];
    if (loop.lo.offset >= 0 || loop.hi.offset >= 0 || !tripsOf(loop, loop.lo.number, loop.hi.number))
      return false;
  }
  for (const StepList* list : listsOf(program_, step))
    for (const Step& s : *list)
      if (!(s.kind == StepKind::For ? canDecide(s) : canKeep(s))) return false;
  return std::ranges::all_of(groupsOf(step, all_), [&](const Places& g) { return graphs_.decides(g); });
}

// Libraries make what they need at a product's first call, which a capture does not allow, and a branch may not have been taken
// before it is captured. Nothing is in memory yet that a result could overwrite.
Status GraphSchedule::warm(const Step& step) {
  for (const StepList* list : listsOf(program_, step))
    for (const Step& s : *list) {
      if (Status done = warm(s); !done) return done;
      if (s.kind != StepKind::Gemm) continue;
      for (const Backend::Placed& at : program_.gemms[s.index].at)
        for (uint32_t part = 0; part < at.parts; ++part)
          if (Status done = backend_.runGemm(at.step, part, 0); !done) return located(s, done);
    }
  return Ok{};
}

size_t GraphSchedule::depthOf(const Step& step) const {
  size_t most = 0;
  for (const StepList* list : listsOf(program_, step))
    for (const Step& s : *list) most = std::max(most, depthOf(s));
  return listsOf(program_, step).empty() ? 0 : most + 1;
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

Status GraphSchedule::captureList(const StepList& steps, const Places& active) {
  for (const Step& s : steps)
    if (Status done = located(s, runDirect(s, active, 0)); !done) return done;
  return Ok{};
}

Status GraphSchedule::captureControl(const Step& s, const Places& active) {
  for (const Places& group : groupsOf(s, active))
    if (Status done = captureFor(s, group); !done) return done;
  return Ok{};
}

Status GraphSchedule::captureFor(const Step& s, const Places& group) {
  const std::byte* first = program_.arenas[static_cast<size_t>(group[0])];
  if (s.kind == StepKind::Cond) {
    const CondStep& c = program_.conds[s.index];
    return graphs_.branch(
        group, first + c.predicate, [&] { return captureList(c.branch[0], group); },
        [&] { return captureList(c.branch[1], group); });
  }
  if (s.kind == StepKind::While) {
    const WhileStep& w = program_.whiles[s.index];
    if (Status done = captureList(w.condition, group); !done) return done;
    limited_[s.index] = &s;
    return graphs_.loop(group, {first + w.predicate, w.maxTrips, s.index}, [&]() -> Status {
      if (Status done = captureList(w.body, group); !done) return done;
      return captureList(w.condition, group);
    });
  }
  const ForStep& loop = program_.fors[s.index];
  auto trips = tripsOf(loop, loop.lo.number, loop.hi.number);
  if (!trips) return trips.error();
  std::vector<std::byte*> indices;
  for (int64_t p : group) indices.push_back(program_.arenas[static_cast<size_t>(p)] + loop.index);
  return graphs_.count(group, indices, {trips->lo, trips->lo + trips->count},
                       [&] { return captureList(loop.body, group); });
}

// What graphs decided in a run that has ended.
Status GraphSchedule::askGraphs() {
  if (!decides_) return Ok{};
  auto decided = graphs_.decided();
  if (!decided) return decided.error();
  cost_.decided = decided->asked;
  if (decided->tooMany == 0) return Ok{};
  const Step& s = *limited_.at(decided->tooMany - 1);
  return located(s, tooManyTrips(program_.whiles[s.index].maxTrips));
}

} // namespace dtc
