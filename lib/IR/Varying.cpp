#include "dtc/IR/Varying.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/Support/Result.h"

#include <algorithm>

namespace dtc {

std::vector<AxisRef> Varying::axesOf(const Module& m, OpId o) {
  std::vector<AxisRef> axes;
  for (const AttrSpec& spec : m.record(o).attrs) {
    if (spec.type != AttrType::Axes) continue;
    AttrId id = m.attr(o, spec.name);
    if (!id.valid()) continue;
    for (AttrId e : m.attrs[id].list) {
      const Attr& a = m.attrs[e];
      axes.push_back(a.kind == Attr::Axis ? a.axis : AxisRef{a.text});
    }
  }
  return axes;
}

Varying::Varying(const Module& m, FuncId f) : m_(m), mesh_(meshOfFunction(m, f)), roots_{m[f].body} {
  makeParts();
  for (const FuncArg& a : m[f].args)
    if (a.globalType.valid()) add(a.value, ofSharding(m[a.value].sharding));
  block(m[f].body, 0);
}

Varying::Varying(const Module& m, OpId local)
    : m_(m), mesh_(meshOfBlock(m, m.region(local))), roots_{m.region(local)} {
  makeParts();
  for (ValueId a : m[m.region(local)].args) add(a, ofSharding(m[a].sharding));
  block(m.region(local), 0);
}

void Varying::addBorders(BlockId b, std::vector<std::vector<int64_t>>& borders) const {
  const Mesh& mesh = m_.shardings.mesh(mesh_);
  forEachOp(m_, b, [&](OpId o) {
    for (const AxisRef& a : axesOf(m_, o)) {
      int i = mesh.axisIndex(a.name);
      if (i < 0 || a.whole()) continue;
      borders[static_cast<size_t>(i)].push_back(a.pre);
      borders[static_cast<size_t>(i)].push_back(a.pre * a.size);
    }
  });
}

void Varying::makeParts() {
  if (!mesh_.valid()) return;
  const Mesh& mesh = m_.shardings.mesh(mesh_);
  std::vector<std::vector<int64_t>> borders(mesh.axes.size());
  for (BlockId b : roots_) addBorders(b, borders);
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (mesh.axes[a].size == 1) continue; // nothing varies along it
    std::vector<int64_t>& cuts = borders[a];
    cuts.push_back(1);
    cuts.push_back(mesh.axes[a].size);
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    bool nested = cuts.front() == 1 && cuts.back() == mesh.axes[a].size;
    for (size_t i = 1; i < cuts.size(); ++i) nested &= cuts[i] % cuts[i - 1] == 0;
    // Sub-axes that do not fit into each other: the axis stays one part, which only the whole ends.
    if (!nested) cuts = {1, mesh.axes[a].size};
    for (size_t i = 1; i < cuts.size(); ++i) parts_.push_back({a, cuts[i - 1], cuts[i]});
  }
  DTC_CHECK(parts_.size() <= 64, "parts are of 2 or more, and a mesh has at most 2^31-1 devices");
}

// The parts within an axis (wholly) or that it touches.
AxisSet Varying::covered(const AxisRef& a, bool wholly) const {
  if (!mesh_.valid()) return 0;
  const Mesh& mesh = m_.shardings.mesh(mesh_);
  int index = mesh.axisIndex(a.name);
  if (index < 0) return 0;
  auto axis = static_cast<size_t>(index);
  int64_t begin = a.whole() ? 1 : a.pre, end = a.whole() ? mesh.axes[axis].size : a.pre * a.size;
  AxisSet set = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& p = parts_[i];
    if (p.axis != axis) continue;
    bool within = p.begin >= begin && p.end <= end, touches = p.begin < end && begin < p.end;
    if (a.whole() || (wholly ? within : touches)) set |= AxisSet(1) << i;
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
  if (rec.isCollective() && !rec.operands[0]) return 0; // axis_index and its kind ask nobody
  if (rec.isCall) return usedByCall(o);
  if (rec.lowering != Lowering::Host) return ofAttr(o, false);
  AxisSet all = 0; // `print` waits for every device
  for (AxisSet part : allParts()) all |= part;
  return all;
}

AxisSet Varying::usedByCall(OpId o) const {
  const FuncId callee = m_.findFunction(m_.strings[m_[o].callee]);
  if (!callee.valid()) return 0;
  auto [entry, isNew] = usedByCallee_.emplace(callee, 0); // one that calls itself is reported elsewhere
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
  if (!set) return;
  AxisSet& has = sets_[v];
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

// `predicate`: what the run of this block depends on.
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
      add(m_.result(o, i), r.globalType.valid() ? set | ofSharding(r.sharding) : 0);
    }
    return;
  }
  results(o, set);
}

AxisSet Varying::ofPairs(OpId o, AxisSet operand) const {
  struct Digit { // of a device's number along the axes
    size_t part;
    int64_t stride, size;
  };
  const AxisSet within = ofAttr(o, true);
  if (within != ofAttr(o, false)) return operand | ofAttr(o, false);
  const std::vector<AxisRef> refs = axesOf(m_, o);
  std::vector<Digit> digits;
  int64_t devices = 1;
  for (size_t i = refs.size(); i-- > 0;) { // the last axis counts fastest
    const AxisSet parts = covered(refs[i], true);
    int64_t size = 1;
    for (size_t p = parts_.size(); p-- > 0;) {
      if (!(parts >> p & 1)) continue;
      digits.push_back({p, devices * size, parts_[p].end / parts_[p].begin});
      size *= digits.back().size;
    }
    devices *= size;
  }
  // By receiver: the sender as far as the operand tells senders apart; -1: nothing comes, and it has zeros.
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
    AxisSet set = predicate;
    for (uint32_t r = kind == RegionKind::While ? 1 : 0; r < m_[o].numRegions; ++r) {
      const std::vector<ValueId>& yields = m_[m_.region(o, r)].yields;
      if (i < yields.size()) set |= (*this)(yields[i]);
    }
    if (loop && i + (kind == RegionKind::For ? 2 : 0) < m_[o].numOperands)
      set |= (*this)(m_.operand(o, i + (kind == RegionKind::For ? 2 : 0)));
    add(m_.result(o, i), set);
  }
}

} // namespace dtc
