#include "fuse/FusionGroups.h"
#include "dtc/Support/Result.h"
#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace dtc {

FusionGroups::FusionGroups(Module& module, BlockId ofBlock, size_t opLimit, FusionTables& tables)
    : m(module), block(ofBlock), limit(opLimit), forms(tables.forms), uses(tables.uses),
      writesOnce(tables.writesOnce), attentionRows(tables.attentionRows), epilogues(tables.epilogues),
      gelu(tables.gelu), distance(tables.distance), waitingBytes(tables.waitingBytes),
      fixedOrder(tables.fixedOrder), layouts(tables.layouts), microbatch_(m.strings.find("microbatch")),
      phase_(m.strings.find("phase")), stage_(m.strings.find("stage")), callsPerIndex_(tables.callsPerIndex),
      positions_(tables.positions), ops_(module[ofBlock].ops.size()) {
  uses.clear(m.values.size());
  positions_.resize(std::max<size_t>(positions_.size(), m.ops.size()));
  for (uint32_t i = 0; i < ops_.size(); ++i) {
    const OpId o = m[block].ops[i];
    positions_[o.index] = i;
    for (ValueId v : valuesReadBy(o)) ++uses[v.index];
  }
  for (ValueId v : m[block].yields) ++uses[v.index];
}

ValuesRead::ValuesRead(const Module& m, OpId o) : all_(m.operands(o)) {
  if (m[o].numRegions == 0) return;
  own_.assign(all_.begin(), all_.end());
  for (uint32_t r = 0; r < m[o].numRegions; ++r) {
    forEachOp(m, m.region(o, r), [&](OpId inner) {
      own_.insert(own_.end(), m.operands(inner).begin(), m.operands(inner).end());
      for (uint32_t k = 0; k < m[inner].numRegions; ++k) {
        const std::vector<ValueId>& yields = m[m.region(inner, k)].yields;
        own_.insert(own_.end(), yields.begin(), yields.end());
      }
    });
    const std::vector<ValueId>& yields = m[m.region(o, r)].yields;
    own_.insert(own_.end(), yields.begin(), yields.end());
  }
  all_ = own_;
}

// --- ops and values ---

const FusionOp* FusionGroups::stateOf(ValueId v) const {
  const Value& value = m[v];
  return value.kind == ValueKind::OpResult ? find(OpId(value.owner)) : nullptr;
}

FusionOp* FusionGroups::stateOf(ValueId v) { return const_cast<FusionOp*>(std::as_const(*this).stateOf(v)); }

FusionSource FusionGroups::sourceOf(ValueId v) const {
  FusionSource s{v};
  for (;;) {
    const FusionOp* state = stateOf(s.value);
    if (!state || !state->form->move || state->group >= 0) return s;
    const OpId o(m[s.value].owner);
    if (m[o].numOperands != 1) return s;
    s.moved = true;
    s.near &= state->form->compound;
    if (!state->form->compound)
      s.aligned = false;
    else {
      // Aligned: the operand's dims are in order among the result's, one to one.
      int last = -1;
      for (const DimMap& d : state->form->rule.operands[0].dims) {
        if (d.terms.empty()) continue;
        int at = -1;
        const std::vector<DimMap>& result = state->form->rule.results[0].dims;
        for (size_t i = 0; i < result.size(); ++i)
          if (d.plain() && result[i].plain() && result[i].terms[0].factor == d.terms[0].factor)
            at = static_cast<int>(i);
        if (at <= last) s.aligned = false;
        last = at;
      }
    }
    s.value = m.operand(o, 0);
  }
}

int FusionGroups::groupOf(ValueId v) const {
  const FusionOp* s = stateOf(v);
  return s ? s->group : -1;
}

int64_t FusionGroups::levelOf(ValueId v) const {
  const FusionSource s = sourceOf(v);
  const int g = groupOf(s.value);
  if (g >= 0) return group(g).level;
  // A data-movement op with several operands or none.
  int64_t level = -1;
  if (const FusionOp* state = stateOf(s.value); state && state->form->move)
    for (ValueId operand : m.operands(OpId(m[s.value].owner))) level = std::max(level, levelOf(operand));
  return level;
}

