// Contractions: matmul, einsum, linear. Rule and gradient are derived from the index equation.
#include "dtc/Ops/OpFunctions.h"
#include "record/RecordParts.h"
#include <algorithm>

namespace dtc {

namespace {

bool matmulRule(const OpQuery& q, Rule& rule) {
  std::string a = q.boolAttr("transpose_a") ? "[.. k m], " : "[.. m k], ";
  std::string b = q.boolAttr("transpose_b") ? "[.. n k]" : "[.. k n]";
  return ruleFromText(q, a + b + " -> [.. m n]", rule);
}

inline constexpr DiagKind kEinsum{"einsum-equation", "'einsum' has the equation \"{1}\": {0}"};

// The equation as rule text: "bi,oi->bo" is "[b i], [o i] -> [b o]".
class Equation {
public:
  explicit Equation(const OpQuery& q) : q_(q), text_(q.textAttr("equation")) {}

  bool toRule(Rule& rule) {
    size_t arrow = text_.find("->");
    if (arrow == std::string_view::npos) return report("expected '->' and the letters of the result");
    std::string out;
    nameBatch(arrow);
    if (!side(text_.substr(0, arrow), out, true)) return false;
    size_t count =
        1 + static_cast<size_t>(std::count(text_.begin(), text_.begin() + static_cast<long>(arrow), ','));
    if (count != q_.operandTypes.size())
      return report("it has " + std::to_string(count) + (count == 1 ? " operand" : " operands") + ", but " +
                    std::to_string(q_.operandTypes.size()) +
                    (q_.operandTypes.size() == 1 ? " is given" : " are given"));
    out += " -> ";
    if (!side(text_.substr(arrow + 2), out, false)) return false;
    if (!ruleFromText(q_, out, rule)) return false;
    // A repeated letter in one operand is its diagonal, which sharding both dims cannot express.
    for (const TensorMap& t : rule.operands)
      for (size_t i = 0; i < t.dims.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (t.dims[i].plain() && t.dims[j].plain() &&
              t.dims[i].terms[0].factor == t.dims[j].terms[0].factor) {
            rule.factors[t.dims[i].terms[0].factor].kind = FactorKind::Whole;
            rule.factors[t.dims[i].terms[0].factor].reduce =
                inResult(rule, t.dims[i].terms[0].factor) ? PendingKind::None : PendingKind::Sum;
          }
    return true;
  }

private:
  static bool inResult(const Rule& rule, uint16_t factor) {
    return std::ranges::any_of(rule.results[0].dims,
                               [&](const DimMap& d) { return d.plain() && d.terms[0].factor == factor; });
  }
  // Rules have `..` for batch dims that come first and are kept. Others have names, counted from the last.
  void nameBatch(size_t arrow) {
    const std::string_view whole = text_;
    bool named = false, any = false;
    for (size_t begin = 0; begin <= arrow;) {
      const size_t end = std::min(whole.find(',', begin), arrow);
      const std::string_view term = whole.substr(begin, end - begin);
      const size_t at = term.find("...");
      const auto isLetter = [](char c) { return c != ' ' && c != '.'; };
      const size_t k = batches_.size(), letters = static_cast<size_t>(std::ranges::count_if(term, isLetter)),
                   rank = k < q_.operandTypes.size() ? q_.type(k).rank() : 0;
      batches_.push_back(at == term.npos || rank < letters ? 0 : rank - letters);
      any |= at != term.npos;
      named |= at != term.npos && term.find_first_not_of(' ') != at;
      begin = end + 1;
    }
    const std::string_view result = whole.substr(arrow + 2);
    const size_t at = result.find("...");
    named_ = any && (named || at == result.npos || result.find_first_not_of(' ') != at);
  }
  // The batch dims of an operand, or of the result. A dim of size 1 next to a larger one has no name.
  std::string batchOf(size_t operand) const {
    if (!named_) return ".. ";
    const size_t most = std::ranges::max(batches_),
                 own = operand < batches_.size() ? batches_[operand] : most;
    std::string out;
    for (size_t i = own; i-- > 0;)
      out += operand < batches_.size() && isBroadcast(operand, i) ? "1 " : "d" + std::to_string(i) + " ";
    return out;
  }
  [[nodiscard]] Dim batchSize(size_t operand, size_t fromLast) const {
    const size_t arrow = text_.find("->");
    std::string_view term = std::string_view(text_).substr(0, arrow);
    for (size_t k = 0; k < operand; ++k) term.remove_prefix(term.find(',') + 1);
    term = term.substr(0, term.find("..."));
    const auto before =
        static_cast<size_t>(std::ranges::count_if(term, [](char c) { return c != ' ' && c != '.'; }));
    return q_.type(operand).dims[before + batches_[operand] - 1 - fromLast];
  }
  [[nodiscard]] bool isBroadcast(size_t operand, size_t fromLast) const {
    if (batchSize(operand, fromLast) != Dim(1)) return false;
    for (size_t k = 0; k < batches_.size(); ++k)
      if (fromLast < batches_[k] && batchSize(k, fromLast) != Dim(1)) return true;
    return false;
  }
  bool report(std::string_view what) { return q_.diags->fail(kEinsum, q_.loc, what, text_); }
  bool side(std::string_view letters, std::string& out, bool operands) {
    out += '[';
    std::string here;
    size_t operand = 0;
    for (size_t i = 0; i < letters.size(); ++i) {
      char c = letters[i];
      if (c == ' ') continue;
      if (c == ',' && operands) {
        out += "], [";
        here.clear();
        ++operand;
      } else if (letters.substr(i, 3) == "...") {
        if (here.find('.') != std::string::npos)
          return report("'...' is used twice in an operand or in the result");
        out += operands ? batchOf(operand) : batchOf(batches_.size());
        here += '.';
        i += 2;
      } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        if (!operands && here.find(c) != std::string::npos)
          return report(std::string("the letter '") + c + "' is used twice in the result");
        if (!operands && known_.find(c) == std::string::npos)
          return report(std::string("the letter '") + c + "' of the result is in no operand");
        here += c;
        known_ += c;
        out += c;
        out += ' ';
      } else {
        return report(std::string("unexpected character '") + c + "'; dims are single letters");
      }
    }
    out += ']';
    return true;
  }
  const OpQuery& q_;
  std::string_view text_;
  std::string known_;
  std::vector<size_t> batches_; // the number of batch dims by operand
  bool named_ = false;          // they have names
};

bool einsumRule(const OpQuery& q, Rule& rule) { return Equation(q).toRule(rule); }

inline constexpr DiagKind kEinsumOperands{"operand-count",
                                          "'einsum' takes at most 8 operands, but {0} are given"};
bool einsumVerify(const OpQuery& q) {
  if (q.operandTypes.size() <= 8) return true;
  return q.diags->fail(kEinsumOperands, q.loc, q.operandTypes.size());
}

// An equation with one operand and no summed letter is a data-movement op.
bool einsumWhen(const OpQuery& q, const Through& t) {
  if (t.row != ThroughRow::Moving) return true;
  Rule rule;
  return q.operandTypes.size() == 1 && einsumRule(q, rule) &&
         std::ranges::none_of(rule.factors, [](const Factor& f) { return f.reduce != PendingKind::None; });
}

std::string productOfOperands(const OpQuery& q) {
  std::string text = "a";
  for (size_t i = 1; i < q.operandTypes.size(); ++i) text += std::string(" * ") + static_cast<char>('a' + i);
  return text;
}

// True if the last dim of the transposed result is one of the batch, which all operands have: a library writes rows or
// columns, so that this transpose is a copy.
bool endsInBatch(const Rule& rule, std::span<const int64_t> perm) {
  if (perm.empty() || rule.operands.size() < 2) return false;
  const int last = rule.factorOf(rule.results[0], static_cast<size_t>(perm.back()));
  return std::ranges::all_of(rule.operands, [&](const TensorMap& t) {
    for (size_t d = 0; d < t.dims.size(); ++d)
      if (rule.factorOf(t, d) == last) return true;
    return false;
  });
}

// As an einsum, whose letters are the factors of the rule.
bool transposedContraction(Builder& b, OpId op, std::span<const int64_t> perm, ValueId& result) {
  Module& m = b.module;
  Diagnostics none;
  Rule rule;
  if (!ruleOf(queryOf(m, op, none), rule) || rule.factors.size() > 26) return false;
  if (endsInBatch(rule, perm)) return false;
  std::string equation;
  const auto append = [&](const DimMap& d) {
    equation += static_cast<char>('a' + (d.plain() ? d.terms[0].factor : 0));
    return d.plain();
  };
  for (const TensorMap& t : rule.operands) {
    equation += equation.empty() ? "" : ",";
    for (const DimMap& d : t.dims)
      if (!append(d)) return false;
  }
  equation += "->";
  for (const int64_t d : perm)
    if (!append(rule.results[0].dims[static_cast<size_t>(d)])) return false;
  result = ops::einsum(b, std::vector<ValueId>(m.operands(op).begin(), m.operands(op).end()), equation);
  return true;
}

OpRecord contraction(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "contract", .summary = summary};
  r.complex = OpRecord::ComplexForm::Product;
  r.operandClasses = kNumbers;
  r.scalar = "a * b";
  r.checks = within({Domain::Small});
  r.gradFromRule = true;
  r.lowering = Lowering::Library;
  r.flopsPerPoint = 2;
  return r;
}

} // namespace

