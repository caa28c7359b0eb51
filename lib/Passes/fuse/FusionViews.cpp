// Operands of matmuls as views: strided if a library can read them, otherwise copied.
#include "fuse/FusionSteps.h"
#include <algorithm>

namespace dtc {

namespace {

// One contracted dim of an operand: the outermost first.
struct Step {
  int64_t size = 1, stride = 0;
};

bool isOneWalk(std::vector<Step> steps) {
  std::erase_if(steps, [](const Step& s) { return s.size == 1; });
  for (size_t i = 0; i + 1 < steps.size(); ++i)
    if (steps[i].stride != steps[i + 1].size * steps[i + 1].stride) return false;
  return true;
}

std::vector<Step> stepsOf(const StridedView& view, const Rule& rule, size_t operand,
                          std::span<const int> contracted) {
  std::vector<Step> steps;
  for (int factor : contracted)
    for (size_t d = 0; d < rule.operands[operand].dims.size(); ++d)
      if (rule.factorOf(rule.operands[operand], d) == factor) {
        const Layout mode = coalesce(view.layout().mode(d));
        steps.push_back({mode.size(), mode.isLeaf() ? mode.stride() : -1});
      }
  return steps;
}

// Whether neighbors along the dim are neighbors in memory.
bool isDense(const Layout& mode) {
  const Layout merged = coalesce(mode);
  const Layout& inner = merged.isLeaf() ? merged : merged.modes().back();
  return inner.isLeaf() && inner.shape() > 1 && inner.stride() == 1;
}

// True if a library reads the operand: its rows or its columns are dense. Dims that both operands have and that are
// not contracted are the batch.
bool readsRowsOrColumns(const StridedView& view, const Rule& rule, size_t operand) {
  const auto inOther = [&](int factor) {
    const TensorMap& other = rule.operands[1 - operand];
    for (size_t d = 0; d < other.dims.size(); ++d)
      if (rule.factorOf(other, d) == factor) return true;
    return false;
  };
  bool many = false;
  for (size_t d = 0; d < rule.operands[operand].dims.size(); ++d) {
    const int factor = rule.factorOf(rule.operands[operand], d);
    if (factor < 0) return true; // not a plain matmul
    const bool contracted = rule.factors[static_cast<size_t>(factor)].reduce != PendingKind::None;
    if (inOther(factor) && !contracted) continue;
    const Layout& mode = view.layout().mode(d);
    if (isDense(mode)) return true;
    many |= mode.size() > 1;
  }
  return !many;
}

} // namespace

// oneDNN computes a product of operands without dense rows or columns by its reference loops, a thousand times as
// slowly, and cuBLASLt refuses it.
void storeForLibrary(FusionGroups& fusion, OpId o) {
  const Rule& rule = fusion.formOf(o).rule;
  if (rule.operands.size() < 2) return;
  for (size_t i = 0; i < 2; ++i) {
    const ValueId v = fusion.m.operand(o, i);
    const std::optional<StridedView> view = viewOf(fusion, v, true);
    const StridedView stored(fusion.m, fusion.m.typeOf(v));
    if (view && stored.known() && !readsRowsOrColumns(*view, rule, i) && readsRowsOrColumns(stored, rule, i))
      fusion.store(v);
  }
}

std::optional<StridedView> viewOf(const FusionGroups& fusion, ValueId v, bool lookups) {
  std::vector<const Rule*> moves;
  ValueId base = v;
  for (const FusionOp* s = fusion.stateOf(base); s && s->form->move && s->group < 0;
       s = fusion.stateOf(base)) {
    if (s->form->lookup ? !lookups : !s->form->compound && !s->form->slices) return std::nullopt;
    lookups &= !s->form->lookup; // at most one
    moves.push_back(&s->form->rule);
    base = fusion.m.operand(OpId(fusion.m[base].owner), 0);
  }
  StridedView view(fusion.m, fusion.m.typeOf(base));
  if (!view.known()) return std::nullopt;
  while (!moves.empty()) {
    if (!view.apply(*moves.back())) return std::nullopt;
    moves.pop_back();
  }
  return view;
}

bool permuted(const FusionGroups& fusion, ValueId v, bool anyOrder) {
  for (const FusionOp* s = fusion.stateOf(v); s && s->form->move && s->group < 0; s = fusion.stateOf(v)) {
    if (anyOrder ? !permutationOf(*s->form) : !permutesAllButLast(*s->form)) return false;
    v = fusion.m.operand(OpId(fusion.m[v].owner), 0);
  }
  return true;
}

// A library contracts one dim. Several dims are equivalent to one if each operand has a single stride over
// them, in the same order. An operand that does not, but would if it were stored contiguously, is stored: a
// copy costs less than a matmul by loops.
void storeForOneWalk(FusionGroups& fusion, OpId o) {
  const Rule& rule = fusion.formOf(o).rule;
  if (rule.operands.size() < 2) return;
  std::vector<int> contracted;
  for (size_t d = 0; d < rule.operands[0].dims.size(); ++d) {
    const int factor = rule.factorOf(rule.operands[0], d);
    if (factor >= 0 && rule.factors[static_cast<size_t>(factor)].reduce != PendingKind::None)
      contracted.push_back(factor);
  }
  if (contracted.size() < 2) return;
  std::vector<std::vector<Step>> now;
  std::vector<bool> wouldWalk;
  for (size_t i = 0; i < 2; ++i) {
    const ValueId v = fusion.m.operand(o, i);
    const std::optional<StridedView> view = viewOf(fusion, v, true);
    const StridedView stored(fusion.m, fusion.m.typeOf(v));
    if (!view || !stored.known()) return;
    now.push_back(stepsOf(*view, rule, i, contracted));
    if (now[i].size() != contracted.size()) return;
    wouldWalk.push_back(isOneWalk(stepsOf(stored, rule, i, contracted)));
  }
  // Tries the row-major layout, in the order of the first operand's strides.
  std::vector<size_t> order(contracted.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return now[0][a].stride > now[0][b].stride; });
  const auto walks = [&](const std::vector<Step>& steps) {
    std::vector<Step> sorted;
    for (size_t i : order) sorted.push_back(steps[i]);
    return isOneWalk(std::move(sorted));
  };
  if (std::all_of(now.begin(), now.end(), walks)) return;
  for (size_t i = 0; i < 2; ++i)
    if (!isOneWalk(now[i]) && !wouldWalk[i]) return;
  for (size_t i = 0; i < 2; ++i)
    if (!isOneWalk(now[i])) fusion.store(fusion.m.operand(o, i));
}

} // namespace dtc
