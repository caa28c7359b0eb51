#include "record/RecordParts.h"
#include "dtc/IR/Homomorphism.h"
#include <algorithm>

namespace dtc {

OpRecord dataMovement(const char* name, const char* family, const char* summary) {
  OpRecord r{.name = name, .family = family, .summary = summary};
  r.complex = OpRecord::ComplexForm::Planes;
  r.checks = exact();
  r.through = {moving()};
  r.flopsPerPoint = 0;
  return r;
}

std::optional<double> literalOperand(const OpQuery& q, size_t operand) { return finiteLiteral(q, operand); }

bool textChoice(const OpQuery& q, std::string_view attribute,
                std::initializer_list<std::string_view> allowed) {
  static constexpr DiagKind kChoice{"attribute-value", "'{0}' takes {1} = {2}, not \"{3}\""};
  const std::string_view word = q.textAttr(attribute);
  const std::vector<std::string_view> known = allowed;
  if (std::ranges::find(known, word) != known.end()) return true;
  std::string list;
  for (size_t i = 0; i < known.size(); ++i)
    list += (i == 0 ? "" : i + 1 == known.size() ? " or " : ", ") + ('"' + std::string(known[i]) + '"');
  q.diags->error(kChoice, q.loc, q.record->name, attribute, list, word);
  return false;
}

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
