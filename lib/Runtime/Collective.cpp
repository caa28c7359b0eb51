#include "dtc/Runtime/Collective.h"

#include <algorithm>

namespace dtc {
namespace {

constexpr std::string_view kNames[] = {"all_reduce", "all_gather", "all_slice",      "reduce_scatter",
                                       "all_to_all", "permute",    "broadcast_from", "p2p"};

using Shape = std::vector<int64_t>;

int64_t product(const Shape& s, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t i = begin; i < end; ++i) n *= s[i];
  return n;
}

// A box of `size` (one entry per dim) at `from` in a tensor of shape `source`, put at `to` in one of shape `target`. At
// most two dims may be partly covered, so that three levels of loops say it.
BlockCopy boxCopy(const Shape& source, const Shape& from, const Shape& target, const Shape& to,
                  const Shape& size) {
  BlockCopy c;
  std::vector<size_t> partial; // dims not covered whole on both sides
  for (size_t d = 0; d < size.size(); ++d)
    if (size[d] != source[d] || size[d] != target[d]) partial.push_back(d);
  DTC_CHECK(partial.size() <= 2, "a collective's block is partial in at most two dims");
  for (size_t d = 0; d < size.size(); ++d) {
    c.source += from[d] * product(source, d + 1, source.size());
    c.target += to[d] * product(target, d + 1, target.size());
  }
  size_t last = partial.empty() ? 0 : partial.back(), first = partial.empty() ? 0 : partial.front();
  c.length = product(size, last, size.size());
  size_t rowsFrom = partial.size() == 2 ? first : 0;
  c.rows = product(size, rowsFrom, last);
  c.sourceRow = product(source, last, source.size());
  c.targetRow = product(target, last, target.size());
  // Between the two partial dims rows are evenly spaced only if the outer of them steps by whole rows of both sides.
  if (partial.size() == 2) {
    c.slabs = product(size, 0, first);
    c.sourceSlab = product(source, first, source.size());
    c.targetSlab = product(target, first, target.size());
  }
  return c;
}

struct Planner {
  const CollectiveSpec& spec;
  const Mesh& mesh;
  std::string problem;

  const Shape& in(int64_t place, size_t k = 0) const {
    return spec.operandShapes[k][static_cast<size_t>(place)];
  }
  const Shape& out(int64_t place, size_t k = 0) const {
    return spec.resultShapes[k][static_cast<size_t>(place)];
  }

  void copy(CollectiveGroup& g, size_t member, size_t from, size_t operand, const Shape& at, const Shape& to,
            const Shape& size) {
    const Shape &source = in(g.places[from], operand), &target = out(g.places[member], operand);
    bool fits = source.size() == target.size() && size.size() == source.size();
    for (size_t d = 0; fits && d < size.size(); ++d)
      fits = at[d] >= 0 && to[d] >= 0 && at[d] + size[d] <= source[d] && to[d] + size[d] <= target[d];
    if (!fits) {
      problem = "the pieces of its operands and results do not fit together";
      return;
    }
    if (product(size, 0, size.size()) == 0) return;
    BlockCopy c = boxCopy(source, at, target, to, size);
    c.from = static_cast<uint32_t>(from);
    c.operand = static_cast<uint32_t>(operand);
    g.members[member].blocks.push_back(c);
  }

  void gather(CollectiveGroup& g, size_t m) {
    Shape to(out(g.places[m]).size(), 0), at = to;
    for (size_t i = 0; i < g.places.size(); ++i) {
      const Shape& size = in(g.places[i]);
      copy(g, m, i, 0, at, to, size);
      if (!problem.empty()) return;
      to[spec.dim] += size[spec.dim];
    }
    if (to[spec.dim] != out(g.places[m])[spec.dim])
      problem = "the pieces that it gathers do not make up its result";
  }

  // Member m's slice of member i's operand, for one i (all_slice: its own) or all (reduce_scatter).
  void slice(CollectiveGroup& g, size_t m, bool fromAll) {
    const Shape& size = out(g.places[m]);
    Shape at(size.size(), 0), to = at;
    int64_t total = 0;
    for (size_t i = 0; i < g.places.size(); ++i) {
      if (i == m) at[spec.dim] = total;
      total += out(g.places[i])[spec.dim];
    }
    if (total != in(g.places[m])[spec.dim]) problem = "the slices that it makes do not tile its operand";
    for (size_t i = fromAll ? 0 : m; i < (fromAll ? g.places.size() : m + 1); ++i)
      copy(g, m, i, 0, at, to, size);
  }

  void exchange(CollectiveGroup& g, size_t m) {
    size_t split = spec.dim, concat = spec.concatDim;
    int64_t n = static_cast<int64_t>(g.places.size());
    Shape to(out(g.places[m]).size(), 0);
    for (size_t i = 0; i < g.places.size(); ++i) {
      Shape size = in(g.places[i]), at(size.size(), 0);
      if (split == concat) {
        Interval part = piece(size[split], n, static_cast<int64_t>(m));
        at[split] = part.begin;
        size[split] = part.size();
      } else {
        for (size_t j = 0; j < m; ++j) at[split] += out(g.places[j])[split];
        size[split] = out(g.places[m])[split];
      }
      copy(g, m, i, 0, at, to, size);
      if (!problem.empty()) return;
      to[concat] += size[concat];
    }
    if (to[concat] != out(g.places[m])[concat])
      problem = "the pieces that it exchanges do not make up its result";
  }

