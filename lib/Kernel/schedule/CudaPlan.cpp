#include "schedule/CudaPlan.h"
#include <algorithm>

namespace dtc {

using namespace loops;

namespace {

constexpr int64_t kUnitElements = 4 * kMaxThreads; // of a block without reductions
constexpr int64_t kStepElements = 2 * kWarp;       // of a block whose threads walk in order
constexpr int64_t kShortReduction = 64;            // a thread is faster than a block
constexpr int64_t kManyBlocks = 4224;              // four waves of eight for each of 132 processors
constexpr size_t kPrefetched = 4;                  // operands of which a thread has registers for two packs
constexpr int64_t kApartBytes =
    64; // of rows that neighboring threads would read in different lines of memory

// The reductions of a nest if its stores do not depend on the reduced axes: then one thread may compute an
// element completely.
struct Reductions {
  int64_t longest = 0; // elements; unknown sizes count as large
  bool reuse =
      false; // operands shared with other rows, as in a matrix product: none is contiguous along its own row
  bool storesInside = false;
  bool apart = false; // rows of an operand are contiguous, disjoint, and not short
};

// True if a load's elements of one row are contiguous and apart from those of other rows.
bool isApart(const Kernel& k, const Node& load, AxisSet rows) {
  std::optional<AxisId> along;
  for (AxisId a = 0; a < k.axes.size(); ++a)
    if ((k.dependsOn(load.affine) & ~rows) >> a & 1) {
      if (along) return false;
      along = a;
    }
  if (!along || !k.axes[*along].extent.isStatic() || !isContiguous(k, load.affine, *along)) return false;
  const int64_t length = k.axes[*along].extent.number;
  if (length * dtypeBytes(k.buffers[load.buffer].dtype) < kApartBytes) return false;
  for (AxisId a = 0; a < k.axes.size(); ++a)
    if (const Kernel::Stride s = k.strideOf(load.affine, a); (rows >> a & 1) && !s.size.is(0))
      if (s.mixed || !s.size.isStatic() || std::abs(s.size.number) < length) return false;
  return true;
}

Reductions reductionsOf(const Kernel& k, const Nest& nest, AxisSet rows) {
  Reductions r;
  bool own = false;
  for (const Store& s : nest.stores) r.storesInside |= (k.dependsOn(s.address) & ~rows) != 0;
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
    const AxisSet axes = k.dependsOn(n);
    if (k[n].kind == NodeKind::Load && (axes & ~rows) != 0) {
      r.apart |= (axes & rows) == rows && isApart(k, k[n], rows);
      r.reuse |= (axes & rows) != rows;
      for (AxisId a = 0; a < k.axes.size(); ++a)
        own |= (axes & rows) == rows && (axes & ~rows) >> a & 1 && k.strideOf(k[n].affine, a).size.is(1);
    }
    if (k[n].kind != NodeKind::Reduce) return;
    int64_t elements = 1;
    for (AxisId a : k[n].axes) {
      const Size& e = k.axes[a].extent;
      elements *= std::min<int64_t>(e.isStatic() ? e.number : 1 << 20, 1 << 20);
      elements = std::min<int64_t>(elements, 1 << 20);
    }
    r.longest = std::max(r.longest, elements);
  });
  r.reuse &= !own;
  return r;
}

// Elements per widest access, for the widest buffer that the nest accesses; values shared by all elements (a
// seed) are not counted.
int64_t elementsOfAccess(const Kernel& k, const Nest& nest) {
  int64_t bytes = 1;
  for (const Store& s : nest.stores) bytes = std::max<int64_t>(bytes, dtypeBytes(k.buffers[s.buffer].dtype));
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
    if (k[n].kind == NodeKind::Load && k.dependsOn(k[n].affine) != 0)
      bytes = std::max<int64_t>(bytes, dtypeBytes(k.buffers[k[n].buffer].dtype));
  });
  return kAccessBytes / bytes;
}

} // namespace

