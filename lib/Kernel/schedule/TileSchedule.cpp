#include "schedule/TileSchedule.h"

#include "schedule/CudaPlan.h"
#include <algorithm>
#include <bit>
#include <tuple>

namespace dtc {

using namespace loops;

namespace {

constexpr int64_t kMinTileSide = 8; // elements: shorter runs share cache lines with their neighbors' anyway
constexpr int64_t kTileSteps = 16;  // accesses per thread and operand, all in flight
constexpr int64_t kTileAheadSteps = 4;   // the same for loads that are not staged
constexpr int64_t kTileAheadBytes = 256; // registers of a thread for them
constexpr int64_t kTileBytes = 48 << 10; // static shared memory of a block
constexpr int64_t kBankBytes = 4;        // of a bank

using Staged = TileSchedule::Staged;

int64_t widthOf(const Kernel& k, uint32_t buffer) { return dtypeBytes(k.buffers[buffer].dtype); }

// All loads and stores of a nest, as if each were staged.
std::vector<Staged> accessesOf(const Kernel& k, const Nest& nest) {
  std::vector<Staged> all;
  for (size_t i = 0; i < nest.stores.size(); ++i)
    all.push_back({{}, i, nest.stores[i].buffer, nest.stores[i].address});
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
    if (k[n].kind == NodeKind::Load) all.push_back({n, 0, k[n].buffer, k[n].affine});
  });
  return all;
}

bool isIndependent(const Kernel& k, const Nest& nest, const NestPlan& plan) {
  if (!plan.vector || nest.ordered != 0 || nest.sorts() || !nest.walked.empty()) return false;
  bool fine = std::ranges::all_of(nest.stores, [&](const Store& s) {
    return !s.when.valid() && s.combine.empty() && !s.copied && k.dependsOn(s.address) == plan.rows;
  });
  forEachNode(k, rootsOf(k, nest),
              [&](NodeId n) { fine &= k[n].kind != NodeKind::Reduce && k[n].kind != NodeKind::Running; });
  return fine;
}

// An extent of which the number of tiles is a factor of a SizeFormula.
bool isLong(const Kernel& k, AxisId a) {
  const Size& e = k.axes[a].extent;
  return e.isStatic() ? e.number >= kMinTileSide : e.number == 1 && e.args.size() == 1;
}

bool isStaged(const Kernel& k, const Staged& s, AxisId row, AxisId column) {
  return isContiguous(k, s.address, row) && !isContiguous(k, s.address, column) &&
         (k.dependsOn(s.address) >> column & 1) != 0;
}

// Bytes per element that neighboring lanes would access in different lines of memory, if lanes were along
// `column`, and those that are staged instead if tiles had rows along `row`.
struct Cost {
  int64_t apart = 0, staged = 0;
  friend auto operator<=>(const Cost&, const Cost&) = default;
};
Cost costOf(const Kernel& k, std::span<const Staged> accesses, std::optional<AxisId> row, AxisId column) {
  Cost cost;
  for (const Staged& s : accesses) {
    if (isContiguous(k, s.address, column) || !(k.dependsOn(s.address) >> column & 1)) continue;
    (row && isStaged(k, s, *row, column) ? cost.staged : cost.apart) += widthOf(k, s.buffer);
  }
  return cost;
}

bool chooseAxes(const Kernel& k, std::span<const Staged> accesses, const NestPlan& plan, TileSchedule& t) {
  std::vector<AxisId> axes = {*plan.vector};
  for (AxisId a = 0; a < k.axes.size(); ++a)
    if ((plan.rows >> a & 1) && a != *plan.vector) axes.push_back(a);
  Cost best = costOf(k, accesses, std::nullopt, *plan.vector);
  best.staged = INT64_MAX;
  bool found = false;
  for (AxisId column : axes)
    for (AxisId row : axes) {
      if (row == column || !isLong(k, row) || !isLong(k, column)) continue;
      const Cost cost = costOf(k, accesses, row, column);
      if (cost.staged == 0 || !(found ? cost < best : cost.apart < best.apart)) continue;
      best = cost, t.row = row, t.column = column, found = true;
    }
  return found;
}

// Neighbors along `axis` per access of up to `pack` elements.
int64_t packAlong(const Kernel& k, AffineId address, AxisId axis, int64_t pack) {
  while (pack > 1 && (k.axes[axis].extent.number % pack != 0 || !isInPacks(k, address, axis, pack)))
    pack /= 2;
  return pack;
}

int64_t packOfThreads(const Kernel& k, std::span<const Staged> accesses, const TileSchedule& t,
                      int64_t widest) {
  int64_t pack = kAccessBytes / widest;
  bool direct = false;
  for (const Staged& s : accesses) direct |= !s.load.valid() && isContiguous(k, s.address, t.column);
  for (const Staged& s : accesses)
    if (isContiguous(k, s.address, t.column) && s.load.valid() != direct)
      pack = packAlong(k, s.address, t.column, pack);
  while (pack > 1 && k.axes[t.column].extent.number % pack != 0) pack /= 2;
  return pack;
}

