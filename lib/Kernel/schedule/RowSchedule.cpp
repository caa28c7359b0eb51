#include "schedule/RowSchedule.h"

#include "dtc/Ops/record/Scalar.h"
#include "schedule/CudaPlan.h"
#include <algorithm>
#include <cmath>
#include <tuple>

namespace dtc {

using namespace loops;

namespace {

constexpr int64_t kWidestPack = 32;        // bytes: two accesses, where one buffer is wider than another
constexpr int kRegisterFile = 65536;       // of a multiprocessor, and so of a block
constexpr int kThreadsPerProcessor = 2048; // 1,536 on some; only the model's overlap differs
constexpr int kBlocksPerProcessor = 32;
constexpr double kTighter = 1.05;   // registers that the compiler finds if it has to, by the estimate
constexpr int kBookkeeping = 34;    // registers for addresses, accumulators and temporaries of an exp
constexpr int kMaxRegisters = 224;  // of 255, since the estimate may be low
constexpr int64_t kMaxValues = 128; // elements per thread: unrolled, so the text must stay short for NVRTC
constexpr int64_t kSharedElements = 8192; // shorter rows fit registers well
constexpr double kWalkThreads = 1024;     // per multiprocessor, if blocks walk over rows
constexpr int kWalkRegisters = 10;        // more, for the addresses of walked rows
constexpr double kManyWaves = 4;          // beyond so many, the last wave of blocks is little of the whole
// Bytes in flight that a multiprocessor needs: 4.8 TB/s for 650 ns of latency, by 132 (Little's law; the
// latency is assumed).
constexpr double kUnderWay = 24 << 10;
constexpr int64_t kClusterElements = 8192; // shorter rows are processed by one block
constexpr int64_t kStreamedBytes = 128;    // per thread, in flight at a time
constexpr double kThreadsUnknown = 256;    // for a row of any length
constexpr int kLine = 128;                 // bytes that neighboring lanes should read contiguously

// A loop over the row: reductions of one level, or stores.
struct Pass {
  std::vector<AxisId> axes;
  int level = 0;
  std::vector<NodeId> roots;
};

AxisSet setOf(const std::vector<AxisId>& axes) {
  AxisSet set = 0;
  for (AxisId a : axes) set |= AxisSet(1) << a;
  return set;
}

void addPass(std::vector<Pass>& passes, std::vector<AxisId> axes, int level, std::span<const NodeId> roots) {
  for (Pass& p : passes)
    if (p.axes == axes && p.level == level) {
      p.roots.insert(p.roots.end(), roots.begin(), roots.end());
      return;
    }
  passes.push_back({std::move(axes), level, {roots.begin(), roots.end()}});
}

std::vector<Pass> passesOf(const Kernel& k, const Nest& nest, AxisSet rows) {
  std::vector<Pass> passes;
  std::vector<int> level(k.numNodes());
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
    const Node& node = k[n];
    int below = 0;
    for (NodeId a : node.args) below = std::max(below, level[a.index]);
    if (node.affine.valid())
      for (const AffineTerm& t : k[node.affine].terms)
        if (t.kind == AffineTerm::OfNode) below = std::max(below, level[t.id]);
    level[n.index] = below + (node.kind == NodeKind::Reduce);
    if (node.kind == NodeKind::Reduce && (k.dependsOn(n) & ~rows) == 0)
      addPass(passes, node.axes, level[n.index], std::span(node.args.data(), 1));
  });
  for (const Store& s : nest.stores) {
    const AxisSet inside = k.dependsOn(s.address) & ~rows;
    std::vector<AxisId> axes;
    for (AxisId a = 0; a < k.axes.size(); ++a)
      if (inside >> a & 1) axes.push_back(a);
    Nest one;
    one.stores = {s};
    if (isColumn(k, nest, s)) one.stores[0].value = k[s.value].args[0];
    if (!axes.empty()) addPass(passes, std::move(axes), INT32_MAX, rootsOf(k, one));
  }
  std::sort(passes.begin(), passes.end(), [](const Pass& a, const Pass& b) {
    return a.level != b.level ? a.level < b.level : a.roots[0] < b.roots[0];
  });
  return passes;
}

