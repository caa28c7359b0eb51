#include "diff/AttributeDiff.h"

#include "dtc/IR/OpRecord.h"
#include "dtc/Ops/record/Ops.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

namespace dtc {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// The end of a part of a text: the first of these characters outside of brackets and quotes.
size_t partEnd(std::string_view text, size_t begin, std::string_view ends) {
  size_t depth = 0;
  bool quoted = false;
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (depth == 0 && ends.find(c) != ends.npos) return i;
    if (c == '[' || c == '{' || c == '(') ++depth;
    if ((c == ']' || c == '}' || c == ')') && depth > 0) --depth;
  }
  return text.size();
}

// `@f {a = 1, b = [2, 3]} (_, 0.5)`
struct Parts {
  std::string callee, constants;
  Pairs attributes;

  explicit Parts(std::string_view text) {
    size_t at = 0;
    const auto spaces = [&] {
      while (at < text.size() && text[at] == ' ') ++at;
    };
    if (text.starts_with("@")) {
      at = std::min(text.find(' '), text.size());
      callee = text.substr(0, at);
      spaces();
    }
    if (at < text.size() && text[at] == '{') {
      ++at;
      while (at < text.size() && text[at] != '}') {
        const size_t end = partEnd(text, at, ",}");
        const std::string_view one = text.substr(at, end - at);
        const size_t equals = std::min(one.find(" = "), one.size());
        attributes.emplace_back(one.substr(0, equals), one.substr(std::min(equals + 3, one.size())));
        at = end;
        if (at < text.size() && text[at] == ',') ++at, spaces();
      }
      if (at < text.size()) ++at;
      spaces();
    }
    constants = text.substr(std::min(at, text.size()));
  }

  [[nodiscard]] const std::string* find(const std::string& name) const {
    const auto it = std::ranges::find(attributes, name, [](const auto& a) { return a.first; });
    return it == attributes.end() ? nullptr : &it->second;
  }
};

// "a", "b" of "[a, b]"; "a" of "a".
std::vector<std::string> elements(std::string_view text) {
  std::vector<std::string> out;
  if (text.starts_with("[") && text.ends_with("]")) text = text.substr(1, text.size() - 2);
  for (size_t at = 0; at < text.size();) {
    const size_t end = partEnd(text, at, ",");
    out.emplace_back(text.substr(at, end - at));
    at = end + 1;
    while (at < text.size() && text[at] == ' ') ++at;
  }
  return out;
}

// The sizes of "f32[64, 512]"; of several results, of the first.
std::vector<std::string> sizesOf(const std::string& type) {
  const size_t begin = type.find('[');
  return begin == type.npos
             ? std::vector<std::string>()
             : elements(std::string_view(type).substr(begin, partEnd(type, begin + 1, "]") + 1 - begin));
}

