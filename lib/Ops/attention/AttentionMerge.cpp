// attention_merge: merges the parts of attention_parts.
#include "attention/AttentionKeyParts.h"
#include "dtc/Ops/attention/AttentionKeys.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace dtc {

namespace {

bool mergeRule(const OpQuery& q, Rule& rule) {
  const Type y = q.type(0), lse = q.type(1);
  if (y.rank() != 5) return reportShape(q, "takes y as returned by attention_parts");
  if (!std::equal(lse.dims.begin(), lse.dims.end(), y.dims.begin(), y.dims.end() - 1))
    return reportShape(q, "takes lse as returned by attention_parts");
  const uint16_t b = addFactor(rule, y.dims[0], "b"), h = addFactor(rule, y.dims[1], "h"),
                 r = addFactor(rule, y.dims[2], "r"), p = addUnsharded(rule, y.dims[3], "p"),
                 e = addFactor(rule, y.dims[4], "e");
  rule.operands = {{{plainDim(b), plainDim(h), plainDim(r), plainDim(p), plainDim(e)}},
                   {{plainDim(b), plainDim(h), plainDim(r), plainDim(p)}}};
  if (q.operandTypes.size() > 2) rule.operands.emplace_back();
  rule.results = {{{plainDim(b), plainDim(h), plainDim(r), plainDim(e)}}};
  if (q.boolAttr("whole_lse")) rule.results.push_back({{plainDim(b), plainDim(h), plainDim(r)}});
  return true;
}

bool mergeInfer(const OpQuery& q, std::vector<TypeId>& results) {
  Rule rule;
  if (!mergeRule(q, rule)) return false;
  const Type y = q.type(0);
  const Dim dims[] = {y.dims[0], y.dims[1], y.dims[2], y.dims[4]};
  results.push_back(q.module->tensorType(y.dtype, dims));
  if (q.boolAttr("whole_lse")) results.push_back(q.module->tensorType(y.dtype, std::span(dims).first(3)));
  return true;
}

template <class A> bool mergeIn(std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const std::vector<int64_t>& shape = in[0]->shape();
  const int64_t rows = shape[0] * shape[1] * shape[2], parts = shape[3], e = shape[4];
  const bool empty = in.size() > 2 && in[2]->getInt(0) == 0;
  const A none = -std::numeric_limits<A>::infinity();
  std::vector<A> y(static_cast<size_t>(e));
  for (int64_t r = 0; r < rows; ++r) {
    auto lse = [&](int64_t p) { return static_cast<A>(in[1]->getFloat(r * parts + p)); };
    A rowMax = none, sum = 0;
    for (int64_t p = 0; p < parts; ++p) rowMax = std::isnan(lse(p)) || lse(p) > rowMax ? lse(p) : rowMax;
    const A shift = rowMax == none ? A(0) : rowMax;
    std::fill(y.begin(), y.end(), A(0));
    for (int64_t p = 0; p < parts; ++p) {
      if (lse(p) == none) continue;
      const A weight = std::exp(lse(p) - shift);
      sum += weight;
      for (int64_t c = 0; c < e; ++c)
        y[c] += weight * static_cast<A>(in[0]->getFloat((r * parts + p) * e + c));
    }
    for (int64_t c = 0; c < e; ++c)
      out[0]->setFloat(r * e + c, static_cast<double>(y[c] / (empty ? A(1) : sum)));
    if (out.size() > 1) out[1]->setFloat(r, static_cast<double>(std::log(sum) + shift));
  }
  return true;
}

bool mergeEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  if (q.exact && q.type(0).dtype == DType::F64) return mergeIn<long double>(in, out);
  return out[0]->dtype() == DType::F64 ? mergeIn<double>(in, out) : mergeIn<float>(in, out);
}

// A part without visible keys has weight 0, and its value (0 / 0) is ignored; a row without visible keys
// stays 0 / 0. Without any keys the sum is 0, and is replaced by 1.
struct PartsMerge {
  Expr y, lse, keys; // keys: the number of keys, or invalid: nonzero