int64_t product(const Kernel& k, std::span<const AxisId> axes) { // 0: unknown, or none
  int64_t n = 1;
  for (AxisId a : axes) {
    const Size& e = k.axes[a].extent;
    if (!e.isStatic() || e.number == 0 || n > INT32_MAX / e.number) return 0;
    n *= e.number;
  }
  return n;
}

// The values per element that a pass of the row produces, and their live ranges. Kept values are not
// recomputed, so the values they depend on are not needed then.
std::vector<RowValue> valuesOf(const Kernel& k, const RowNest& row, std::span<const Pass* const> passes,
                               bool costly) {
  std::vector<RowValue> values;
  auto find = [&](NodeId n) {
    return std::find_if(values.begin(), values.end(), [&](const RowValue& v) { return v.node == n; });
  };
  for (int p = 0; p < static_cast<int>(passes.size()); ++p) {
    std::vector<NodeId> work = passes[static_cast<size_t>(p)]->roots;
    std::vector<bool> seen(k.numNodes());
    while (!work.empty()) {
      const NodeId n = work.back();
      work.pop_back();
      const Node& node = k[n];
      if (seen[n.index] || node.kind == NodeKind::Reduce || (k.dependsOn(n) & row.set) == 0) continue;
      seen[n.index] = true;
      if (auto v = find(n); v != values.end()) {
        v->last = p;
        continue;
      }
      const bool load = isRowPack(k, row, n);
      if (load || (costly && isRowCostly(k, row, n)))
        values.push_back(
            {n, load, p, p,
             load ? dtypeBytes(k.buffers[node.buffer].dtype) : std::max(4, dtypeBytes(node.type))});
      for (NodeId a : node.args) work.push_back(a);
      if (node.affine.valid())
        for (const AffineTerm& t : k[node.affine].terms)
          if (t.kind == AffineTerm::OfNode) work.push_back(NodeId(t.id));
    }
  }
  std::erase_if(values, [](const RowValue& v) { return !v.load && v.first == v.last; });
  return values;
}

// The contiguous accesses, with their bytes, and the maximum number of neighbors per thread: as many as 16
// bytes of the narrowest buffer have; one, where each element is a loop over memory of its own, in which
// neighboring threads read neighbors.
struct Contiguous {
  std::vector<std::pair<AffineId, int64_t>> accesses;
  int64_t maxPack = 1;
};

// `edged`: columns are not accesses of a row (RowSchedule::placed).
Contiguous contiguousOf(const Kernel& k, const Nest& nest, AxisId lane, AxisSet rows, bool edged) {
  int64_t narrowest = kAccessBytes, widest = 1;
  Contiguous c;
  auto access = [&](uint32_t buffer, AffineId address) {
    const Kernel::Stride stride = k.strideOf(address, lane);
    if (stride.mixed || !stride.size.is(1)) return;
    const int64_t bytes = dtypeBytes(k.buffers[buffer].dtype);
    const bool ofRows = rows == 0 || (k.dependsOn(address) & rows) != 0;
    c.accesses.emplace_back(address, ofRows ? bytes : 0); // values that all rows read are cached
    widest = std::max(widest, bytes);
    if (ofRows) narrowest = std::min(narrowest, bytes);
  };
  bool reduces = false;
  for (const Store& s : nest.stores)
    if (!edged || !isColumn(k, nest, s)) access(s.buffer, s.address);
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
    if (k[n].kind == NodeKind::Load) access(k[n].buffer, k[n].affine);
    reduces |= k[n].kind == NodeKind::Reduce && (k.dependsOn(n) >> lane & 1) && k[n].axes != nest.walked;
  });
  if (!c.accesses.empty() && !reduces)
    c.maxPack = std::max<int64_t>(1, std::min(kAccessBytes / narrowest, kWidestPack / widest));
  return c;
}

