#include "dtc/IR/infer/Varying.h"

#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Support/Result.h"

#include <algorithm>
#include <cstdint>

namespace dtc {

std::vector<AxisRef> Varying::axesOf(const Module& m, OpId o) { return axesOfOp(m, o); }

Varying::Varying(const Module& m, FuncId f) : m_(m), mesh_(meshOfFunction(m, f)), func_(f), root_(m[f].body) {
  makeParts();
  findCommon();
  makeSets();
  for (const FuncArg& a : m[f].args)
    if (a.globalType.valid()) add(a.value, ofSharding(m[a.value].sharding));
  block(m[f].body, 0);
}

Varying::Varying(const Module& m, OpId local)
    : m_(m), mesh_(meshOfBlock(m, m.region(local))), root_(m.region(local)) {
  makeParts();
  makeSets();
  for (ValueId a : m[m.region(local)].args) add(a, ofSharding(m[a].sharding));
  block(m.region(local), 0);
}

// The axes that the text names: those of ops, and of shardings in the signatures of this function and of
// callees.
std::vector<AxisRef> Varying::namedAxes() const {
  std::vector<AxisRef> axes;
  const auto add = [&](ShardingId id) {
    if (!id.valid() || m_.shardings[id].mesh != mesh_) return;
    for (const DimSharding& d : m_.shardings[id].dims)
      for (const AxisRef& a : d.axes()) axes.push_back(a);
    for (const PendingAxis& p : m_.shardings[id].pending) axes.push_back(p.axis);
  };
  const auto signature = [&](FuncId f) {
    for (const FuncArg& a : m_[f].args) add(m_[a.value].sharding);
    for (const FuncResult& r : m_[f].results) add(r.sharding);
  };
  const OpId local = m_[root_].parentOp;
  for (ValueId a : m_[root_].args) add(m_[a].sharding);
  for (uint32_t r = 0; local.valid() && r < m_[local].numResults; ++r) add(m_[m_.result(local, r)].sharding);
  if (func_.valid()) signature(func_);
  forEachOp(m_, root_, [&](OpId o) {
    for (const AxisRef& a : axesOf(m_, o)) axes.push_back(a);
    if (const FuncId callee = m_.record(o).isCall ? m_.findFunction(m_.strings[m_[o].callee]) : FuncId();
        callee.valid())
      signature(callee);
  });
  return axes;
}

void Varying::makeParts() {
  if (!mesh_.valid()) return;
  const Mesh& mesh = m_.shardings.mesh(mesh_);
  std::vector<std::vector<int64_t>> borders(mesh.axes.size());
  for (const AxisRef& a : namedAxes()) {
    const int i = mesh.axisIndex(a.name);
    if (i < 0 || a.isFullAxis()) continue;
    borders[static_cast<size_t>(i)].push_back(a.pre);
    borders[static_cast<size_t>(i)].push_back(a.pre * a.size);
  }
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (mesh.axes[a].size == 1) continue; // a value cannot vary along it
    std::vector<int64_t>& boundaries = borders[a];
    boundaries.push_back(1);
    boundaries.push_back(mesh.axes[a].size);
    std::sort(boundaries.begin(), boundaries.end());
    boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
    bool nested = boundaries.front() == 1 && boundaries.back() == mesh.axes[a].size;
    for (size_t i = 1; i < boundaries.size(); ++i) nested &= boundaries[i] % boundaries[i - 1] == 0;
    // Sub-axes that do not nest: the axis stays one part, which only the full axis covers.
    if (!nested) boundaries = {1, mesh.axes[a].size};
    for (size_t i = 1; i < boundaries.size(); ++i) parts_.push_back({a, boundaries[i - 1], boundaries[i]});
  }
  DTC_CHECK(parts_.size() <= 64, "each part has at least 2 devices, and a mesh at most 2^31-1");
}

