// Chains of collectives that form one change of sharding, and the plan that dtc would use instead.
//
// Groups of devices are read as sub-axes of one line of all devices: a group of evenly spaced devices whose
// number divides the line is a sub-axis. The axes of a collective then determine the shardings of its operand
// and its result; from the first operand to the last result a chain is one reshard, whose plan is compared
// with the chain.
#include "audit/AuditGraph.h"

#include "dtc/Sharding/Reshard.h"
#include "dtc/Support/Checked.h"

#include <algorithm>

namespace dtc {

namespace {

using Group = std::vector<int64_t>;

// The devices of a group as sub-axes of the line, major to minor; nothing where they are not evenly spaced.
std::optional<std::vector<AxisRef>> axesOfGroups(const std::vector<Group>& groups, int64_t devices) {
  if (groups.empty() || groups[0].size() < 2) return std::nullopt;
  const Group& first = groups[0];
  const auto n = static_cast<int64_t>(first.size());
  std::vector<AxisRef> axes; // minor to major while they are collected
  int64_t covered = 1;
  while (covered < n) {
    const int64_t stride = first[static_cast<size_t>(covered)] - first[0];
    int64_t size = 1;
    while (covered * (size + 1) <= n &&
           first[static_cast<size_t>(covered * size)] - first[0] == size * stride)
      ++size;
    while (size > 1 && (n % (covered * size) != 0 || stride <= 0 || devices % (stride * size) != 0)) --size;
    if (size < 2) return std::nullopt;
    axes.push_back({StrId(0), devices / (stride * size), size});
    covered *= size;
  }
  std::ranges::reverse(axes);
  Mesh line;
  line.axes.push_back({StrId(0), devices});
  for (const Group& g : groups)
    if (g.empty() || g != line.groupOf(axes, g[0])) return std::nullopt;
  for (AxisRef& a : axes) a = line.canonical(a);
  return axes;
}

// A tensor's sharding as far as the chain determines it: the operand of its first collective, collected
// during the walk.
struct Walk {
  Sharding from, to;
  std::vector<int64_t> local; // of `to`
  std::vector<AxisRef> known; // axes seen so far
};

class Chains {
public:
  explicit Chains(AuditGraph& g) : g_(g), users_(g.nodes.size()) {
    mesh_.axes.push_back({StrId(0), std::max<int64_t>(g.report.devices, 1)});
    for (uint32_t n = 0; n < g.nodes.size(); ++n)
      for (size_t i = 0; i < g.nodes[n].operands.size(); ++i)
        users_[g.nodes[n].operands[i]].push_back({n, i});
  }

  void run() {
    std::vector<bool> part(g_.nodes.size());
    for (uint32_t n = 0; n < g_.nodes.size(); ++n) {
      if (part[n] || g_.nodes[n].collective == AuditNode::kNone) continue;
      for (uint32_t m : longest(n)) part[m] = true;
    }
  }

private:
  struct Use {
    uint32_t node;
    size_t operand;
  };
  const AuditCollective& collective(uint32_t n) const {
    return g_.report.collectives[g_.nodes[n].collective];
  }

  // The only user of a value, through copies.
  std::optional<Use> onlyReader(uint32_t n) const {
    for (int steps = 0; steps < 16; ++steps) {
      if (g_.nodes[n].escapes || users_[n].size() != 1) return std::nullopt;
      const Use u = users_[n][0];
      if (!g_.nodes[u.node].forwards || u.operand != 0) return u;
      n = u.node;
    }
    return std::nullopt;
  }

