#include "GraphSchedule.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

namespace dtc {
namespace {

using Clock = std::chrono::steady_clock;
int64_t nsSince(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
}

bool isControl(const Step& s) {
  return s.kind == StepKind::Cond || s.kind == StepKind::While || s.kind == StepKind::For;
}

int64_t rootOf(std::vector<int64_t>& parent, int64_t p) {
  while (parent[static_cast<size_t>(p)] != p) p = parent[static_cast<size_t>(p)];
  return p;
}

} // namespace

GraphSchedule::GraphSchedule(Module& m, const Program& program, Backend& backend, GraphBackend& graphs,
                             Options options)
    : m_(m), program_(program), backend_(backend), graphs_(graphs), options_(options),
      all_(static_cast<size_t>(program.places())) {
  std::iota(all_.begin(), all_.end(), 0);
}

Result<std::unique_ptr<GraphSchedule>> GraphSchedule::make(Module& m, const Program& program,
                                                           Backend& backend, Options options) {
  if (!backend.graphs()) return std::unique_ptr<GraphSchedule>();
  std::unique_ptr<GraphSchedule> made(new GraphSchedule(m, program, backend, *backend.graphs(), options));
  if (Status s = made->compile(program.steps, nullptr); !s) return s.error();
  if (Status s = made->prepareDecisions(); !s) return s.error();
  return made;
}

bool GraphSchedule::canKeep(const Step& s) {
  if (s.kind == StepKind::Cond || s.kind == StepKind::While) return canDecide(s);
  if (s.kind == StepKind::Copy) return !program_.copies[s.index].stacked || stacked_.contains(&s);
  if (s.kind == StepKind::Gemm)
    return std::ranges::all_of(program_.gemms[s.index].at, [&](const Backend::Placed& at) {
      return at.parts == 0 || graphs_.canKeep(at.step);
    });
  return s.kind == StepKind::Kernel || s.kind == StepKind::Collective || s.kind == StepKind::Join;
}

// A loop that begins at a number: the device knows the row from its index.
Status GraphSchedule::placeStacked(const Step& step, const ForStep& loop) {
  const CopyStep& c = program_.copies[step.index];
  if (!c.stacked || loop.lo.offset >= 0) return Ok{};
  std::vector<uint32_t> at;
  for (size_t p = 0; p < all_.size(); ++p) {
    std::byte* base = program_.arenas[p];
    auto placed = graphs_.placeStackedCopy(
        all_[p], {base + c.to, base + c.from, base + loop.index, c.bytes[p], loop.lo.number});
    if (!placed) return located(step, placed.error());
    at.push_back(*placed);
  }
  stacked_[&step] = std::move(at);
  return Ok{};
}

Status GraphSchedule::compile(const StepList& steps, const ForStep* within) {
  for (const Step& s : steps) { // first: a step is kept if what is within it can be
    std::vector<const StepList*> inner;
    if (s.kind == StepKind::Cond)
      for (const StepList& branch : program_.conds[s.index].branch) inner.push_back(&branch);
    if (s.kind == StepKind::While)
      inner = {&program_.whiles[s.index].condition, &program_.whiles[s.index].body};
    const ForStep* loop = s.kind == StepKind::For ? &program_.fors[s.index] : nullptr;
    if (loop) inner = {&loop->body};
    for (const StepList* one : inner)
      if (Status done = compile(*one, loop); !done) return done;
  }
  List& list = lists_[&steps];
  for (const Step& s : steps) {
    if (s.kind == StepKind::Copy && within)
      if (Status placed = placeStacked(s, *within); !placed) return placed;
    const bool kept = canKeep(s);
    if (!kept || list.empty() || !list.back().kept) list.push_back({{}, 0, kept, false, {}});
    list.back().steps.push_back(&s);
    if (s.kind != StepKind::Join) ++list.back().work;
  }
  return Ok{};
}

// Places that a collective of these steps, at any depth, brings together get one leader.
void GraphSchedule::meetWithin(const StepList& steps, Leaders& leaders) const {
  for (const Step& s : steps) {
    if (s.kind == StepKind::Cond)
      for (const StepList& branch : program_.conds[s.index].branch) meetWithin(branch, leaders);
    if (s.kind == StepKind::While) {
      meetWithin(program_.whiles[s.index].condition, leaders);
      meetWithin(program_.whiles[s.index].body, leaders);
    }
    if (s.kind == StepKind::For) meetWithin(program_.fors[s.index].body, leaders);
    if (s.kind == StepKind::Host) std::ranges::fill(leaders, 0); // all come to it
    if (s.kind != StepKind::Collective || !program_.meetings[s.index].plan.meets()) continue;
    for (const CollectiveGroup& g : program_.meetings[s.index].plan.groups)
      for (int64_t p : g.places) {
        const int64_t a = rootOf(leaders, g.places[0]), b = rootOf(leaders, p);
        leaders[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
      }
  }
}

const GraphSchedule::Leaders& GraphSchedule::leadersOf(const Step& step) {
  auto [at, made] = leaders_.try_emplace(&step, all_);
  if (made) {
    const StepList one(1, step);
    meetWithin(one, at->second);
    for (int64_t& p : at->second) p = rootOf(at->second, p);
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
  const Status done = runList(program_.steps, all_, 0);
  cost_.ns = nsSince(begin) - cost_.waitNs;
  if (!done) return backend_.abandon(), done;
  if (Status finished = backend_.finish(); !finished) return finished;
  return askGraphs();
}

Status GraphSchedule::runList(const StepList& steps, const Places& active, int64_t trip) {
  if (active.empty()) return Ok{};
  for (Item& item : lists_.at(&steps))
    if (Status s = runItem(item, active, trip); !s) return s;
  return Ok{};
}

Status GraphSchedule::runItem(Item& item, const Places& active, int64_t trip) {
  if (!item.kept && isControl(*item.steps[0])) return runControl(*item.steps[0], active);
  if (item.steps[0]->kind == StepKind::Host) return runHost(*item.steps[0], active);
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
    if (done) done = located(*step, runDirect(*step, active, trip));
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
                        " steps became a CUDA graph; --no-graphs runs without)");
  item.graph = *graph;
  cost_.waitNs += nsSince(begin); // once, and no part of a step
  return Ok{};
}

Status GraphSchedule::runHost(const Step& s, const Places& active) {
  DTC_CHECK(active.size() == all_.size(), "devices have parted before an op that all must come to");
  const Clock::time_point begin = Clock::now();
  const Status done = performHostOp(m_, program_, backend_, program_.meetings[s.index], *hooks_);
  cost_.waitNs += nsSince(begin);
  return located(s, done);
}

Status GraphSchedule::runDirect(const Step& s, const Places& active, int64_t trip) {
  if (isControl(s)) return capturing_ ? captureControl(s, active) : runControl(s, active);
  if (s.kind == StepKind::Collective) return runCollective(program_.meetings[s.index], active);
  for (int64_t p : active) {
    const auto place = static_cast<size_t>(p);
    if (s.kind == StepKind::Join) {
      if (Status done = backend_.overlap()->join(p, s.index); !done) return done;
      continue;
    }
    if (s.kind == StepKind::Copy) {
      if (auto at = stacked_.find(&s); at != stacked_.end()) {
        if (Status done = backend_.runKernel(at->second[place], 0, 0); !done) return done;
        continue;
      }
      const CopyStep& c = program_.copies[s.index];
      std::byte* base = program_.arenas[place];
      const int64_t to = c.to + (c.stacked ? trip * c.bytes[place] : 0);
      if (Status done = backend_.copy(p, base + to, base + c.from, c.bytes[place]); !done) return done;
      continue;
    }
    const bool kernel = s.kind == StepKind::Kernel;
    const Backend::Placed& at = (kernel ? program_.kernels : program_.gemms)[s.index].at[place];
    for (uint32_t part = 0; part < at.parts; ++part)
      if (Status done = kernel ? backend_.runKernel(at.step, part, 0) : backend_.runGemm(at.step, part, 0);
          !done)
        return done;
  }
  return Ok{};
}

Status GraphSchedule::runCollective(const MeetingStep& m, const Places& active) {
  for (size_t g = 0; g < m.plan.groups.size(); ++g) {
    const CollectiveGroup& group = m.plan.groups[g];
    const auto isHere = [&](int64_t p) { return std::ranges::binary_search(active, p); };
    const auto here = static_cast<size_t>(std::ranges::count_if(group.places, isHere));
    if (here == 0) continue;
    // Those who meet within a region have one leader, and so are there together, or not at all; who takes a piece of its own is by itself.
    DTC_CHECK(here == group.places.size() || !m.plan.meets(),
              "the devices of a collective's group have parted");
    for (int64_t p : group.places)
      if (m.aside)
        if (Status s = backend_.overlap()->beginAside(p); !s) return s;
    for (size_t member = 0; member < group.places.size(); ++member) {
      if (!isHere(group.places[member])) continue;
      if (Status s = backend_.communicator().share(m.plan, group, member, m.operands[g], m.results[g]); !s)
        return s;
    }
    if (!m.plan.meets()) continue;
    if (Status s = backend_.communicator().settle(m.plan, group); !s) return s;
    for (int64_t p : group.places)
      if (m.aside)
        if (Status s = backend_.overlap()->endAside(p, *m.aside); !s) return s;
  }
  return Ok{};
}

Result<int64_t> GraphSchedule::number(int64_t place, int64_t offset, DType dtype) {
  const Clock::time_point begin = Clock::now();
  auto read = readNumber(backend_, program_, place, offset, dtype);
  cost_.waitNs += nsSince(begin);
  return read;
}

Result<GraphSchedule::Places> GraphSchedule::choose(const Step& step, int64_t offset, const Places& active,
                                                    Places* rest) {
  const Leaders& leaders = leadersOf(step);
  std::vector<int8_t> known(all_.size(), -1); // by leader
  Places chosen;
  for (int64_t p : active) {
    int8_t& flag = known[static_cast<size_t>(leaders[static_cast<size_t>(p)])];
    if (flag < 0) {
      auto holds = number(p, offset, DType::Bool); // the first that is active stands for all of its leader's
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

Status GraphSchedule::runControl(const Step& s, const Places& active) {
  switch (s.kind) {
  case StepKind::Cond: return runCond(s, active);
  case StepKind::While: return runWhile(s, active);
  default: return runFor(s, active);
  }
}

Status GraphSchedule::runCond(const Step& s, const Places& active) {
  const CondStep& c = program_.conds[s.index];
  Places otherwise;
  auto holds = choose(s, c.predicate, active, &otherwise);
  if (!holds) return located(s, holds.error());
  if (Status done = runList(c.branch[0], *holds, 0); !done) return done;
  return runList(c.branch[1], otherwise, 0);
}

Status GraphSchedule::runWhile(const Step& s, const Places& active) {
  const WhileStep& w = program_.whiles[s.index];
  Places going = active;
  for (int64_t trip = 0;; ++trip) {
    if (Status done = runList(w.condition, going, 0); !done) return done;
    auto again = choose(s, w.predicate, going, nullptr);
    if (!again) return located(s, again.error());
    if (again->empty()) return Ok{};
    if (w.maxTrips >= 0 && trip >= w.maxTrips) return located(s, tooManyTrips(w.maxTrips));
    if (Status done = runList(w.body, *again, 0); !done) return done;
    going = std::move(*again);
  }
}

Status GraphSchedule::runFor(const Step& s, const Places& active) {
  const ForStep& loop = program_.fors[s.index];
  const Leaders& leaders = leadersOf(s);
  std::vector<std::optional<ForTrips>> trips(all_.size()); // by leader
  int64_t most = 0;
  for (int64_t p : active) {
    auto& mine = trips[static_cast<size_t>(leaders[static_cast<size_t>(p)])];
    if (mine) continue;
    int64_t bounds[2];
    const ForStep::Bound* which[2] = {&loop.lo, &loop.hi};
    for (int i = 0; i < 2; ++i) {
      bounds[i] = which[i]->number;
      if (which[i]->offset < 0) continue;
      auto read = number(p, which[i]->offset, DType::I32);
      if (!read) return located(s, read.error());
      bounds[i] = *read;
    }
    auto counted = tripsOf(loop, bounds[0], bounds[1]);
    if (!counted) return located(s, counted.error());
    mine = *counted;
    most = std::max(most, counted->count);
  }
  for (int64_t trip = 0; trip < most; ++trip) {
    Places going;
    for (int64_t p : active) {
      const ForTrips& mine = *trips[static_cast<size_t>(leaders[static_cast<size_t>(p)])];
      if (trip >= mine.count) continue;
      going.push_back(p);
      std::byte* to = program_.arenas[static_cast<size_t>(p)] + loop.index;
      Status written = graphs_.writeIndex(p, to, static_cast<int32_t>(mine.lo + trip));
      if (!written) return located(s, written);
    }
    if (Status done = runList(loop.body, going, trip); !done) return done;
  }
  return Ok{};
}

} // namespace dtc