// The widest pack that divides each row, with all packs aligned.
int64_t alignedPack(const Kernel& k, const Contiguous& c, AxisId lane) {
  const Size& extent = k.axes[lane].extent;
  int64_t pack = c.maxPack;
  for (; pack > 1; pack /= 2)
    if (extent.isStatic() && extent.number % pack == 0 &&
        std::all_of(c.accesses.begin(), c.accesses.end(),
                    [&](const auto& a) { return isInPacks(k, a.first, lane, pack); }))
      break;
  return pack;
}

// The alignment of the row's first element within a pack, for any row: the terms of its address that are not
// multiples of the pack.
std::vector<AffineTerm> offsetInPack(const Kernel& k, AffineId address, AxisId lane, int64_t pack) {
  std::vector<AffineTerm> terms;
  for (AffineTerm t : k[address].terms) {
    if (t.kind == AffineTerm::OfAxis && t.id == lane) continue;
    t.coefficient.number = (t.coefficient.number % pack + pack) % pack;
    if (t.coefficient.number != 0) terms.push_back(std::move(t));
  }
  return terms;
}

// The address whose packs are aligned where rows may start anywhere: the one that most bytes use.
std::optional<AffineId> originFor(const Kernel& k, const Contiguous& c, AxisId lane, int64_t pack,
                                  AxisSet known) {
  std::optional<AffineId> best;
  int64_t mostBytes = 0;
  for (const auto& [address, own] : c.accesses) {
    if ((k.dependsOn(address) & ~(known | AxisSet(1) << lane)) != 0) continue;
    const std::vector<AffineTerm> offset = offsetInPack(k, address, lane, pack);
    int64_t bytes = 0;
    for (const auto& [other, its] : c.accesses)
      if (offsetInPack(k, other, lane, pack) == offset) bytes += its;
    if (bytes > mostBytes) best = address, mostBytes = bytes;
  }
  return best;
}

} // namespace

bool isInRowPacks(const Kernel& k, const RowNest& row, AffineId address) {
  const AxisId lane = row.axes.back();
  if (!row.edged) return isInPacks(k, address, lane, row.pack);
  const Kernel::Stride stride = k.strideOf(address, lane);
  return !stride.mixed && stride.size.is(1) &&
         offsetInPack(k, address, lane, row.pack) == offsetInPack(k, row.origin, lane, row.pack);
}

bool isRowPack(const Kernel& k, const RowNest& row, NodeId n) {
  const Node& node = k[n];
  if (node.kind != NodeKind::Load || !isInRowPacks(k, row, node.affine)) return false;
  return node.args.empty() || (k.dependsOn(node.args[0]) & row.set) == 0;
}

bool isRowCostly(const Kernel& k, const RowNest& row, NodeId n) {
  const Node& node = k[n];
  if (isBool(node.type) || !(k.dependsOn(n) >> row.axes.back() & 1)) return false;
  return node.kind == NodeKind::Load || (node.kind == NodeKind::Call && isCostly(node.function));
}

bool isSameForWalked(const Kernel& k, const Nest& nest, NodeId load) {
  return !nest.walked.empty() && k[load].args.empty() && (k.dependsOn(load) & setOf(nest.walked)) == 0;
}

