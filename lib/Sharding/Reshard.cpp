#include "dtc/Sharding/Reshard.h"
#include "ReshardState.h"
#include "dtc/Support/Result.h"
#include <algorithm>
#include <limits>
#include <queue>
#include <unordered_map>

namespace dtc {
namespace {

int64_t clampBytes(double b) {
  return b < 9e18 ? static_cast<int64_t>(b) : std::numeric_limits<int64_t>::max();
}

struct Node {
  const PlanState* state = nullptr; // key of the map
  double price = std::numeric_limits<double>::infinity();
  int steps = 0;
  int from = -1;
  PlanMove move; // the step that led here; `next` is empty
  bool done = false;
};

class Search {
public:
  // No state exceeds `limit` bytes, or costs `bound` seconds or more.
  Search(const PlanSpace& space, const PlanState& from, const PlanState& to, MoveSet set, int64_t limit,
         double bound = std::numeric_limits<double>::infinity())
      : space_(space), to_(to), set_(set), limit_(limit), bound_(bound) {
    reach(from, 0, 0, -1, nullptr);
  }

  // The plan, or nothing if there is none below the bound; `exhausted`: the search hit its limit of states.
  std::optional<ReshardPlan> run(int maxExpansions, bool& exhausted) {
    while (!queue_.empty()) {
      if (maxExpansions == 0) {
        exhausted = true;
        return std::nullopt;
      }
      const int id = queue_.top().id;
      queue_.pop();
      Node& node = nodes_[static_cast<size_t>(id)];
      if (node.done) continue;
      node.done = true;
      if (*node.state == to_) return planTo(id);
      --maxExpansions;
      expand(id);
    }
    return std::nullopt;
  }

  // The fallback, which always exists: reduce and gather everything that differs, then slice.
  ReshardPlan greedy() {
    int id = 0;
    while (*nodes_[static_cast<size_t>(id)].state != to_) {
      const PlanState state = *nodes_[static_cast<size_t>(id)].state;
      moves_.clear();
      collectMoves(space_, state, to_, set_, moves_);
      PlanMove* best = nullptr;
      for (PlanMove& m : moves_)
        if (greedyRank(state, m) > 0 && (!best || greedyRank(state, m) > greedyRank(state, *best))) best = &m;
      DTC_CHECK(best, "no plan for this change of sharding");
      take(id, *best, space_.localBytes(state), space_.localBytes(best->next));
      id = ids_.find(best->next)->second;
    }
    return planTo(id);
  }

private:
  // Orders reductions before gathers before other steps, the largest first; 0 for steps that make no progress
  // by themselves.
  [[nodiscard]] size_t greedyRank(const PlanState& state, const PlanMove& m) const {
    constexpr size_t kPhase = 1000;
    const size_t axes = std::min(m.run.size() + 1, kPhase - 1);
    const auto d = static_cast<size_t>(m.kind == StepKind::AllGather ? m.concat.dim : m.split.dim);
    switch (m.kind) {
    case StepKind::AllReduce: return 3 * kPhase + axes;
    case StepKind::AllGather: return isPrefix(state.dims[d], to_.dims[d]) ? 0 : 2 * kPhase + axes;
    case StepKind::MakePending: return kPhase + axes;
    case StepKind::AllSlice: return isPrefix(m.next.dims[d], to_.dims[d]) ? axes : 0;
    default: return 0;
    }
  }

  static bool isPrefix(const PartRow& row, const PartRow& want) {
    return row.size() <= want.size() && std::equal(row.begin(), row.end(), want.begin());
  }

  struct Entry {
    double price; // lower bound for the complete plan
    int steps;
    int id;
    bool operator<(const Entry& o) const { // the queue returns the max first
      return std::tuple(-price, -steps, -id) < std::tuple(-o.price, -o.steps, -o.id);
    }
  };

  void expand(int id) {
    moves_.clear();
    const PlanState& state = *nodes_[static_cast<size_t>(id)].state;
    collectMoves(space_, state, to_, set_, moves_);
    const int64_t in = space_.localBytes(state);
    for (PlanMove& m : moves_)
      if (const int64_t out = space_.localBytes(m.next); out <= limit_) take(id, m, in, out);
  }

  // `in` and `out`: the bytes that a device holds before and after the step.
  void take(int id, PlanMove& m, int64_t in, int64_t out) {
    const Node& node = nodes_[static_cast<size_t>(id)];
    const double price = node.price + priceOfMove(m, in, out).seconds;
    const int steps = node.steps + 1;
    if (price >= bound_) return;
    // The exhaustive search is A*: states that cannot lead to a plan below the bound are not expanded.
    const double rest = set_ == MoveSet::All ? lowerBound(space_, m.next, to_) : 0;
    if (price + rest >= bound_) return;
    PlanState next = std::move(m.next);
    reach(next, price, steps, id, &m, rest);
    m.next = std::move(next);
  }

