// The order of the loops of each nest, and which of its nodes are computed at which depth.
#include "dtc/Kernel/schedule/Schedule.h"
#include <algorithm>

namespace dtc::loops {
static int64_t extentOf(const Kernel& k, AxisId a) { // an unknown size counts as large
  const Size& e = k.axes[a].extent;
  return e.isStatic() ? e.number : int64_t(1) << 40;
}

// The axes that each store and each reduction of the nest depends on; columns separately.
static AxisSet rowAxes(const Kernel& k, const Nest& nest) {
  AxisSet rows = ~AxisSet(0);
  for (const Store& s : nest.stores)
    if (!isColumn(k, nest, s)) rows &= k.dependsOn(s.address);
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
    if (k[n].kind == NodeKind::Reduce && (nest.walked.empty() || k[n].axes != nest.walked))
      rows &= k.dependsOn(n);
  });
  return rows & ~nest.ordered;
}

// In an order in which a reduction's axes come after the domain's.
static std::vector<AxisId> allAxes(const Kernel& k, const Nest& nest) {
  std::vector<AxisId> axes = nest.domain;
  auto add = [&](AxisId a) {
    if (std::find(axes.begin(), axes.end(), a) == axes.end()) axes.push_back(a);
  };
  for (const Store& s : nest.stores)
    for (AxisId a = 0; a < k.axes.size(); ++a)
      if (k.dependsOn(s.address) >> a & 1) add(a);
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
    for (AxisId a : k[n].axes) add(a);
  });
  return axes;
}

std::optional<AxisId> mostContiguous(const Kernel& k, const Nest& nest, std::span<const AxisId> axes) {
  std::optional<AxisId> best;
  int64_t bestScore = 0;
  AxisSet inside = 0; // values outside of these are computed once per row
  for (AxisId a : allAxes(k, nest)) inside |= AxisSet(1) << a;
  inside &= ~rowAxes(k, nest);
  for (AxisId a : axes) {
    int64_t score = 0;
    auto access = [&](AffineId address, int64_t weight) {
      if (inside != 0 && (k.dependsOn(address) & inside) == 0) weight /= 4;
      const Kernel::Stride s = k.strideOf(address, a);
      score += s.mixed ? -weight : s.size.is(1) ? weight : s.size.is(0) ? weight / 4 : -weight;
    };
    for (const Store& s : nest.stores) access(s.address, 16);
    forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
      if (k[n].kind == NodeKind::Load) access(k[n].affine, 8);
    });
    if (extentOf(k, a) < 4) score -= 64; // too short to fill lanes
    if (!best || score >= bestScore) best = a, bestScore = score;
  }
  return best;
}

// True if the lanes of one vector may do the stores of a nest in order.
static bool alikeAlong(const Kernel& k, const Nest& nest, AxisId lane) {
  return std::all_of(nest.stores.begin(), nest.stores.end(), [&](const Store& s) {
    return !k.strideOf(s.address, lane).mixed && (!s.when.valid() || !(k.dependsOn(s.when) >> lane & 1));
  });
}

static NestPlan planInOrder(const Kernel& k, const Nest& nest, int64_t lanes, int64_t unit,
                            bool independent) {
  NestPlan plan;
  plan.rows = rowAxes(k, nest);
  std::vector<AxisId> rows, candidates;
  for (AxisId a : allAxes(k, nest)) {
    if (!(plan.rows >> a & 1)) continue;
    rows.push_back(a);
    if (independent || alikeAlong(k, nest, a)) candidates.push_back(a);
  }
  if (const std::optional<AxisId> lane = mostContiguous(k, nest, candidates))
    return planNestAlong(k, nest, *lane, lanes, unit);
  plan.grid = rows;
  return plan;
}

NestPlan planNest(const Kernel& k, const Nest& nest, int64_t lanes, int64_t unit, bool independent) {
  NestPlan plan;
  if (nest.sorts()) {
    plan.grid = nest.domain;
    return plan;
  }
  if (nest.ordered != 0) return planInOrder(k, nest, lanes, unit, independent);
  plan.rows = rowAxes(k, nest);
  std::vector<AxisId> all = allAxes(k, nest);
  if (!nest.walked.empty()) {
    for (AxisId a : all)
      if ((plan.rows >> a & 1) && std::find(nest.walked.begin(), nest.walked.end(), a) == nest.walked.end())
        plan.grid.push_back(a);
    return plan;
  }
  if (k.fixedOrder) std::erase_if(all, [&](AxisId a) { return !(plan.rows >> a & 1); });
  const std::optional<AxisId> lane = mostContiguous(k, nest, all);
  if (lane && (plan.rows >> *lane & 1)) return planNestAlong(k, nest, *lane, lanes, unit);
  for (AxisId a : all)
    if (plan.rows >> a & 1) plan.grid.push_back(a); // the lanes are in the loops inside of a row
  return plan;
}

NestPlan planNestAlong(const Kernel& k, const Nest& nest, AxisId lane, int64_t lanes, int64_t unit) {
  NestPlan plan;
  plan.rows = rowAxes(k, nest);
  plan.vector = lane;
  plan.inner = {lane};
  std::vector<AxisId> rows;
  for (AxisId a : allAxes(k, nest))
    if ((plan.rows >> a & 1) && a != lane) rows.push_back(a);
  const int64_t block = std::max<int64_t>((unit + lanes - 1) / lanes * lanes, lanes);
  int64_t elements = extentOf(k, lane);
  if (elements > 2 * block) {
    plan.blocked = lane;
    plan.block = block;
    plan.grid = rows;
    plan.grid.push_back(lane);
    return plan;
  }
  while (!rows.empty() && extentOf(k, rows.back()) * std::max<int64_t>(elements, 1) <= unit) {
    elements *= extentOf(k, rows.back());
    plan.inner.insert(plan.inner.begin(), rows.back());
    rows.pop_back();
  }
  plan.grid = rows;
  return plan;
}

} // namespace dtc::loops
