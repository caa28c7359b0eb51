// Rules written as text: the parser, and the binding of factors to the dims of the operands.
#include "dtc/IR/RuleText.h"
#include "dtc/Support/Result.h"
#include <algorithm>

namespace dtc {

namespace {

struct TextDim {
  enum Kind : uint8_t { Named, One, Batch, Group } kind = Named;
  std::vector<int> factors; // Named: one; Group: any number
};
struct TextTensor {
  std::vector<TextDim> dims;
  [[nodiscard]] bool batched() const { return !dims.empty() && dims.front().kind == TextDim::Batch; }
  [[nodiscard]] size_t fixedRank() const { return dims.size() - (batched() ? 1 : 0); }
};
struct TextKind {
  int factor;
  FactorKind kind;
  PendingKind reduce;
  int joins; // operand, or -1
  bool placed = false;
};
struct TextRule {
  std::vector<std::string> names;
  std::vector<TextTensor> operands, results;
  std::vector<TextKind> kinds;
};

// Rule texts are part of dtc (or made by a record's code): a malformed one is a bug.
class TextParser {
public:
  explicit TextParser(std::string_view text) : text_(text) {}

  TextRule parse() {
    side(rule_.operands);
    DTC_CHECK(take("->"), "rule text: expected ->");
    side(rule_.results);
    while (take(";")) kindClause();
    DTC_CHECK(at_ == text_.size(), "rule text: unexpected end");
    return std::move(rule_);
  }

private:
  void space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view word) {
    space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    space();
    return true;
  }
  std::string_view name() {
    space();
    size_t begin = at_;
    auto isLetter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    while (at_ < text_.size() &&
           (isLetter(text_[at_]) || (at_ > begin && text_[at_] >= '0' && text_[at_] <= '9')))
      ++at_;
    DTC_CHECK(at_ > begin, "rule text: expected a factor's name");
    return text_.substr(begin, at_ - begin);
  }
  int factor(std::string_view n) {
    for (size_t i = 0; i < rule_.names.size(); ++i)
      if (rule_.names[i] == n) return static_cast<int>(i);
    rule_.names.emplace_back(n);
    return static_cast<int>(rule_.names.size() - 1);
  }
  void side(std::vector<TextTensor>& out) {
    while (take("[")) {
      TextTensor t;
      while (!take("]")) t.dims.push_back(dim());
      out.push_back(std::move(t));
      if (!take(",")) break;
    }
  }
  TextDim dim() {
    if (take("..")) return {TextDim::Batch, {}};
    if (take("1")) return {TextDim::One, {}};
    if (!take("(")) return {TextDim::Named, {factor(name())}};
    TextDim d{TextDim::Group, {}};
    while (!take(")")) d.factors.push_back(factor(name()));
    return d;
  }
  void kindClause() {
    TextKind k{factor(name()), FactorKind::Pass, PendingKind::None, -1};
    DTC_CHECK(take(":"), "rule text: expected a factor's kind");
    std::string_view word = name();
    static constexpr std::pair<std::string_view, FactorKind> kinds[] = {
        {"pass", FactorKind::Pass},     {"place", FactorKind::Place},   {"permute", FactorKind::Permute},
        {"merge", FactorKind::Merge},   {"prefix", FactorKind::Prefix}, {"select", FactorKind::Select},
        {"window", FactorKind::Window}, {"owner", FactorKind::Owner},   {"exchange", FactorKind::Exchange},
        {"whole", FactorKind::Whole}};
    auto found = std::find_if(std::begin(kinds), std::end(kinds), [&](auto& e) { return e.first == word; });
    if (found != std::end(kinds)) {
      k.kind = found->second;
    } else {
      auto reduce = parsePendingKind(word);
      DTC_CHECK(reduce.has_value(), "rule text: unknown factor kind");
      k.kind = FactorKind::Reduce;
      k.reduce = *reduce;
    }
    k.placed = take("placed");
    if (take("joins")) {
      DTC_CHECK(at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9',
                "rule text: joins needs an operand");
      k.joins = text_[at_++] - '0';
    }
    rule_.kinds.push_back(k);
  }

  std::string_view text_;
  size_t at_ = 0;
  TextRule rule_;
};

bool isOne(Dim d) { return d.isStatic() && d.value() == 1; }

// Where a factor first got its size: for the diagnostic of a mismatch.
struct Origin {
  size_t operand = 0, dim = 0;
};

class Binder {
public:
  Binder(const OpQuery& q, const TextRule& text, Rule& rule) : q_(q), text_(text), rule_(rule) {}

