#include "RecordParts.h"
#include "dtc/IR/Homomorphism.h"

namespace dtc {

std::optional<double> literalOperand(const OpQuery& q, size_t operand) { return finiteLiteral(q, operand); }

bool operandsAlikeRule(const OpQuery& q, Rule& rule) {
  for (size_t i = 1; i < q.operandTypes.size(); ++i) {
    if (q.type(i).rank() != q.type(0).rank()) return reportRank(q, i, std::to_string(q.type(0).rank()));
    for (size_t d = 0; d < q.type(0).rank(); ++d)
      if (q.type(i).dims[d] != q.type(0).dims[d])
        return reportDims(q, "needs dim", "equal to dim", 0, d, i, d);
  }
  addOperandFactors(q, 0, rule);
  rule.operands.resize(q.operandTypes.size(), rule.operands[0]);
  return true;
}

bool followByPosition(const OpQuery& q, Rule& rule) {
  if (!(q.record->ruleText ? ruleFromText(q, q.record->ruleText, rule) : q.record->rule(q, rule)))
    return false;
  const size_t rank = rule.operands[0].dims.size();
  for (size_t d = 0; d < rank; ++d) {
    const DimMap &from = rule.operands[0].dims[d], &to = rule.results[0].dims[d];
    if (from.plain() && to.plain() && from.terms[0].factor == to.terms[0].factor) continue;
    const uint16_t f = addFactor(rule, q.type(0).dims[d], "i" + std::to_string(d), FactorKind::Permute);
    for (auto* side : {&rule.operands, &rule.results})
      for (TensorMap& t : *side)
        if (t.dims.size() == rank) t.dims[d] = plainDim(f);
  }
  return true;
}

} // namespace dtc