std::optional<RowNest> rowNestOf(const Kernel& k, const Nest& nest, const NestPlan& plan, bool edged) {
  if (plan.vector || nest.ordered != 0 || nest.sorts() || k.fixedOrder || k.inOrder) return std::nullopt;
  bool fine = true;
  for (const Store& s : nest.stores) fine &= !s.copied && s.combine.empty();
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) { fine &= k[n].kind != NodeKind::Running; });
  const std::vector<Pass> passes = passesOf(k, nest, plan.rows);
  if (!fine || passes.empty()) return std::nullopt;
  const Pass* longest = &passes[0];
  for (const Pass& p : passes)
    if (product(k, p.axes) > product(k, longest->axes)) longest = &p;
  RowNest row;
  row.axes = longest->axes;
  const AxisId lane = *mostContiguous(k, nest, row.axes);
  std::erase(row.axes, lane);
  row.axes.push_back(lane);
  row.set = setOf(row.axes);
  row.elements = product(k, row.axes);
  row.rows = product(k, plan.grid);
  for (AxisId a : plan.grid) row.count = row.count * k.axes[a].extent;
  row.several =
      !plan.grid.empty() && (row.count.isStatic() || (row.count.number == 1 && row.count.args.size() == 1));
  for (AxisId a : row.axes) row.length = row.length * k.axes[a].extent;
  const Contiguous together = contiguousOf(k, nest, lane, plan.rows, edged);
  row.widest = together.maxPack;
  row.pack = alignedPack(k, together, lane);
  if (edged) {
    const std::optional<AffineId> origin =
        originFor(k, together, lane, row.widest, setOf(plan.grid) | setOf(nest.walked));
    if (row.pack == row.widest || row.axes.size() > 1 || !origin || plan.blocked) return std::nullopt;
    row.edged = true, row.origin = *origin, row.pack = row.widest;
  }
  row.only = nest.walked.empty();
  row.several &= nest.walked.empty();
  for (const Store& s : nest.stores)
    if (isColumn(k, nest, s)) {
      if ((k.dependsOn(s.address) & ~plan.rows) != row.set) return std::nullopt;
      row.columnBytes += dtypeBytes(k.buffers[s.buffer].dtype);
    }
  // A reduction that is recomputed for elements of the row cannot be a block reduction: not all threads reach
  // each.
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
    fine &= k[n].kind != NodeKind::Reduce || (k.dependsOn(n) & row.set) == 0 ||
            (!nest.walked.empty() && k[n].axes == nest.walked);
  });
  if (!fine) return std::nullopt;
  std::vector<const Pass*> over;
  for (const Pass& p : passes) {
    if (setOf(p.axes) == row.set)
      over.push_back(&p);
    else
      row.only = false;
  }
  row.passes = static_cast<int>(over.size());
  row.values = valuesOf(k, row, over, true);
  row.loads = valuesOf(k, row, over, false);
  if (row.columnBytes > 0 && nest.walked.size() == 1)
    for (const RowValue& v : row.loads)
      if (v.load && (k.dependsOn(v.node) >> nest.walked[0] & 1)) row.aheadBytes += v.bytes;
  if (!nest.walked.empty() && !edged) {
    const auto same = [&](const RowValue& v) { return v.load && isSameForWalked(k, nest, v.node); };
    for (const RowValue& v : row.loads)
      if (same(v)) row.onceBytes += v.bytes;
    std::erase_if(row.values, same), std::erase_if(row.loads, same);
  }
  return row;
}

