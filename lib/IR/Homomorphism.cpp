// One function per row of the homomorphism table: which pending kinds pass, and for which sets of operands.
#include "dtc/IR/Homomorphism.h"
#include <algorithm>
#include <bit>
#include <cmath>

namespace dtc {

namespace {

// A query: the pending operands and their common kind.
struct Pending {
  PendingKind kind = PendingKind::None;
  uint32_t set = 0;
  [[nodiscard]] bool one() const { return std::has_single_bit(set); }
};

uint8_t classOf(DType d) { return isBool(d) ? 1 : isInteger(d) ? 2 : isFloat(d) ? 4 : 8; }

PendingKind swapped(PendingKind k) {
  switch (k) {
  case PendingKind::Max: return PendingKind::Min;
  case PendingKind::Min: return PendingKind::Max;
  case PendingKind::Any: return PendingKind::All;
  case PendingKind::All: return PendingKind::Any;
  default: return k;
  }
}
bool isExtreme(PendingKind k) { return k == PendingKind::Max || k == PendingKind::Min; }
bool isLogical(PendingKind k) { return k == PendingKind::Any || k == PendingKind::All; }
bool isAdditive(PendingKind k) { return k == PendingKind::Sum || k == PendingKind::Avg; }
// The kinds for which a replicated value is also a valid pending one.
bool isIdempotent(PendingKind k) { return k != PendingKind::Sum && k != PendingKind::Prod; }

using Answer = std::optional<PendingKind>;
Answer keep(bool passes, PendingKind k) { return passes ? Answer(k) : std::nullopt; }

// `named`: the row's operands that the op has.
Answer rowPasses(const Through& t, uint32_t named, Pending p, DType dtype) {
  bool inside = (p.set & ~named) == 0, all = p.set == named;
  switch (t.row) {
  case ThroughRow::Linear: return keep(all && isAdditive(p.kind), p.kind);
  case ThroughRow::Bilinear: return keep(inside && p.one() && isAdditive(p.kind), p.kind);
  case ThroughRow::Affine:
    return keep(inside && p.one() && isFloat(partType(dtype)) && p.kind == PendingKind::Avg, p.kind);
  case ThroughRow::Monotone:
    if (!inside || !p.one()) return std::nullopt;
    return keep(isExtreme(p.kind) || isLogical(p.kind), t.swap ? swapped(p.kind) : p.kind);
  case ThroughRow::LatticeMax: return keep(inside && p.kind == PendingKind::Max, p.kind);
  case ThroughRow::LatticeMin: return keep(inside && p.kind == PendingKind::Min, p.kind);
  case ThroughRow::LatticeAny: return keep(inside && p.kind == PendingKind::Any, p.kind);
  case ThroughRow::LatticeAll: return keep(inside && p.kind == PendingKind::All, p.kind);
  case ThroughRow::Multiplicative: return keep(all && p.kind == PendingKind::Prod, p.kind);
  case ThroughRow::Moving:
  case ThroughRow::Choosing: return keep(all || (inside && isIdempotent(p.kind)), p.kind);
  case ThroughRow::BoolToNumber:
    if (!all || !isLogical(p.kind)) return std::nullopt;
    return p.kind == PendingKind::Any ? PendingKind::Max : PendingKind::Min;
  case ThroughRow::IsNan: return keep(all && isExtreme(p.kind), PendingKind::Any);
  case ThroughRow::Compare:
    if (!all || !isExtreme(p.kind)) return std::nullopt;
    return (p.kind == PendingKind::Max) != t.swap ? PendingKind::All : PendingKind::Any;
  }
  return std::nullopt;
}

// Rows for numeric dtypes do not apply to bool, and P(max), P(min) of integers pass only if the row's classes
// allow them.
uint8_t classesOf(const Through& t) {
  if (t.classes) return t.classes;
  switch (t.row) {
  case ThroughRow::Monotone:
  case ThroughRow::IsNan: return 4;
  case ThroughRow::Affine: return 12;
  case ThroughRow::Linear:
  case ThroughRow::Bilinear: return 14;
  case ThroughRow::Multiplicative:
  case ThroughRow::LatticeMax:
  case ThroughRow::LatticeMin:
  case ThroughRow::Compare: return 6;
  case ThroughRow::LatticeAny:
  case ThroughRow::LatticeAll:
  case ThroughRow::BoolToNumber: return 1;
  case ThroughRow::Moving:
  case ThroughRow::Choosing: break;
  }
  return 15;
}

std::optional<Pending> pendingOf(const OpQuery& q, std::span<const PendingKind> operands) {
  Pending p;
  for (size_t i = 0; i < operands.size() && i < 32; ++i) {
    if (operands[i] == PendingKind::None) continue;
    if (p.set && operands[i] != p.kind) return std::nullopt;
    if (!hasPendingKind(q.type(i).dtype, operands[i])) return std::nullopt;
    p.kind = operands[i];
    p.set |= 1u << i;
  }
  return p;
}

bool isLiteral(const OpQuery& q, size_t i) {
  if (i >= q.operands.size()) return false;
  ValueKind k = (*q.module)[q.operands[i]].kind;
  return k == ValueKind::Literal || k == ValueKind::Symbol;
}

// Rows that multiply or divide a pending value by a replicated operand are not strict: 0 * inf and 0 / 0 are
// NaN on a device whose part is 0. A finite nonzero literal is safe.
bool holdsForFiniteAlone(const OpQuery& q, const Through& t, const Pending& p) {
  if (t.row != ThroughRow::Linear && t.row != ThroughRow::Bilinear) return false;
  for (size_t i = 0; i < q.operandTypes.size() && i < 32; ++i) {
    if ((p.set >> i) & 1 || !isFloat(partType(q.type(i).dtype))) continue;
    if (i < q.operands.size() && (*q.module)[q.operands[i]].kind == ValueKind::Symbol) continue;
    const auto literal = finiteLiteral(q, i);
    if (!literal || *literal == 0) return true;
  }
  return false;
}

// The first row that passes the pending operands.
struct PassedRow {
  const Through* row = nullptr;
  PendingKind result = PendingKind::None;
};
PassedRow findRow(const OpQuery& q, const Pending& p, size_t result, NonFinite mode) {
  const size_t n = std::min<size_t>(q.operandTypes.size(), 32);
  const uint32_t present = n == 32 ? ~0u : (1u << n) - 1;
  const DType dtype = q.type(static_cast<size_t>(std::countr_zero(p.set))).dtype;
  for (const Through& t : q.record->through) {
    if (result < 32 && !((t.results >> result) & 1)) continue;
    if (t.kinds && !(t.kinds & kindBit(p.kind))) continue;
    if (!(classesOf(t) & classOf(dtype))) continue;
    auto passed = rowPasses(t, t.operands & present, p, dtype);
    if (!passed || (q.record->throughWhen && !q.record->throughWhen(q, t))) continue;
    if (mode == NonFinite::Promised || !holdsForFiniteAlone(q, t, p)) return {&t, *passed};
  }
  return {};
}

} // namespace

std::optional<double> finiteLiteral(const OpQuery& q, size_t operand) {
  if (operand >= q.operands.size()) return std::nullopt;
  const Value& v = (*q.module)[q.operands[operand]];
  if (v.kind != ValueKind::Literal) return std::nullopt;
  const Attr& a = q.module->attrs[v.literal];
  double number = a.kind == Attr::Float ? a.f
                  : a.isUnsigned        ? static_cast<double>(static_cast<uint64_t>(a.i))
                                        : static_cast<double>(a.i);
  if (isFloat(q.type(operand).dtype)) number = roundToFloat(q.type(operand).dtype, number);
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

bool hasPendingKind(DType d, PendingKind k) {
  if (k == PendingKind::None) return true;
  if (isLogical(k)) return isBool(d);
  if (isComplex(d)) return isAdditive(k);
  return !isBool(d) && (k != PendingKind::Avg || isFloat(d));
}

std::optional<PendingKind> passThrough(const OpQuery& q, std::span<const PendingKind> operands, size_t result,
                                       NonFinite mode) {
  auto pending = pendingOf(q, operands);
  if (!pending) return std::nullopt;
  if (!pending->set) return PendingKind::None;
  const PassedRow passed = findRow(q, *pending, result, mode);
  return passed.row ? std::optional(passed.result) : std::nullopt;
}

bool passesFiniteAlone(const OpQuery& q, std::span<const PendingKind> operands, size_t result) {
  auto pending = pendingOf(q, operands);
  if (!pending || !pending->set) return false;
  return findRow(q, *pending, result, NonFinite::Promised).row &&
         !findRow(q, *pending, result, NonFinite::Strict).row;
}

bool narrowsFloats(const OpQuery& q) {
  if (q.record->resultType != OpRecord::ResultType::AttrDType || q.operandTypes.size() != 1) return false;
  auto to = q.dtypeAttr("dtype");
  DType from = q.type(0).dtype;
  return to && isFloat(from) && isFloat(*to) && dtypeBytes(*to) < dtypeBytes(from);
}

bool isScaledByNumber(const OpQuery& q) {
  if (q.operands.size() != q.operandTypes.size()) return false;
  std::vector<PendingKind> kinds;
  size_t numbers = 0;
  for (size_t i = 0; i < q.operands.size(); ++i) {
    numbers += isLiteral(q, i);
    kinds.push_back(isLiteral(q, i) ? PendingKind::None : PendingKind::Sum);
  }
  return numbers > 0 && numbers + 1 == kinds.size() && passThrough(q, kinds, 0) == PendingKind::Sum;
}

} // namespace dtc