bool isContiguous(const Kernel& k, AffineId address, AxisId lane) {
  const Kernel::Stride stride = k.strideOf(address, lane);
  return !stride.mixed && stride.size.is(1);
}

bool isInPacks(const Kernel& k, AffineId address, AxisId lane, int64_t count) {
  return isContiguous(k, address, lane) &&
         std::all_of(k[address].terms.begin(), k[address].terms.end(), [&](const AffineTerm& t) {
           return (t.kind == AffineTerm::OfAxis && t.id == lane) || t.coefficient.number % count == 0;
         });
}

bool isUniformInPack(const Kernel& k, NodeId n, AxisId lane, int64_t count) {
  const Node& node = k[n];
  if (!(k.dependsOn(n) >> lane & 1)) return true;
  if (node.kind != NodeKind::Call) return false;
  if (node.function == "and" || node.function == "or" || node.function == "not")
    return std::ranges::all_of(node.args, [&](NodeId a) { return isUniformInPack(k, a, lane, count); });
  const bool below = node.function == "lt" || node.function == "ge"; // else a step is after the number
  if (!below && node.function != "le" && node.function != "gt") return false;
  const Node &position = k[node.args[0]], &number = k[node.args[1]];
  if (position.kind != NodeKind::Index || number.kind != NodeKind::Number ||
      !isContiguous(k, position.affine, lane))
    return false;
  int64_t offset = number.integer + (below ? 0 : 1);
  for (const AffineTerm& t : k[position.affine].terms) {
    if (t.kind == AffineTerm::OfAxis && t.id == lane) continue;
    if (t.kind == AffineTerm::One && t.coefficient.isStatic())
      offset -= t.coefficient.number;
    else if (t.coefficient.number % count != 0)
      return false;
  }
  return offset % count == 0;
}

// True if a thread may process `count` elements of a nest without reductions at once, stored in packs or
// individually.
static bool takesSeveral(const Kernel& k, const Nest& nest, const NestPlan& plan, int64_t count,
                         bool inPacks) {
  if (!plan.vector || plan.inner.size() != 1 || nest.ordered != 0 || nest.sorts()) return false;
  const Size& extent = k.axes[*plan.vector].extent;
  bool fine = count > 1 && (!extent.isStatic() || extent.number >= (inPacks ? 2 : kMaxThreads) * count);
  const AxisSet walked = plan.rows | AxisSet(1)
                                         << *plan.vector; // a store along more axes has loops of its own
  for (const Store& s : nest.stores)
    fine &=
        !s.when.valid() && s.combine.empty() && !s.copied && (k.dependsOn(s.address) & ~walked) == 0 &&
        (inPacks ? isInPacks(k, s.address, *plan.vector, count) : isContiguous(k, s.address, *plan.vector));
  forEachNode(k, rootsOf(k, nest),
              [&](NodeId n) { fine &= k[n].kind != NodeKind::Reduce && k[n].kind != NodeKind::Running; });
  return fine;
}

// The number of accesses of a thread in flight, of strided elements: 2 bytes each load the memory as much as one pack
// does.
constexpr int64_t kStrided = 8;

// Where rows are too short for strided elements, accesses narrower than the widest are worth it, too.
int64_t packOf(const Kernel& k, const Nest& nest, const NestPlan& plan) {
  const int64_t widest = elementsOfAccess(k, nest);
  if (takesSeveral(k, nest, plan, widest, true)) return widest;
  const Size extent = plan.vector ? k.axes[*plan.vector].extent : Size{};
  if (!extent.isStatic() || extent.number >= kMaxThreads * std::min(widest, kStrided)) return 1;
  for (int64_t count = widest / 2; count > 1; count /= 2)
    if (extent.number % count == 0 && takesSeveral(k, nest, plan, count, true)) return count;
  return 1;
}

