#include "schedule/ScatterSchedule.h"

#include "schedule/CudaPlan.h"
#include <algorithm>
#include <bit>

namespace dtc {

using namespace loops;

namespace {

constexpr int64_t kManyLists = 8192;   // a thread for each fills the device
constexpr int64_t kUnknown = 1 << 20;  // an unknown extent counts as large
constexpr int64_t kUnknownRanges = 16; // of rows, where the number of lists is not known
constexpr int64_t kMaxPack = 8;        // an element of any dtype takes a register
constexpr int kMinThreads = 64;        // of a block, where rows are few

AxisSet bit(AxisId a) { return AxisSet(1) << a; }

int64_t elementsOf(const Kernel& k, std::span<const AxisId> axes) {
  int64_t elements = 1;
  for (AxisId a : axes) {
    const Size& e = k.axes[a].extent;
    elements = std::min(elements * std::min(e.isStatic() ? e.number : kUnknown, kUnknown), kUnknown);
  }
  return elements;
}

// a / b where that is a size.
std::optional<Size> quotient(const Size& a, const Size& b) {
  if (b.number == 0 || a.number % b.number != 0) return std::nullopt;
  Size q{a.number / b.number, {}};
  if (!std::ranges::includes(a.args, b.args)) return std::nullopt;
  std::ranges::set_difference(a.args, b.args, std::back_inserter(q.args));
  return q;
}

// The axes of the result that occur in the address as they are.
AxisSet directAxes(const Kernel& k, const Nest& nest, AffineId address) {
  AxisSet direct = 0;
  for (const AffineTerm& t : k[address].terms)
    if (t.kind == AffineTerm::OfAxis) direct |= bit(static_cast<AxisId>(t.id));
  return direct & ~nest.ordered;
}

// A store of all elements, and one of updates in order, whose rows are computed.
bool isScatter(const Kernel& k, const Nest& nest) {
  if (nest.ordered == 0 || nest.sorts() || !nest.walked.empty() || nest.stores.size() != 2) return false;
  const Store &base = nest.stores[0], &update = nest.stores[1];
  if (base.buffer != update.buffer || base.when.valid() || !base.combine.empty() || !update.when.valid() ||
      (k.dependsOn(base.address) & nest.ordered) != 0)
    return false;
  bool plain = true;
  forEachNode(k, rootsOf(k, nest),
              [&](NodeId n) { plain &= k[n].kind != NodeKind::Reduce && k[n].kind != NodeKind::Running; });
  return plain && std::ranges::all_of(k[base.address].terms,
                                      [](const AffineTerm& t) { return t.kind == AffineTerm::OfAxis; });
}

// The axes that the row of an update depends on, besides its number.
AxisSet listAxes(const Kernel& k, const Nest& nest) {
  const Store& update = nest.stores[1];
  AxisSet axes = k.dependsOn(update.when);
  for (const AffineTerm& t : k[update.address].terms)
    if (t.kind == AffineTerm::OfNode) axes |= k.dependsOn(NodeId(t.id));
  return axes & ~nest.ordered;
}

// True if the update's address is the base's with the row replaced.
bool addressesAgree(const Kernel& k, const Nest& nest, const ScatterSchedule& s, AxisSet direct) {
  const Store &base = nest.stores[0], &update = nest.stores[1];
  for (const AffineTerm& t : k[update.address].terms) {
    const bool own = t.kind == AffineTerm::OfAxis && (direct >> t.id & 1);
    if (own && k.strideOf(base.address, static_cast<AxisId>(t.id)).size != t.coefficient) return false;
    if (!own && s.row && !quotient(t.coefficient, s.rowStride)) return false;
  }
  return !s.row || ((k.dependsOn(update.address) | k.dependsOn(update.value) | k.dependsOn(update.when)) &
                    bit(*s.row)) == 0;
}

// As many neighbors as 16 bytes of the widest buffer have that is read or written along the lane.
int64_t packAlong(const Kernel& k, const Nest& nest, AxisId lane) {
  const Size& extent = k.axes[lane].extent;
  if (!extent.isStatic()) return 1;
  const AffineId address = nest.stores[0].address;
  int64_t bytes = dtypeBytes(k.buffers[nest.stores[0].buffer].dtype);
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
    if (k[n].kind == NodeKind::Load && (k.dependsOn(k[n].affine) >> lane & 1))
      bytes = std::max<int64_t>(bytes, dtypeBytes(k.buffers[k[n].buffer].dtype));
  });
  int64_t pack = std::clamp<int64_t>(kAccessBytes / bytes, 1, kMaxPack);
  while (pack > 1 && (extent.number % pack != 0 || !isInLanePacks(k, address, lane, pack))) pack /= 2;
  return pack;
}

// Threads along a row: all of its packs, or equal strips of them.
int threadsAlong(int64_t packs, int64_t limit) {
  const int64_t strips = (packs + limit - 1) / limit,
                each = std::max<int64_t>((packs + strips - 1) / strips, 1);
  if (each < kWarp) return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(each)));
  return static_cast<int>((each + kWarp - 1) / kWarp * kWarp);
}

