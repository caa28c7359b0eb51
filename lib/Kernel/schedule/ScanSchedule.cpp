#include "schedule/ScanSchedule.h"

#include "schedule/CudaPlan.h"
#include <algorithm>
#include <bit>

namespace dtc {

using namespace loops;

namespace {

constexpr int64_t kLongTogether = 64; // of contiguous neighbors: a thread alone reads a cache line
constexpr int64_t kLongStrided = 256; // of a row with a stride, where few rows are contiguous
constexpr int64_t kLongAcross = 16;
constexpr int64_t kFewAcross = 16;      // contiguous rows: lanes across fewer are idle
constexpr int64_t kWidestScanPack = 32; // bytes, as in RowSchedule.cpp
constexpr int64_t kValues = 16;         // per thread and chunk, each in registers for all fused values
constexpr int64_t kDearValues = 4;      // where one takes an exp and a log, and is unrolled this many times
constexpr int64_t kMaxSteps = 8;
constexpr int kFewRowsThreads = 512; // of a block that has its processor to itself
constexpr int kMaxGroups = 8;        // threads per row, lanes across rows
constexpr int64_t kFewColumns = 64;  // per processor: half as many lanes give twice as many blocks
constexpr int64_t kSectorBytes = 32; // that the lanes access at least
constexpr int64_t kAheadValues =
    16; // loaded elements per thread and chunk that have registers for a second chunk
constexpr int64_t kBusyThreads = 1024; // per processor

struct Access {
  uint32_t buffer;
  AffineId address;
};

// The reads and writes of a nest along the axis, if it is a scan that threads may share.
std::optional<std::vector<Access>> accessesOf(const Kernel& k, const Nest& nest, AxisId axis) {
  std::vector<Access> found;
  bool fine = !nest.stores.empty(), runs = false;
  for (const Store& s : nest.stores) {
    fine &= !s.when.valid() && s.combine.empty() && !s.copied;
    for (AxisId a : nest.domain) fine &= (k.dependsOn(s.address) >> a & 1) != 0;
    found.push_back({s.buffer, s.address});
  }
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
    const Node& node = k[n];
    fine &= node.kind != NodeKind::Reduce;
    if (node.kind == NodeKind::Running) runs = true, fine &= node.axes[0] == axis;
    if (node.kind != NodeKind::Load || (k.dependsOn(n) >> axis & 1) == 0) return;
    fine &= node.args.empty();
    found.push_back({node.buffer, node.affine});
  });
  for (const Access& a : found) fine &= !k.strideOf(a.address, axis).mixed;
  if (!fine || !runs) return std::nullopt;
  return found;
}

int64_t packFor(const Kernel& k, std::span<const Access> accesses, AxisId axis) {
  int64_t narrowest = kAccessBytes, widest = 1;
  for (const Access& a : accesses) {
    const int64_t bytes = dtypeBytes(k.buffers[a.buffer].dtype);
    narrowest = std::min(narrowest, bytes), widest = std::max(widest, bytes);
  }
  const Size& extent = k.axes[axis].extent;
  int64_t pack = std::max<int64_t>(1, std::min(kAccessBytes / narrowest, kWidestScanPack / widest));
  auto fits = [&] {
    return extent.isStatic() && extent.number % pack == 0 &&
           std::all_of(accesses.begin(), accesses.end(), [&](const Access& a) {
             return isInPacks(k, a.address, axis, pack) || isInReversedPacks(k, a.address, axis, pack);
           });
  };
  while (pack > 1 && !fits()) pack /= 2;
  return pack;
}

int64_t countOf(const Kernel& k, std::span<const AxisId> axes) { // 0: unknown
  int64_t n = 1;
  for (AxisId a : axes) {
    const Size& e = k.axes[a].extent;
    if (!e.isStatic() || (e.number != 0 && n > INT32_MAX / e.number)) return 0;
    n *= e.number;
  }
  return n;
}

// Lanes along the row. `n`: elements of a row; `rows`: their number, 0: unknown.
void shapeAlong(ScanSchedule& s, int64_t n, int64_t rows, int64_t values, const Target& target) {
  while (s.pack > values) s.pack /= 2;
  s.steps = std::clamp<int64_t>(values / s.pack, 1, kMaxSteps);
  while (s.steps > 1 && kWarp * s.pack * (s.steps / 2) >= n) s.steps /= 2;
  const int maxThreads = rows != 0 && rows <= target.multiprocessors ? kFewRowsThreads : kMaxThreads;
  s.perRow = kWarp;
  while (s.perRow < maxThreads && s.chunk() < n) s.perRow *= 2;
  s.threads = s.perRow;
  if (s.perRow > kWarp || rows == 0) return;
  while (s.threads < 4 * kWarp && rows * kWarp / s.threads > target.multiprocessors) s.threads *= 2;
}