  [[nodiscard]] CollectivePrice priceOfMove(const PlanMove& m, int64_t in, int64_t out) const {
    axes_.clear();
    for (Part p : m.run) axes_.push_back(space_.atoms[static_cast<size_t>(p)]);
    if (m.kind == StepKind::AllReduce || m.kind == StepKind::ReduceScatter) // in the communication dtype
      in = mulDiv(in, commBytes(m.op, space_.dtype), dtypeBytes(space_.dtype));
    return priceOf(m.kind, axes_, in, out, space_.mesh, space_.machine);
  }

  void reach(const PlanState& state, double price, int steps, int from, const PlanMove* move,
             double rest = 0) {
    auto [it, isNew] = ids_.emplace(state, static_cast<int>(nodes_.size()));
    if (isNew) nodes_.push_back({&it->first});
    Node& n = nodes_[static_cast<size_t>(it->second)];
    if (std::pair(price, steps) >= std::pair(n.price, n.steps)) return;
    if (n.done && set_ != MoveSet::All) return;
    // the lower bound is not consistent: it may fall by more than the cost of a step, so states may be
    // reopened
    n.done = false;
    n.price = price;
    n.steps = steps;
    n.from = from;
    if (move) n.move = *move;
    queue_.push({price + rest, steps, it->second});
  }

  ReshardPlan planTo(int id) {
    ReshardPlan plan;
    plan.price = nodes_[static_cast<size_t>(id)].price;
    for (; nodes_[static_cast<size_t>(id)].from >= 0; id = nodes_[static_cast<size_t>(id)].from) {
      Node& n = nodes_[static_cast<size_t>(id)];
      const PlanState& before = *nodes_[static_cast<size_t>(n.from)].state;
      n.move.next = *n.state;
      ReshardStep step = stepOf(space_, before, n.move);
      const int64_t in = space_.localBytes(before), out = space_.localBytes(*n.state);
      const CollectivePrice p = priceOfMove(n.move, in, out);
      step.result = space_.shardingOf(*n.state);
      step.bytesReceived = p.bytesReceived;
      step.latencySeconds = p.latencySeconds;
      step.price = p.seconds;
      plan.bytesReceived += p.bytesReceived;
      const auto held = static_cast<double>(in) + static_cast<double>(out);
      plan.peakBytes = std::max(plan.peakBytes, clampBytes(held));
      plan.steps.push_back(std::move(step));
    }
    std::ranges::reverse(plan.steps);
    return plan;
  }