void addContractOps(OpRegistry& ops) {
  OpRecord& matmul = ops.add(contraction("matmul", "matrix multiplication; batch dims broadcast"));
  matmul.operands = "a, b";
  matmul.attrs = {{"transpose_a", AttrType::Bool, "false", "a is [.., k, m]"},
                  {"transpose_b", AttrType::Bool, "false", "b is [.., n, k]"}};
  matmul.rule = matmulRule;
  matmul.transposed = transposedContraction;
  matmul.through = {{ThroughRow::Bilinear, 0b11}};
  matmul.samples = "T[4, 3], T[3, 5]\nT[2, 4, 3], T[3, 5]\nT[2, 1, 4, 3], T[5, 3, 2]\n"
                   "T[3, 4], T[3, 5] {transpose_a = true}\nT[4, 3], T[5, 3] {transpose_b = true}";

  OpRecord& einsum =
      ops.add(contraction("einsum", "sum of products by an index equation such as \"bi,oi->bo\""));
  einsum.operands = "xs...";
  einsum.attrs = {{"equation", AttrType::String, nullptr,
                   "letters per operand -> letters of the result; `...` for batch dims"}};
  einsum.rule = einsumRule;
  einsum.verify = einsumVerify;
  einsum.transposed = transposedContraction;
  einsum.through = {{ThroughRow::Bilinear, 0xff}, {ThroughRow::Moving}};
  einsum.throughWhen = einsumWhen;
  einsum.scalarFor = productOfOperands;
  einsum.samples =
      "T[4, 3], T[5, 3] {equation = \"bi,oi->bo\"}\nT[2, 4, 3], T[2, 3, 5] {equation = \"bij,bjk->bik\"}\n"
      "T[4, 3] {equation = \"ij->ji\"}\nT[4, 3] {equation = \"ij->i\"}\nT[3, 3] {equation = \"ii->i\"}\n"
      "T[3], T[4], T[3, 4] {equation = \"i,j,ij->\"}\nT[2, 4, 3], T[3, 5] {equation = \"...i,io->...o\"}\n"
      "T[2, 3] {equation = \"...i->i\"}\nT[2, 4, 3], T[3, 5] {equation = \"i...j,jk->k...i\"}\n"
      "T[2, 1, 3], T[4, 3] {equation = \"...i,...i->i\"}";

  OpRecord& linear = ops.add(contraction("linear", "x @ wᵀ + b; w is [out, in]"));
  linear.operands = "x, w, b?";
  linear.ruleText = "[.. i], [o i], [o] -> [.. o]; i: sum joins 2";
  linear.through = {dtc::linear(0b101),
                    dtc::linear(0b110),
                    {ThroughRow::Linear, 0b001, false, ~0u, kindBit(PendingKind::Avg)},
                    {ThroughRow::Linear, 0b010, false, ~0u, kindBit(PendingKind::Avg)},
                    {ThroughRow::Affine, 0b100}};
  linear.finish = "acc + c";
  linear.samples = "T[4, 3], T[5, 3]\nT[4, 3], T[5, 3], T[5]\nT[2, 4, 3], T[5, 3], T[5]";
  addGroupedMatmulOps(ops);
}

} // namespace dtc
