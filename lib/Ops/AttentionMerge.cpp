// attention_merge: what attention over parts of its keys becomes whole by, and an attention made of both.
#include "AttentionKeyParts.h"
#include "dtc/Ops/AttentionKeys.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace dtc {

namespace {

bool mergeRule(const OpQuery& q, Rule& rule) {
  const Type y = q.type(0), lse = q.type(1);
  if (y.rank() != 5) return reportShape(q, "takes y as attention_parts gives it");
  if (!std::equal(lse.dims.begin(), lse.dims.end(), y.dims.begin(), y.dims.end() - 1))
    return reportShape(q, "takes lse as attention_parts gives it");
  const uint16_t b = addFactor(rule, y.dims[0], "b"), h = addFactor(rule, y.dims[1], "h"),
                 r = addFactor(rule, y.dims[2], "r"), p = addWhole(rule, y.dims[3], "p"),
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
    A greatest = none, sum = 0;
    for (int64_t p = 0; p < parts; ++p)
      greatest = std::isnan(lse(p)) || lse(p) > greatest ? lse(p) : greatest;
    const A shift = greatest == none ? A(0) : greatest;
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

// A part that sees nothing weighs nothing, and what stands in its place (0 / 0) is not looked at; a row that sees nothing at all
// stays 0 / 0. Of no keys at all the sum is 0, which is then divided by 1.
struct PartsMerge {
  Builder& b;
  ValueId y, lse, keys; // keys: their number, or invalid: some

  [[nodiscard]] ValueId over(const char* name, ValueId x, bool keeps) const {
    const int64_t parts = 3;
    return b.value(name, {x}, {{"dims", b.ints({&parts, 1})}, {"keepdim", b.boolean(keeps)}});
  }
  [[nodiscard]] ValueId beside(ValueId x) const {
    const int64_t last = -1;
    return b.value("expand_dims", {x}, {{"dims", b.ints({&last, 1})}});
  }
  // The sum of weights that the result is divided by.
  [[nodiscard]] ValueId divisor(ValueId sum) const {
    if (!keys.valid()) return sum;
    const ValueId none = b.value("eq", {keys, b.literal(0, DType::I32)});
    return b.value("select", {none, b.literal(1, b.module.typeOf(sum).dtype), sum});
  }
  // [.., rows, e] and [.., rows, 1]
  [[nodiscard]] std::array<ValueId, 2> run() const {
    const DType dtype = b.module.typeOf(lse).dtype;
    const ValueId zero = b.literal(0, dtype),
                  none = b.literal(-std::numeric_limits<double>::infinity(), dtype);
    const ValueId greatest = over("max", lse, true);
    const ValueId shift = b.value("select", {b.value("eq", {greatest, none}), zero, greatest});
    const ValueId weight = b.value("exp", {b.value("sub", {lse, shift})});
    const ValueId sum = over("sum", weight, true);
    const ValueId weighted =
        b.value("select", {beside(b.value("eq", {lse, none})), zero, b.value("mul", {y, beside(weight)})});
    return {b.value("div", {over("sum", weighted, false), divisor(sum)}),
            b.value("add", {b.value("log", {sum}), shift})};
  }
};

bool mergeDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Module& m = b.module;
  ValueId keys;
  if (m[op].numOperands > 2) { // an op of numbers alone is none
    const ValueId zero = b.constant(0, m.tensorType(DType::I32, std::initializer_list<int64_t>{}));
    keys = b.value("add", {zero, m.operand(op, 2)});
  }
  const PartsMerge merge{b, m.operand(op, 0), m.operand(op, 1), keys};
  const std::array<ValueId, 2> whole = merge.run();
  for (uint32_t r = 0; r < m[op].numResults; ++r)
    results.push_back(
        b.value("reshape", {whole[r]}, {{"shape", sizesToAttr(m, m.typeOf(m.result(op, r)).dims)}}));
  return true;
}

} // namespace

void addAttentionMergeOp(OpRegistry& ops) {
  OpRecord merge{
      .name = "attention_merge",
      .family = "attention",
      .summary =
          "the attention whose parts attention_parts gives, weighted by their log-sum-exp, part by part"};
  merge.operands = "y, lse, keys?";
  merge.operandTypes = "T, T, i32";
  merge.results = "whole, whole_lse?";
  merge.operandClasses = kFloats;
  merge.attrs = {{"whole_lse", AttrType::Bool, "false", "give the log-sum-exp of all parts, too"}};
  merge.rule = mergeRule;
  merge.infer = mergeInfer;
  merge.eval = mergeEval;
  merge.decompose = mergeDecompose;
  merge.gradNone = true; // it is made of what has its gradient already
  merge.through = {{ThroughRow::Linear, 0b1, false, 1u},
                   {ThroughRow::Linear, 0b1, false, 2u, kindBit(PendingKind::Avg)}};
  merge.lowering = Lowering::Rows;
  merge.flopsPerPoint = 4;
  merge.samples = "T[2, 2, 3, 4, 5], T[2, 2, 3, 4]\nT[1, 2, 3, 7, 1], T[1, 2, 3, 7] {whole_lse = true}\n"
                  "T[1, 1, 3, 2, 2], T[1, 1, 3, 2], i32[] in 0..2";
  ops.add(std::move(merge));
}

bool splitAttentionKeys(Builder& b, OpId attention, std::vector<ValueId>& results) {
  Module& m = b.module;
  Diagnostics none;
  const double parts = attentionKeyParts(queryOf(m, attention, none));
  if (parts < 2) return false;
  const std::vector<ValueId> operands(m.operands(attention).begin(), m.operands(attention).end());
  const OpId made = b.op("attention_parts", operands,
                         {{"parts", b.integer(static_cast<int64_t>(parts))},
                          {"causal", m.attr(attention, "causal")},
                          {"scale", m.attr(attention, "scale")},
                          {"window", m.attr(attention, "window")}});
  std::vector<ValueId> split = {m.result(made, 0), m.result(made, 1)};
  if (const Dim keys = m.typeOf(operands[1]).dims[2]; !keys.isStatic())
    split.push_back(m.makeSymbol(keys, DType::I32, b.loc));
  const OpId merged = b.op("attention_merge", split, {{"whole_lse", b.boolean(m[attention].numResults > 1)}});
  for (uint32_t r = 0; r < m[attention].numResults; ++r) {
    const Type t = m.typeOf(m.result(attention, r));
    ValueId x = m.result(merged, r);
    if (m.typeOf(x).dtype != t.dtype) x = b.value("convert", {x}, {{"dtype", b.word(dtypeName(t.dtype))}});
    results.push_back(b.value("reshape", {x}, {{"shape", sizesToAttr(m, t.dims)}}));
  }
  return true;
}

} // namespace dtc
