#include "read/Symbols.h"

#include "dtc/Support/Checked.h"
#include "dtc/Support/Words.h"

#include <algorithm>

namespace dtc {
namespace {

constexpr int kMaxNesting = 64;
constexpr size_t kMaxTextBytes = 200;

// coefficient * symbols, or only a text.
struct Term {
  bool known = false;
  int64_t coefficient = 0;
  std::vector<std::string> symbols; // sorted
  std::string text;
  [[nodiscard]] bool isNumber() const { return known && symbols.empty(); }
};

Term numberTerm(int64_t n) { return {true, n, {}, std::to_string(n)}; }

Term unknownTerm(std::string text) {
  if (text.size() > kMaxTextBytes) text = text.substr(0, kMaxTextBytes) + "…";
  return {false, 0, {}, std::move(text)};
}

std::string textOf(const Term& t) { return t.text; }

std::string calledText(std::string_view name, const std::vector<Term>& terms) {
  return std::string(name) + "(" + joined(terms, ", ", textOf) + ")";
}

Term product(const std::vector<Term>& terms) {
  Term out = numberTerm(1);
  out.text.clear();
  for (const Term& t : terms) {
    const bool sum = t.text.find(' ') != std::string::npos;
    out.text += (out.text.empty() ? "" : "*") + (sum ? "(" + t.text + ")" : t.text);
    const auto c = t.known && out.known ? checkedMul(out.coefficient, t.coefficient) : std::nullopt;
    if (!c) {
      out.known = false;
      continue;
    }
    out.coefficient = *c;
    out.symbols.insert(out.symbols.end(), t.symbols.begin(), t.symbols.end());
  }
  std::ranges::sort(out.symbols);
  return out.known ? out : unknownTerm(out.text);
}

Term sum(const std::vector<Term>& terms) {
  Term out = numberTerm(0);
  out.text.clear();
  bool first = true;
  for (const Term& t : terms) {
    out.text += (out.text.empty() ? "" : " + ") + t.text;
    const bool like = t.known && out.known && (first || out.coefficient == 0 || t.symbols == out.symbols);
    const auto c = like ? checkedAdd(out.coefficient, t.coefficient) : std::nullopt;
    if (!c) {
      out.known = t.known && t.coefficient == 0 && out.known; // adding 0
      continue;
    }
    if (first || out.coefficient == 0) out.symbols = t.symbols;
    out.coefficient = *c;
    first = false;
  }
  return out.known ? out : unknownTerm(out.text);
}

Term quotient(const Term& a, const Term& b) {
  if (a.isNumber() && b.isNumber() && b.coefficient > 0) {
    const int64_t n = a.coefficient, d = b.coefficient;
    return numberTerm(n / d - (n % d < 0 ? 1 : 0));
  }
  std::string text = a.text + " // " + b.text;
  if (!a.known || !b.known || b.coefficient <= 0 || a.coefficient % b.coefficient != 0)
    return unknownTerm(std::move(text));
  Term out{true, a.coefficient / b.coefficient, a.symbols, text};
  for (const std::string& s : b.symbols) {
    const auto found = std::ranges::find(out.symbols, s);
    if (found == out.symbols.end()) return unknownTerm(std::move(text));
    out.symbols.erase(found);
  }
  return out;
}

Term remainder(const Term& a, const Term& b) {
  if (!a.isNumber() || !b.isNumber() || b.coefficient <= 0) return unknownTerm(a.text + " % " + b.text);
  const int64_t r = a.coefficient % b.coefficient;
  return numberTerm(r < 0 ? r + b.coefficient : r);
}

Term extreme(const std::vector<Term>& terms, bool largest) {
  if (terms.empty() || !std::ranges::all_of(terms, &Term::isNumber))
    return unknownTerm(calledText(largest ? "max" : "min", terms));
  const auto less = [](const Term& a, const Term& b) { return a.coefficient < b.coefficient; };
  return largest ? *std::ranges::max_element(terms, less) : *std::ranges::min_element(terms, less);
}

Term power(const Term& a, const Term& b) {
  constexpr int64_t kMaxPower = 8;
  if (!b.isNumber() || b.coefficient < 0 || b.coefficient > kMaxPower)
    return unknownTerm(a.text + "^" + b.text);
  return product(std::vector<Term>(static_cast<size_t>(b.coefficient), a));
}

class SreprParser {
public:
  SreprParser(std::string_view text, const std::map<std::string, int64_t, std::less<>>& bound,
              const std::map<std::string, std::string>& renamed, std::set<std::string>& names)
      : text_(text), bound_(bound), renamed_(renamed), names_(names) {}