  void send(CollectiveGroup& g, size_t m) {
    std::vector<bool> filled(spec.operandShapes.size(), false);
    for (const CollectiveSpec::Send& s : spec.sends) {
      int64_t n = static_cast<int64_t>(g.places.size());
      if (s.from < 0 || s.from >= n || s.to < 0 || s.to >= n || s.operand >= filled.size()) {
        problem = "it sends from " + std::to_string(s.from) + " to " + std::to_string(s.to) +
                  ", but its axes have " + std::to_string(n) + " places";
        return;
      }
      if (s.to != static_cast<int64_t>(m)) continue;
      if (filled[s.operand]) problem = "device " + std::to_string(s.to) + " receives more than once";
      filled[s.operand] = true;
      const Shape& size = out(g.places[m], s.operand);
      if (in(g.places[static_cast<size_t>(s.from)], s.operand) != size)
        problem = "it sends a piece of another size than it receives: fill_piece makes them equal";
      Shape zero(size.size(), 0);
      copy(g, m, static_cast<size_t>(s.from), s.operand, zero, zero, size);
    }
    for (size_t k = 0; k < filled.size(); ++k)
      if (!filled[k]) g.members[m].zeroResults.push_back(static_cast<uint32_t>(k));
  }

  void whole(CollectiveGroup& g, size_t m, int64_t from) {
    if (from < 0 || from >= static_cast<int64_t>(g.places.size())) {
      problem = "its root " + std::to_string(from) + " is no place of its axes";
      return;
    }
    const Shape& size = out(g.places[m]);
    Shape zero(size.size(), 0);
    copy(g, m, static_cast<size_t>(from), 0, zero, zero, size);
  }

  void member(CollectiveGroup& g, size_t m) {
    switch (spec.kind) {
    case CollectiveKind::AllReduce:
      for (int64_t p : g.places)
        if (in(p) != out(g.places[m])) problem = "the pieces that it reduces differ in size";
      break;
    case CollectiveKind::AllGather: gather(g, m); break;
    case CollectiveKind::AllSlice: slice(g, m, false); break;
    case CollectiveKind::ReduceScatter: slice(g, m, true); break;
    case CollectiveKind::AllToAll: exchange(g, m); break;
    case CollectiveKind::Permute:
    case CollectiveKind::P2p: send(g, m); break;
    case CollectiveKind::BroadcastFrom: whole(g, m, spec.root); break;
    }
    for (size_t k = 0; k < spec.resultShapes.size(); ++k) {
      const Shape& s = out(g.places[m], k);
      g.members[m].resultElements.push_back(product(s, 0, s.size()));
    }
  }

  void countBytes(CollectiveGroup& g) {
    const int64_t n = static_cast<int64_t>(g.places.size());
    auto width = [&](uint32_t operand) {
      return dtypeBytes(spec.dtypes.empty() ? spec.wire : spec.dtypes[operand]);
    };
    if (spec.kind == CollectiveKind::AllReduce)
      for (CollectiveMember& m : g.members)
        m.sentBytes = mulDiv(2 * (n - 1), m.resultElements[0] * width(0), n);
    for (size_t m = 0; m < g.members.size(); ++m)
      for (const BlockCopy& c : g.members[m].blocks)
        if (c.from != m) g.members[c.from].sentBytes += c.elements() * width(c.operand);
  }
};

} // namespace

std::optional<CollectiveKind> parseCollectiveKind(std::string_view opName) {
  if (opName.ends_with("_start")) opName.remove_suffix(6);
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == opName) return static_cast<CollectiveKind>(i);
  return std::nullopt;
}

std::string_view collectiveName(CollectiveKind k) { return kNames[static_cast<size_t>(k)]; }

bool CollectivePlan::rounds() const { return isFloat(dtype) && isFloat(wire) && !holdsAll(wire, dtype); }

bool CollectivePlan::meets() const {
  return kind != CollectiveKind::AllSlice && !groups.empty() && groups[0].places.size() > 1;
}

Result<CollectivePlan> planCollective(const CollectiveSpec& spec, const Mesh& mesh) {
  CollectivePlan plan;
  plan.kind = spec.kind;
  plan.dtype = spec.dtype;
  plan.wire = spec.wire;
  plan.op = spec.op;
  plan.numOperands = spec.operandShapes.size();
  for (size_t k = 0; k < plan.numOperands; ++k)
    plan.widths.push_back(dtypeBytes(spec.dtypes.empty() ? spec.dtype : spec.dtypes[k]));
  size_t places = static_cast<size_t>(mesh.numDevices());
  plan.groupOf.assign(places, UINT32_MAX);
  plan.memberOf.assign(places, 0);
  Planner planner{spec, mesh, ""};
  for (size_t p = 0; p < places; ++p) {
    if (plan.groupOf[p] != UINT32_MAX) continue;
    CollectiveGroup group;
    group.places = mesh.groupOf(spec.axes, static_cast<int64_t>(p));
    group.members.resize(group.places.size());
    for (size_t m = 0; m < group.places.size(); ++m) {
      plan.groupOf[static_cast<size_t>(group.places[m])] = static_cast<uint32_t>(plan.groups.size());
      plan.memberOf[static_cast<size_t>(group.places[m])] = static_cast<uint32_t>(m);
      planner.member(group, m);
    }
    if (!planner.problem.empty()) return inputError(planner.problem);
    planner.countBytes(group);
    plan.groups.push_back(std::move(group));
  }
  return plan;
}

} // namespace dtc
