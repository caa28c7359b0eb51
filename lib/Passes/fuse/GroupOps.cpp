#include "analysis/Costly.h"
#include "dtc/Ops/attention/AttentionKeys.h"
#include "fuse/FusionSteps.h"
#include <algorithm>
#include <optional>
#include <unordered_set>

namespace dtc {

namespace {

// Greedy, in program order.
class OpGrouper {
public:
  OpGrouper(FusionGroups& fusion, uint32_t narrow, ScratchMap<RowReaders>& rowReaders)
      : fusion_(fusion), narrow_(narrow), rowReaders_(rowReaders) {
    rowReaders_.clear(fusion.m.values.size());
  }
  void run();

private:
  void stay(OpId o);
  void storeForRows(const std::optional<TransposedRows>& rows, OpId move);
  void contract(OpId o);
  [[nodiscard]] std::string_view whyFromMemory(const FusionForm& form) const;
  void findDeltas();
  void readDelta(const AttentionDelta& delta, uint32_t g);
  void place(OpId o);
  [[nodiscard]] bool madeOfNothing(OpId o) const;
  [[nodiscard]] bool isOrigin(ValueId v) const;
  [[nodiscard]] bool widens(ValueId v) const;
  bool computesOperand(OpId o, size_t operand);
  // A group that reads the value that `o` reduces, or -1.
  [[nodiscard]] int rowKernelFor(OpId o, std::span<const uint32_t> join);