int64_t stridedPack(const Kernel& k, const Nest& nest, const NestPlan& plan) {
  const int64_t count = std::min(elementsOfAccess(k, nest), kStrided);
  return packOf(k, nest, plan) == 1 && takesSeveral(k, nest, plan, count, false) ? count : 1;
}

int64_t packSteps(const Kernel& k, const Nest& nest, const NestPlan& plan, int64_t count, int threads) {
  size_t loads = 0;
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) { loads += k[n].kind == NodeKind::Load; });
  if (k.nests.size() != 1 || loads == 0 || loads > kPrefetched) return 1;
  int64_t elements = 1;
  for (AxisId a = 0; a < k.axes.size(); ++a) {
    const Size& extent = k.axes[a].extent;
    if (!(plan.rows >> a & 1)) continue;
    if (!extent.isStatic() || extent.number == 0 || elements > INT64_MAX / extent.number) return 1;
    elements *= extent.number;
  }
  const bool whole = plan.blocked == plan.vector && plan.block <= 2 * count * threads;
  return (whole || flatElements(k, plan, count) > 0) && elements / (2 * count * threads) >= kManyBlocks ? 2
                                                                                                        : 1;
}

int64_t flatElements(const Kernel& k, const NestPlan& plan, int64_t count) {
  if (!plan.vector || plan.inner.size() != 1 || plan.blocked || plan.grid.empty()) return 0;
  const Size& lane = k.axes[*plan.vector].extent;
  if (!lane.isStatic() || lane.number % count != 0) return 0;
  int64_t elements = lane.number;
  for (AxisId a : plan.grid) {
    const Size& extent = k.axes[a].extent;
    if (!extent.isStatic() || extent.number == 0 || elements > INT32_MAX / extent.number) return 0;
    elements *= extent.number;
  }
  return elements;
}

bool isFlat(const Kernel& k, const Nest& nest, const NestPlan& plan) {
  if (flatElements(k, plan, 1) == 0 || nest.ordered != 0 || nest.sorts() || !nest.walked.empty())
    return false;
  if (k.axes[*plan.vector].extent.number >= kMaxThreads) return false;
  const AxisSet walked = plan.rows | AxisSet(1) << *plan.vector;
  bool fine = std::ranges::all_of(nest.stores, [&](const Store& s) {
    return s.combine.empty() && (k.dependsOn(s.address) & ~walked) == 0;
  });
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) { fine &= k[n].kind != NodeKind::Running; });
  return fine;
}

// The same elements without rows inside of a unit, if one index can walk over all of them: a loop over rows that are
// shorter than a block would leave threads without work, and wait for memory in each row.
static NestPlan flattened(const Kernel& k, const Nest& nest, const NestPlan& plan) {
  if (!plan.vector || plan.inner.size() < 2) return plan;
  NestPlan flat = plan;
  flat.grid.insert(flat.grid.end(), plan.inner.begin(), plan.inner.end() - 1);
  flat.inner = {*plan.vector};
  const int64_t pack = packOf(k, nest, flat);
  return (pack > 1 && flatElements(k, flat, pack) > 0) || isFlat(k, nest, flat) ? flat : plan;
}

NestPlan planForThreads(const Kernel& k, const Nest& nest) {
  const int64_t unit = std::max(kUnitElements, kMaxThreads * elementsOfAccess(k, nest));
  NestPlan plan = planNest(k, nest, kWarp, nest.ordered != 0 ? kStepElements : unit, true);
  if (plan.vector || nest.ordered != 0 || nest.sorts()) return flattened(k, nest, plan);
  const Reductions r = reductionsOf(k, nest, plan.rows);
  const std::optional<AxisId> lane = mostContiguous(k, nest, plan.grid);
  if (!lane || r.storesInside || r.apart || (r.longest > kShortReduction && !r.reuse)) return plan;
  return flattened(k, nest, planNestAlong(k, nest, *lane, kWarp, kUnitElements));
}

