// The vector width of a CPU kernel.
#include "print/CpuLanes.h"

#include "dtc/Kernel/schedule/Schedule.h"
#include "dtc/Ops/record/Scalar.h"

namespace dtc {

using namespace loops;

// Random numbers of consecutive elements, without reductions: the generator works on blocks, several of which
// keep the multipliers busy.
static bool drawsWords(const Kernel& k) {
  bool draws = false, reduces = false;
  for (const Nest& nest : k.nests)
    forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
      draws = draws || (k[n].kind == NodeKind::Call && k[n].function == "random32");
      reduces = reduces || k[n].kind == NodeKind::Reduce;
    });
  return draws && !reduces;
}

// Reductions of columns: each row provides a vector's width, then the next row is far away. So several
// registers' width are taken from each, one accumulator per register: their number, a power of two.
int columnRegisters(const Kernel& k, int lanes) {
  constexpr int kRegisters = 16;
  int factor = kRegisters;
  if (drawsWords(k)) return lanes == 8 || lanes == 16 ? 4 : 1;
  for (const Nest& nest : k.nests) {
    const NestPlan plan = planNest(k, nest, lanes, 4 * lanes);
    if (!plan.vector) return 1;
    int reductions = 0, calls = 0;
    bool fits = true;
    forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
      const Node& node = k[n];
      if (node.kind == NodeKind::Reduce) {
        ++reductions;
        fits = fits && node.reduce < ReduceKind::ArgMax;
      }
      if (node.kind == NodeKind::Call) {
        ++calls;
        fits = fits && !isCostly(node.function);
      }
      if (node.kind != NodeKind::Load) return;
      const Kernel::Stride lane = k.strideOf(node.affine, *plan.vector);
      fits = fits && !lane.mixed && (lane.size.is(0) || lane.size.is(1)) && node.args.empty();
    });
    const Size& extent = k.axes[*plan.vector].extent;
    if (!fits || reductions == 0 || !extent.isStatic()) return 1;
    while (factor > 1 && (factor * reductions > kRegisters || factor * calls > 8 * kRegisters ||
                          extent.number < 4 * factor * lanes))
      factor /= 2;
  }
  return factor;
}

// True if the nest reduces contiguous rows of floats. Then the factor is limited by the length of its rows.
static bool widens(const Kernel& k, const Nest& nest, int width, int& factor) {
  constexpr int kMaxCostly = 2, kMaxCalls = 24;
  if (nest.ordered != 0 || nest.sorts() || planNest(k, nest, width, 4 * width).vector) return false;
  bool fits = true;
  int reductions = 0, costly = 0, calls = 0;
  auto lane = [&](std::span<const AxisId> axes) {
    const std::optional<AxisId> a = mostContiguous(k, nest, axes);
    const Size extent = a ? k.axes[*a].extent : Size{0, {}};
    fits = fits && extent.isStatic() && extent.number >= width;
    // At most an eighth of the work is on lanes past the end.
    while (fits && factor > 1 && extent.number % (factor * width) != 0 && extent.number < 8 * factor * width)
      factor /= 2;
    return a;
  };
  AxisSet inLanes = 0;
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
    const Node& node = k[n];
    if (node.kind == NodeKind::Call) ++calls, costly += isCostly(node.function);
    fits = fits && !isComplex(node.type) && node.kind != NodeKind::Running;
    if (node.kind != NodeKind::Reduce || (!nest.walked.empty() && node.axes == nest.walked)) return;
    ++reductions;
    fits = fits && node.reduce <= ReduceKind::Min && isFloat(node.type);
    if (const auto a = lane(node.axes)) inLanes |= AxisSet(1) << *a;
  });
  if (!fits || reductions == 0 || costly > kMaxCostly || calls > kMaxCalls) return false;
  const AxisSet rows = planNest(k, nest, width, 4 * width).rows;
  for (const Store& s : nest.stores) {
    std::vector<AxisId> axes;
    for (AxisId a = 0; a < k.axes.size(); ++a)
      if ((k.dependsOn(s.address) & ~rows) >> a & 1) axes.push_back(a);
    if (axes.empty() || isColumn(k, nest, s)) continue;
    if (const auto a = lane(axes)) inLanes |= AxisSet(1) << *a;
  }
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
    const Node& node = k[n];
    if (node.kind != NodeKind::Load) return;
    for (AxisId a = 0; a < k.axes.size(); ++a) {
      if (!(inLanes >> a & 1)) continue;
      const Kernel::Stride stride = k.strideOf(node.affine, a);
      fits = fits && !stride.mixed && (stride.size.is(0) || stride.size.is(1)) &&
             (node.args.empty() || !(k.dependsOn(node.args[0]) >> a & 1));
    }
  });
  return fits;
}

// Rows: each step of a sum or a max depends on the one before, so a single accumulator is latency-bound.
// Several registers' width are processed at once, as separate accumulators: their number, a power of two.
int rowRegisters(const Kernel& k, int lanes, int vectorBytes) {
  int factor = vectorBytes == 64 ? 4 : 2; // AVX-512 has 32 registers, others 16
  for (const Nest& nest : k.nests)
    if (!widens(k, nest, lanes, factor)) return 1;
  return k.fixedOrder ? 1 : factor;
}

std::optional<CpuTranspose> transposeOf(const Kernel& k, const Nest& nest) {
  constexpr int64_t kTile = 16;
  if (nest.ordered != 0 || nest.sorts() || !nest.walked.empty() || nest.stores.size() != 1)
    return std::nullopt;
  const Store& store = nest.stores[0];
  const Node& load = k[store.value];
  if (load.kind != NodeKind::Load || !load.args.empty() || store.when.valid() || !store.combine.empty() ||
      store.copied || k.buffers[load.buffer].dtype != k.buffers[store.buffer].dtype ||
      dtypeBytes(k.buffers[store.buffer].dtype) > 8)
    return std::nullopt;
  for (AffineId address : {load.affine, store.address})
    for (const AffineTerm& t : k[address].terms)
      if (t.kind == AffineTerm::OfNode) return std::nullopt;
  if ((k.dependsOn(load.affine) & ~k.dependsOn(store.address)) != 0) return std::nullopt;
  CpuTranspose t;
  bool reads = false, writes = false;
  for (AxisId a = 0; a < k.axes.size(); ++a) {
    if (!(k.dependsOn(store.address) >> a & 1)) continue;
    const Kernel::Stride from = k.strideOf(load.affine, a), to = k.strideOf(store.address, a);
    const Size& extent = k.axes[a].extent;
    if (from.mixed || to.mixed) return std::nullopt;
    if (!extent.isStatic() || extent.number < kTile || from.size.is(0)) continue;
    if (from.size.is(1) && !to.size.is(1)) t.read = a, reads = true;
    if (to.size.is(1) && !from.size.is(1)) t.written = a, writes = true;
  }
  if (!reads || !writes) return std::nullopt;
  t.blocked = k.axes[t.read].extent.number > k.axes[t.written].extent.number ? t.read : t.written;
  return t;
}

} // namespace dtc