  // Reports the longest chain from `n` that costs more than its plan; returns its collectives.
  std::vector<uint32_t> longest(uint32_t n) {
    const std::vector<int64_t>& before = operandDims(n);
    if (before.empty() && !g_.nodes[n].dims.empty()) return {};
    Walk w;
    w.from.mesh = w.to.mesh = MeshId(0);
    w.from.dims.resize(before.size()), w.to.dims.resize(before.size());
    w.local = before;
    std::vector<uint32_t> chain, best;
    AuditFinding found;
    for (uint32_t at = n; step(w, at);) {
      chain.push_back(at);
      auto reader = onlyReader(at);
      bool sliced = false, through = true; // only slices so far
      while (through && reader && slice(w, chain, *reader)) {
        sliced = true;
        through = g_.nodes[reader->node].onlySlices;
        reader = onlyReader(reader->node);
      }
      if (sliced || chain.size() > 1)
        if (auto f = compare(w, chain, sliced)) best = chain, found = std::move(*f);
      if (!through || !reader || g_.nodes[reader->node].collective == AuditNode::kNone ||
          reader->operand != 0 || g_.nodes[reader->node].operands.size() != 1)
        break;
      at = reader->node;
    }
    if (best.size() > 1 && !said(best, found)) g_.report.findings.push_back(std::move(found));
    return best;
  }

  // The rules about pairs of collectives have covered this.
  bool said(const std::vector<uint32_t>& chain, const AuditFinding& found) const {
    std::vector<size_t> of;
    for (uint32_t n : chain) of.push_back(g_.nodes[n].collective);
    return std::ranges::any_of(g_.report.findings, [&](const AuditFinding& f) {
      return f.of == of && f.bytesAfter <= found.bytesAfter;
    });
  }

  const std::vector<int64_t>& operandDims(uint32_t n) const {
    static const std::vector<int64_t> none;
    return g_.nodes[n].operands.size() == 1 ? g_.nodes[g_.nodes[n].operands[0]].dims : none;
  }

  static void append(DimSharding& d, const std::vector<AxisRef>& axes) {
    for (const AxisRef& a : axes) d.parts.push_back({a});
  }
  static void prepend(DimSharding& d, const std::vector<AxisRef>& axes) {
    PartList parts;
    for (const AxisRef& a : axes) parts.push_back({a});
    for (const DimPart& p : d.parts) parts.push_back(p);
    d.parts = std::move(parts);
  }

  // True if the axes are the minor ones that shard the dim. An axis first seen here must have sharded it from
  // the start, major to all axes seen so far.
  bool takeSharding(Walk& w, size_t dim, const std::vector<AxisRef>& axes) {
    if (dim >= w.to.dims.size()) return false;
    if (isNew(w, axes)) {
      if (!w.to.dims[dim].parts.empty()) return false;
      prepend(w.from.dims[dim], axes);
      return true;
    }
    PartList& parts = w.to.dims[dim].parts;
    if (parts.size() < axes.size()) return false;
    for (size_t i = 0; i < axes.size(); ++i)
      if (!(parts[parts.size() - axes.size() + i].axis == axes[i])) return false;
    parts.resize(parts.size() - axes.size());
    return true;
  }
  bool isNew(Walk& w, const std::vector<AxisRef>& axes) {
    const bool fresh = std::ranges::none_of(axes, [&](const AxisRef& a) {
      return std::ranges::any_of(w.known, [&](const AxisRef& b) { return overlaps(a, b, mesh_); });
    });
    if (fresh) w.known.insert(w.known.end(), axes.begin(), axes.end());
    return fresh;
  }
  static bool takePending(Walk& w, const std::vector<AxisRef>& axes, bool fresh) {
    for (const AxisRef& a : axes) {
      if (fresh) {
        w.from.pending.push_back({a, PendingKind::Sum});
        continue;
      }
      const auto it = std::ranges::find(w.to.pending, a, &PendingAxis::axis);
      if (it == w.to.pending.end()) return false;
      w.to.pending.erase(it);
    }
    return true;
  }