  FusionGroups& fusion_;
  uint32_t narrow_;                    // Target::narrowDTypes
  ScratchMap<RowReaders>& rowReaders_; // FusionTables::rowReaders
  CostlyOps costly_;
  struct Link {
    OpId reader;
    uint32_t next;
  };
  std::vector<Link> links_;
  uint32_t calls_ = 0;                                  // contractions so far
  std::unordered_map<uint32_t, AttentionDelta> deltas_; // by gradient, if it computes its own
  std::unordered_set<uint32_t> inDelta_;                // ops that are only part of those
  int64_t effectLevel_ = -1;                            // of the last op with side effects
};

std::string_view obstacle(FusionGroups& fusion, OpId o, uint32_t g) {
  if (fusion.isFarBehind(o, g)) return "it is far behind";
  return fusion.group(g).kind == "gemm" ? epilogueObstacle(fusion, o, g) : kernelObstacle(fusion, o, g);
}

} // namespace

void OpGrouper::run() {
  findDeltas();
  const bool gpu = fusion_.writesOnce && fusion_.limit > 1;
  const std::optional<TransposedRows> rows = gpu ? std::optional<TransposedRows>(fusion_) : std::nullopt;
  for (OpId o : fusion_.m[fusion_.block].ops) {
    FusionOp& s = fusion_.at(o);
    s.form = &fusion_.forms.of(o);
    s.placed = fusion_.tick();
    s.calls = s.form->library || s.form->attention ? calls_++ : calls_;
    if (inDelta_.contains(o.index)) continue;
    if (!s.form->loops)
      stay(o);
    else if (s.form->move && fusion_.limit > 1) {
      if (fusion_.layouts.stored.contains(o.index))
        fusion_.store(fusion_.m.result(o));
      else
        storeForRows(rows, o);
    } else if (s.form->contracts || s.form->ordered || s.form->alone || s.form->joins || fusion_.limit <= 1)
      contract(o);
    else if (madeOfNothing(o))
      s.form = &fusion_.forms.asMove(*s.form);
    else if (!joinEpilogue(fusion_, o))
      place(o);
  }
  for (ValueId v : fusion_.m[fusion_.block].yields) fusion_.store(v);
  if (fusion_.limit <= 1) return;
  chooseLayouts(fusion_);
  takeInReaders(fusion_);
  computeAgain(fusion_);
  // A data-movement op that was stored late is after its readers in the same group until here.
  for (uint32_t g = 0; g < fusion_.numGroups(); ++g) fusion_.sortOps(fusion_.group(g));
  joinSmall(fusion_);
}

// A data-movement op is folded by its readers, unless row kernels would read it across their rows.
void OpGrouper::storeForRows(const std::optional<TransposedRows>& rows, OpId move) {
  if (!rows || !rows->stores(move)) return;
  fusion_.store(fusion_.m.result(move));
  fusion_.group(fusion_.at(move).group).closed = true; // the row op would read the producer's operands so
}

void OpGrouper::stay(OpId o) {
  for (ValueId v : fusion_.valuesReadBy(o)) fusion_.store(v);
  fusion_.at(o).placed = fusion_.tick(); // it reads the value just stored from memory
  const uint32_t g = fusion_.newGroup(o, false, "");
  const OpRecord& record = fusion_.m.record(o);
  if (!record.sideEffect && !record.isCollective() && fusion_.m[o].numRegions == 0) return;
  // Collectives run in the same order on every device, and prints in program order.
  fusion_.group(g).level = std::max(fusion_.group(g).level, effectLevel_ + 1);
  effectLevel_ = fusion_.group(g).level;
  fusion_.noteUses(o, fusion_.group(g).level, g);
}

// Values computed from coordinates alone (a causal mask): cheaper to recompute in each reader than to read,
// unless they are sines and the like.
bool OpGrouper::madeOfNothing(OpId o) const {
  const FusionForm& form = fusion_.formOf(o);
  if (form.reduces || form.indexed || costly_.is(fusion_.m, o)) return false;
  for (ValueId v : fusion_.m.operands(o)) {
    const ValueKind kind = fusion_.m[v].kind;
    if (kind == ValueKind::Literal || kind == ValueKind::Symbol) continue;
    if (!isOrigin(v)) return false;
  }
  return true;
}

// True if data-movement ops make the value of an op without operands, and nothing needs it in memory.
bool OpGrouper::isOrigin(ValueId v) const {
  const FusionSource s = fusion_.sourceOf(v);
  const FusionOp* state = fusion_.stateOf(s.value);
  return state && state->form->move && state->group < 0 &&
         fusion_.m[OpId(fusion_.m[s.value].owner)].numOperands == 0;
}

// True if the value is computed from one that is in memory in any case and has fewer bytes, and is read once.
bool OpGrouper::widens(ValueId v) const {
  const Module& m = fusion_.m;
  const FusionOp* made = fusion_.stateOf(v);
  if (!made || made->group < 0 || made->again || fusion_.uses[v.index] != 1) return false;
  const FusionGroup& group = fusion_.group(made->group);
  const OpId o(m[v].owner);
  if (!group.fusible || group.closed || made->form->move || made->form->reduces || made->form->indexed ||
      !m.record(o).scalar || m.record(o).flopsPerPoint > 2 || m[o].numOperands != 1 || m[o].numResults != 1)
    return false;
  const ValueId x = m.operand(o, 0);
  const FusionOp* from = fusion_.stateOf(x);
  const bool stored = from ? from->group >= 0 && !from->again
                           : m[x].kind != ValueKind::Literal && m[x].kind != ValueKind::Symbol;
  return stored && m.typeOf(x).dims == m.typeOf(v).dims &&
         dtypeBytes(m.typeOf(x).dtype) < dtypeBytes(m.typeOf(v).dtype);
}

// An op that updates an operand in its own order computes the operand where it is made of nothing, and widens
// its other operands as it reads them.
bool OpGrouper::computesOperand(OpId o, size_t operand) {
  const int rewrites = fusion_.m.record(o).rewrites;
  if (!fusion_.writesOnce || fusion_.limit <= 1 || rewrites < 0) return false;
  const ValueId v = fusion_.m.operand(o, operand);
  if (static_cast<size_t>(rewrites) == operand) return isOrigin(v);
  if (!widens(v)) return false;
  fusion_.stateOf(v)->again = true;
  return true;
}

// The gradient of attention computes delta itself, if it is the only reader. Otherwise (the steps of a ring) it is
// computed once for all readers.
void OpGrouper::findDeltas() {
  for (OpId o : fusion_.m[fusion_.block].ops) {
    if (!fusion_.forms.of(o).writesRows) continue;
    std::optional<AttentionDelta> delta = attentionDelta(fusion_.m, o);
    if (!delta || delta->ops.size() >= fusion_.limit) continue;
    const auto usedOnce = [&](OpId part) { return fusion_.uses[fusion_.m.result(part).index] == 1; };
    if (!std::ranges::all_of(delta->ops, [&](OpId part) { return fusion_.find(part) != nullptr; }) ||
        !usedOnce(delta->ops[0]) || !usedOnce(delta->ops[1])) // the sum and the product
      continue;
    for (OpId part : delta->ops)
      if (usedOnce(part)) inDelta_.insert(part.index);
    fusion_.foldInto(o, delta->ops);
    deltas_.emplace(o.index, std::move(*delta));
  }
}

// The group of the gradient reads y and dy, in rows.
void OpGrouper::readDelta(const AttentionDelta& delta, uint32_t g) {
  FusionGroup& group = fusion_.group(g);
  for (ValueId v : {delta.y, delta.cotangent}) group.level = std::max(group.level, fusion_.levelOf(v) + 1);
  for (ValueId v : {delta.y, delta.cotangent})
    if (const int from = fusion_.sourceGroup(v); from >= 0) {
      int64_t& minUser = fusion_.group(from).minUser;
      minUser = std::min(minUser, group.level);
    }
}

// Why an op with loops of its own does not compute an operand.
std::string_view OpGrouper::whyFromMemory(const FusionForm& form) const {
  if (fusion_.fixedOrder) return "with --reduction-order fixed, each op is a kernel of its own";
  if (fusion_.limit <= 1) return "without fusion (-O0, or its limit is 1), each op is a kernel of its own";
  if (form.library) return "a library reads its operands from memory";
  if (form.joins) return "a concatenation of many operands reads them from memory";
  if (form.ordered) return "an op with its own store order reads its operands from memory";
  if (form.alone) return "a kernel that is written for one op reads its operands from memory";
  return "a contraction reads its operands repeatedly, from memory";
}

// An op with loops of its own. A library call and attention read strided views, a convolution permuted ones (its
// gradient swaps images and channels), a concatenation contiguous reshapes; all other operands must be
// in memory.
void OpGrouper::contract(OpId o) {
  const FusionForm& form = fusion_.formOf(o);
  const auto reads = [&](size_t operand) {
    const ValueId v = fusion_.m.operand(o, operand);
    if (form.window) return permuted(fusion_, v, fusion_.layouts.convolutions.contains(o.index));
    if (form.ordered) return computesOperand(o, operand);
    const bool attention = form.attention && fusion_.attentionRows;
    const bool rows = attention ? operand < 3 : form.readsRows && isRowsOperand(operand);
    if (!form.joins && !form.library && !form.attention && !rows) return false;
    const std::optional<StridedView> view = viewOf(fusion_, v, form.library);
    return view && (form.joins ? view->identity() : rows ? view->isRows() : view->strided());
  };
  NarrowFactor narrow;
  const bool takes =
      narrow_ != 0 && form.library && fusion_.limit > 1 && takesNarrow(fusion_, o, narrow_, narrow);
  const auto delta = deltas_.find(o.index);
  if (delta != deltas_.end())
    for (ValueId v : {delta->second.y, delta->second.cotangent})
      if (const std::optional<StridedView> view = viewOf(fusion_, v, false); !view || !view->isRows())
        fusion_.store(v);
  for (size_t i = takes ? 2 : 0; i < fusion_.m[o].numOperands; ++i)
    if (fusion_.limit <= 1 || !reads(i)) fusion_.store(fusion_.m.operand(o, i));
  if (fusion_.limit > 1 && form.library && !takes) {
    storeForOneWalk(fusion_, o);
    storeForLibrary(fusion_, o);
  }
  for (ValueId v : narrow.scales) fusion_.store(v);
  fusion_.at(o).placed = fusion_.tick(); // it reads the value just stored from memory
  for (size_t i = takes ? 2 : 0; i < fusion_.m[o].numOperands; ++i)
    if (delta == deltas_.end() || isRowsOperand(i))
      fusion_.note(o, fusion_.m.operand(o, i), whyFromMemory(form));
  std::string_view kind = form.library                     ? "gemm"
                          : form.attention                 ? "attention"
                          : form.ordered                   ? "ordered"
                          : form.alone                     ? "whole"
                          : form.joins                     ? "copy"
                          : form.contracts || form.reduces ? "reduce"
                                                           : "pointwise";
  if (form.move) {
    kind = "copy";
    if (form.compound) {
      StridedView view(fusion_.m, fusion_.m.typeOf(fusion_.m.operand(o, 0)));
      if (view.apply(form.rule) && view.identity()) kind = "view";
    }
  }
  const uint32_t g = fusion_.newGroup(o, true, kind);
  fusion_.group(g).closed = true;
  fusion_.at(o).stored = 0;
  if (takes) foldFactors(fusion_, o, narrow);
  if (delta != deltas_.end()) readDelta(delta->second, g);
}

void OpGrouper::place(OpId o) {
  std::vector<uint32_t> join;
  for (ValueId v : fusion_.m.operands(o)) {
    const int g = fusion_.sourceGroup(v);
    const uint32_t gi = static_cast<uint32_t>(g);
    if (g < 0 || std::find(join.begin(), join.end(), gi) != join.end()) continue;
    if (std::string_view why = obstacle(fusion_, o, gi); !why.empty()) {
      fusion_.note(o, v, why);
      continue;
    }
    bool fits = true;
    size_t ops = 1;
    for (uint32_t other : join)
      fits &= fusion_.mergeable(fusion_.group(other), fusion_.group(gi)),
          ops += fusion_.group(other).ops.size();
    if (fits && ops + fusion_.group(gi).ops.size() <= fusion_.limit)
      join.push_back(gi);
    else
      fusion_.note(o, v,
                   fits ? "the region would exceed the op limit"
                        : "its other operands are produced with different rows");
  }
  const int rowKernel = rowKernelFor(o, join);
  if (rowKernel >= 0 && (join.empty() || fusion_.mergeable(fusion_.group(join[0]), fusion_.group(rowKernel))))
    join.push_back(static_cast<uint32_t>(rowKernel));
  const std::vector<uint32_t> wanted = join;
  // The level of the merged group; a group with an outside reader at or below that level cannot be raised to
  // it.
  int64_t level = 0;
  for (bool again = true; again;) {
    again = false;
    level = 0;
    for (uint32_t g : join) level = std::max(level, fusion_.group(g).level);
    for (ValueId v : fusion_.m.operands(o)) {
      const int g = fusion_.sourceGroup(v);
      if (g < 0 || std::find(join.begin(), join.end(), static_cast<uint32_t>(g)) == join.end())
        level = std::max(level, fusion_.levelOf(v) + 1);
    }
    again = std::erase_if(join, [&](uint32_t g) { return fusion_.group(g).minUser <= level; }) != 0;
  }
  for (ValueId v : fusion_.m.operands(o)) // a single operand may be unaligned with the rows of the others
    if (rowKernel < 0 && join.size() > 1 && !fusion_.sourceOf(v).aligned) join.resize(1);
  if (join.size() == 1) {
    level = fusion_.group(join[0]).level;
    for (ValueId v : fusion_.m.operands(o))
      if (fusion_.sourceGroup(v) != static_cast<int>(join[0]))
        level = std::max(level, fusion_.levelOf(v) + 1);
    if (fusion_.group(join[0]).minUser <= level) join.clear();
  }
  for (ValueId v : fusion_.m.operands(o)) {
    const int from = fusion_.sourceGroup(v);
    const auto gi = static_cast<uint32_t>(from);
    if (from >= 0 && std::find(wanted.begin(), wanted.end(), gi) != wanted.end() &&
        std::find(join.begin(), join.end(), gi) == join.end())
      fusion_.note(o, v, "fusing them would create a cycle, or their layouts differ");
  }
  const uint32_t g = join.empty() ? fusion_.newGroup(o, true, "pointwise") : join[0];
  for (size_t i = 1; i < join.size(); ++i) fusion_.merge(g, join[i]);
  if (!join.empty()) fusion_.group(g).level = level;
  addTo(fusion_, o, g);
  fusion_.noteUses(o, fusion_.group(g).level, g);
  for (ValueId v : fusion_.m.operands(o)) {
    RowReaders& readers = rowReaders_[fusion_.sourceOf(v).value.index];
    links_.push_back({o, 0});
    const auto link = static_cast<uint32_t>(links_.size());
    (readers.last ? links_[readers.last - 1].next : readers.first) = link;
    readers.last = link;
  }
}

// A column reduction of a value from another kernel fuses with a row kernel that reads the value; with
// `join`, if that kernel widens the value only for this reduction.
int OpGrouper::rowKernelFor(OpId o, std::span<const uint32_t> join) {
  const FusionOp& s = fusion_.at(o);
  if (!s.form->reduces || fusion_.m[o].numOperands != 1 || join.size() > 1) return -1;
  ValueId source = fusion_.sourceOf(fusion_.m.operand(o, 0)).value;
  if (!join.empty()) {
    const FusionGroup& own = fusion_.group(join[0]);
    if (own.ops.size() != 1 || own.rows || fusion_.m[own.ops[0]].numOperands != 1) return -1;
    const FusionSource origin = fusion_.sourceOf(fusion_.m.operand(own.ops[0], 0));
    if (origin.moved) return -1;
    source = origin.value;
  }
  for (uint32_t link = rowReaders_[source.index].first; link; link = links_[link - 1].next) {
    const int g = fusion_.at(links_[link - 1].reader).group;
    if (g < 0 || (!join.empty() && static_cast<uint32_t>(g) == join[0])) continue;
    const FusionGroup& group = fusion_.group(g);
    if (group.fusible && !group.closed && group.ops.size() + 2 <= fusion_.limit &&
        columnsOf(fusion_, o, group))
      return g;
  }
  return -1;
}

void groupOps(FusionGroups& fusion, uint32_t narrow, FusionTables& tables) {
  OpGrouper(fusion, narrow, tables.rowReaders).run();
}

} // namespace dtc