void Varying::findCommon() {
  if (!mesh_.valid() || devicesOf(m_, func_).empty() || !entryOfProgram(m_, func_).valid()) return;
  const Mesh& mesh = m_.shardings.mesh(mesh_);
  const DevicePrograms programs = programsOf(m_, entryOfProgram(m_, func_));
  const auto own =
      static_cast<size_t>(std::ranges::find(programs.functions, func_) - programs.functions.begin());
  const std::vector<int64_t> coordinates = programs.coordinatesOf(own);
  for (size_t i = 0; i < parts_.size() && !coordinates.empty(); ++i) {
    const Part& part = parts_[i];
    const AxisRef axis{mesh.axes[part.axis].name, part.begin, part.end / part.begin};
    const auto index = [&](int64_t p) { return mesh.indexAlong(mesh.canonical(axis), p); };
    if (std::ranges::all_of(coordinates, [&](int64_t p) { return index(p) == index(coordinates[0]); }))
      common_ |= AxisSet(1) << i;
  }
}

void Varying::makeSets() {
  uint32_t low = UINT32_MAX, high = 0;
  auto include = [&](ValueId v) { low = std::min(low, v.index), high = std::max(high, v.index); };
  std::ranges::for_each(m_[root_].args, include);
  forEachOp(m_, root_, [&](OpId o) {
    for (uint32_t i = 0; i < m_[o].numResults; ++i) include(m_.result(o, i));
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) std::ranges::for_each(m_[m_.region(o, r)].args, include);
  });
  if (low > high) return; // no values
  first_ = low;
  sets_.resize(high - low + 1);
}

// The parts contained in an axis (`wholly`), or overlapping it.
AxisSet Varying::covered(const AxisRef& a, bool wholly) const {
  if (!mesh_.valid()) return 0;
  const Mesh& mesh = m_.shardings.mesh(mesh_);
  int index = mesh.axisIndex(a.name);
  if (index < 0) return 0;
  auto axis = static_cast<size_t>(index);
  int64_t begin = a.isFullAxis() ? 1 : a.pre, end = a.isFullAxis() ? mesh.axes[axis].size : a.pre * a.size;
  AxisSet set = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& p = parts_[i];
    if (p.axis != axis) continue;
    bool within = p.begin >= begin && p.end <= end, touches = p.begin < end && begin < p.end;
    if (a.isFullAxis() || (wholly ? within : touches)) set |= AxisSet(1) << i;
  }
  return set;
}

AxisSet Varying::ofAttr(OpId o, bool wholly) const {
  AxisSet set = 0;
  for (const AxisRef& a : axesOf(m_, o)) set |= covered(a, wholly);
  return set;
}

AxisSet Varying::ofSharding(ShardingId id) const {
  if (!id.valid() || m_.shardings[id].mesh != mesh_) return 0;
  const Sharding& s = m_.shardings[id];
  AxisSet set = 0;
  for (const DimSharding& d : s.dims)
    for (const DimPart& p : d.parts)
      if (p.isAxis()) set |= covered(p.axis, false);
  for (const PendingAxis& p : s.pending) set |= covered(p.axis, false);
  return set;
}

AxisSet Varying::usedBy(BlockId b) const {
  AxisSet set = 0;
  forEachOp(m_, b, [&](OpId o) { set |= usedByOp(o); });
  return set;
}

AxisSet Varying::usedByOp(OpId o) const {
  const OpRecord& rec = m_.record(o);
  if (rec.isCollective() && !rec.operands[0]) return 0; // axis_index and similar ops do not communicate
  if (rec.isCall) return usedByCall(o);
  if (rec.lowering != Lowering::Host) return ofAttr(o, false);
  AxisSet all = 0; // `print` synchronizes all devices
  for (AxisSet part : allParts()) all |= part;
  return all;
}

AxisSet Varying::usedByCall(OpId o) const {
  const FuncId callee = m_.findFunction(m_.strings[m_[o].callee]);
  if (!callee.valid()) return 0;
  auto [entry, isNew] = usedByCallee_.emplace(callee, 0); // recursion is reported elsewhere
  if (!isNew) return entry->second;
  const AxisSet set = usedBy(m_[callee].body);
  return usedByCallee_[callee] = set;
}