int64_t longestSide(const Kernel& k, AxisId a, int64_t limit) {
  const Size& e = k.axes[a].extent;
  if (!e.isStatic()) return limit;
  return std::min(limit, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(e.number))));
}

// Sides of 128 bytes or more, which are whole lines of memory, and a thread's accesses in 16 steps at most.
bool chooseSides(const Kernel& k, TileSchedule& t, int64_t widest) {
  const int64_t side = widest == 1 ? 128 : widest <= 4 ? 64 : 32;
  int64_t narrow = t.pack, elements = side * side;
  for (const Staged& s : t.staged) narrow = std::min(narrow, s.pack);
  while (elements > kTileSteps * kMaxThreads * narrow) elements /= 2;
  t.rows = longestSide(k, t.row, side);
  t.columns = longestSide(k, t.column, std::min(elements / t.rows, kMaxThreads * t.pack));
  t.rows = longestSide(k, t.row, elements / t.columns);
  while (t.pack > 1 && t.rows * t.columns < kMaxThreads * t.pack) t.pack /= 2;
  for (Staged& s : t.staged)
    while (s.pack > 1 && (s.pack > t.rows || t.rows * t.columns < kMaxThreads * s.pack)) s.pack /= 2;
  return t.rows * t.columns >= kMaxThreads && t.across() <= kMaxThreads;
}

int64_t sharedBytesOf(const Kernel& k, const TileSchedule& t) {
  int64_t bytes = 0;
  for (const Staged& s : t.staged) bytes += layoutOf(k, t, s).bytes;
  return bytes;
}

void chooseAhead(const Kernel& k, std::span<const Staged> accesses, TileSchedule& t) {
  const int64_t steps = t.rows * t.across() / kMaxThreads;
  int64_t bytes = 0;
  for (const Staged& s : accesses) {
    if (!s.load.valid() || !k[s.load].args.empty() || !(k.dependsOn(s.load) >> t.row & 1) ||
        k[s.load].affine != s.address || !isInPacks(k, s.address, t.column, t.pack))
      continue;
    bytes += steps * std::max<int64_t>(t.pack * widthOf(k, s.buffer), kBankBytes);
    if (steps <= kTileAheadSteps && bytes <= kTileAheadBytes) t.ahead.push_back(s.load);
  }
}

} // namespace

TileLayout layoutOf(const Kernel& k, const TileSchedule& t, const Staged& s) {
  // Lines are written in packs along them, and read element by element, in packs across them.
  const bool load = s.load.valid();
  const int64_t width = widthOf(k, s.buffer), along = load ? s.pack : t.pack, across = load ? t.pack : s.pack,
                lines = load ? t.columns : t.rows;
  TileLayout layout;
  layout.line = load ? t.rows : t.columns;
  layout.linesPerPad = across;
  const int64_t padding = across > 1 ? kAccessBytes : std::max(kBankBytes, along * width);
  layout.padding = std::max<int64_t>(padding / width, 1);
  layout.bytes = (lines * layout.line + lines / across * layout.padding) * width;
  return layout;
}

std::optional<TileSchedule> tileScheduleOf(const Kernel& k, const Nest& nest) {
  const NestPlan plan = planForThreads(k, nest);
  if (!isIndependent(k, nest, plan)) return std::nullopt;
  const std::vector<Staged> accesses = accessesOf(k, nest);
  TileSchedule t;
  if (!chooseAxes(k, accesses, plan, t)) return std::nullopt;
  for (const std::vector<AxisId>* axes : {&plan.grid, &plan.inner})
    for (AxisId a : *axes)
      if (a != t.row && a != t.column) t.others.push_back(a);
  int64_t widest = 1;
  for (Staged s : accesses) {
    if (k.dependsOn(s.address) >> t.column & 1) widest = std::max(widest, widthOf(k, s.buffer));
    if (!isStaged(k, s, t.row, t.column)) continue;
    const bool guarded =
        s.load.valid() && !k[s.load].args.empty() && (k.dependsOn(k[s.load].args[0]) >> t.row & 1);
    s.pack = guarded ? 1 : packAlong(k, s.address, t.row, kAccessBytes / widthOf(k, s.buffer));
    t.staged.push_back(s);
  }
  t.pack = packOfThreads(k, accesses, t, widest);
  if (!chooseSides(k, t, widest)) return std::nullopt;
  while (sharedBytesOf(k, t) * static_cast<int64_t>(k.nests.size()) > kTileBytes) {
    (t.rows > t.columns ? t.rows : t.columns) /= 2;
    if (std::min(t.rows, t.columns) < kMinTileSide || t.rows * t.columns < kMaxThreads * t.pack)
      return std::nullopt;
    for (const Staged& s : t.staged)
      if (t.rows * t.columns < kMaxThreads * s.pack || s.pack > t.rows) return std::nullopt;
  }
  chooseAhead(k, accesses, t);
  return t;
}

} // namespace dtc
