#include "autodiff/OpGradient.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Ops/record/GradientText.h"
#include "dtc/Support/Words.h"
#include <algorithm>
#include <array>

namespace dtc {

static constexpr DiagKind kNoGradient{"no-gradient",
                                      "'{0}'{1} has no gradient, but the requested gradient passes "
                                      "through it: add a 'stop_gradient' before it to exclude it"};

namespace {

// Names in an operand or result list: "x, w, b?" -> x, w, b.
std::vector<std::string> namesOf(const char* text) {
  std::vector<std::string> out;
  std::string_view rest(text);
  while (!rest.empty()) {
    size_t comma = std::min(rest.find(','), rest.size());
    std::string name(trimmed(rest.substr(0, comma), " \n"));
    while (!name.empty() && (name.back() == '?' || name.back() == '.')) name.pop_back();
    out.push_back(std::move(name));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return out;
}

class GradientMaker {
public:
  GradientMaker(Builder& b, OpId op, std::span<const ValueId> resultCotangents,
                const std::vector<char>& wanted)
      : b_(b), m_(b.module), op_(op), record_(m_.record(op)), wanted_(wanted),
        cotangents_(resultCotangents.begin(), resultCotangents.end()) {}

  bool run(std::vector<ValueId>& out) {
    out.assign(m_[op_].numOperands, ValueId());
    bool ok = true;
    if (record_.gradFromRule) {
      ok = fromRule(out);
    } else if (record_.gradFn) {
      for (size_t r = 0; r < cotangents_.size(); ++r) cotangentOf(r);
      out.clear(); // it appends one per operand
      ok = record_.gradFn(b_, op_, cotangents_, out);
    } else if (record_.grad) {
      ok = fromText(out);
    } else {
      return refuse();
    }
    if (!ok) return b_.diags.hasErrors() ? false : refuse(attributes()); // this variant of the op has none
    out.resize(m_[op_].numOperands);
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i].valid()) out[i] = wanted_[i] ? toTypeOf(out[i], m_.operand(op_, i)) : ValueId();
    return true;
  }

private:
  bool refuse(const std::string& variant = "") {
    return b_.diags.fail(kNoGradient, m_[op_].loc, record_.name, variant);
  }

  // " with {full_matrices}": the attributes that are given, which select the variant of the op.
  [[nodiscard]] std::string attributes() const {
    std::string names;
    for (const NamedAttr& a : m_[op_].attrs)
      names += (names.empty() ? "" : ", ") + std::string(m_.strings[a.name]);
    return names.empty() ? "" : " with {" + names + "}";
  }

  ValueId zeros(ValueId like) { return b_.constant(0, m_[like].type); }

  bool fromText(std::vector<ValueId>& out) {
    const GradientText text(record_.grad);
    for (size_t i = 0; i < out.size() && i < text.cotangents.size(); ++i)
      if (text.cotangents[i] == "unknown" && wanted_[i]) return refuse();
    if (std::ranges::none_of(text.cotangents, GradientText::isFormula)) return true;
    const OpQuery q = queryOf(m_, op_, b_.diags);
    const std::vector<ValueId> values = text.build(b_, q, bindings());
    std::copy_n(values.begin(), std::min(values.size(), out.size()), out.begin());
    return true;
  }

  const std::vector<std::pair<std::string_view, ValueId>>& bindings() {
    names_ = namesOf(record_.operands);
    size_t numOperandNames = names_.size();
    for (std::string& r : namesOf(record_.results)) names_.push_back(std::move(r));
    size_t numResultNames = names_.size() - numOperandNames;
    for (size_t r = 0; r < numResultNames; ++r) names_.push_back("d" + names_[numOperandNames + r]);
    names_.push_back("dy");
    for (size_t i = 0; i < numOperandNames && i < m_[op_].numOperands; ++i)
      bindings_.push_back({names_[i], m_.operand(op_, i)});
    for (size_t r = 0; r < numResultNames && r < m_[op_].numResults; ++r) {
      bindings_.push_back({names_[numOperandNames + r], m_.result(op_, r)});
      bindings_.push_back({names_[numOperandNames + numResultNames + r], cotangentOf(r)});
    }
    if (std::ranges::none_of(bindings_, [](auto& p) { return p.first == "dy"; }))
      bindings_.push_back({names_.back(), cotangentOf(0)});
    return bindings_;
  }

  ValueId cotangentOf(size_t result) {
    if (!cotangents_[result].valid()) cotangents_[result] = zeros(m_.result(op_, result));
    return cotangents_[result];
  }