  // Sub-axes of one line are compatible if their boundaries divide each other.
  bool nest(const Walk& w, const std::vector<AxisRef>& axes) const {
    std::vector<int64_t> borders;
    for (const auto* list : {&w.known, &axes})
      for (const AxisRef& a : *list) {
        const int64_t begin = a.isFullAxis() ? 1 : a.pre;
        borders.insert(borders.end(), {begin, begin * mesh_.axisSize(a)});
      }
    std::ranges::sort(borders);
    for (size_t i = 1; i < borders.size(); ++i)
      if (borders[i] % borders[i - 1] != 0) return false;
    return true;
  }

  // Checks that the operand and result sizes are those of the collective; a text may be inconsistent.
  static bool resizes(const std::vector<int64_t>& before, const AuditNode& node, const AuditCollective& c) {
    const std::vector<int64_t>& after = node.dims;
    if (after.size() != before.size()) return false;
    const bool grows = c.kind == CollectiveKind::AllGather || c.kind == CollectiveKind::AllToAll;
    const auto grown = grows ? node.dim : std::nullopt;
    const auto shrunk = c.kind == CollectiveKind::AllToAll        ? node.split
                        : c.kind == CollectiveKind::ReduceScatter ? node.dim
                                                                  : std::nullopt;
    auto missing = [&](std::optional<size_t> dim) { return !dim || *dim >= before.size(); };
    if (grows && missing(grown)) return false;
    if (c.kind != CollectiveKind::AllReduce && c.kind != CollectiveKind::AllGather && missing(shrunk))
      return false;
    if (grown == shrunk && grown) return false;
    auto shardSize = [&](int64_t size) { return size / c.groupSize + (size % c.groupSize != 0); };
    for (size_t d = 0; d < before.size(); ++d)
      if (d == grown    ? before[d] != shardSize(after[d])
          : d == shrunk ? after[d] != shardSize(before[d])
                        : after[d] != before[d])
        return false;
    return true;
  }

  bool step(Walk& w, uint32_t n) {
    const AuditNode& node = g_.nodes[n];
    const AuditCollective& c = collective(n);
    const auto axes = axesOfGroups(c.groups, g_.report.devices);
    if (!axes || !resizes(w.local, node, c) || !nest(w, *axes)) return false;
    const bool sums = node.reduction.empty() || node.reduction == "sum" || node.reduction == "add ";
    bool good = false;
    if (c.kind == CollectiveKind::AllGather) {
      good = node.dim && takeSharding(w, *node.dim, *axes);
    } else if (c.kind == CollectiveKind::AllReduce) {
      good = sums && takePending(w, *axes, isNew(w, *axes));
    } else if (c.kind == CollectiveKind::ReduceScatter) {
      good = sums && node.dim && takePending(w, *axes, isNew(w, *axes));
      if (good) append(w.to.dims[*node.dim], *axes);
    } else if (c.kind == CollectiveKind::AllToAll) {
      good = node.dim && node.split && takeSharding(w, *node.dim, *axes);
      if (good) append(w.to.dims[*node.split], *axes);
    }
    w.local = node.dims;
    return good;
  }

  // The user reads only a shard, over the devices of one collective of the chain, or of all, along axes that
  // do not shard the tensor at that point.
  bool slice(Walk& w, const std::vector<uint32_t>& chain, const Use& u) {
    const auto& slices = g_.nodes[u.node].slices;
    const auto it = std::ranges::find(slices, u.operand, &AuditNode::Slice::operand);
    if (it == slices.end() || it->dim >= w.local.size()) return false;
    auto fits = [&](const std::vector<AxisRef>& axes) {
      const int64_t k = mesh_.sizeOf(axes);
      if (k < 2 || it->size != (w.local[it->dim] + k - 1) / k || shards(w.to, axes)) return false;
      append(w.to.dims[it->dim], axes);
      w.local[it->dim] = it->size;
      return true;
    };
    for (size_t i = chain.size(); i-- > 0;)
      if (const auto axes = axesOfGroups(collective(chain[i]).groups, g_.report.devices); axes && fits(*axes))
        return true;
    std::vector<AxisRef> all = w.known; // in the order of the devices
    std::ranges::sort(all, {}, &AxisRef::pre);
    return fits(all);
  }

