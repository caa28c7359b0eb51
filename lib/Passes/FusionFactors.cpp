// What stands before a matrix product in the same call: f8 that is converted to a wider dtype, and multiplied by one number. A library
// that multiplies f8 takes the operands as they lie, and the numbers beside; who else reads the wider values has them stored.
#include "FusionGroups.h"
#include <algorithm>

namespace dtc {

static bool isF8(DType d) { return d == DType::F8E4M3 || d == DType::F8E5M2; }

// The dtypes that are converted to without a change but rounding: who adds up in f64 means f64.
static bool isWider(DType d) { return d == DType::F16 || d == DType::BF16 || d == DType::F32; }

// Where one number lies that the value repeats; the value itself where it is a literal; nothing where it has several.
ValueId FusionGroups::oneNumber(ValueId v) const {
  for (;;) {
    if (m_[v].kind == ValueKind::Literal) return isWider(m_.typeOf(v).dtype) ? v : ValueId();
    const Type& t = m_.typeOf(v);
    if (!isWider(t.dtype)) return {};
    const OpState* s = stateOf(v);
    if (s && s->form.compound && s->group < 0) {
      v = m_.operand(OpId(m_[v].owner), 0);
      continue;
    }
    return t.isStatic() && t.numElements() == 1 ? v : ValueId();
  }
}

// Which operand the op makes wider, or a multiple of; -1: it does something else.
int FusionGroups::widened(OpId o, NarrowFactor& factor) const {
  const OpState& s = state_.at(o.index);
  const OpRecord& record = m_.record(o);
  if (s.form.move || s.form.reduces || s.form.contracts || !record.scalar || m_[o].numResults != 1) return -1;
  const Type& made = m_.typeOf(m_.result(o));
  const std::string_view scalar = record.scalar;
  if (!isWider(made.dtype)) return -1;
  if (scalar == "cast(a)") {
    const DType from = m_.typeOf(m_.operand(o, 0)).dtype;
    return isF8(from) || (isWider(from) && made.dtype != DType::F16) ? 0 : -1;
  }
  if (scalar != "a * b" && scalar != "a / b") return -1;
  for (const int at : {0, 1}) {
    if (at == 1 && scalar == "a / b") break;
    if (m_.typeOf(m_.operand(o, static_cast<size_t>(at))).dims != made.dims) continue;
    const ValueId number = oneNumber(m_.operand(o, static_cast<size_t>(1 - at)));
    if (!number.valid()) continue;
    if (m_[number].kind != ValueKind::Literal) factor.scales.push_back(number);
    return at;
  }
  return -1;
}

bool FusionGroups::isNarrow(ValueId operand, NarrowFactor& factor) {
  std::vector<const Rule*> moves;
  bool lookup = false;
  ValueId at = operand;
  for (const OpState* s = stateOf(at); s; s = stateOf(at)) {
    const OpId o(m_[at].owner);
    if (s->form.move && s->group < 0) {
      if (s->form.lookup ? lookup : !s->form.compound && !s->form.slices) return false;
      lookup |= s->form.lookup;
      moves.push_back(&s->form.rule);
      at = m_.operand(o, 0);
      continue;
    }
    if (isF8(m_.typeOf(at).dtype)) break;
    const int next = widened(o, factor);
    if (next < 0) return false;
    factor.through.push_back(o);
    at = m_.operand(o, static_cast<size_t>(next));
  }
  if (!isF8(m_.typeOf(at).dtype)) return false;
  StridedView view(m_, m_.typeOf(at));
  for (size_t i = moves.size(); i-- > 0;)
    if (!view.apply(*moves[i])) return false;
  return view.strided();
}

bool FusionGroups::takesNarrow(OpId product, NarrowFactor& both) {
  const size_t count = m_[product].numOperands;
  if (count != 2 && (count != 3 || !m_.record(product).finish)) return false;
  NarrowFactor found;
  if (!isWider(m_.typeOf(m_.result(product)).dtype) || !isNarrow(m_.operand(product, 0), found) ||
      !isNarrow(m_.operand(product, 1), found) || found.through.size() >= limit_)
    return false;
  both = std::move(found);
  return true;
}

void FusionGroups::foldFactors(OpId product, const NarrowFactor& both) {
  factors_[product.index] = both.through;
  const auto g = static_cast<uint32_t>(state_.at(product.index).group);
  FusionGroup& group = groups_[g];
  for (ValueId v : both.scales) group.level = std::max(group.level, levelOf(v) + 1);
  for (ValueId v : both.scales)
    if (const int from = groupOf(v); from >= 0) {
      int64_t& least = groups_[static_cast<size_t>(from)].minUser;
      least = std::min(least, group.level);
    }
}

} // namespace dtc