  std::optional<Term> whole() {
    auto t = term(0);
    return t && at_ == text_.size() ? t : std::nullopt;
  }

private:
  void blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string_view word() {
    blanks();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' ||
                                  text_[at_] == '-' || text_[at_] == '.'))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }
  std::optional<std::string_view> quoted() {
    blanks();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') return std::nullopt;
    const size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) return std::nullopt;
    const std::string_view out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return out;
  }

  std::optional<Term> term(int depth) {
    if (depth > kMaxNesting) return std::nullopt;
    const std::string_view name = word();
    if (name.empty()) return std::nullopt;
    if (!take('(')) {
      const auto n = parseNumber<int64_t>(name);
      return n ? numberTerm(*n) : unknownTerm(std::string(name));
    }
    if (name == "Symbol") return symbol();
    std::vector<Term> terms;
    while (!take(')')) {
      auto t = term(depth + 1);
      if (!t) return std::nullopt;
      terms.push_back(*std::move(t));
      if (!take(',') && (at_ == text_.size() || text_[at_] != ')')) return std::nullopt;
    }
    return called(name, terms);
  }

  std::optional<Term> symbol() {
    const auto name = quoted();
    if (!name) return std::nullopt;
    const size_t end = text_.find(')', at_); // assumptions: positive=True
    if (end == text_.npos) return std::nullopt;
    at_ = end + 1;
    std::string own(*name);
    const auto given = renamed_.find(own);
    if (given != renamed_.end()) own = given->second;
    if (const auto known = bound_.find(own); known != bound_.end()) {
      names_.insert(own);
      return numberTerm(known->second);
    }
    const bool named =
        !own.empty() && own.size() < 40 && std::isalpha(static_cast<unsigned char>(own[0])) &&
        std::ranges::all_of(
            own, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
    // u0, zuf0: computed by the program
    const bool computed = given == renamed_.end() && (own.starts_with('u') || own.starts_with("zu"));
    if (!named || computed) return unknownTerm(own.substr(0, 40));
    names_.insert(own);
    return Term{true, 1, {own}, own};
  }

  static Term called(std::string_view name, const std::vector<Term>& t) {
    if (name == "Integer" && t.size() == 1) return t[0];
    if (name == "Mul") return product(t);
    if (name == "Add") return sum(t);
    if (name == "Pow" && t.size() == 2) return power(t[0], t[1]);
    if ((name == "FloorDiv" || name == "CleanDiv" || name == "IntTrueDiv") && t.size() == 2 &&
        (name != "IntTrueDiv" || remainder(t[0], t[1]).text == "0"))
      return quotient(t[0], t[1]);
    if ((name == "Mod" || name == "PythonMod") && t.size() == 2) return remainder(t[0], t[1]);
    if (name == "Max" || name == "Min") return extreme(t, name == "Max");
    if ((name == "ToFloat" || name == "TruncToInt") && t.size() == 1) return t[0];
    return unknownTerm(calledText(name, t));
  }

  std::string_view text_;
  const std::map<std::string, int64_t, std::less<>>& bound_;
  const std::map<std::string, std::string>& renamed_;
  std::set<std::string>& names_;
  size_t at_ = 0;
};

} // namespace

ImportInt TorchSymbols::read(std::string_view srepr) {
  ImportInt out;
  const auto term = SreprParser(srepr, bound_, renamed_, names_).whole();
  if (!term || !term->known || (!term->symbols.empty() && term->coefficient <= 0)) {
    out.expression = term ? term->text : std::string(srepr.substr(0, kMaxTextBytes));
    if (out.expression.empty()) out.expression = "?";
    return out;
  }
  out.number = term->coefficient;
  if (term->symbols.empty()) return out;
  std::optional<Dim> size = Dim(term->coefficient);
  for (const std::string& s : term->symbols)
    if (size) size = m_.dims.mul(*size, m_.dims.intern({1, {m_.strings.intern(s)}, {}}));
  if (size)
    out.size = *size;
  else
    out.expression = term->text;
  return out;
}

} // namespace dtc