std::vector<AxisRef> Varying::axes(AxisSet set) const {
  std::vector<AxisRef> out;
  if (!mesh_.valid()) return out;
  const Mesh& mesh = m_.shardings.mesh(mesh_);
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!(set >> i & 1)) continue;
    const Part& p = parts_[i];
    const bool joins = !out.empty() && i > 0 && (set >> (i - 1) & 1) && parts_[i - 1].axis == p.axis;
    if (joins)
      out.back().size = p.end / out.back().pre;
    else
      out.push_back({mesh.axes[p.axis].name, p.begin, p.end / p.begin});
  }
  for (AxisRef& a : out) a = mesh.canonical(a);
  return out;
}

std::string Varying::text(AxisSet set) const {
  std::string out;
  const Mesh& mesh = m_.shardings.mesh(mesh_);
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!(set >> i & 1)) continue;
    const Part& p = parts_[i];
    AxisRef a{mesh.axes[p.axis].name};
    if (p.begin != 1 || p.end != mesh.axes[p.axis].size) a = {a.name, p.begin, p.end / p.begin};
    out += (out.empty() ? "" : ", ") + printAxis(a, m_.strings);
  }
  return out;
}

int64_t Varying::sizeOf(AxisSet set) const {
  int64_t size = 1;
  for (size_t i = 0; i < parts_.size(); ++i)
    if (set >> i & 1) size *= parts_[i].end / parts_[i].begin;
  return size;
}

std::vector<AxisSet> Varying::allParts() const {
  std::vector<AxisSet> parts;
  for (size_t i = 0; i < parts_.size(); ++i) parts.push_back(AxisSet(1) << i);
  return parts;
}

// --- the analysis: sets only grow ---

void Varying::add(ValueId v, AxisSet set) {
  set &= ~common_;
  if (!set) return;
  AxisSet& has = sets_[v.index - first_];
  if ((has | set) == has) return;
  has |= set;
  changed_ = true;
}

void Varying::results(OpId o, AxisSet set) {
  for (uint32_t i = 0; i < m_[o].numResults; ++i) add(m_.result(o, i), set);
}

void Varying::block(BlockId b, AxisSet predicate) {
  for (OpId o : m_[b].ops) op(o, predicate);
}

// `predicate`: the axes along which the execution of this block varies.
void Varying::op(OpId o, AxisSet predicate) {
  const OpRecord& record = m_.record(o);
  if (record.regions != RegionKind::None) {
    regions(o, predicate);
    return;
  }
  AxisSet set = predicate;
  for (ValueId v : m_.operands(o)) set |= (*this)(v);
  if (record.uniform)
    set &= ~ofAttr(o, true);
  else if (m_.attr(o, "pairs").valid())
    set = predicate | ofPairs(o, set);
  else
    set |= ofAttr(o, false);
  if (record.isCall) {
    FuncId callee = m_.findFunction(m_.strings[m_[o].callee]);
    for (uint32_t i = 0; callee.valid() && i < m_[o].numResults && i < m_[callee].results.size(); ++i) {
      const FuncResult& r = m_[callee].results[i];
      if (r.globalType.valid()) add(m_.result(o, i), ofSharding(r.sharding));
    }
    return;
  }
  results(o, set);
}

