#include "OpGradient.h"
#include "dtc/IR/Text.h"
#include <algorithm>
#include <array>

namespace dtc {

static constexpr DiagKind kNoGradient{"no-gradient",
                                      "'{0}' has no gradient, but the gradient that is asked for passes "
                                      "through it; put a 'stop_gradient' before it if none should"};

namespace {

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\n')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\n')) s.remove_suffix(1);
  return s;
}

// Names in an operand or result list: "x, w, b?" -> x, w, b.
std::vector<std::string> namesOf(const char* text) {
  std::vector<std::string> out;
  std::string_view rest(text);
  while (!rest.empty()) {
    size_t comma = std::min(rest.find(','), rest.size());
    std::string name(trimmed(rest.substr(0, comma)));
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
      out.clear(); // it pushes one per operand
      ok = record_.gradFn(b_, op_, cotangents_, out);
    } else if (record_.grad) {
      ok = fromText(out);
    } else {
      return refuse();
    }
    if (!ok) return b_.diags.hasErrors() ? false : refuse(); // a variant of the op that has none
    out.resize(m_[op_].numOperands);
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i].valid()) out[i] = wanted_[i] ? toTypeOf(out[i], m_.operand(op_, i)) : ValueId();
    return true;
  }

private:
  bool refuse() {
    b_.diags.error(kNoGradient, m_[op_].loc, record_.name);
    return false;
  }

  ValueId zeros(ValueId like) { return b_.constant(0, m_[like].type); }

  // The record's text with $name replaced by the attribute, and the `none`s of its yield taken out. `unknown`: there is a slope,
  // and no formula for it.
  bool fromText(std::vector<ValueId>& out) {
    std::string text = withAttributes(record_.grad);
    size_t last = text.rfind("yield");
    if (last == std::string::npos) return refuse();
    std::vector<int> positions; // of what is yielded: which operand it belongs to
    std::string yields;
    int operand = 0;
    for (std::string_view rest = trimmed(std::string_view(text).substr(last + 5)); !rest.empty(); ++operand) {
      size_t comma = std::min(rest.find(','), rest.size());
      std::string_view word = trimmed(rest.substr(0, comma));
      if (word == "unknown" && wanted_[static_cast<size_t>(operand)]) return refuse();
      if (word != "none" && word != "unknown") {
        positions.push_back(operand);
        yields += (yields.empty() ? " " : ", ") + std::string(word);
      }
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    if (positions.empty()) return true;
    std::vector<ValueId> values;
    if (!b_.inlineText(text.substr(0, last) + "yield" + yields, bindings(), values)) return false;
    for (size_t i = 0; i < positions.size() && i < values.size(); ++i)
      if (static_cast<size_t>(positions[i]) < out.size()) out[static_cast<size_t>(positions[i])] = values[i];
    return true;
  }

  std::string withAttributes(std::string_view text) {
    std::string out;
    OpQuery q = queryOf(m_, op_, b_.diags);
    for (size_t i = 0; i < text.size();) {
      if (text[i] != '$') {
        out += text[i++];
        continue;
      }
      size_t end = i + 1;
      while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
        ++end;
      std::string_view name = text.substr(i + 1, end - i - 1);
      std::optional<double> derived = record_.derive ? record_.derive(q, name) : std::nullopt;
      out += printFloat(derived ? *derived : q.floatAttr(name));
      i = end;
    }
    return out;
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
    if (std::none_of(bindings_.begin(), bindings_.end(), [](auto& p) { return p.first == "dy"; }))
      bindings_.push_back({names_.back(), cotangentOf(0)});
    return bindings_;
  }

  ValueId cotangentOf(size_t result) {
    if (!cotangents_[result].valid()) cotangents_[result] = zeros(m_.result(op_, result));
    return cotangents_[result];
  }

  // A sum of products: the cotangent of one operand is the sum of products of dy with all others, over what the operand
  // lacks. What enters additively (a join) gets dy itself.
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
    return std::any_of(rule.joins.begin(), rule.joins.end(),
                       [&](const Join& j) { return j.operand == operand; });
  }

  // Letters of an equation: one per factor, fresh ones for dims of size 1 that broadcast and for diagonals.
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
    // The target's own dims: those of size 1 that broadcast, and those that no other tensor has, are put back below; of a
    // diagonal only the elements on it have a slope.
    const Type& type = m_.typeOf(m_.operand(op_, target));
    std::string own = names.of(rule.operands[target]), output;
    std::vector<int64_t> absent;
    for (size_t d = 0; d < own.size(); ++d) {
      if (size_t first = own.find(own[d]); first < d) {
        char fresh = names.fresh();
        const TypeId square = m_.tensorType(type.dtype, std::array{type.dims[d], type.dims[d]});
        add(m_.result(b_.op("eye", {}, {}, std::array{square})), {own[first], fresh});
        own[d] = fresh;
      }
      if (known.find(own[d]) == std::string::npos)
        absent.push_back(static_cast<int64_t>(d));
      else
        output += own[d];
    }
    StrId text = m_.strings.intern(equation + "->" + output);
    ValueId v = m_.result(b_.op("einsum", inputs, {{"equation", m_.attrs.string(text)}}));
    return absent.empty() ? v : b_.value("expand_dims", {v}, {{"dims", b_.ints(absent)}});
  }

  // Sums over what was broadcast on the way from `operand` to the value whose cotangent this is.
  ValueId toTypeOf(ValueId v, ValueId operand) {
    if (m_[v].type == m_[operand].type) return v;
    const Type have = m_.typeOf(v), want = m_.typeOf(operand);
    std::vector<int64_t> leading, ones;
    const size_t lead = have.rank() > want.rank() ? have.rank() - want.rank() : 0;
    for (size_t d = 0; d < have.rank() && have.rank() >= want.rank(); ++d) {
      if (d < lead)
        leading.push_back(static_cast<int64_t>(d));
      else if (want.dims[d - lead] == Dim(1) && have.dims[d] != Dim(1))
        ones.push_back(static_cast<int64_t>(d));
    }
    if (!ones.empty()) v = b_.value("sum", {v}, {{"dims", b_.ints(ones)}, {"keepdim", b_.boolean(true)}});
    if (!leading.empty()) v = b_.value("sum", {v}, {{"dims", b_.ints(leading)}});
    if (m_.typeOf(v).dims != want.dims) v = broadcastTo(v, want);
    if (m_.typeOf(v).dtype != want.dtype)
      v = b_.value("convert", {v}, {{"dtype", b_.word(dtypeName(want.dtype))}});
    return v;
  }

  ValueId broadcastTo(ValueId v, const Type& want) {
    Attr list;
    list.kind = Attr::List;
    for (Dim d : want.dims) {
      Attr size;
      size.kind = Attr::Size;
      size.dim = d;
      list.list.push_back(d.isStatic() ? m_.attrs.integer(d.value()) : m_.attrs.intern(size));
    }
    return b_.value("broadcast", {v}, {{"shape", m_.attrs.intern(std::move(list))}});
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
