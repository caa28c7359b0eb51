#include "run/GraphSchedule.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace dtc {
namespace {

using Clock = std::chrono::steady_clock;
int64_t nsSince(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
}

bool isControl(const Step& s) {
  return s.kind == ProgramStepKind::Cond || s.kind == ProgramStepKind::While ||
         s.kind == ProgramStepKind::For;
}

} // namespace

GraphSchedule::GraphSchedule(Module& m, const Program& program, Backend& backend, GraphBackend& graphs,
                             Options options)
    : m_(m), program_(program), backend_(backend), graphs_(graphs), options_(options),
      all_(static_cast<size_t>(program.numDevices())) {
  std::iota(all_.begin(), all_.end(), 0);
}

Result<std::unique_ptr<GraphSchedule>> GraphSchedule::make(Module& m, const Program& program,
                                                           Backend& backend, Options options) {
  if (!backend.graphs()) return std::unique_ptr<GraphSchedule>();
  std::unique_ptr<GraphSchedule> made(new GraphSchedule(m, program, backend, *backend.graphs(), options));
  if (Status s = made->compile(program.programs[0].steps, nullptr); !s) return s.error();
  if (Status s = made->prepareDecisions(); !s) return s.error();
  return made;
}

bool GraphSchedule::canKeep(const Step& s) {
  if (s.kind == ProgramStepKind::Cond || s.kind == ProgramStepKind::While) return canDecide(s);
  if (s.kind == ProgramStepKind::Copy) return !program_.copies[s.index].stacked || stacked_.contains(&s);
  if (s.kind == ProgramStepKind::Gemm)
    return std::ranges::all_of(program_.gemms[s.index].at, [&](const Backend::Placed& at) {
      return at.parts == 0 || graphs_.canKeep(at.step);
    });
  return s.kind == ProgramStepKind::Kernel || s.kind == ProgramStepKind::Collective ||
         s.kind == ProgramStepKind::Join;
}

// For a loop with constant lower bound, the device computes the row from the loop index.
Status GraphSchedule::placeStacked(const Step& step, const ForStep& loop) {
  const CopyStep& c = program_.copies[step.index];
  if (!c.stacked || loop.lo.offset >= 0) return Ok{};
  std::vector<uint32_t> at;
  for (size_t p = 0; p < all_.size(); ++p) {
    std::byte* base = program_.arenas[p];
    auto placed = graphs_.placeStackedCopy(
        all_[p], {base + c.to, base + c.from, base + loop.index, c.bytes[p], loop.lo.constant});
    if (!placed) return located(step, placed.error());
    at.push_back(*placed);
  }
  stacked_[&step] = std::move(at);
  return Ok{};
}

Status GraphSchedule::compile(const StepList& steps, const ForStep* within) {
  for (const Step& s : steps) { // inner lists first: a control step can be captured only if they can
    std::vector<const StepList*> inner;
    if (s.kind == ProgramStepKind::Cond)
      for (const StepList& branch : program_.conds[s.index].branch) inner.push_back(&branch);
    if (s.kind == ProgramStepKind::While)
      inner = {&program_.whiles[s.index].condition, &program_.whiles[s.index].body};
    const ForStep* loop = s.kind == ProgramStepKind::For ? &program_.fors[s.index] : nullptr;
    if (loop) inner = {&loop->body};
    for (const StepList* one : inner)
      if (Status done = compile(*one, loop); !done) return done;
  }
  List& list = lists_[&steps];
  for (const Step& s : steps) {
    if (s.kind == ProgramStepKind::Copy && within)
      if (Status placed = placeStacked(s, *within); !placed) return placed;
    const bool kept = canKeep(s);
    if (!kept || list.empty() || !list.back().kept) list.push_back({{}, 0, kept, false, {}});
    list.back().steps.push_back(&s);
    if (s.kind != ProgramStepKind::Join) ++list.back().work;
  }
  return Ok{};
}

const Leaders& GraphSchedule::leadersOf(const Step& step) {
  auto [at, made] = leaders_.try_emplace(&step);
  if (made) {
    const StepList one(1, step);
    at->second = leadersIn(program_, {&one});
  }
  return at->second;
}

Status GraphSchedule::located(const Step& step, const Status& s) const {
  return s ? s : Status(dtc::located(m_, program_.infos[step.info].id, s.error()));
}

Status GraphSchedule::run(const RunHooks& hooks) {
  cost_ = {};
  hooks_ = &hooks;
  const Clock::time_point begin = Clock::now();
  const Status done = runList(program_.programs[0].steps, all_, 0);
  cost_.ns = nsSince(begin) - cost_.waitNs;
  if (!done) return backend_.abandon(), done;
  if (Status finished = backend_.finish(); !finished) return finished;
  return askGraphs();
}