namespace {

// The maximum live bytes per element. Values that only one pass reads count where it reads them all first.
int bytesAlive(const RowNest& row, bool costly, bool together, bool read = true) {
  int max = 0;
  for (int p = 0; p < row.passes; ++p) {
    int in = 0, out = 0; // before the pass computes, and after
    for (const RowValue& v : row.kept(costly)) {
      if (v.first == v.last && !(together && read)) continue;
      if (v.last >= p && (v.first < p || (v.first == p && v.load))) in += v.bytes;
      if (v.first <= p && v.last > p) out += v.bytes;
    }
    max = std::max({max, in, out});
  }
  return max;
}

struct Costed {
  RowSchedule schedule;
  double cost = 0;
  size_t number = 0;
};

// The share of the last wave's slots that have no block, as time.
double tailOf(int64_t blocks, int64_t atOnce) {
  const double waves = static_cast<double>(blocks) / static_cast<double>(std::max<int64_t>(1, atOnce));
  return waves <= 1 || waves >= kManyWaves ? 0 : std::ceil(waves) / waves - 1;
}

// The time relative to that of a copy, estimated without a device:
// - a block computes and waits between its reads and its writes, so other blocks must be resident to use the
// memory meanwhile;
// - a multiprocessor without a block reads nothing;
// - a barrier costs more with more warps, and most with a cluster;
// - narrow accesses take more instructions;
// - values that are read or computed again cost their share.
double costOf(const RowNest& row, const RowSchedule& s, int blocksAtOnce, const Target& target) {
  double cost = 1;
  if (row.columnBytes > 0) { // few blocks, each with many rows: only more threads keep a multiprocessor busy
    cost += tailOf(row.rows, int64_t(blocksAtOnce) * target.multiprocessors);
    blocksAtOnce = static_cast<int>(
        std::min<int64_t>(blocksAtOnce, (row.rows + target.multiprocessors - 1) / target.multiprocessors));
    cost += 0.1 * std::max(0.0, std::log2(kWalkThreads / (double(blocksAtOnce) * s.threads)));
    const double read = static_cast<double>(row.elements * row.aheadBytes) * std::max(1, blocksAtOnce);
    if (read > 0) cost += 0.3 * std::max(0.0, std::log2(kUnderWay / (s.ahead ? read : read / 3)));
  }
  const double alone = s.ahead ? 0.3 : 1; // of the wait between a block's reads and its writes
  cost += alone * (blocksAtOnce <= 1 ? 0.35 : blocksAtOnce == 2 ? 0.1 : blocksAtOnce == 3 ? 0.03 : 0);
  cost += 0.05 * std::log2(s.cluster) + (s.perRow > kWarp ? 0.01 * std::log2(s.perRow / kWarp) : 0);
  const double values = static_cast<double>(s.steps * s.pack);
  if (values > 32) cost += 0.05 * (values / 32 - 1);
  // The work of a thread per row (sums across threads, barriers) is some 40 instructions per reduction: with
  // 8 elements of bf16 and two reductions as much as the rest together.
  const bool walksPacks = row.columnBytes > 0 && row.pack > 1 && !row.edged;
  if (values < 16 && s.perRow > 1) cost += (walksPacks ? 0.15 : 0.02) * (16 / values - 1);
  const auto elements = static_cast<double>(row.elements);
  cost += 0.2 * (values * static_cast<double>(s.rowThreads()) / elements - 1); // threads without elements
  if (s.rows() > 1) {
    const double line = std::min<double>(kLine, elements * 4);
    cost += 0.05 * std::max(0.0, line / static_cast<double>(s.perRow * s.pack * 4) - 1);
  }
  const int64_t rows = row.rows ? row.rows : 1 << 20;
  const auto blocks = static_cast<double>((rows + s.rows() - 1) / s.rows() * s.cluster);
  cost += 0.5 * std::max(0.0, target.multiprocessors / blocks - 1);
  if (s.keep == RowSchedule::Keep::Shared) cost += 0.08;
  cost += 0.06 * std::log2(double(row.widest) / double(s.pack)) + (s.edged ? 0.03 : 0); // more accesses
  if (row.columnBytes > 0 && !s.ahead) cost += 0.1;
  if (row.onceBytes > 0 && !s.once) cost += 0.03; // reads of the first cache
  if (row.columnBytes > 0 && s.columns != RowSchedule::Keep::Registers)
    cost += s.placed ? 0.15 : s.columns == RowSchedule::Keep::Shared ? 0.05 : 0.5;
  return cost + (s.together ? 0 : 0.02) + (s.costly ? 0 : 0.1);
}

class Candidates {
public:
  Candidates(const RowNest& row, const Target& target, int threads)
      : row_(row), target_(target), fixed_(threads) {}