bool FusionGroups::folds(OpId reader, OpId op) const {
  const FusionOp* s = find(op);
  if (!s) return false;
  if (auto f = factors_.find(reader.index); f != factors_.end())
    if (std::find(f->second.begin(), f->second.end(), op) != f->second.end()) return true;
  if (s->again) return s->group != at(reader).group;
  if (!s->form->move) return false;
  if (s->group < 0) return true;
  const FusionGroup& made = group(s->group);
  if (s->chosen || (made.closed && made.ops.size() > 1))
    return false; // its producer writes it in this layout, and in no other
  const FusionOp& r = at(reader);
  const int64_t when = r.form->move && r.stored != INT64_MAX ? r.stored : r.placed;
  return s->stored > when && s->group != r.group;
}

// The readers of each value from memory, including through folded data-movement ops.
FusionReadings FusionGroups::readings() const {
  FusionReadings found;
  for (OpId o : m[block].ops) {
    if (at(o).group < 0) continue;
    forEachRead(o, [&](ValueId v, bool moved, bool folded) {
      if (!folded && stateOf(v)) found.add(v, {o, moved});
    });
  }
  found.group();
  return found;
}

// --- groups ---

ElementCount FusionGroups::elementsOf(const Type& t) const {
  ElementCount e;
  for (Dim d : t.dims) {
    if (d.isStatic())
      e.number *= d.value();
    else
      e.sizes.push_back(-1 - static_cast<int64_t>(d.tableIndex()));
  }
  std::sort(e.sizes.begin(), e.sizes.end());
  return e;
}

uint32_t FusionGroups::newGroup(OpId o, bool fusible, std::string_view kind) {
  const uint32_t g = static_cast<uint32_t>(groups_.size());
  FusionGroup& group = groups_.emplace_back();
  group.fusible = fusible;
  group.kind = kind;
  group.ops = {o};
  group.slot = slotOf(o);
  for (ValueId v : valuesReadBy(o)) group.level = std::max(group.level, levelOf(v) + 1);
  if (m[o].numResults != 0) group.elements = elementsOf(m.typeOf(m.result(o)));
  at(o).group = static_cast<int32_t>(g);
  noteUses(o, group.level, g);
  return g;
}

void FusionGroups::noteUses(OpId o, int64_t level, uint32_t own) {
  const ValuesRead direct = valuesReadBy(o);
  std::vector<ValueId> read(direct.begin(), direct.end());
  for (size_t i = 0; i < read.size(); ++i) { // `read` grows: a data-movement op with two operands reads both
    const ValueId v = sourceOf(read[i]).value;
    const int g = groupOf(v);
    if (const FusionOp* state = stateOf(v); g < 0 && state && state->form->move)
      for (ValueId origin : m.operands(OpId(m[v].owner))) read.push_back(origin);
    if (g >= 0 && static_cast<uint32_t>(g) != own) {
      int64_t& minUser = group(g).minUser;
      minUser = std::min(minUser, level);
    }
  }
}

bool FusionGroups::mergeable(const FusionGroup& a, const FusionGroup& b) const {
  if (a.ops.size() + b.ops.size() > limit || a.elements != b.elements || a.slot != b.slot) return false;
  if (a.rows && b.rows && (a.full != b.full || a.reduced != b.reduced)) return false;
  return a.parted.empty() || b.parted.empty() || (a.parted == b.parted && a.partReduced == b.partReduced);
}

void FusionGroups::merge(uint32_t into, uint32_t from) {
  FusionGroup &a = groups_[into], &b = groups_[from];
  for (OpId o : b.ops) at(o).group = static_cast<int32_t>(into);
  a.ops.insert(a.ops.end(), b.ops.begin(), b.ops.end());
  sortOps(a);
  a.minUser = std::min(a.minUser, b.minUser);
  a.level = std::max(a.level, b.level);
  if (b.rows && a.kind != "columns") a.kind = b.kind;
  if (b.rows) a.rows = true, a.full = b.full, a.reduced = b.reduced;
  if (!b.parted.empty()) a.parted = b.parted, a.partReduced = b.partReduced;
  b.ops.clear();
}

void FusionGroups::append(uint32_t into, uint32_t from) {
  FusionGroup &a = groups_[into], &b = groups_[from];
  for (OpId o : b.ops) at(o).group = static_cast<int32_t>(into);
  a.ops.insert(a.ops.end(), b.ops.begin(), b.ops.end());
  a.minUser = std::min(a.minUser, b.minUser);
  a.level = std::max(a.level, b.level);
  b.ops.clear();
}