std::optional<int64_t> number(const std::string& text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

// How the sizes of the operands change.
class SizeChanges {
public:
  explicit SizeChanges(const OperandTypes& types) {
    std::set<std::pair<int64_t, int64_t>> ratios;
    for (const auto& [a, b] : types) {
      const std::vector<std::string> inA = sizesOf(a), inB = sizesOf(b);
      if (inA.size() != inB.size()) continue;
      for (size_t d = 0; d < inA.size(); ++d) {
        if (inA[d] == inB[d]) continue;
        pairs_.emplace(inA[d], inB[d]);
        const auto x = number(inA[d]), y = number(inB[d]);
        if (x && y && *x > 0 && *y > 0) ratios.emplace(*x, *y);
      }
    }
    factors_ = {1.0};
    constexpr size_t kMostFactors = 64;
    for (const auto& [x, y] : ratios) {
      if (factors_.size() >= kMostFactors) break;
      const std::vector<double> before = factors_;
      for (double f : before) factors_.push_back(f * static_cast<double>(y) / static_cast<double>(x));
    }
  }

  // Whether a size that is `a` before is `b` because of them: it is one of the operands', or has one as a factor.
  [[nodiscard]] bool explain(const std::string& a, const std::string& b) const {
    if (a == b || pairs_.contains({a, b})) return true;
    const auto x = number(a), y = number(b);
    if (!x || !y || *x <= 0 || *y <= 0) return false;
    const double ratio = static_cast<double>(*y) / static_cast<double>(*x);
    return std::ranges::any_of(factors_, [&](double f) { return std::abs(f / ratio - 1) < 1e-12; });
  }

private:
  std::set<std::pair<std::string, std::string>> pairs_;
  std::vector<double> factors_; // products of the ratios
};

RegionKind regionsOf(const std::string& op) {
  const OpKind kind = standardOps().find(op);
  return kind == kNoOpKind ? RegionKind::None : standardOps()[kind].regions;
}

bool isSize(const std::string& op, const std::string& attribute) {
  const OpKind kind = standardOps().find(op);
  return kind != kNoOpKind && std::ranges::any_of(standardOps()[kind].attrs, [&](const AttrSpec& s) {
           return s.name == attribute && (s.type == AttrType::Size || s.type == AttrType::Sizes);
         });
}

// "0..4" of the bounds "(0, 4, ...)"; other texts as they are.
std::string rangeOf(const std::string& constants) {
  if (!constants.starts_with("(") || !constants.ends_with(")")) return constants;
  const std::vector<std::string> parts =
      elements(std::string_view(constants).substr(1, constants.size() - 2));
  const bool others =
      std::ranges::any_of(parts.begin() + static_cast<ptrdiff_t>(std::min<size_t>(parts.size(), 2)),
                          parts.end(), [](const std::string& p) { return p != "_" && p != "..."; });
  const auto bound = [](const std::string& p) { return p == "_" ? "%" : p; };
  return parts.size() < 2 || others ? constants : bound(parts[0]) + ".." + bound(parts[1]);
}

bool sizesFollow(const std::string& a, const std::string& b, const SizeChanges& changes) {
  const std::vector<std::string> inA = elements(a), inB = elements(b);
  return inA.size() == inB.size() &&
         std::ranges::equal(inA, inB, [&](const auto& x, const auto& y) { return changes.explain(x, y); });
}

} // namespace

bool isForLoop(const std::string& op) { return regionsOf(op) == RegionKind::For; }
bool isLoop(const std::string& op) { return isForLoop(op) || regionsOf(op) == RegionKind::While; }

AttributeDiff diffAttributes(const SnapshotStatement& a, const SnapshotStatement& b,
                             const OperandTypes& types, bool gainsOrLosesOperands) {
  AttributeDiff out;
  if (a.attributes == b.attributes) return out;
  const Parts inA(a.attributes), inB(b.attributes);
  const SizeChanges changes(types);
  const bool sameOp = a.op == b.op, sameCall = !inA.callee.empty() && inA.callee == inB.callee;
  const auto differs = [&](const std::string& name) {
    const std::string *x = inA.find(name), *y = inB.find(name);
    if (!x || !y) return sameOp && !(name == "wrt" && sameCall && gainsOrLosesOperands);
    if (*x == *y || (name == "wrt" && sameCall && gainsOrLosesOperands)) return false;
    return !(sameOp && isSize(a.op, name) && sizesFollow(*x, *y, changes));
  };
  const auto list = [&](const Parts& p) {
    std::string text;
    for (const auto& [name, value] : p.attributes)
      if (differs(name)) text += (text.empty() ? "{" : ", ") + name + " = " + value;
    return text.empty() ? text : text + "}";
  };
  const auto add = [](std::string& text, const std::string& part) {
    if (!part.empty()) text += (text.empty() ? "" : " ") + part;
  };
  if (sameOp && inA.callee != inB.callee) out.before = inA.callee, out.after = inB.callee;
  add(out.before, list(inA)), add(out.after, list(inB));
  out.attributes = !out.empty();
  out.constants = sameOp && inA.constants != inB.constants;
  if (!out.constants) return out;
  const bool loop = isForLoop(a.op);
  add(out.before, loop ? rangeOf(inA.constants) : inA.constants);
  add(out.after, loop ? rangeOf(inB.constants) : inB.constants);
  return out;
}

} // namespace dtc