  // A sum of products: the cotangent of one operand is dy times all other operands, summed over the factors
  // that the operand lacks. An additive operand (a join) gets dy itself.
  bool fromRule(std::vector<ValueId>& out) {
    OpQuery q = queryOf(m_, op_, b_.diags);
    Rule rule;
    if (!ruleOf(q, rule)) return false;
    for (uint32_t target = 0; target < m_[op_].numOperands; ++target) {
      if (!wanted_[target] || !isFloat(m_.typeOf(m_.operand(op_, target)).dtype)) continue;
      out[target] = additive(rule, target) ? cotangentOf(0) : product(rule, target);
    }
    return true;
  }

  static bool additive(const Rule& rule, uint32_t operand) {
    return std::ranges::any_of(rule.joins, [&](const Join& j) { return j.operand == operand; });
  }

  // The letters of an equation: one per factor, new ones for broadcast dims of size 1 and for diagonals.
  struct Letters {
    size_t next;
    static char at(size_t i) { return static_cast<char>(i < 26 ? 'a' + i : 'A' + i - 26); }
    char fresh() { return at(next++); }
    std::string of(const TensorMap& map) {
      std::string out;
      for (const DimMap& d : map.dims) out += d.terms.empty() ? fresh() : at(d.terms[0].factor);
      return out;
    }
  };

  ValueId product(const Rule& rule, uint32_t target) {
    Letters names{rule.factors.size()};
    std::vector<ValueId> inputs = {cotangentOf(0)};
    std::string equation = names.of(rule.results[0]), known = equation;
    auto add = [&](ValueId v, const std::string& letters) {
      inputs.push_back(v);
      equation += "," + letters;
      known += letters;
    };
    for (uint32_t i = 0; i < m_[op_].numOperands; ++i)
      if (i != target && !additive(rule, i)) add(m_.operand(op_, i), names.of(rule.operands[i]));
    // Dims of size 1 that broadcast, and dims that no other tensor has, are restored below; only the diagonal
    // elements of a diagonal have a gradient.
    const Type& type = m_.typeOf(m_.operand(op_, target));
    std::string own = names.of(rule.operands[target]), output;
    std::vector<int64_t> absent;
    for (size_t d = 0; d < own.size(); ++d) {
      if (size_t first = own.find(own[d]); first < d) {
        char fresh = names.fresh();
        const TypeId square = m_.tensorType(type.dtype, std::array{type.dims[d], type.dims[d]});
        add(ops::eye(b_, square), {own[first], fresh});
        own[d] = fresh;
      }
      if (known.find(own[d]) == std::string::npos)
        absent.push_back(static_cast<int64_t>(d));
      else
        output += own[d];
    }
    const Expr v = ops::einsum(b_, inputs, equation + "->" + output);
    return absent.empty() ? v : ops::expand_dims(v, absent);
  }

  // Sums over the dims broadcast between `operand` and the value with this cotangent.
  ValueId toTypeOf(ValueId cotangent, ValueId operand) {
    if (m_[cotangent].type == m_[operand].type) return cotangent;
    Expr v(b_, cotangent);
    const Type have = v.type(), want = m_.typeOf(operand);
    std::vector<int64_t> leading, ones;
    const size_t lead = have.rank() > want.rank() ? have.rank() - want.rank() : 0;
    for (size_t d = 0; d < have.rank() && have.rank() >= want.rank(); ++d) {
      if (d < lead)
        leading.push_back(static_cast<int64_t>(d));
      else if (want.dims[d - lead] == Dim(1) && have.dims[d] != Dim(1))
        ones.push_back(static_cast<int64_t>(d));
    }
    if (!ones.empty()) v = ops::sum(v, {.dims = ones, .keepdim = true});
    if (!leading.empty()) v = ops::sum(v, {.dims = leading});
    if (v.dims() != want.dims) v = ops::broadcast(v, want.dims);
    return v.as(want.dtype);
  }

  Builder& b_;
  Module& m_;
  OpId op_;
  const OpRecord& record_;
  const std::vector<char>& wanted_;
  std::vector<ValueId> cotangents_;
  std::vector<std::string> names_;
  std::vector<std::pair<std::string_view, ValueId>> bindings_;
};

} // namespace

bool opGradient(Builder& b, OpId op, std::span<const ValueId> resultCotangents,
                const std::vector<char>& wanted, std::vector<ValueId>& operandCotangents) {
  b.loc = b.module[op].loc;
  return GradientMaker(b, op, resultCotangents, wanted).run(operandCotangents);
}

} // namespace dtc
