// Operands of matrix products as views: strides where a library reads them, a copy where it cannot.
#include "FusionGroups.h"
#include <algorithm>

namespace dtc {

// The layout that moves give a value that lies in memory; nothing where no layout says it.
std::optional<StridedView> FusionGroups::viewOf(ValueId v, bool lookups) {
  std::vector<const Rule*> moves;
  ValueId base = v;
  for (const OpState* s = stateOf(base); s && s->form.move && s->group < 0; s = stateOf(base)) {
    if (s->form.lookup ? !lookups : !s->form.compound && !s->form.slices) return std::nullopt;
    lookups &= !s->form.lookup; // one at most
    moves.push_back(&s->form.rule);
    base = m_.operand(OpId(m_[base].owner), 0);
  }
  StridedView view(m_, m_.typeOf(base));
  while (!moves.empty()) {
    if (!view.apply(*moves.back())) return std::nullopt;
    moves.pop_back();
  }
  return view;
}

bool FusionGroups::strided(ValueId v, bool lookups) {
  const std::optional<StridedView> view = viewOf(v, lookups);
  return view && view->strided();
}

namespace {

// One dim that a product sums over, in one operand: the outermost first.
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

} // namespace

// A library sums over one dim. Several are one where each operand walks over them in one stride, in the same order. An operand that
// does not, but would as it lies when stored, is stored: a copy costs less than a product by loops.
void FusionGroups::storeForOneWalk(OpId o) {
  const Rule& rule = state_.at(o.index).form.rule;
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
    const ValueId v = m_.operand(o, i);
    const std::optional<StridedView> view = viewOf(v, true);
    if (!view) return;
    now.push_back(stepsOf(*view, rule, i, contracted));
    if (now[i].size() != contracted.size()) return;
    wouldWalk.push_back(isOneWalk(stepsOf(StridedView(m_, m_.typeOf(v)), rule, i, contracted)));
  }
  // As they lie, in the order of the first operand's strides?
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
    if (!isOneWalk(now[i])) store(m_.operand(o, i));
}

} // namespace dtc
