#include "schedule/ColumnSchedule.h"

#include "schedule/CudaPlan.h"
#include <algorithm>

namespace dtc {

using namespace loops;

constexpr int64_t kEnoughBlocks = 528;   // four for each of 132 processors
constexpr int kMinAcross = 8;            // threads whose packs cover a cache line
constexpr int64_t kFewBlocks = 132;      // with fewer, blocks of columns that cover a sector only
constexpr int64_t kSector = 32;          // bytes
constexpr int64_t kMaxAccumulators = 32; // registers per thread
constexpr int64_t kUnknown = 1 << 10;    // the value of an unknown extent

static int64_t extentOf(const Kernel& k, AxisId a) {
  const Size& e = k.axes[a].extent;
  return e.isStatic() ? e.number : kUnknown;
}

// The reductions, if all are over the same axes and none depends on another.
static std::vector<NodeId> reductionsOf(const Kernel& k, const Nest& nest) {
  std::vector<NodeId> found;
  bool fine = nest.ordered == 0 && !nest.sorts() && nest.walked.empty();
  const std::vector<NodeId> roots = rootsOf(k, nest);
  forEachNode(k, roots, [&](NodeId n) {
    fine &= k[n].kind != NodeKind::Running;
    if (k[n].kind != NodeKind::Reduce) return;
    fine &= k[n].reduce <= ReduceKind::All && (found.empty() || k[n].axes == k[found[0]].axes);
    found.push_back(n);
  });
  for (NodeId r : found)
    forEachNode(k, std::span(&k[r].args[0], 1), [&](NodeId n) { fine &= k[n].kind != NodeKind::Reduce; });
  for (const Store& s : nest.stores) fine &= !s.when.valid() && s.combine.empty() && !s.copied;
  if (!fine) found.clear();
  return found;
}

// Neighbors along the lane per access and operand: 16 bytes of the widest, or as many as the extents allow.
static int64_t packOf(const Kernel& k, std::span<const NodeId> reductions, AxisId lane) {
  int64_t widest = 1;
  std::vector<AffineId> addresses;
  forEachNode(k, reductions, [&](NodeId n) {
    if (k[n].kind != NodeKind::Load || (k.dependsOn(n) >> lane & 1) == 0) return;
    addresses.push_back(k[n].affine);
    widest = std::max<int64_t>(widest, dtypeBytes(k.buffers[k[n].buffer].dtype));
  });
  const Size& extent = k.axes[lane].extent;
  int64_t pack = kAccessBytes / widest;
  if (!extent.isStatic()) return 1;
  auto fits = [&] {
    return extent.number % pack == 0 && pack * static_cast<int64_t>(reductions.size()) <= kMaxAccumulators &&
           std::any_of(addresses.begin(), addresses.end(),
                       [&](AffineId a) { return isInPacks(k, a, lane, pack); });
  };
  while (pack > 1 && !fits()) pack /= 2;
  return pack;
}

// Bytes of the narrowest elements that are read along the lane.
static int64_t narrowestOf(const Kernel& k, std::span<const NodeId> reductions, AxisId lane) {
  int64_t narrowest = kAccessBytes;
  forEachNode(k, reductions, [&](NodeId n) {
    if (k[n].kind == NodeKind::Load && (k.dependsOn(n) >> lane & 1))
      narrowest = std::min<int64_t>(narrowest, dtypeBytes(k.buffers[k[n].buffer].dtype));
  });
  return narrowest;
}

std::optional<ColumnSchedule> columnScheduleOf(const Kernel& k, const Nest& nest) {
  const std::vector<NodeId> reductions = reductionsOf(k, nest);
  if (reductions.empty()) return std::nullopt;
  const NestPlan plan = planNest(k, nest, kWarp, 1, true);
  if (!plan.vector) return std::nullopt;
  AxisSet all = plan.rows; // of the reduced elements; values stored per element may not depend on their sums
  for (AxisId a : k[reductions[0]].axes) all |= AxisSet(1) << a;
  for (const Store& s : nest.stores) {
    const AxisSet axes = k.dependsOn(s.address);
    bool reduces = false;
    forEachNode(k, std::span(&s.value, 1), [&](NodeId n) { reduces |= k[n].kind == NodeKind::Reduce; });
    if ((axes & ~plan.rows) != 0 && (axes != all || reduces)) return std::nullopt;
  }
  const Size& extent = k.axes[*plan.vector].extent;
  if (!extent.isStatic() && (extent.number != 1 || extent.args.size() != 1)) return std::nullopt;
  ColumnSchedule s;
  s.lane = *plan.vector;
  s.axes = k[reductions[0]].axes;
  s.shared = *std::max_element(s.axes.begin(), s.axes.end(),
                               [&](AxisId a, AxisId b) { return extentOf(k, a) < extentOf(k, b); });
  if (k.fixedOrder) s.shared = s.axes.back(); // the loops keep their order
  s.pack = packOf(k, reductions, s.lane);
  const int64_t rows = extentOf(k, s.shared), packs = (extentOf(k, s.lane) + s.pack - 1) / s.pack;
  int64_t others = 1;
  for (AxisId a = 0; a < k.axes.size(); ++a)
    if ((plan.rows >> a & 1) && a != s.lane)
      others = std::min<int64_t>(others * extentOf(k, a), kEnoughBlocks);
  s.across = kMaxThreads;
  auto narrower = [&] { // would more groups of fewer threads each have four rows left for each?
    return !k.fixedOrder && kMaxThreads / s.across * 8 <= rows;
  };
  auto blocks = [&] { return others * ((packs + s.across - 1) / s.across); };
  while (s.across > kMinAcross && narrower() && (s.across >= 2 * packs || blocks() < kEnoughBlocks))
    s.across /= 2;
  while (s.across * s.pack * narrowestOf(k, reductions, s.lane) >= 2 * kSector && narrower() &&
         blocks() < kFewBlocks)
    s.across /= 2;
  s.down = kMaxThreads / s.across;
  // Few rows of short runs of columns, many times: the plain loops have a thread for each column of each run.
  if (s.across > kMinAcross && s.across >= 2 * packs && others >= kEnoughBlocks) return std::nullopt;
  if (s.pack == 1 && s.down == 1) return std::nullopt; // one column per thread: the plain loops
  return s;
}

NestPlan planColumns(const Kernel& k, const Nest& nest, const ColumnSchedule& s) {
  NestPlan plan = planNest(k, nest, kWarp, 1, true);
  NestPlan columns;
  columns.rows = plan.rows;
  columns.vector = columns.blocked = s.lane;
  columns.inner = {s.lane};
  columns.block = s.block();
  for (const std::vector<AxisId>* axes : {&plan.grid, &plan.inner})
    for (AxisId a : *axes)
      if (a != s.lane) columns.grid.push_back(a);
  columns.grid.push_back(s.lane);
  return columns;
}

} // namespace dtc