  std::vector<Costed> run() {
    for (int cluster = 1; cluster <= (row_.only && !fixed_ ? target_.clusterBlocks : 1); cluster *= 2) {
      if (cluster > 1 && row_.elements < kClusterElements) break;
      for (int perRow = 1; perRow <= 1024; perRow *= 2) {
        if (fixed_ ? perRow != fixed_ : cluster > 1 && perRow < 4 * kWarp) continue;
        inRegisters(perRow, cluster);
        inShared(perRow, cluster);
        if (row_.columnBytes > 0 && !row_.edged && !fixed_ && perRow >= 2 * kWarp && perRow < 1024)
          inRegisters(perRow / 2 * 3, cluster);
      }
    }
    return std::move(found_);
  }

  // Rows of unknown length, or too long to be kept: passes that read them again.
  std::vector<Costed> streamed() {
    const int64_t packBytes = std::max(1, bytesAlive(row_, false, true)) * row_.pack;
    for (int perRow = 32; perRow <= 1024; perRow *= 2)
      for (int cluster = 1;
           cluster <= (row_.only && !fixed_ && row_.elements > 0 ? target_.clusterBlocks : 1); cluster *= 2) {
        if (fixed_ ? perRow != fixed_ : perRow < 128 || (cluster > 1 && perRow < 1024)) continue;
        RowSchedule s = shaped(perRow, cluster);
        s.keep = RowSchedule::Keep::Nothing;
        s.costly = false;
        for (s.steps = 4; s.steps > 1 && s.steps * packBytes > kStreamedBytes;) s.steps /= 2;
        s.registers = static_cast<int>(kBookkeeping + (s.steps * packBytes + 3) / 4);
        declarePlacedColumns(s, s.registers, 0);
        found_.push_back({s, streamedCost(s)});
      }
    return std::move(found_);
  }

private:
  // All threads have elements to read, or all processors have a row; few threads where neither is known.
  double streamedCost(const RowSchedule& s) const {
    if (row_.elements == 0) return std::abs(std::log2(s.perRow / kThreadsUnknown));
    const int64_t rows = row_.rows ? row_.rows : 1 << 20;
    const double busy = std::min(1.0, double(rows) * double(s.rowThreads()) /
                                          (double(target_.multiprocessors) * kThreadsPerProcessor));
    return 1 / busy + 0.05 * std::log2(double(s.rowThreads()));
  }
  RowSchedule shaped(int perRow, int cluster) const {
    RowSchedule s;
    s.perRow = s.threads = perRow;
    s.cluster = cluster;
    s.pack = row_.pack;
    s.edged = row_.edged;
    if (perRow <= kWarp && !fixed_ && row_.several) {
      s.threads = 4 * kWarp;
      const int64_t rows = row_.rows ? row_.rows : 1 << 20;
      while (s.threads > kWarp && rows * perRow / s.threads < target_.multiprocessors) s.threads /= 2;
    }
    const int64_t packs = row_.elements / row_.pack;
    s.steps = (packs + s.rowThreads() - 1) / s.rowThreads();
    return s;
  }
  // A block's partial columns are in registers, in shared memory, or where neither has room, in the result's
  // memory. Where rows start at any element of a pack, and where packs of a thread are not kept, any thread
  // adds to any column.
  void declarePlacedColumns(RowSchedule& s, int maxRegisters, int64_t shared) const {
    s.columns = RowSchedule::Keep::Nothing;
    s.placed = s.ahead = false;
    if (row_.columnBytes == 0) return;
    const bool byElement = s.edged || s.keep == RowSchedule::Keep::Nothing;
    const int64_t bytes = s.steps * s.pack * row_.columnBytes;
    const int64_t room = byElement ? placedBytes() : bytes * s.threads;
    if (!byElement && s.registers + (bytes + 3) / 4 <= maxRegisters) {
      s.columns = RowSchedule::Keep::Registers;
      s.registers += static_cast<int>((bytes + 3) / 4);
    } else if ((!byElement || row_.axes.size() == 1) && room + shared + 1024 <= target_.sharedBytes) {
      s.columns = RowSchedule::Keep::Shared;
      s.placed = byElement;
    }
    const int next = static_cast<int>(((s.steps + s.edged) * s.pack * row_.aheadBytes + 3) / 4);
    s.ahead = s.keep == RowSchedule::Keep::Registers && next > 0 && s.registers + next <= maxRegisters;
    if (s.ahead) s.registers += next;
  }
  [[nodiscard]] int64_t placedBytes() const { return columnStride(row_) * row_.pack * row_.columnBytes; }
  [[nodiscard]] int64_t columnsShared(const RowSchedule& s) const {
    if (s.columns != RowSchedule::Keep::Shared) return 0;
    return s.placed ? placedBytes() : s.steps * s.pack * row_.columnBytes * s.threads;
  }
  void inRegisters(int perRow, int cluster) {
    RowSchedule s = shaped(perRow, cluster);
    if (s.rows() > 1 && !(row_.only && row_.several)) return;
    if (s.threads % kWarp != 0) return;
    // Each edge is handled by another thread, and half of the threads have a pack.
    if (s.edged && (s.perRow < kWarp || row_.elements / row_.pack * 2 < s.rowThreads())) return;
    if (s.steps * s.pack > kMaxValues || (s.steps - 1) * s.rowThreads() * s.pack >= row_.elements) return;
    const std::tuple<bool, bool, bool> all[] = {{true, true, true},   {true, true, false},
                                                {true, false, true},  {true, false, false},
                                                {false, false, true}, {false, false, false}};
    for (const auto& [costly, together, once] : all) {
      s.costly = costly, s.together = together, s.once = once && row_.onceBytes > 0;
      if (once != s.once) continue;
      const int64_t bytes = bytesAlive(row_, costly, together) + (s.once ? row_.onceBytes : 0);
      s.registers = static_cast<int>(kBookkeeping + (row_.columnBytes > 0 ? kWalkRegisters : 0) +
                                     ((s.steps * s.pack + s.edged) * bytes + 3) / 4);
      const int maxRegisters = std::min(kMaxRegisters, kRegisterFile / s.threads);
      if (s.registers > maxRegisters) continue;
      declarePlacedColumns(s, maxRegisters, 0);
      int atOnce = std::min(kThreadsPerProcessor / s.threads,
                            kRegisterFile / (s.threads * ((s.registers + 7) / 8 * 8)));
      leaveRoom(s, atOnce);
      atOnce = std::min(atOnce, static_cast<int>(target_.sharedBytes / (columnsShared(s) + 1024)));
      found_.push_back({s, costOf(row_, s, atOnce, target_)});
    }
  }
  // All blocks that walk over rows run at once where that takes few registers less than the estimate: a second
  // wave of a few blocks takes as long as the first.
  void leaveRoom(RowSchedule& s, int& atOnce) const {
    s.minBlocks = 0;
    if (row_.columnBytes == 0 || row_.rows == 0 || s.columns != RowSchedule::Keep::Registers) return;
    const int64_t all = (row_.rows + target_.multiprocessors - 1) / target_.multiprocessors;
    if (all > kBlocksPerProcessor || all * s.threads > kThreadsPerProcessor) return;
    if (kRegisterFile / (all * s.threads) / 8 * 8 * kTighter < s.registers) return;
    s.minBlocks = atOnce = static_cast<int>(all);
  }
  void inShared(int perRow, int cluster) {
    if (perRow < 4 * kWarp || row_.elements < kSharedElements) return;
    RowSchedule s = shaped(perRow, cluster);
    s.keep = RowSchedule::Keep::Shared;
    s.together = false;
    for (const bool costly : {true, false}) {
      s.costly = costly;
      const int64_t bytes = sharedBytes(row_, s);
      if (bytes == 0 || bytes + 1024 > target_.sharedBytes) continue;
      s.registers = kBookkeeping + 16;
      declarePlacedColumns(s, s.registers, bytes);
      const int atOnce = static_cast<int>(std::min<int64_t>(
          kThreadsPerProcessor / s.threads, target_.sharedBytes / (bytes + columnsShared(s) + 1024)));
      found_.push_back({s, costOf(row_, s, atOnce, target_)});
    }
  }