int threadsFor(const Kernel& k) {
  int64_t threads = kWarp;
  for (const Nest& nest : k.nests) {
    const NestPlan plan = planForThreads(k, nest);
    int64_t elements = plan.vector ? kUnitElements : reductionsOf(k, nest, plan.rows).longest;
    if (plan.vector && nest.ordered != 0) elements = kStepElements;
    if (nest.sort) elements = nest.sort->extent.isStatic() ? 2 * nest.sort->extent.number : kUnitElements;
    if (nest.sortDigit) elements = kUnitElements;
    for (const Store& s : nest.stores)
      for (AxisId a = 0; a < k.axes.size(); ++a)
        if (!plan.vector && ((k.dependsOn(s.address) & ~plan.rows) >> a & 1))
          elements =
              std::max(elements, k.axes[a].extent.isStatic() ? k.axes[a].extent.number : kUnitElements);
    const int64_t limit = nest.sort ? 2 * kMaxThreads : kMaxThreads; // one block per row
    while (threads < limit && threads * 4 < elements) threads *= 2;
  }
  return static_cast<int>(threads);
}

int64_t sortRoom(const Kernel& k, const SortRow& sort) {
  // A key of up to 4 bytes is stored with its index in 8 bytes, a longer one in 16.
  const int64_t limit = dtypeBytes(computeType(k.buffers[sort.keys].dtype)) <= 4 ? 4096 : 2048;
  int64_t room = sort.extent.isStatic() ? 2 * kWarp : limit;
  while (room < limit && room < sort.extent.number) room *= 2;
  return room;
}

int sortBlocks(const Kernel& k, const Target& target) {
  if (k.nests.size() != 1 || !k.nests[0].sort || !k.nests[0].sort->extent.isStatic()) return 1;
  const SortRow& sort = *k.nests[0].sort;
  int64_t rows = 1, blocks = 1;
  for (AxisId a : k.nests[0].domain) {
    if (!k.axes[a].extent.isStatic()) return 1;
    rows *= std::min<int64_t>(k.axes[a].extent.number, target.multiprocessors);
    rows = std::min<int64_t>(rows, target.multiprocessors);
  }
  while (blocks < target.clusterBlocks && 2 * blocks * sortRoom(k, sort) <= sort.extent.number &&
         blocks * rows < target.multiprocessors)
    blocks *= 2;
  return static_cast<int>(blocks);
}

// True if the address and all its partial sums stay far enough below 2^31 for i32.
static bool fits32(const Kernel& k, AffineId address) {
  constexpr int64_t limit = (int64_t(1) << 31) - (1 << 20);
  int64_t sum = 0;
  for (const AffineTerm& t : k[address].terms) {
    int64_t reach = 1;
    if (!t.coefficient.isStatic()) return false;
    if (t.kind == AffineTerm::OfNode) continue; // an i64, which the sum of the axes is added to
    if (t.kind == AffineTerm::OfAxis) {
      if (!k.axes[t.id].extent.isStatic()) return false;
      reach = k.axes[t.id].extent.number;
    }
    const int64_t size = std::abs(t.coefficient.number);
    if (reach > limit || size > limit) return false;
    sum += std::min(reach * size, limit);
    if (sum >= limit) return false;
  }
  return true;
}

bool smallIndices(const Kernel& k) {
  for (const Axis& a : k.axes)
    if (!a.extent.isStatic()) return false;
  for (uint32_t n = 0; n < k.numNodes(); ++n)
    if (const Node& node = k[NodeId(n)]; node.affine.valid() && !fits32(k, node.affine)) return false;
  for (const Nest& nest : k.nests) {
    if (nest.sort && (!fits32(k, nest.sort->keysAt) || !fits32(k, nest.sort->indicesAt))) return false;
    if (nest.sortDigit)
      for (AffineId a : {nest.sortDigit->keysAt, nest.sortDigit->resultAt})
        if (!fits32(k, a)) return false;
    for (const Store& s : nest.stores)
      if (!fits32(k, s.address)) return false;
  }
  return true;
}

} // namespace dtc
