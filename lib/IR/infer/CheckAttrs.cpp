// Checks that an op's attributes are known, of the right type, and complete.
#include "AttrTypes.h"
#include "dtc/Support/Suggest.h"
#include <algorithm>

namespace dtc {

inline constexpr DiagKind kUnknownAttr{"unknown-attribute", "'{0}' has no attribute '{1}'{2}"};
inline constexpr DiagKind kMissingAttr{"missing-attribute", "'{0}' needs the attribute '{1}' ({2})"};
inline constexpr DiagKind kAttrType{"attribute-type", "attribute '{1}' of '{0}' takes {2}"};

const char* attrTypeWords(AttrType t) {
  switch (t) {
  case AttrType::Int: return "an integer";
  case AttrType::Float: return "a number";
  case AttrType::Bool: return "true or false";
  case AttrType::String: return "a string";
  case AttrType::DTypeName: return "a dtype such as f32";
  case AttrType::Dim: return "a dim, counted from 0, negative ones from the end";
  case AttrType::Size: return "a size: an integer of at least 0, or a symbol";
  case AttrType::Ints: return "a list of integers such as [1, 2]";
  case AttrType::Dims: return "a list of dims such as [0, 1]";
  case AttrType::Sizes: return "a list of sizes such as [2, 3]";
  case AttrType::Axes: return "a list of mesh axes such as [tp]";
  case AttrType::Pairs: return "a list of lists of integers such as [[0, 1], [1, 0]]";
  case AttrType::Value: return "a number, true or false, a nested list of these, or a string of hex bytes";
  case AttrType::Callee: return "a name such as @f";
  case AttrType::Strings: return "a list of strings";
  }
  return "";
}

namespace {

class Checker {
public:
  explicit Checker(const Module& m) : m_(m) {}

  bool fits(AttrId id, AttrType type) const {
    const Attr& a = m_.attrs[id];
    switch (type) {
    case AttrType::Int:
    case AttrType::Dim: return integer(a);
    case AttrType::Float: return a.kind == Attr::Int || a.kind == Attr::Float;
    case AttrType::Bool: return a.kind == Attr::Bool;
    case AttrType::String: return a.kind == Attr::String;
    case AttrType::DTypeName: return a.kind == Attr::Word && parseDType(m_.strings[a.text]).has_value();
    case AttrType::Size: return size(a);
    case AttrType::Ints: return listOf(a, [&](const Attr& e) { return integer(e); });
    case AttrType::Dims: return listOf(a, [&](const Attr& e) { return integer(e); });
    case AttrType::Sizes: return listOf(a, [&](const Attr& e) { return size(e) || integer(e); });
    case AttrType::Axes:
      return listOf(a, [](const Attr& e) { return e.kind == Attr::Word || e.kind == Attr::Axis; });
    case AttrType::Pairs:
      return listOf(a, [&](const Attr& e) { return listOf(e, [&](const Attr& n) { return integer(n); }); });
    case AttrType::Value: return a.kind == Attr::String || value(a, 0);
    case AttrType::Callee: return a.kind == Attr::Symbol;
    case AttrType::Strings: return listOf(a, [](const Attr& e) { return e.kind == Attr::String; });
    }
    return false;
  }

private:
  static bool integer(const Attr& a) { return a.kind == Attr::Int && !a.isUnsigned; }
  bool size(const Attr& a) const {
    return (integer(a) && a.i >= 0) || a.kind == Attr::Size || a.kind == Attr::Word;
  }
  template <class Fn> bool listOf(const Attr& a, Fn&& fn) const {
    return a.kind == Attr::List && std::ranges::all_of(a.list, [&](AttrId e) { return fn(m_.attrs[e]); });
  }
  bool value(const Attr& a, int depth) const { // depth is bounded by the parser's nesting limit of 256
    if (a.kind == Attr::List) return listOf(a, [&](const Attr& e) { return value(e, depth + 1); });
    return a.kind == Attr::Int || a.kind == Attr::Float || a.kind == Attr::Bool;
  }
  const Module& m_;
};

} // namespace

bool attrFits(const Module& m, AttrId value, AttrType type) { return Checker(m).fits(value, type); }

bool checkAttrs(const OpQuery& q) {
  bool ok = true;
  const Module& m = *q.module;
  if (q.attrs)
    for (const NamedAttr& a : *q.attrs) {
      std::string_view name = m.strings[a.name];
      const AttrSpec* spec = findSpec(q.record->attrs, name);
      if (!spec && findSpec(kCommonAttrs, name)) continue;
      if (!spec) {
        std::vector<std::string_view> known;
        for (const AttrSpec& s : q.record->attrs) known.emplace_back(s.name);
        q.diags->error(kUnknownAttr, q.loc, q.record->name, name,
                       suggestion(Vocabulary::Attribute, name, known));
        ok = false;
      } else if (!Checker(m).fits(a.value, spec->type)) {
        q.diags->error(kAttrType, q.loc, q.record->name, name, attrTypeWords(spec->type));
        ok = false;
      }
    }
  for (const AttrSpec& s : q.record->attrs) {
    if (s.fallback) continue;
    StrId id = m.strings.find(s.name);
    if (q.attrs && id.valid() && findAttr(*q.attrs, id).valid()) continue;
    q.diags->error(kMissingAttr, q.loc, q.record->name, s.name, attrTypeWords(s.type));
    ok = false;
  }
  return ok;
}

} // namespace dtc
