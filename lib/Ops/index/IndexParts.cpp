#include "index/IndexParts.h"
#include "dtc/Ops/record/Scalar.h"
#include <algorithm>
#include <limits>

namespace dtc {
inline constexpr DiagKind kIndexRange{"index-out-of-range",
                                      "'{0}': index {1} is out of range for {2} entries, which count from 0"};

constexpr ScatterKind kScatterKinds[] = {
    {"set", PendingKind::None, nullptr, "set"}, {"sum", PendingKind::Sum, "add", "sum"},
    {"add", PendingKind::Sum, "add", "sum"},    {"prod", PendingKind::Prod, "mul", "prod"},
    {"mul", PendingKind::Prod, "mul", "prod"},  {"max", PendingKind::Max, "max", "max"},
    {"min", PendingKind::Min, "min", "min"},    {"or", PendingKind::None, "or", "or"},
    {"and", PendingKind::None, "and", "and"},   {"xor", PendingKind::None, "xor", "xor"}};

// The row of the local shard that an index refers to, or -1 if another device owns it. False, with a
// diagnostic, if it is out of range.
bool rowOf(const OpQuery& q, int64_t index, int64_t size, const Tensor* offset, int64_t& row) {
  if (offset) {
    row = index - offset->getInt(0);
    if (row < 0 || row >= size) row = -1;
    return true;
  }
  row = index;
  if (index >= 0 && index < size) return true;
  return q.diags->fail(kIndexRange, q.loc, q.record->name, index, size);
}

const Tensor* offsetOf(const OpQuery& q, std::span<const Tensor* const> in) {
  auto at = static_cast<size_t>(q.record->offsetOperand);
  return in.size() > at ? in[at] : nullptr;
}

ElementNode rowNode(const OpQuery& q, ElementBuilder& b, ElementNode index) {
  auto at = static_cast<size_t>(q.record->offsetOperand);
  ElementNode row = b.convert(index, DType::I64);
  return q.operandTypes.size() > at ? b.sub(row, b.convert(b.load(at, {}, true), DType::I64)) : row;
}

std::span<const ScatterKind> scatterKinds() { return kScatterKinds; }

bool combinesComplex(const OpQuery& q, const ScatterKind& kind) {
  const bool planes = (kind.reduce == PendingKind::None && !kind.combine) || kind.reduce == PendingKind::Sum;
  if (planes || !isComplex(q.type(0).dtype)) return true;
  return reportShape(q, "of complex numbers takes reduce = \"set\" or \"sum\"");
}

const ScatterKind* scatterKind(const OpQuery& q, bool bits) {
  for (const ScatterKind& k : kScatterKinds) {
    const bool ofBits = k.combine && k.reduce == PendingKind::None;
    if (k.name != q.textAttr("reduce") || (ofBits && !bits)) continue;
    const DType dtype = q.type(0).dtype;
    if (ofBits ? isFloat(dtype) : isBool(dtype) && k.combine) continue;
    return &k;
  }
  const bool known = std::ranges::any_of(kScatterKinds, [&](const ScatterKind& k) {
    return k.name == q.textAttr("reduce") && (bits || !k.combine || k.reduce != PendingKind::None);
  });
  if (q.diags && !known)
    (void)(bits ? textChoice(q, "reduce", {"set", "sum", "prod", "max", "min", "or", "and", "xor"})
                : textChoice(q, "reduce", {"set", "sum", "prod", "max", "min"}));
  else if (q.diags)
    reportShape(q,
                std::string("takes reduce = \"set\", and of numbers \"sum\", \"prod\", \"max\" or \"min\"") +
                    (bits ? ", of integers and bools \"or\", \"and\" and \"xor\"" : ""));
  return nullptr;
}

// A splat, also through data movement.
static bool isSplat(const Module& m, ValueId v) {
  while (!splatOf(m, v)) {
    const OpId o = m.definingOp(v);
    if (!o.valid()) return m[v].kind == ValueKind::Literal;
    const OpRecord& record = m.record(o);
    const bool moves = std::ranges::any_of(
        record.through, [](const Through& t) { return t.row == ThroughRow::Moving && t.operands == 1; });
    if (m[o].numOperands != 1 || m[o].numRegions != 0 || record.isCollective() || record.isCall || !moves)
      return false;
    v = m.operand(o, 0);
  }
  return true;
}

Expr scatteredChoice(Expr x, size_t dim, Expr index, Expr update, const ScatterKind& kind) {
  Builder& b = x.builder();
  if (!isSplat(b.module, x) || (kind.combine && kind.reduce == PendingKind::None)) return {};
  Expr chosen = update;
  if (kind.reduce == PendingKind::Sum) chosen = x + update;
  if (kind.reduce == PendingKind::Prod) chosen = x * update;
  if (kind.reduce == PendingKind::Max) chosen = max(x, update);
  if (kind.reduce == PendingKind::Min) chosen = min(x, update);
  // Compared in the indices' dtype if it has all positions.
  const bool wide = index.dtype() == DType::U32 || index.dtype() == DType::I64 ||
                    index.dtype() == DType::U64 || !x.dims()[dim].isStatic() ||
                    x.dims()[dim].value() > std::numeric_limits<int32_t>::max();
  const DType dtype = wide ? DType::I64 : DType::I32;
  const Expr at = ops::iota(b, b.module.types.intern({dtype, x.dims()}), {.dim = static_cast<int64_t>(dim)});
  return select(eq(at, index.as(dtype)), chosen, x);
}

void combineInto(Tensor& y, int64_t i, const Tensor& updates, int64_t j, const ScatterKind& kind) {
  if (!kind.combine) return copyElement(y, i, updates, j);
  const DType dtype = y.dtype();
  if (kind.reduce == PendingKind::None) {
    const int64_t a = y.getInt(i), b = updates.getInt(j);
    const std::string_view name = kind.name;
    y.setInt(i, name == "or" ? a | b : name == "and" ? a & b : a ^ b);
  } else if (isFloat(dtype))
    y.setFloat(i, reduceCombine(kind.reduce, dtype, {y.getFloat(i), 0}, {updates.getFloat(j), 0}).f);
  else
    y.setInt(i, reduceCombine(kind.reduce, dtype, {0, y.getInt(i)}, {0, updates.getInt(j)}).i);
}

// The conditions in the rows select the kind (see the record).
bool scatterThroughWhen(const OpQuery& q, const Through& row) {
  const ScatterKind* kind = scatterKind(q, true);
  if (!kind) return false;
  bool both = row.operands == 0b101;
  switch (row.row) {
  case ThroughRow::Choosing: return kind->reduce == PendingKind::None && !kind->combine;
  case ThroughRow::Linear:
    if (row.kinds == kindBit(PendingKind::Sum)) return kind->reduce == PendingKind::Prod;
    return kind->reduce == PendingKind::Sum || (row.operands == 0b001 && kind->reduce == PendingKind::Prod);
  case ThroughRow::Affine: return kind->reduce == PendingKind::Sum;
  case ThroughRow::Multiplicative: return kind->reduce == PendingKind::Prod;
  case ThroughRow::LatticeMax: return kind->reduce == (both ? PendingKind::Max : PendingKind::Min);
  case ThroughRow::LatticeMin: return kind->reduce == (both ? PendingKind::Min : PendingKind::Max);
  default: return false;
  }
}

std::vector<Through> scatterThrough() {
  // set chooses; sum is linear in both and affine in x; prod is linear in x and multiplicative in both; max
  // and min are lattice rows of both, and of the opposite kind in x alone.
  constexpr uint16_t average = kindBit(PendingKind::Avg);
  return {{ThroughRow::Choosing, 0b101},
          linear(0b101),
          {ThroughRow::Linear, 0b001, false, ~0u, average},
          {ThroughRow::Linear, 0b100, false, ~0u, average},
          {ThroughRow::Linear, 0b001, false, ~0u, kindBit(PendingKind::Sum)},
          {ThroughRow::Affine, 0b001},
          {ThroughRow::Multiplicative, 0b101},
          {ThroughRow::LatticeMax, 0b101},
          {ThroughRow::LatticeMin, 0b101},
          {ThroughRow::LatticeMax, 0b001},
          {ThroughRow::LatticeMin, 0b001}};
}

static void convertInto(Tensor& to, const Tensor& from) {
  for (int64_t i = 0; i < from.numElements(); ++i) {
    if (isFloat(from.dtype()))
      to.setFloat(i, from.getFloat(i));
    else
      to.setInt(i, from.getInt(i));
  }
}
Tensor widened(const OpQuery& q, const Tensor& x) {
  const DType floats = q.exact ? DType::F64 : accumulationType(x.dtype());
  Tensor wide(isFloat(x.dtype()) ? floats : x.dtype(), x.shape());
  convertInto(wide, x);
  return wide;
}
void narrowInto(Tensor& y, const Tensor& wide) { convertInto(y, wide); }

} // namespace dtc