  [[nodiscard]] static Expr column(Expr x) { return expand_dims(x, {-1}); }
  // The sum of weights that divides the result.
  [[nodiscard]] Expr divisor(Expr sum) const {
    if (!keys.valid()) return sum;
    const Expr none = eq(keys, 0);
    return select(none, 1, sum);
  }
  // [.., rows, e] and [.., rows, 1]
  [[nodiscard]] std::array<Expr, 2> run() const {
    constexpr double none = -std::numeric_limits<double>::infinity();
    const std::array parts = {int64_t(3)};
    const Expr rowMax = max(lse, {.dims = parts, .keepdim = true});
    const Expr shift = select(eq(rowMax, none), 0, rowMax);
    const Expr weight = exp(lse - shift);
    const Expr total = sum(weight, {.dims = parts, .keepdim = true});
    const Expr unseen = column(eq(lse, none));
    const Expr weighted = select(unseen, 0, y * column(weight));
    const Expr merged = sum(weighted, {.dims = parts});
    const Expr value = merged / divisor(total);
    return {value, log(total) + shift};
  }
};

bool mergeDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Module& m = b.module;
  Expr keys;
  if (m[op].numOperands > 2) { // an op needs a non-literal operand
    const Expr zero(b, b.constant(0, m.tensorType(DType::I32, std::initializer_list<int64_t>{})));
    keys = zero + m.operand(op, 2);
  }
  const PartsMerge merge{Expr(b, m.operand(op, 0)), Expr(b, m.operand(op, 1)), keys};
  const std::array<Expr, 2> merged = merge.run();
  for (uint32_t r = 0; r < m[op].numResults; ++r)
    results.push_back(reshape(merged[r], m.typeOf(m.result(op, r)).dims));
  return true;
}

} // namespace

void addAttentionMergeOp(OpRegistry& ops) {
  OpRecord& merge =
      ops.add({.name = "attention_merge",
               .family = "attention",
               .summary = "merges the parts of attention_parts, weighted by their log-sum-exp"});
  merge.operands = "y, lse, keys?";
  merge.operandTypes = "T, T, i32";
  merge.results = "whole, whole_lse?";
  merge.operandClasses = kFloats;
  merge.attrs = {{"whole_lse", AttrType::Bool, "false", "also return the log-sum-exp over all parts"}};
  merge.rule = mergeRule;
  merge.infer = mergeInfer;
  merge.eval = mergeEval;
  merge.decompose = mergeDecompose;
  merge.gradNone = true; // introduced after autodiff
  merge.through = {{ThroughRow::Linear, 0b1, false, 1u},
                   {ThroughRow::Linear, 0b1, false, 2u, kindBit(PendingKind::Avg)}};
  merge.lowering = Lowering::Rows;
  merge.flopsPerPoint = 4;
  merge.samples = "T[2, 2, 3, 4, 5], T[2, 2, 3, 4]\nT[1, 2, 3, 7, 1], T[1, 2, 3, 7] {whole_lse = true}\n"
                  "T[1, 1, 3, 2, 2], T[1, 1, 3, 2], i32[] in 0..2";
}

AttentionForm attentionForm(const OpRecord& r) {
  static constexpr std::pair<std::string_view, AttentionForm> forms[] = {
      {"attention", AttentionForm::Whole},
      {"attention_parts", AttentionForm::Parts},
      {"attention_grad", AttentionForm::Gradient},
      {"attention_grad_mask", AttentionForm::MaskGradient}};
  for (const auto& [name, form] : forms)
    if (name == r.name) return form;
  return AttentionForm::None;
}

bool splitAttentionKeys(Builder& b, OpId attention, std::vector<ValueId>& results) {
  Module& m = b.module;
  Diagnostics none;
  const double parts = attentionKeyParts(queryOf(m, attention, none));
  if (parts < 2) return false;
  const std::span<const ValueId> all = m.operands(attention);
  std::vector<ValueId> operands(all.begin(), all.end());
  operands.resize(5);
  const Dim length = m.typeOf(operands[1]).dims[2];
  const auto [y, lse] = attention_parts(Expr(b, operands[0]), operands[1], operands[2],
                                        {.mask = operands[3],
                                         .offset = operands[4],
                                         .parts = static_cast<int64_t>(parts),
                                         .causal = m.attr(attention, "causal"),
                                         .scale = m.attr(attention, "scale"),
                                         .window = m.attr(attention, "window")});
  ValueId keys;
  if (!length.isStatic()) keys = m.makeSymbol(length, DType::I32, b.loc);
  const auto merged = attention_merge(y, lse, {.keys = keys, .whole_lse = m[attention].numResults > 1});
  for (uint32_t r = 0; r < m[attention].numResults; ++r) {
    const Type t = m.typeOf(m.result(attention, r));
    results.push_back(reshape(merged[r].as(t.dtype), t.dims));
  }
  return true;
}

} // namespace dtc
