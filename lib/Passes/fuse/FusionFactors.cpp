// Prologues of matmuls in the same call: f8 operands that are converted to a wider dtype and multiplied by a
// scalar, and i8 and u8 operands that are converted to i32. A library with support for them takes the narrow operands
// and the scalars; other readers of the wider values need them stored.
#include "fuse/FusionSteps.h"
#include <algorithm>

namespace dtc {

// Dtypes for which the conversion only changes rounding: accumulation in f64 must be kept.
static bool isWider(DType d) { return d == DType::F16 || d == DType::BF16 || d == DType::F32; }

static bool isByte(DType d) { return d == DType::I8 || d == DType::U8; }

// The scalar in memory that the value broadcasts; the value itself if it is a literal; nothing if it is not a
// broadcast scalar.
static ValueId oneNumber(const FusionGroups& fusion, ValueId v) {
  for (;;) {
    if (fusion.m[v].kind == ValueKind::Literal) return isWider(fusion.m.typeOf(v).dtype) ? v : ValueId();
    const Type& t = fusion.m.typeOf(v);
    if (!isWider(t.dtype)) return {};
    const FusionOp* s = fusion.stateOf(v);
    if (s && s->form->compound && s->group < 0) {
      v = fusion.m.operand(OpId(fusion.m[v].owner), 0);
      continue;
    }
    return t.isStatic() && t.numElements() == 1 ? v : ValueId();
  }
}

// The operand that the op widens or scales; -1: neither.
static int widened(const FusionGroups& fusion, OpId o, NarrowFactor& factor) {
  const FusionOp& s = fusion.at(o);
  const OpRecord& record = fusion.m.record(o);
  if (s.form->move || s.form->reduces || s.form->contracts || !record.scalar || fusion.m[o].numResults != 1)
    return -1;
  const Type& made = fusion.m.typeOf(fusion.m.result(o));
  const std::string_view scalar = record.scalar;
  const bool cast = scalar == "cast(a)";
  const DType from = cast ? fusion.m.typeOf(fusion.m.operand(o, 0)).dtype : made.dtype;
  if (cast && isByte(from) && made.dtype == DType::I32) return 0;
  if (!isWider(made.dtype)) return -1;
  if (cast) {
    return isF8(from) || (isWider(from) && made.dtype != DType::F16) ? 0 : -1;
  }
  if (scalar != "a * b" && scalar != "a / b") return -1;
  for (const int at : {0, 1}) {
    if (at == 1 && scalar == "a / b") break;
    if (fusion.m.typeOf(fusion.m.operand(o, static_cast<size_t>(at))).dims != made.dims) continue;
    const ValueId number = oneNumber(fusion, fusion.m.operand(o, static_cast<size_t>(1 - at)));
    if (!number.valid()) continue;
    if (fusion.m[number].kind != ValueKind::Literal) factor.scales.push_back(number);
    return at;
  }
  return -1;
}

// `dtypes`: those of narrow operands.
static bool isNarrow(const FusionGroups& fusion, ValueId operand, uint32_t dtypes, NarrowFactor& factor) {
  const auto narrow = [&](ValueId v) { return (dtypeBit(fusion.m.typeOf(v).dtype) & dtypes) != 0; };
  std::vector<const Rule*> moves;
  bool lookup = false;
  ValueId at = operand;
  for (const FusionOp* s = fusion.stateOf(at); s; s = fusion.stateOf(at)) {
    const OpId o(fusion.m[at].owner);
    if (s->form->move && s->group < 0) {
      if (s->form->lookup ? lookup : !s->form->compound && !s->form->slices) return false;
      lookup |= s->form->lookup;
      moves.push_back(&s->form->rule);
      at = fusion.m.operand(o, 0);
      continue;
    }
    if (narrow(at)) break;
    const int next = widened(fusion, o, factor);
    if (next < 0) return false;
    factor.through.push_back(o);
    at = fusion.m.operand(o, static_cast<size_t>(next));
  }
  if (!narrow(at)) return false;
  StridedView view(fusion.m, fusion.m.typeOf(at));
  for (size_t i = moves.size(); i-- > 0;)
    if (!view.apply(*moves[i])) return false;
  return view.strided();
}

bool takesNarrow(const FusionGroups& fusion, OpId matmul, uint32_t dtypes, NarrowFactor& both) {
  const size_t count = fusion.m[matmul].numOperands;
  if (count != 2 && (count != 3 || !fusion.m.record(matmul).finish)) return false;
  NarrowFactor found;
  const DType made = fusion.m.typeOf(fusion.m.result(matmul)).dtype;
  const bool bytes = made == DType::I32;
  const uint32_t second = bytes ? dtypes & ~dtypeBit(DType::U8) : dtypes;
  if ((!bytes && !isWider(made)) || !isNarrow(fusion, fusion.m.operand(matmul, 0), dtypes, found) ||
      !isNarrow(fusion, fusion.m.operand(matmul, 1), second, found) || found.through.size() >= fusion.limit)
    return false;
  both = std::move(found);
  return true;
}

void foldFactors(FusionGroups& fusion, OpId matmul, const NarrowFactor& both) {
  fusion.foldInto(matmul, both.through);
  const auto g = static_cast<uint32_t>(fusion.at(matmul).group);
  FusionGroup& group = fusion.group(g);
  for (ValueId v : both.scales) group.level = std::max(group.level, fusion.levelOf(v) + 1);
  for (ValueId v : both.scales)
    if (const int from = fusion.groupOf(v); from >= 0) {
      int64_t& minUser = fusion.group(from).minUser;
      minUser = std::min(minUser, group.level);
    }
}

} // namespace dtc