// Fewer rows a block and narrower strips where there would be too few blocks; then as many ranges of rows as
// make one wave of blocks, or half of one where rows are so short that looking through the list is most of the
// work.
void fillDevice(const Kernel& k, const Target& target, ScatterSchedule& s) {
  const int64_t processors = target.multiprocessors > 0 ? target.multiprocessors : 132;
  const int64_t lists = elementsOf(k, s.lists), rows = s.row ? elementsOf(k, std::span(&*s.row, 1)) : 1,
                width = s.lane ? std::max<int64_t>(elementsOf(k, std::span(&*s.lane, 1)), 1) : 1;
  const auto packs = [&] { return (width + s.pack - 1) / s.pack; };
  const auto strips = [&] { return (packs() + s.across - 1) / s.across; };
  s.across = threadsAlong(packs(), kMaxThreads);
  s.groups = static_cast<int>(std::bit_floor(static_cast<uint64_t>(kMaxThreads / s.across)));
  while (lists * strips() * ((rows + s.groups - 1) / s.groups) < 2 * processors) {
    if (s.groups > 1 && s.threads() > kMinThreads)
      s.groups /= 2;
    else if (s.across > kWarp)
      s.across = threadsAlong(packs(), s.across / 2);
    else if (s.pack > 1)
      s.pack /= 2, s.across = threadsAlong(packs(), kWarp);
    else
      break;
  }
  const bool known = std::ranges::all_of(s.lists, [&](AxisId a) { return k.axes[a].extent.isStatic(); });
  const DType dtype = k[k.nests[0].stores[1].value].type;
  const int registers = s.pack * std::max(dtypeBytes(dtype), 4) <= kAccessBytes ? 80 : 112;
  s.resident = std::clamp(65536 / (s.threads() * registers), 1, 4);
  const int64_t wanted = (s.across < kWarp ? 2 : s.resident) * processors, each = lists * strips();
  s.ranges = known ? (wanted + each - 1) / each : kUnknownRanges;
  s.ranges = std::clamp<int64_t>(s.ranges, 1, std::max<int64_t>((rows + s.groups - 1) / s.groups, 1));
}

} // namespace

bool isInLanePacks(const Kernel& k, AffineId address, AxisId lane, int64_t count) {
  return isContiguous(k, address, lane) && std::ranges::all_of(k[address].terms, [&](const AffineTerm& t) {
           return (t.kind == AffineTerm::OfAxis && t.id == lane) || t.coefficient.number % count == 0;
         });
}

std::optional<ScatterSchedule> scatterScheduleOf(const Kernel& k, const Target& target) {
  if (!k.inOrder || k.nests.size() != 1 || !isScatter(k, k.nests[0])) return std::nullopt;
  const Nest& nest = k.nests[0];
  const Store& base = nest.stores[0];
  const AxisSet own = k.dependsOn(base.address), direct = directAxes(k, nest, nest.stores[1].address);
  if (std::popcount(own & ~direct) > 1 || (direct & ~own) != 0) return std::nullopt;
  ScatterSchedule s;
  if (own & ~direct) {
    s.row = static_cast<AxisId>(std::countr_zero(own & ~direct));
    s.rowStride = k.strideOf(base.address, *s.row).size;
  }
  if (!addressesAgree(k, nest, s, direct)) return std::nullopt;
  const AxisSet listed = listAxes(k, nest);
  bool apart = false; // neighbors have lists of their own
  for (AxisId a : nest.domain) {
    if (nest.ordered >> a & 1) s.steps.push_back(a);
    if (!(direct >> a & 1)) continue;
    const Size& extent = k.axes[a].extent;
    const bool contiguous = isContiguous(k, base.address, a) && !extent.is(1);
    apart |= contiguous && (listed >> a & 1);
    const bool one =
        extent.isStatic() || (extent.number == 1 && extent.args.size() == 1); // strips can be counted
    if (contiguous && !(listed >> a & 1) && one)
      s.lane = a;
    else
      s.lists.push_back(a);
  }
  if (apart && elementsOf(k, s.lists) >= kManyLists) return std::nullopt;
  if (s.lane) s.pack = packAlong(k, nest, *s.lane);
  fillDevice(k, target, s);
  return s;
}

AffineId rowOfUpdate(Kernel& k, const ScatterSchedule& s) {
  if (!s.row) return k.constant(0);
  const Nest& nest = k.nests[0];
  const AffineId address = nest.stores[1].address;
  const AxisSet direct = directAxes(k, nest, address);
  Affine row;
  for (const AffineTerm& t : k[address].terms)
    if (t.kind != AffineTerm::OfAxis || !(direct >> t.id & 1))
      row.terms.push_back({t.kind, t.id, *quotient(t.coefficient, s.rowStride)});
  return k.add(std::move(row));
}

} // namespace dtc