Status GraphSchedule::runList(const StepList& steps, const Coordinates& active, int64_t iteration) {
  if (active.empty()) return Ok{};
  for (Item& item : lists_.at(&steps))
    if (Status s = runItem(item, active, iteration); !s) return s;
  return Ok{};
}

Status GraphSchedule::runItem(Item& item, const Coordinates& active, int64_t iteration) {
  if (hooks_->isInterrupted()) return machineError(kInterrupted);
  if (!item.kept && isControl(*item.steps[0])) return runControl(*item.steps[0], active);
  if (item.steps[0]->kind == ProgramStepKind::Host) return runHost(*item.steps[0], active);
  cost_.launches += static_cast<int64_t>(item.work * active.size());
  const bool worthIt =
      item.kept && direct_ == 0 && (isControl(*item.steps[0]) || item.work * active.size() > 1);
  if (worthIt && item.warm && active.size() == all_.size()) {
    if (!item.graph)
      if (Status s = keep(item); !s) return s;
    ++cost_.graphs;
    return located(*item.steps[0], graphs_.runGraph(*item.graph));
  }
  ++direct_;
  Status done = Ok{};
  for (const Step* step : item.steps)
    if (done) done = located(*step, runDirect(*step, active, iteration));
  --direct_;
  item.warm = item.warm || done;
  return done;
}

Status GraphSchedule::keep(Item& item) {
  const Clock::time_point begin = Clock::now();
  if (Status s = graphs_.beginGraph(); !s) return located(*item.steps[0], s);
  capturing_ = true;
  Status done = Ok{};
  for (const Step* step : item.steps)
    if (done) done = located(*step, runDirect(*step, all_, 0));
  capturing_ = false;
  auto graph = graphs_.endGraph();
  if (!done) return done;
  if (!graph)
    return machineError(graph.error().message + " (while " + std::to_string(item.steps.size()) +
                        " steps were captured in a CUDA graph; --no-graphs disables graphs)");
  item.graph = *graph;
  cost_.waitNs += nsSince(begin); // one-time cost, not part of a step
  return Ok{};
}

Status GraphSchedule::runHost(const Step& s, const Coordinates& active) {
  DTC_CHECK(active.size() == all_.size(), "devices have diverged before a host op");
  const Clock::time_point begin = Clock::now();
  const Status done = performHostOp(m_, program_, backend_, program_.rendezvousSteps[s.index], *hooks_);
  cost_.waitNs += nsSince(begin);
  return located(s, done);
}

Status GraphSchedule::runDirect(const Step& s, const Coordinates& active, int64_t iteration) {
  if (isControl(s)) return capturing_ ? captureControl(s, active) : runControl(s, active);
  if (s.kind == ProgramStepKind::Collective) return runCollective(program_.rendezvousSteps[s.index], active);
  for (int64_t p : active) {
    const auto coordinate = static_cast<size_t>(p);
    if (s.kind == ProgramStepKind::Join) {
      if (Status done = backend_.overlap()->join(p, s.index); !done) return done;
      continue;
    }
    if (s.kind == ProgramStepKind::Copy) {
      if (auto at = stacked_.find(&s); at != stacked_.end()) {
        if (Status done = backend_.runKernel(at->second[coordinate], 0, 0); !done) return done;
        continue;
      }
      const CopyStep& c = program_.copies[s.index];
      std::byte* base = program_.arenas[coordinate];
      const int64_t to = c.to + (c.stacked ? iteration * c.bytes[coordinate] : 0);
      if (Status done = backend_.copy(p, base + to, base + c.from, c.bytes[coordinate]); !done) return done;
      continue;
    }
    const bool kernel = s.kind == ProgramStepKind::Kernel;
    const Backend::Placed& at = (kernel ? program_.kernels : program_.gemms)[s.index].at[coordinate];
    for (uint32_t part = 0; part < at.parts; ++part)
      if (Status done = kernel ? backend_.runKernel(at.step, part, 0) : backend_.runGemm(at.step, part, 0);
          !done)
        return done;
  }
  return Ok{};
}

Status GraphSchedule::runCollective(const RendezvousStep& m, const Coordinates& active) {
  for (size_t g = 0; g < m.plan.groups.size(); ++g) {
    const CollectiveGroup& group = m.plan.groups[g];
    const auto isHere = [&](int64_t p) { return std::ranges::binary_search(active, p); };
    const auto here = static_cast<size_t>(std::ranges::count_if(group.coordinates, isHere));
    if (here == 0) continue;
    // Members of a collective inside a region have the same leader, so all or none are active. Collectives
    // without a rendezvous (each device takes its own shard) may have a partial group.
    DTC_CHECK(here == group.coordinates.size() || !m.plan.synchronizes(),
              "the devices of a collective's group have diverged");
    for (int64_t p : group.coordinates)
      if (m.overlapped)
        if (Status s = backend_.overlap()->beginOverlap(p); !s) return s;
    for (size_t member = 0; member < group.coordinates.size(); ++member) {
      if (!isHere(group.coordinates[member])) continue;
      const Rendezvous& r = program_.rendezvous[m.rendezvous[g]];
      if (Status s = backend_.communicator().share(m.plan, group, member, r.operands, r.results); !s)
        return s;
    }
    if (!m.plan.synchronizes()) continue;
    if (Status s = backend_.communicator().settle(m.plan, group); !s) return s;
    for (int64_t p : group.coordinates)
      if (m.overlapped)
        if (Status s = backend_.overlap()->endOverlap(p, *m.overlapped); !s) return s;
  }
  return Ok{};
}