  const RowNest& row_;
  const Target& target_;
  int fixed_;
  std::vector<Costed> found_;
};

} // namespace

int64_t columnStride(const RowNest& row) {
  // A pack's neighbors, which are written together, are in different banks.
  constexpr int64_t skew = 4;
  return (row.elements / row.pack + kWarp - skew) / kWarp * kWarp + skew;
}

int64_t sharedBytes(const RowNest& row, const RowSchedule& s) {
  int64_t bytes = 0;
  for (const RowValue& v : row.kept(s.costly))
    if (v.first != v.last) bytes += v.bytes;
  return bytes * (s.steps + s.edged) * s.pack * s.threads;
}

std::vector<RowSchedule> severalOf(std::vector<RowSchedule> all, size_t maxKernels) {
  std::vector<RowSchedule> out;
  auto alike = [](const RowSchedule& a, const RowSchedule& b) {
    return a.keep == b.keep && a.perRow == b.perRow && a.cluster == b.cluster && a.edged == b.edged &&
           a.once == b.once;
  };
  const RowSchedule* fewest = nullptr;
  for (const RowSchedule& s : all) {
    if (!fewest || s.registers < fewest->registers) fewest = &s;
    if (out.size() < maxKernels &&
        std::none_of(out.begin(), out.end(), [&](const RowSchedule& o) { return alike(o, s); }))
      out.push_back(s);
  }
  if (fewest && out.size() == maxKernels && out.size() > 1 && out.back().registers > fewest->registers)
    out.back() = *fewest;
  return out;
}