  bool bind() {
    count_ = std::min(q_.operandTypes.size(), text_.operands.size());
    for (size_t i = 0; i < count_; ++i)
      if (!checkRank(i)) return false;
    if (!batchFactors()) return false;
    namedFactors_ = rule_.factors.size();
    rule_.operands.reserve(count_);
    rule_.results.reserve(text_.results.size());
    for (const std::string& n : text_.names) addFactor(rule_, Dim(-0), n);
    known_.assign(text_.names.size(), false);
    origins_.assign(text_.names.size(), {});
    bool ok = true;
    for (size_t i = 0; i < count_; ++i) ok &= bindPlain(i);
    for (size_t i = 0; ok && i < count_; ++i) ok &= bindGroups(i);
    if (!ok) return false;
    for (bool k : known_) DTC_CHECK(k, "rule text: a factor's size does not follow from the operands");
    for (size_t i = 0; i < count_; ++i)
      rule_.operands.push_back(mapOf(text_.operands[i], static_cast<int>(i)));
    for (const TextTensor& t : text_.results) rule_.results.push_back(mapOf(t, -1));
    setKinds();
    return true;
  }

private:
  size_t rank(size_t operand) const { return q_.type(operand).rank(); }
  size_t batchRank(size_t operand) const {
    const TextTensor& t = text_.operands[operand];
    return t.batched() ? rank(operand) - t.fixedRank() : 0;
  }
  bool checkRank(size_t operand) {
    const TextTensor& t = text_.operands[operand];
    size_t fixed = t.fixedRank(), have = rank(operand);
    if (t.batched() ? have >= fixed : have == fixed) return true;
    return reportRank(q_, operand, (t.batched() ? "at least " : "") + std::to_string(fixed));
  }

  // One factor per batch dim of the result; sizes 1 beside a larger one belong to none.
  bool batchFactors() {
    size_t most = 0;
    for (size_t i = 0; i < count_; ++i) most = std::max(most, batchRank(i));
    bool ok = true;
    rule_.factors.reserve(most + text_.names.size());
    for (size_t p = 0; p < most; ++p) {
      Dim size(1);
      Origin from;
      for (size_t i = 0; i < count_; ++i) {
        if (batchRank(i) + p < most) continue;
        size_t d = batchRank(i) + p - most;
        Dim here = q_.type(i).dims[d];
        if (isOne(here) || here == size) continue;
        if (isOne(size)) {
          size = here;
          from = {i, d};
        } else {
          ok = reportDims(q_, "needs equal sizes, or 1: dim", "and dim", from.operand, from.dim, i, d);
        }
      }
      addFactor(rule_, size);
    }
    batch_ = most;
    return ok;
  }

  size_t firstFixedDim(size_t operand) const { return batchRank(operand); }