AxisSet Varying::ofPairs(OpId o, AxisSet operand) const {
  struct Digit { // of a device's index along the axes
    size_t part;
    int64_t stride, size;
  };
  const AxisSet within = ofAttr(o, true);
  if (within != ofAttr(o, false)) return operand | ofAttr(o, false);
  const std::vector<AxisRef> refs = axesOf(m_, o);
  std::vector<Digit> digits;
  int64_t devices = 1;
  for (size_t i = refs.size(); i-- > 0;) { // the last axis is the minor one
    const AxisSet parts = covered(refs[i], true);
    int64_t size = 1;
    for (size_t p = parts_.size(); p-- > 0;) {
      if (!(parts >> p & 1)) continue;
      digits.push_back({p, devices * size, parts_[p].end / parts_[p].begin});
      size *= digits.back().size;
    }
    devices *= size;
  }
  // The sender of each receiver, as far as the operand distinguishes senders; -1: no sender, the result is
  // zeros.
  std::vector<int64_t> from(static_cast<size_t>(devices), -1);
  for (AttrId pair : m_.attrs[m_.attr(o, "pairs")].list) {
    const std::vector<AttrId>& ends = m_.attrs[pair].list;
    int64_t sender = m_.attrs[ends[0]].i;
    const int64_t receiver = m_.attrs[ends[1]].i;
    if (sender < 0 || sender >= devices || receiver < 0 || receiver >= devices) return operand | within;
    for (const Digit& d : digits)
      if (!(operand >> d.part & 1)) sender -= sender / d.stride % d.size * d.stride;
    from[static_cast<size_t>(receiver)] = sender;
  }
  AxisSet set = operand & ~within;
  for (const Digit& d : digits)
    for (int64_t i = 0; i < devices && !(set >> d.part & 1); ++i)
      if (from[static_cast<size_t>(i)] != from[static_cast<size_t>(i - i / d.stride % d.size * d.stride)])
        set |= AxisSet(1) << d.part;
  return set;
}

void Varying::carried(OpId o, BlockId body, size_t firstArg, size_t firstStart, AxisSet predicate) {
  const std::vector<ValueId>& args = m_[body].args;
  std::span<const ValueId> starts = m_.operands(o);
  for (size_t i = 0; i + firstStart < starts.size() && i + firstArg < args.size(); ++i) {
    AxisSet set = (*this)(starts[i + firstStart]) | predicate;
    RegionKind kind = m_.record(o).regions;
    bool loop = kind == RegionKind::While || kind == RegionKind::For;
    if (loop && i < m_[body].yields.size()) set |= (*this)(m_[body].yields[i]);
    add(args[i + firstArg], set);
    if (kind == RegionKind::While && i < m_[m_.region(o, 0)].args.size())
      add(m_[m_.region(o, 0)].args[i], set);
  }
}

void Varying::regions(OpId o, AxisSet predicate) {
  RegionKind kind = m_.record(o).regions;
  BlockId body = m_.region(o, kind == RegionKind::While ? 1 : 0);
  if (kind == RegionKind::Cond && m_[o].numOperands) predicate |= (*this)(m_.operand(o, 0));
  bool loop = kind == RegionKind::While || kind == RegionKind::For;
  bool outer = changed_;
  do {
    changed_ = false;
    if (kind == RegionKind::For && m_[o].numOperands >= 2) {
      predicate |= (*this)(m_.operand(o, 0)) | (*this)(m_.operand(o, 1));
      if (!m_[body].args.empty()) add(m_[body].args[0], predicate);
      carried(o, body, 1, 2, predicate);
    } else if (kind != RegionKind::Cond) {
      carried(o, body, 0, 0, predicate);
    }
    if (kind == RegionKind::While) {
      BlockId condition = m_.region(o, 0);
      block(condition, predicate);
      if (!m_[condition].yields.empty()) predicate |= (*this)(m_[condition].yields[0]);
    }
    for (uint32_t r = kind == RegionKind::While ? 1 : 0; r < m_[o].numRegions; ++r)
      block(m_.region(o, r), predicate);
    outer |= changed_;
  } while (loop && changed_);
  changed_ = outer;
  for (uint32_t i = 0; i < m_[o].numResults; ++i) {
    AxisSet set = 0;
    ValueId first;
    bool same = !loop; // every branch yields one value, whichever runs
    for (uint32_t r = kind == RegionKind::While ? 1 : 0; r < m_[o].numRegions; ++r) {
      const std::vector<ValueId>& yields = m_[m_.region(o, r)].yields;
      if (i >= yields.size()) continue;
      if (!first.valid()) first = yields[i];
      same = same && yields[i] == first;
      set |= (*this)(yields[i]);
    }
    if (!same) set |= predicate;
    if (loop && i + (kind == RegionKind::For ? 2 : 0) < m_[o].numOperands)
      set |= (*this)(m_.operand(o, i + (kind == RegionKind::For ? 2 : 0)));
    add(m_.result(o, i), set);
  }
}

} // namespace dtc
