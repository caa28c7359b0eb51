#include "dtc/IR/build/PlainLiterals.h"

namespace dtc {
namespace {

using LiteralType = OpRecord::LiteralType;

bool isPlain(const Module& m, ValueId v) {
  return m[v].kind == ValueKind::Literal || m[v].kind == ValueKind::Symbol;
}

// The dtype that the parser infers: that of the first non-literal operand whose position requires the same
// dtype, else that of the result.
std::optional<DType> readDType(const Module& m, OpId o, size_t i) {
  const OpRecord& record = m.record(o);
  const LiteralType asked = literalTypeAt(record, i);
  if (asked == LiteralType::Bool) return DType::Bool;
  if (asked == LiteralType::I32) return DType::I32;
  const Value& v = m[m.operand(o, i)];
  if (asked == LiteralType::Exponent && i > 0 &&
      (v.kind == ValueKind::Symbol || m.attrs[v.literal].kind == Attr::Int))
    return DType::I32;
  for (size_t k = 0; k < m[o].numOperands; ++k) {
    if (k == i || isPlain(m, m.operand(o, k))) continue;
    const LiteralType there = literalTypeAt(record, k);
    if (there == LiteralType::Like || (there == LiteralType::Exponent && (k == 0 || i == 0)))
      return m.typeOf(m.operand(o, k)).dtype;
  }
  const bool same =
      record.resultType == OpRecord::ResultType::Same || record.resultType == OpRecord::ResultType::Custom;
  if (same && m[o].numResults > 0) return m.typeOf(m.result(o)).dtype;
  return std::nullopt;
}

OpId constantOf(Module& m, BlockId parent, ValueId literal, SourceRange loc) {
  const AttrList attrs = {{m.strings.intern("value"), m[literal].literal}};
  const OpId o = m.makeOp(m.registry->find("constant"), {}, 1, attrs, 0, loc);
  m[o].parent = parent;
  m[m.result(o)].type = m[literal].type;
  return o;
}

} // namespace

bool saysDType(const Module& m, OpId o, size_t i) {
  const ValueId v = m.operand(o, i);
  const OpRecord& record = m.record(o);
  // the types of calls and regions are written
  if (!isPlain(m, v) || record.isCall || m[o].numRegions > 0) return true;
  return readDType(m, o, i) == m.typeOf(v).dtype;
}

void sayLiterals(Module& m, BlockId parent, std::vector<OpId>& ops, size_t from) {
  for (size_t k = from; k < ops.size(); ++k) {
    const OpId o = ops[k];
    for (size_t i = 0; i < m[o].numOperands; ++i) {
      const ValueId v = m.operand(o, i);
      if (m[v].kind != ValueKind::Literal || saysDType(m, o, i)) continue;
      const OpId constant = constantOf(m, parent, v, m[o].loc);
      m.operands(o)[i] = m.result(constant);
      ops.insert(ops.begin() + static_cast<ptrdiff_t>(k++), constant);
    }
    for (uint32_t r = 0; r < m[o].numRegions; ++r) {
      const BlockId block = m.region(o, r);
      std::vector<OpId> inner = m[block].ops;
      sayLiterals(m, block, inner, 0);
      m[block].ops = std::move(inner);
    }
  }
}

} // namespace dtc