  bool give(int factor, Dim size, Origin at) {
    size_t f = static_cast<size_t>(factor);
    Factor& to = rule_.factors[namedFactors_ + f];
    if (!known_[f]) {
      known_[f] = true;
      to.size = size;
      origins_[f] = at;
      return true;
    }
    if (to.size == size) return true;
    bool contracted = !inResults(factor);
    return reportDims(q_, contracted ? "contracts dim" : "needs dim",
                      contracted ? "with dim" : "equal to dim", origins_[f].operand, origins_[f].dim,
                      at.operand, at.dim);
  }
  bool inResults(int factor) const {
    for (const TextTensor& t : text_.results)
      for (const TextDim& d : t.dims)
        if (std::find(d.factors.begin(), d.factors.end(), factor) != d.factors.end()) return true;
    return false;
  }
  bool bindPlain(size_t operand) {
    const TextTensor& t = text_.operands[operand];
    size_t d = firstFixedDim(operand);
    bool ok = true;
    for (size_t k = t.batched() ? 1 : 0; k < t.dims.size(); ++k, ++d) {
      Dim size = q_.type(operand).dims[d];
      if (t.dims[k].kind == TextDim::Named) ok &= give(t.dims[k].factors[0], size, {operand, d});
      if (t.dims[k].kind == TextDim::One && !isOne(size)) {
        q_.diags->error(kDimMismatch, q_.loc, q_.record->name,
                        "needs dim " + std::to_string(d) + " of " + q_.operandText(operand) +
                            " to be 1, but it is " + printDim(size, q_.module->dims, q_.module->strings));
        ok = false;
      }
    }
    return ok;
  }
  // (i j): what is not known yet is the quotient.
  bool bindGroups(size_t operand) {
    const TextTensor& t = text_.operands[operand];
    size_t d = firstFixedDim(operand);
    for (size_t k = t.batched() ? 1 : 0; k < t.dims.size(); ++k, ++d) {
      if (t.dims[k].kind != TextDim::Group) continue;
      Dim rest = q_.type(operand).dims[d];
      int unknown = -1;
      bool fits = true;
      for (int f : t.dims[k].factors) {
        if (!known_[static_cast<size_t>(f)]) {
          DTC_CHECK(unknown < 0, "rule text: two factors of unknown size in one group");
          unknown = f;
        } else if (auto quotient = q_.module->dims.divExact(rest, rule_.factors[namedFactors_ + f].size)) {
          rest = *quotient;
        } else {
          fits = false;
        }
      }
      if (unknown >= 0 && fits) fits = give(unknown, rest, {operand, d});
      if (unknown < 0 && fits) fits = isOne(rest);
      if (fits) continue;
      q_.diags->error(kDimMismatch, q_.loc, q_.record->name,
                      "cannot split dim " + std::to_string(d) + " of " + q_.operandText(operand) + " (" +
                          typeText(*q_.module, q_.operandTypes[operand]) + ") as the other operands ask");
      return false;
    }
    return true;
  }

  // `operand` < 0: of a result, which has all batch factors.
  TensorMap mapOf(const TextTensor& t, int operand) const {
    TensorMap map;
    map.dims.reserve(t.dims.size() + batch_);
    if (t.batched()) {
      size_t n = operand < 0 ? batch_ : batchRank(static_cast<size_t>(operand));
      for (size_t d = 0; d < n; ++d) {
        size_t f = batch_ - n + d;
        bool broadcast = operand >= 0 && isOne(q_.type(static_cast<size_t>(operand)).dims[d]) &&
                         !isOne(rule_.factors[f].size);
        map.dims.push_back(broadcast ? oneDim() : plainDim(static_cast<uint16_t>(f)));
      }
    }
    for (const TextDim& d : t.dims) {
      if (d.kind == TextDim::Batch) continue;
      DimMap m;
      for (int f : d.factors)
        m.terms.push_back({static_cast<uint16_t>(namedFactors_ + static_cast<size_t>(f)), 1});
      map.dims.push_back(std::move(m));
    }
    return map;
  }

  void setKinds() {
    for (size_t f = 0; f < text_.names.size(); ++f)
      if (!inResults(static_cast<int>(f))) {
        rule_.factors[namedFactors_ + f].kind = FactorKind::Reduce;
        rule_.factors[namedFactors_ + f].reduce = PendingKind::Sum;
      }
    for (const TextKind& k : text_.kinds) {
      uint16_t f = static_cast<uint16_t>(namedFactors_ + static_cast<size_t>(k.factor));
      rule_.factors[f].kind = k.kind;
      rule_.factors[f].reduce = k.reduce;
      rule_.factors[f].placed = k.placed;
      if (k.joins >= 0 && static_cast<size_t>(k.joins) < count_)
        rule_.joins.push_back({static_cast<uint16_t>(k.joins), f});
    }
  }

  const OpQuery& q_;
  const TextRule& text_;
  Rule& rule_;
  size_t count_ = 0, batch_ = 0, namedFactors_ = 0;
  std::vector<bool> known_;
  std::vector<Origin> origins_;
};

} // namespace

bool ruleFromText(const OpQuery& q, std::string_view text, Rule& rule) {
  if (text == "pointwise") return pointwiseRule(q, rule);
  TextRule parsed = TextParser(text).parse();
  return Binder(q, parsed, rule).bind();
}

bool pointwiseRule(const OpQuery& q, Rule& rule) {
  TextRule text;
  TextTensor batch;
  batch.dims.push_back({TextDim::Batch, {}});
  text.operands.assign(q.operandTypes.size(), batch);
  text.results.assign(std::max<uint32_t>(1, numResultsOf(q)), batch);
  return Binder(q, text, rule).bind();
}

} // namespace dtc