  bool shards(const Sharding& s, const std::vector<AxisRef>& axes) const {
    return std::ranges::any_of(s.dims, [&](const DimSharding& d) {
      return std::ranges::any_of(d.parts, [&](const DimPart& p) {
        return std::ranges::any_of(axes, [&](const AxisRef& a) { return overlaps(p.axis, a, mesh_); });
      });
    });
  }

  std::optional<AuditFinding> compare(const Walk& w, const std::vector<uint32_t>& chain, bool sliced) {
    std::vector<int64_t> global = w.local;
    for (size_t d = 0; d < global.size(); ++d)
      for (const DimPart& p : w.to.dims[d].parts) {
        const auto size = checkedMul(global[d], mesh_.axisSize(p.axis));
        if (!size) return std::nullopt;
        global[d] = *size;
      }
    const auto elements = checkedProduct(global);
    const AuditCollective& first = collective(chain[0]);
    const int64_t local = elementsOf(operandDims(chain[0]));
    if (!elements || *elements == 0 || local == 0 || first.operandBytes % local != 0) return std::nullopt;
    const DType dtype = dtypeOfWidth(first.operandBytes / local);
    if (*elements > (int64_t(1) << 58) / 8) return std::nullopt;
    Sharding from = w.from, to = w.to;
    auto order = [](const PendingAxis& a, const PendingAxis& b) { return a.axis.pre < b.axis.pre; };
    std::ranges::sort(from.pending, order);
    std::ranges::sort(to.pending, order);
    const std::vector<PlannedSize> sizes = plannedSizes(global);
    const ReshardPlan plan = planReshard(from, to, mesh_, sizes, dtype);
    AuditFinding f{"reshard"};
    for (uint32_t n : chain) {
      f.of.push_back(g_.nodes[n].collective);
      f.bytesBefore += collective(n).bytesReceived;
      f.secondsBefore += collective(n).seconds;
    }
    f.bytesAfter = plan.bytesReceived, f.secondsAfter = plan.price;
    const bool fewer = f.bytesAfter < f.bytesBefore;
    if (f.secondsAfter >= f.secondsBefore * 0.999 || (!fewer && f.bytesAfter > f.bytesBefore))
      return std::nullopt;
    f.why = std::string("together they are one change of sharding") +
            (sliced ? ", of which each device reads its shard" : "");
    f.instead = planText(plan);
    return f;
  }

  static int64_t elementsOf(const std::vector<int64_t>& dims) { return checkedProduct(dims).value_or(0); }
  static DType dtypeOfWidth(int64_t bytes) {
    return bytes == 1 ? DType::U8 : bytes == 2 ? DType::BF16 : bytes == 4 ? DType::F32 : DType::F64;
  }

  // "all_to_all over groups of 4 from dim 0 to dim 1, then reduce_scatter over groups of 2 along dim 0"
  std::string planText(const ReshardPlan& plan) const {
    std::string out;
    for (const ReshardStep& s : plan.steps) {
      out += (out.empty() ? "" : ", then ") + std::string(stepName(s.kind)) + " over groups of " +
             std::to_string(mesh_.sizeOf(s.axes));
      if (s.kind == StepKind::AllToAll)
        out += " from dim " + std::to_string(s.concat.dim) + " to dim " + std::to_string(s.split.dim);
      else if (s.kind == StepKind::AllGather)
        out += " along dim " + std::to_string(s.concat.dim);
      else if (s.kind == StepKind::ReduceScatter || s.kind == StepKind::AllSlice)
        out += " along dim " + std::to_string(s.split.dim);
    }
    return out.empty() ? "nothing: each device already has its shard" : out;
  }

  AuditGraph& g_;
  Mesh mesh_; // one axis, the line of all devices
  std::vector<std::vector<Use>> users_;
};

} // namespace

void findChains(AuditGraph& g) {
  if (g.report.devices > 1) Chains(g).run();
}

} // namespace dtc