  const PlanSpace& space_;
  const PlanState& to_;
  MoveSet set_;
  int64_t limit_;
  double bound_;
  std::unordered_map<PlanState, int, PlanStateHash> ids_;
  std::vector<Node> nodes_;
  std::priority_queue<Entry> queue_;
  std::vector<PlanMove> moves_;
  mutable std::vector<AxisRef> axes_;
};

// `from`, with everything on the named axes gathered and reduced.
Sharding without(const Sharding& from, const std::vector<StrId>& names) {
  auto gone = [&](const AxisRef& a) { return std::find(names.begin(), names.end(), a.name) != names.end(); };
  Sharding s = from;
  for (DimSharding& d : s.dims) {
    // A strided list that loses an axis is gathered completely: the remainder may not be expressible.
    const bool hit = std::ranges::any_of(d.parts, [&](auto& p) { return p.isAxis() && gone(p.axis); });
    if (!hit) continue;
    auto first = std::ranges::find_if(d.parts, [&](auto& p) { return p.isAxis() && gone(p.axis); });
    if (d.strided()) first = d.parts.begin();
    d.parts.erase(first, d.parts.end());
  }
  std::erase_if(s.pending, [&](const PendingAxis& p) { return gone(p.axis); });
  return s;
}

} // namespace

std::string_view stepName(StepKind k) {
  switch (k) {
  case StepKind::AllGather: return "all_gather";
  case StepKind::AllSlice: return "all_slice";
  case StepKind::AllToAll: return "all_to_all";
  case StepKind::ReduceScatter: return "reduce_scatter";
  case StepKind::AllReduce: return "all_reduce";
  case StepKind::Permute: return "permute";
  case StepKind::MakePending: return "make_pending";
  }
  return "";
}

std::vector<PlannedSize> plannedSizes(std::span<const int64_t> globalShape) {
  std::vector<PlannedSize> out;
  for (int64_t n : globalShape) out.push_back({n, n});
  return out;
}

std::vector<PlannedSize> plannedSizes(std::span<const Dim> globalShape, const DimTable& dims) {
  std::vector<PlannedSize> out;
  for (Dim d : globalShape) {
    const DimExpr e = dims.expr(d);
    int64_t size = e.coefficient;
    for (size_t i = 0; i < e.symbols.size(); ++i) size = checkedMul(size, kNominalSymbol).value_or(size);
    out.push_back({size, e.coefficient});
  }
  return out;
}

std::vector<int64_t> viewSplits(const ReshardStep& step, int dim) {
  std::vector<int64_t> splits;
  auto add = [&](const StepSlot& slot) {
    if (slot.dim != dim) return;
    if (slot.before > 1) splits.push_back(slot.before);
    if (slot.blocks > 0) splits.push_back(slot.before * slot.blocks);
  };
  const StepKind k = step.kind;
  if (k == StepKind::AllGather || k == StepKind::AllToAll) add(step.concat);
  if (k == StepKind::AllSlice || k == StepKind::ReduceScatter || k == StepKind::AllToAll) add(step.split);
  std::ranges::sort(splits);
  splits.erase(std::unique(splits.begin(), splits.end()), splits.end());
  return splits;
}

CollectivePrice priceOf(StepKind kind, std::span<const AxisRef> axes, int64_t inBytes, int64_t outBytes,
                        const Mesh& mesh, const NominalMachine& machine) {
  if (kind == StepKind::MakePending) return {}; // a `select`, which is fused
  if (kind == StepKind::AllSlice) return {0, 0, machine.copySeconds(static_cast<double>(outBytes))};
  const auto k = static_cast<double>(mesh.sizeOf(axes));
  if (k <= 1) return {};
  const auto in = static_cast<double>(inBytes), out = static_cast<double>(outBytes);
  double bytes = in;
  int rounds = 1; // number of sequential messages
  for (double reach = 1; reach < k; reach *= 2) ++rounds;
  --rounds;
  switch (kind) {
  case StepKind::AllGather: bytes = out * (k - 1) / k; break;
  case StepKind::AllToAll:
  case StepKind::ReduceScatter: bytes = in * (k - 1) / k; break;
  case StepKind::AllReduce: bytes = 2 * in * (k - 1) / k, rounds *= 2; break;
  default: rounds = 1; break;
  }
  double bandwidth = std::numeric_limits<double>::infinity(), latency = 0;
  for (const AxisRef& a : axes) {
    const Link l = machine.linkOf(a);
    bandwidth = std::min(bandwidth, l.bytesPerSecond);
    latency = std::max(latency, l.latencySeconds);
  }
  CollectivePrice p;
  p.bytesReceived = clampBytes(bytes);
  p.latencySeconds = machine.launchSeconds + latency * rounds;
  p.seconds = p.latencySeconds + bytes / bandwidth;
  return p;
}

// Returns a cheaper plan within `limit`, or the given one.
static ReshardPlan improved(const PlanSpace& space, const PlanState& start, const PlanState& goal,
                            int64_t limit, ReshardPlan plan, const ReshardOptions& options) {
  const double bound = plan.price * (1 - 1e-9);
  if (lowerBound(space, start, goal) >= bound) return plan;
  bool exhausted = false;
  auto priced = [](const ReshardStep& s) { return s.price > 0; };
  if (std::ranges::count_if(plan.steps, priced) > 1)
    if (auto better =
            Search(space, start, goal, MoveSet::Detours, limit, bound).run(options.maxExpansions, exhausted))
      plan = *std::move(better);
  if (std::count(space.usable.begin(), space.usable.end(), true) > options.maxCompleteAtoms) return plan;
  auto best = Search(space, start, goal, MoveSet::All, limit, plan.price * (1 - 1e-9))
                  .run(options.maxComplete, exhausted);
  return best ? *std::move(best) : plan;
}

ReshardPlan planReshard(const Sharding& from, const Sharding& to, const Mesh& mesh,
                        std::span<const PlannedSize> shape, DType dtype, const NominalMachine& machine,
                        const ReshardOptions& options) {
  PlanSpace space{mesh, shape, dtype, machine, from.mesh, {}, {}, {}};
  std::vector<StrId> incompatible;
  space.atoms = commonAtoms(from, to, mesh, incompatible);
  // sub-axes without a common refinement are only compatible where neither is used
  if (!incompatible.empty()) {
    const Sharding middle = without(from, incompatible);
    ReshardPlan first = planReshard(from, middle, mesh, shape, dtype, machine, options);
    ReshardPlan second = planReshard(middle, to, mesh, shape, dtype, machine, options);
    first.steps.insert(first.steps.end(), second.steps.begin(), second.steps.end());
    first.price += second.price;
    first.bytesReceived += second.bytesReceived;
    first.peakBytes = std::max(first.peakBytes, second.peakBytes);
    return first;
  }
  for (const AxisRef& a : space.atoms) space.atomSize.push_back(mesh.axisSize(a));
  const PlanState start = space.stateOf(from), goal = space.stateOf(to);
  if (start == goal) return {};
  for (size_t a = 0; a < space.atoms.size(); ++a)
    space.usable.push_back(start.uses(static_cast<int>(a)) || goal.uses(static_cast<int>(a)));
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  int64_t limit = std::max<int64_t>({space.localBytes(start), space.localBytes(goal), 1});
  std::optional<ReshardPlan> plan;
  while (!plan) {
    bool exhausted = false;
    plan = Search(space, start, goal, MoveSet::Direct, limit).run(options.maxExpansions, exhausted);
    if (plan) break;
    if (limit == kNoLimit)
      plan = Search(space, start, goal, MoveSet::Direct, limit).greedy();
    else
      limit = exhausted ? kNoLimit : checkedMul(limit, 2).value_or(kNoLimit);
  }
  return improved(space, start, goal, limit, *std::move(plan), options);
}

} // namespace dtc