// Where columns are few, blocks are too, and read the next chunk while they scan one.
void shapeAcross(const Kernel& k, std::span<const Access> accesses, ScanSchedule& s, int64_t n, int64_t rows,
                 int64_t values, const Target& target) {
  int64_t narrowest = kAccessBytes, loads = 0;
  for (const Access& a : accesses) {
    narrowest = std::min<int64_t>(narrowest, dtypeBytes(k.buffers[a.buffer].dtype));
    loads += a.buffer < k.numInputs;
  }
  const bool few = rows < kFewColumns * target.multiprocessors;
  s.steps = values, s.perRow = 1, s.lanes = kWarp;
  if (few && kWarp / 2 * narrowest >= kSectorBytes) s.lanes = kWarp / 2;
  const int maxGroups = kMaxGroups * kWarp / s.lanes;
  while (s.perRow < maxGroups && s.chunk() < n && rows * s.perRow < kBusyThreads * target.multiprocessors)
    s.perRow *= 2;
  if (s.perRow == 1) s.lanes = 2 * kWarp;
  s.threads = s.lanes * s.perRow;
  s.ahead = few && s.perRow > 1 && s.chunk() < n && loads * s.steps <= kAheadValues;
}

// The last row axis, if it is contiguous in all reads and writes of the scan.
std::optional<AxisId> acrossOf(const Kernel& k, std::span<const Access> accesses, const ScanSchedule& s) {
  for (AxisId a : s.rows) {
    const Size& extent = k.axes[a].extent;
    if (extent.isStatic() && extent.number >= kFewAcross &&
        std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
          const Kernel::Stride stride = k.strideOf(access.address, a);
          return !stride.mixed && stride.size.is(1);
        }))
      return a;
  }
  return std::nullopt;
}

} // namespace

bool isInReversedPacks(const Kernel& k, AffineId address, AxisId lane, int64_t count) {
  const Kernel::Stride stride = k.strideOf(address, lane);
  if (stride.mixed || !stride.size.is(-1)) return false;
  int64_t last = 0;
  for (const AffineTerm& t : k[address].terms) {
    if (t.kind == AffineTerm::OfAxis && t.id == lane) continue;
    if (!t.coefficient.isStatic()) return false;
    if (t.kind == AffineTerm::One)
      last += t.coefficient.number;
    else if (t.coefficient.number % count != 0)
      return false;
  }
  return (last + 1) % count == 0;
}

std::vector<ScanSchedule> scanSchedules(const Kernel& k, const Target& target) {
  if (!k.inOrder || k.fixedOrder || k.nests.size() != 1) return {};
  const Nest& nest = k.nests[0];
  if (std::popcount(nest.ordered) != 1) return {};
  ScanSchedule s;
  s.axis = static_cast<AxisId>(std::countr_zero(nest.ordered));
  const auto accesses = accessesOf(k, nest, s.axis);
  if (!accesses) return {};
  for (AxisId a : nest.domain)
    if (a != s.axis) s.rows.push_back(a);
  const bool together = std::all_of(accesses->begin(), accesses->end(), [&](const Access& a) {
    const Size stride = k.strideOf(a.address, s.axis).size;
    return stride.is(1) || stride.is(-1);
  });
  const Size& extent = k.axes[s.axis].extent;
  const int64_t n = extent.isStatic() ? extent.number : INT32_MAX, rows = countOf(k, s.rows);
  if (!together && rows != 0) s.across = acrossOf(k, *accesses, s);
  if (n < (s.across ? kLongAcross : together ? kLongTogether : kLongStrided)) return {};
  if (!together && (rows == 0 || (!s.across && rows >= int64_t(kWarp) * target.multiprocessors))) return {};
  if (!s.across) s.pack = packFor(k, *accesses, s.axis);
  bool dear = false;
  forEachNode(k, rootsOf(k, nest), [&](NodeId node) {
    dear |= k[node].kind == NodeKind::Running && k[node].reduce == ReduceKind::LogAddExp;
  });
  std::vector<ScanSchedule> found;
  for (int64_t values = dear ? kDearValues : kValues; values > 1; values /= 4) {
    s.across ? shapeAcross(k, *accesses, s, n, rows, values, target) : shapeAlong(s, n, rows, values, target);
    found.push_back(s);
  }
  return found;
}

} // namespace dtc