Result<int64_t> GraphSchedule::number(int64_t coordinate, int64_t offset, DType dtype) {
  const Clock::time_point begin = Clock::now();
  auto read = readNumber(backend_, program_, coordinate, offset, dtype);
  cost_.waitNs += nsSince(begin);
  return read;
}

Result<GraphSchedule::Coordinates> GraphSchedule::choose(const Step& step, int64_t offset,
                                                         const Coordinates& active, Coordinates* rest) {
  const Leaders& leaders = leadersOf(step);
  std::vector<int8_t> known(all_.size(), -1); // by leader
  Coordinates chosen;
  for (int64_t p : active) {
    int8_t& flag = known[static_cast<size_t>(leaders[static_cast<size_t>(p)])];
    if (flag < 0) {
      auto holds = number(p, offset, DType::Bool); // read once per leader, from its first active device
      if (!holds) return holds.error();
      flag = *holds != 0;
      ++cost_.read;
    }
    if (flag)
      chosen.push_back(p);
    else if (rest)
      rest->push_back(p);
  }
  return chosen;
}

Status GraphSchedule::runControl(const Step& s, const Coordinates& active) {
  switch (s.kind) {
  case ProgramStepKind::Cond: return runCond(s, active);
  case ProgramStepKind::While: return runWhile(s, active);
  default: return runFor(s, active);
  }
}

Status GraphSchedule::runCond(const Step& s, const Coordinates& active) {
  const CondStep& c = program_.conds[s.index];
  Coordinates otherwise;
  auto holds = choose(s, c.predicate, active, &otherwise);
  if (!holds) return located(s, holds.error());
  if (Status done = runList(c.branch[0], *holds, 0); !done) return done;
  return runList(c.branch[1], otherwise, 0);
}

Status GraphSchedule::runWhile(const Step& s, const Coordinates& active) {
  const WhileStep& w = program_.whiles[s.index];
  Coordinates going = active;
  for (int64_t iteration = 0;; ++iteration) {
    if (Status done = runList(w.condition, going, 0); !done) return done;
    auto again = choose(s, w.predicate, going, nullptr);
    if (!again) return located(s, again.error());
    if (again->empty()) return Ok{};
    if (w.maxIterations >= 0 && iteration >= w.maxIterations)
      return located(s, tooManyIterations(w.maxIterations));
    if (Status done = runList(w.body, *again, 0); !done) return done;
    going = std::move(*again);
  }
}

Status GraphSchedule::runFor(const Step& s, const Coordinates& active) {
  const ForStep& loop = program_.fors[s.index];
  const Leaders& leaders = leadersOf(s);
  std::vector<std::optional<IterationRange>> ranges(all_.size()); // by leader
  int64_t maxCount = 0;
  for (int64_t p : active) {
    auto& mine = ranges[static_cast<size_t>(leaders[static_cast<size_t>(p)])];
    if (mine) continue;
    int64_t bounds[2];
    const ForStep::Bound* which[2] = {&loop.lo, &loop.hi};
    for (int i = 0; i < 2; ++i) {
      bounds[i] = which[i]->constant;
      if (which[i]->offset < 0) continue;
      auto read = number(p, which[i]->offset, DType::I32);
      if (!read) return located(s, read.error());
      bounds[i] = *read;
    }
    auto counted = iterationRange(loop, bounds[0], bounds[1]);
    if (!counted) return located(s, counted.error());
    mine = *counted;
    maxCount = std::max(maxCount, counted->count);
  }
  for (int64_t iteration = 0; iteration < maxCount; ++iteration) {
    Coordinates going;
    for (int64_t p : active) {
      const IterationRange& mine = *ranges[static_cast<size_t>(leaders[static_cast<size_t>(p)])];
      if (iteration >= mine.count) continue;
      going.push_back(p);
      std::byte* to = program_.arenas[static_cast<size_t>(p)] + loop.index;
      Status written = graphs_.writeIndex(p, to, static_cast<int32_t>(mine.lo + iteration));
      if (!written) return located(s, written);
    }
    if (Status done = runList(loop.body, going, iteration); !done) return done;
  }
  return Ok{};
}

// --- control flow as conditional graph nodes: selection and capture ---

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