void FusionGroups::sortOps(FusionGroup& g) const {
  std::sort(g.ops.begin(), g.ops.end(), [&](OpId p, OpId q) { return position(p) < position(q); });
}

// A data-movement op whose operand's kernel can write its result directly: no copy.
bool FusionGroups::joinDataMovement(OpId o, std::string_view& kind) {
  const FusionOp& s = at(o);
  kind = "copy";
  if (m[o].numOperands == 0) return kind = "pointwise", false;
  if (!s.form->compound) return false;
  const FusionSource source = sourceOf(m.result(o));
  if (const FusionOp* base = stateOf(source.value); base && base->form->move && base->group < 0)
    return false; // its bytes are not in memory
  StridedView view(m, m.typeOf(source.value));
  std::vector<const Rule*> moves;
  for (ValueId v = m.result(o); v != source.value; v = m.operand(OpId(m[v].owner), 0))
    moves.push_back(&stateOf(v)->form->rule);
  bool known = source.near;
  for (size_t i = moves.size(); i-- > 0 && known;) known = view.apply(*moves[i]);
  if (known && view.identity()) return kind = "view", false;
  const int g = groupOf(source.value);
  if (g < 0 || !source.near || !known) return false;
  FusionGroup& group = groups_[static_cast<size_t>(g)];
  // A closed group may have results of several sizes.
  const ElementCount written = group.closed ? elementsOf(m.typeOf(source.value)) : group.elements;
  if (!group.fusible || group.ops.size() >= limit || elementsOf(m.typeOf(m.result(o))) != written)
    return false;
  if (group.kind == "gemm")
    if (const std::optional<ProductWalks> walks = walksOf(group, view); walks && !walks->dense) return false;
  if (group.closed) { // written once: in either layout
    const FusionForm& form = formOf(group.ops[0]);
    const bool window = form.window && (permutesAllButLast(*s.form) || layouts.stored.contains(o.index)),
               rows = form.writesRows && OpId(m[source.value].owner) == group.ops[0] && view.storesRows();
    const bool product = group.kind == "gemm" && writesInOneCall(group, view);
    const bool attention = group.kind == "attention" && attentionWrites(source.value, view);
    if (!product && !attention && !window && !rows) return false;
    for (ValueId v = m.operand(o, 0); v != source.value; v = m.operand(OpId(m[v].owner), 0))
      if (uses[v.index] != 1) return false;
  }
  // The only reader of a value writes it elsewhere; another copy of it would be an additional output.
  return uses[source.value.index] == 1;
}

// Attention writes y in rows of contiguous elements, and one number per row in any layout.
bool FusionGroups::attentionWrites(ValueId result, const StridedView& view) const {
  return !attentionRows || m[result].position > 0 || view.storesRows();
}

// The dims of the result's rows, those of its columns and those of the batch are walks of one stride each; a
// walk that falls into several adds dims to the batch.
std::optional<FusionGroups::ProductWalks> FusionGroups::walksOf(const FusionGroup& group,
                                                                const StridedView& view) const {
  const auto matmul = std::ranges::find_if(group.ops, [&](OpId o) { return formOf(o).library; });
  const auto dims = view.runsByDim();
  if (!dims || matmul == group.ops.end()) return std::nullopt;
  const Rule& rule = formOf(*matmul).rule;
  if (rule.operands.size() < 2 || dims->size() != rule.results[0].dims.size()) return std::nullopt;
  const auto reads = [&](size_t operand, int factor) {
    for (size_t d = 0; d < rule.operands[operand].dims.size(); ++d)
      if (rule.factorOf(rule.operands[operand], d) == factor) return true;
    return false;
  };
  std::vector<StridedView::Run> walks[3]; // rows, columns, batch
  for (size_t d = 0; d < dims->size(); ++d) {
    const int factor = rule.factorOf(rule.results[0], d);
    if (factor < 0) return std::nullopt;
    std::vector<StridedView::Run>& walk = walks[!reads(0, factor) ? 1 : reads(1, factor) ? 2 : 0];
    walk.insert(walk.end(), (*dims)[d].begin(), (*dims)[d].end());
  }
  ProductWalks out;
  bool many = false;
  for (std::vector<StridedView::Run>& walk : walks) {
    std::sort(walk.begin(), walk.end(), [](const auto& a, const auto& b) { return a.out < b.out; });
    int64_t pieces = walk.empty() ? 0 : 1;
    for (size_t i = 0; i + 1 < walk.size(); ++i)
      pieces += walk[i + 1].out != walk[i].out * walk[i].size || walk[i + 1].in != walk[i].in * walk[i].size;
    out.batches += &walk == &walks[2] ? pieces : std::max<int64_t>(pieces - 1, 0);
    if (&walk == &walks[2]) continue;
    for (const StridedView::Run& run : walk) {
      many |= run.size > 1;
      out.dense |= run.size > 1 && run.out == 1;
    }
  }
  out.dense |= !many;
  return out;
}