std::string describe(const RowSchedule& s) {
  auto counted = [](int64_t n, const std::string& what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
  };
  std::string text = s.rows() > 1 ? counted(s.rows(), "row") + " per block of " + counted(s.threads, "thread")
                     : s.cluster > 1
                         ? counted(s.cluster, "block") + " of " + counted(s.threads, "thread") + " per row"
                         : counted(s.threads, "thread") + " per row";
  text += ", " + counted(s.steps, "pack") + " of " + std::to_string(s.pack) + " per thread";
  if (s.edged) text += " and an edge";
  text += s.keep == RowSchedule::Keep::Registers ? " in registers"
          : s.keep == RowSchedule::Keep::Shared  ? " in shared memory"
                                                 : " at a time";
  if (s.columns != RowSchedule::Keep::Nothing)
    text +=
        s.columns == RowSchedule::Keep::Registers ? ", columns in registers" : ", columns in shared memory";
  if (s.ahead) text += ", the next row prefetched";
  return text;
}

std::vector<RowSchedule> rowSchedules(const Kernel& k, const Nest& nest, const NestPlan& plan,
                                      const Target& target, int threads) {
  std::vector<RowNest> rows;
  for (const bool edged : {false, true})
    if (auto row = rowNestOf(k, nest, plan, edged); row && row->passes > 0) rows.push_back(std::move(*row));
  std::vector<Costed> found;
  for (const RowNest& row : rows)
    if (row.elements > 0)
      for (const Costed& c : Candidates(row, target, threads).run()) found.push_back(c);
  const bool empty = !rows.empty() && std::any_of(rows[0].axes.begin(), rows[0].axes.end(),
                                                  [&](AxisId a) { return k.axes[a].extent.is(0); });
  if (found.empty() && !rows.empty() && !empty) found = Candidates(rows.back(), target, threads).streamed();
  for (size_t i = 0; i < found.size(); ++i) found[i].number = i;
  std::sort(found.begin(), found.end(), [](const Costed& a, const Costed& b) {
    return a.cost != b.cost ? a.cost < b.cost : a.number < b.number;
  });
  std::vector<RowSchedule> out;
  for (const Costed& c : found) out.push_back(c.schedule);
  return out;
}

} // namespace dtc
