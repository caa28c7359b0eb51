#include "import/Constants.h"
#include "dtc/Eval/Eval.h"

#include <algorithm>
#include <unordered_set>

namespace dtc::onnx {

static constexpr int64_t kMaxElements = 1 << 16;

bool Constants::isSmall(ValueId v) const {
  const Type& type = m_.typeOf(v);
  const auto count = type.isStatic() ? type.numElements() : std::nullopt;
  return count && *count <= kMaxElements;
}

// The operands are known.
std::optional<Tensor> Constants::evaluated(OpId op, uint32_t result) {
  std::vector<Tensor> operands;
  for (ValueId v : m_.operands(op)) {
    const auto& known = known_[v.index];
    if (!known) return std::nullopt;
    operands.push_back(*known);
  }
  Diagnostics quiet;
  const OpQuery q = queryOf(m_, op, quiet);
  auto results = evaluateOp(q, operands, {});
  if (!results || result >= results->size()) return std::nullopt;
  return std::move((*results)[result]);
}

const Tensor* Constants::of(ValueId wanted) {
  // A stack instead of recursion: chains can be long.
  std::vector<ValueId> stack{wanted};
  while (!stack.empty()) {
    const ValueId v = stack.back();
    if (known_.contains(v.index)) {
      stack.pop_back();
      continue;
    }
    if (m_[v].kind == ValueKind::Literal) {
      known_[v.index] = literalTensor(m_, v);
      continue;
    }
    const OpId op = m_.definingOp(v);
    if (!op.valid() || m_[op].numRegions > 0 || m_.record(op).isCall || !isSmall(v)) {
      known_[v.index] = std::nullopt;
      continue;
    }
    const size_t before = stack.size();
    for (ValueId operand : m_.operands(op))
      if (!known_.contains(operand.index)) stack.push_back(operand);
    if (stack.size() == before) known_[v.index] = evaluated(op, m_[v].position);
  }
  const auto& known = known_[wanted.index];
  return known ? &*known : nullptr;
}

std::vector<ValueId> Constants::argumentsOf(ValueId v) const {
  std::vector<ValueId> stack{v}, out;
  std::unordered_set<uint32_t> seen;
  while (!stack.empty()) {
    const ValueId at = stack.back();
    stack.pop_back();
    if (!seen.insert(at.index).second) continue;
    const OpId op = m_.definingOp(at);
    if (op.valid())
      for (ValueId operand : m_.operands(op)) stack.push_back(operand);
    else if (m_[at].kind == ValueKind::BlockArg)
      out.push_back(at);
  }
  std::ranges::sort(out, {}, &ValueId::index);
  return out;
}

} // namespace dtc::onnx