// Only one dim of the batch can be part of a GPU's call.
bool FusionGroups::writesInOneCall(const FusionGroup& group, const StridedView& view) const {
  if (!callsPerIndex_) return true;
  const std::optional<ProductWalks> walks = walksOf(group, view);
  return walks && walks->batches <= 1;
}

void FusionGroups::store(ValueId v) {
  FusionOp* s = stateOf(v);
  if (!s || !s->form->move || s->group >= 0) return;
  const OpId o(m[v].owner);
  std::string_view kind;
  if (joinDataMovement(o, kind)) {
    const uint32_t g = static_cast<uint32_t>(sourceGroup(v));
    std::vector<OpId>& ops = groups_[g].ops; // before the folding ops among them
    ops.insert(std::upper_bound(ops.begin(), ops.end(), o,
                                [&](OpId p, OpId q) { return position(p) < position(q); }),
               o);
    s->group = static_cast<int32_t>(g);
    s->unaligned = true;
  } else {
    const uint32_t g = newGroup(o, true, kind);
    groups_[g].closed = true;
  }
  s->stored = now_++;
}

std::vector<MaterializedValue> FusionGroups::materializedValues() const {
  std::vector<MaterializedValue> out;
  for (const MaterializedValue& a : materialized_) {
    const int from = sourceGroup(a.value), to = at(a.reader).group;
    const FusionOp* made = stateOf(a.value);
    if (made && made->again) continue;
    if (from >= 0 && to >= 0 && from != to && group(from).fusible) out.push_back(a);
  }
  return out;
}

std::vector<uint32_t> FusionGroups::order() const {
  std::vector<std::vector<uint32_t>> reads(groups_.size());
  std::vector<uint32_t> first; // groups by their places
  int64_t effect = -1;
  for (OpId o : m[block].ops) {
    const FusionOp& s = at(o);
    if (s.group < 0) continue;
    const uint32_t g = static_cast<uint32_t>(s.group);
    if (placeOf(groups_[g]) == o) first.push_back(g);
    forEachRead(o, [&](ValueId v, bool, bool folded) {
      const int from = groupOf(v);
      if (!folded && from >= 0 && from != s.group) reads[g].push_back(static_cast<uint32_t>(from));
    });
    const OpRecord& record = m.record(o);
    if (groups_[g].fusible || (!record.sideEffect && !record.isCollective() && m[o].numRegions == 0))
      continue;
    if (effect >= 0) reads[g].push_back(static_cast<uint32_t>(effect));
    effect = g;
  }
  // A group that reads what is computed far behind its place (the sum of a gradient and one at the end of the
  // program) waits for it: computed early, that would keep the operands of all groups between the two.
  std::vector<uint32_t> rank(groups_.size()), waits(groups_.size());
  std::vector<std::vector<uint32_t>> readers(groups_.size());
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready; // ranks
  for (uint32_t i = 0; i < first.size(); ++i) rank[first[i]] = i;
  for (uint32_t g : first) {
    for (uint32_t from : reads[g]) readers[from].push_back(g), ++waits[g];
    if (waits[g] == 0) ready.push(rank[g]);
  }
  std::vector<uint32_t> order;
  while (!ready.empty()) {
    const uint32_t g = first[ready.top()];
    ready.pop();
    order.push_back(g);
    for (uint32_t reader : readers[g])
      if (--waits[reader] == 0) ready.push(rank[reader]);
  }
  DTC_CHECK(order.size() == first.size(), "fusion created a cycle of groups");
  return order;
}

} // namespace dtc
