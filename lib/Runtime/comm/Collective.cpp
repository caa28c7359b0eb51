#include "dtc/Runtime/comm/Collective.h"

#include <algorithm>

namespace dtc {
namespace {

using Shape = std::vector<int64_t>;

int64_t product(const Shape& s, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t i = begin; i < end; ++i) n *= s[i];
  return n;
}

// The copy of a box of `size` (one entry per dim) at `from` in a tensor of shape `source` to `to` in one of
// shape `target`. At most two dims may be partially covered, so that three loop levels suffice.
BlockCopy boxCopy(const Shape& source, const Shape& from, const Shape& target, const Shape& to,
                  const Shape& size) {
  BlockCopy c;
  std::vector<size_t> partial; // dims partially covered in source or target
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
  // Between the two partial dims, rows have a constant stride only if the outer one steps by whole rows on
  // both sides.
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

  const Shape& in(int64_t coordinate, size_t k = 0) const {
    return spec.operandShapes[k][static_cast<size_t>(coordinate)];
  }
  const Shape& out(int64_t coordinate, size_t k = 0) const {
    return spec.resultShapes[k][static_cast<size_t>(coordinate)];
  }

  void copy(CollectiveGroup& g, size_t member, size_t from, size_t operand, const Shape& at, const Shape& to,
            const Shape& size) {
    const Shape &source = in(g.coordinates[from], operand), &target = out(g.coordinates[member], operand);
    bool fits = source.size() == target.size() && size.size() == source.size();
    for (size_t d = 0; fits && d < size.size(); ++d)
      fits = at[d] >= 0 && to[d] >= 0 && at[d] + size[d] <= source[d] && to[d] + size[d] <= target[d];
    if (!fits) {
      problem = "the shards of its operands and results have inconsistent shapes";
      return;
    }
    if (product(size, 0, size.size()) == 0) return;
    BlockCopy c = boxCopy(source, at, target, to, size);
    c.from = static_cast<uint32_t>(from);
    c.operand = static_cast<uint32_t>(operand);
    g.members[member].blocks.push_back(c);
  }

  void gather(CollectiveGroup& g, size_t m) {
    Shape to(out(g.coordinates[m]).size(), 0), at = to;
    for (size_t i = 0; i < g.coordinates.size(); ++i) {
      const Shape& size = in(g.coordinates[i]);
      copy(g, m, i, 0, at, to, size);
      if (!problem.empty()) return;
      to[spec.dim] += size[spec.dim];
    }
    if (to[spec.dim] != out(g.coordinates[m])[spec.dim])
      problem = "the gathered shards do not tile its result";
  }

  // Member m's slice of member i's operand, for one i (all_slice: its own) or all (reduce_scatter).
  void slice(CollectiveGroup& g, size_t m, bool fromAll) {
    const Shape& size = out(g.coordinates[m]);
    Shape at(size.size(), 0), to = at;
    int64_t total = 0;
    for (size_t i = 0; i < g.coordinates.size(); ++i) {
      if (i == m) at[spec.dim] = total;
      total += out(g.coordinates[i])[spec.dim];
    }
    if (total != in(g.coordinates[m])[spec.dim]) problem = "its slices do not tile its operand";
    for (size_t i = fromAll ? 0 : m; i < (fromAll ? g.coordinates.size() : m + 1); ++i)
      copy(g, m, i, 0, at, to, size);
  }

  void exchange(CollectiveGroup& g, size_t m) {
    size_t split = spec.dim, concat = spec.concatDim;
    int64_t n = static_cast<int64_t>(g.coordinates.size());
    Shape to(out(g.coordinates[m]).size(), 0);
    for (size_t i = 0; i < g.coordinates.size(); ++i) {
      Shape size = in(g.coordinates[i]), at(size.size(), 0);
      if (split == concat) {
        Interval part = shardInterval(size[split], n, static_cast<int64_t>(m));
        at[split] = part.begin;
        size[split] = part.size();
      } else {
        for (size_t j = 0; j < m; ++j) at[split] += out(g.coordinates[j])[split];
        size[split] = out(g.coordinates[m])[split];
      }
      copy(g, m, i, 0, at, to, size);
      if (!problem.empty()) return;
      to[concat] += size[concat];
    }
    if (to[concat] != out(g.coordinates[m])[concat]) problem = "the exchanged shards do not tile its result";
  }

  void send(CollectiveGroup& g, size_t m) {
    std::vector<bool> filled(spec.operandShapes.size(), false);
    const int64_t n = mesh.sizeOf(spec.axes);
    std::vector<int64_t> memberAt(static_cast<size_t>(n), -1); // by index along the axes
    for (size_t i = 0; i < g.coordinates.size(); ++i)
      memberAt[static_cast<size_t>(mesh.indexAlong(spec.axes, g.coordinates[i]))] = static_cast<int64_t>(i);
    for (const P2pSend& s : spec.sends) {
      if (s.from < 0 || s.from >= n || s.to < 0 || s.to >= n || s.operand >= filled.size()) {
        problem = "it sends from " + std::to_string(s.from) + " to " + std::to_string(s.to) +
                  ", but its axes have " + std::to_string(n) + " devices";
        return;
      }
      if (memberAt[static_cast<size_t>(s.to)] != static_cast<int64_t>(m)) continue;
      const auto from = static_cast<size_t>(memberAt[static_cast<size_t>(s.from)]);
      if (filled[s.operand]) problem = "device " + std::to_string(s.to) + " receives more than once";
      filled[s.operand] = true;
      const Shape& size = out(g.coordinates[m], s.operand);
      if (in(g.coordinates[from], s.operand) != size)
        problem =
            "it sends a shard of a different size than it receives: insert fill_piece to make sizes equal";
      Shape zero(size.size(), 0);
      copy(g, m, from, s.operand, zero, zero, size);
    }
    for (size_t k = 0; k < filled.size(); ++k)
      if (!filled[k]) g.members[m].zeroResults.push_back(static_cast<uint32_t>(k));
  }

  void copyAll(CollectiveGroup& g, size_t m, int64_t from) {
    if (from < 0 || from >= static_cast<int64_t>(g.coordinates.size())) {
      problem = "its root " + std::to_string(from) + " is outside its axes";
      return;
    }
    const Shape& size = out(g.coordinates[m]);
    Shape zero(size.size(), 0);
    copy(g, m, static_cast<size_t>(from), 0, zero, zero, size);
  }

  void member(CollectiveGroup& g, size_t m) {
    switch (spec.kind) {
    case CollectiveKind::AllReduce:
      for (int64_t p : g.coordinates)
        if (in(p) != out(g.coordinates[m])) problem = "the reduced shards differ in size";
      break;
    case CollectiveKind::AllGather: gather(g, m); break;
    case CollectiveKind::AllSlice: slice(g, m, false); break;
    case CollectiveKind::ReduceScatter: slice(g, m, true); break;
    case CollectiveKind::AllToAll: exchange(g, m); break;
    case CollectiveKind::Permute:
    case CollectiveKind::P2p: send(g, m); break;
    case CollectiveKind::BroadcastFrom: copyAll(g, m, spec.root); break;
    default: break;
    }
    for (size_t k = 0; k < spec.resultShapes.size(); ++k) {
      const Shape& s = out(g.coordinates[m], k);
      g.members[m].resultElements.push_back(product(s, 0, s.size()));
    }
  }

  void countBytes(CollectiveGroup& g) {
    const int64_t n = static_cast<int64_t>(g.coordinates.size());
    auto width = [&](uint32_t operand) {
      return dtypeBytes(spec.dtypes.empty() ? spec.commDType : spec.dtypes[operand]);
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

bool CollectivePlan::rounds() const {
  return isFloat(dtype) && isFloat(commDType) && !holdsAll(commDType, dtype);
}

bool CollectivePlan::synchronizes() const {
  return kind != CollectiveKind::AllSlice &&
         std::ranges::any_of(groups, [](const CollectiveGroup& g) { return g.coordinates.size() > 1; });
}

Result<CollectivePlan> planCollective(const CollectiveSpec& spec, const Mesh& mesh) {
  CollectivePlan plan;
  plan.kind = spec.kind;
  plan.dtype = spec.dtype;
  plan.commDType = spec.commDType;
  plan.op = spec.op;
  plan.numOperands = spec.operandShapes.size();
  for (size_t k = 0; k < plan.numOperands; ++k)
    plan.widths.push_back(dtypeBytes(spec.dtypes.empty() ? spec.dtype : spec.dtypes[k]));
  size_t numDevices = static_cast<size_t>(mesh.numDevices());
  plan.groupOf.assign(numDevices, UINT32_MAX);
  plan.memberOf.assign(numDevices, 0);
  Planner planner{spec, mesh, ""};
  for (size_t p = 0; p < numDevices; ++p) {
    if (plan.groupOf[p] != UINT32_MAX) continue;
    CollectiveGroup group;
    group.coordinates =
        spec.groups.empty() ? mesh.groupOf(spec.axes, static_cast<int64_t>(p)) : spec.groups[p];
    group.members.resize(group.coordinates.size());
    for (size_t m = 0; m < group.coordinates.size(); ++m) {
      plan.groupOf[static_cast<size_t>(group.coordinates[m])] = static_cast<uint32_t>(plan.groups.size());
      plan.memberOf[static_cast<size_t>(group.coordinates[m])] = static_cast<uint32_t>(m);
      planner.member(group, m);
    }
    if (!planner.problem.empty()) return inputError(planner.problem);
    planner.countBytes(group);
    plan.groups.push_back(std::move(group));
  }
  return plan;
}

} // namespace dtc
