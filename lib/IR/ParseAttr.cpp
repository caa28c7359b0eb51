// Attributes: their grammar, and what the record of their owner says of them.
#include "AttrTypes.h"
#include "FloatText.h"
#include "Parser.h"
#include "dtc/Sharding/Canonical.h"

#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

constexpr DiagKind kUnknownAttr{"unknown-attribute", "{0} has no attribute '{1}'{2}"};
constexpr DiagKind kAttrTwice{"duplicate-attribute", "attribute '{0}' is given twice"};
constexpr DiagKind kAttrType{"attribute-type", "attribute '{0}' of {1} takes {2}{3}"};

// What may have been meant by a value of the wrong type.
std::string valueHint(const Module& m, AttrId value, AttrType type, std::string_view doc) {
  const Attr& a = m.attrs[value];
  if (type == AttrType::String && a.kind == Attr::Word) {
    const std::string word(m.strings[a.text]), quoted = '"' + word + '"';
    // A doc that lists strings lists those that there are.
    const bool listed = doc.find('"') != doc.npos || doc.find('`') != doc.npos || doc.starts_with("sum avg");
    if (!listed || doc.find(word) != doc.npos) return "; write " + quoted;
    return "; it is one of: " + std::string(doc);
  }
  if (type == AttrType::Bool && a.kind == Attr::Word) {
    std::string_view word = m.strings[a.text];
    return word == "True" ? "; write true" : word == "False" ? "; write false" : "";
  }
  if (type != AttrType::DTypeName || (a.kind != Attr::Word && a.kind != Attr::String)) return "";
  std::string_view word = m.strings[a.text];
  if (a.kind == Attr::String && parseDType(word)) return "; write " + std::string(word) + " without quotes";
  std::vector<std::string_view> known;
  for (int d = 0; d < kNumDTypes; ++d) known.push_back(dtypeName(static_cast<DType>(d)));
  return suggestion(Vocabulary::DType, word, known);
}

} // namespace

bool Parser::atAttrs() const { return at(Tok::LBrace) && at(Tok::Word, 1) && at(Tok::Equal, 2); }

bool Parser::attrs(std::vector<ParsedAttr>& out) {
  ++pos_;
  return commaList(Tok::RBrace, "'}'", [&] {
    if (!at(Tok::Word)) return unexpected("the name of an attribute");
    ParsedAttr a;
    a.name = {m_.strings.intern(text(tok())), tok().range()};
    ++pos_;
    if (!expect(Tok::Equal, "'=' and the attribute's value")) return false;
    a.firstToken = pos_;
    if (!attr(a.value)) return false;
    a.valueRange = since(a.firstToken);
    for (const ParsedAttr& before : out)
      if (before.name.name == a.name.name) return error(kAttrTwice, a.name.range, m_.strings[a.name.name]);
    out.push_back(a);
    return true;
  });
}

bool Parser::attr(AttrId& out) {
  switch (tok().kind) {
  case Tok::LBracket: return attrList(out);
  case Tok::Int:
  case Tok::Float: return attrNumber(out);
  case Tok::Word: return attrWord(out);
  case Tok::String: {
    std::string_view quoted = text(tok());
    out = m_.attrs.string(m_.strings.intern(unescape(quoted.substr(1, quoted.size() - 2))));
    ++pos_;
    return true;
  }
  case Tok::Symbol: {
    Attr a;
    a.kind = Attr::Symbol;
    a.text = m_.strings.intern(text(tok()).substr(1));
    out = m_.attrs.intern(std::move(a));
    ++pos_;
    return true;
  }
  case Tok::LParen: return unexpected("a value", "; a list is written with brackets, as in [1, 2]");
  default: return unexpected("a value: a number, a word, a string, '@name' or a list");
  }
}

bool Parser::attrList(AttrId& out) {
  ++pos_;
  Attr list;
  list.kind = Attr::List;
  bool ok = commaList(Tok::RBracket, "']'", [&] {
    AttrId element;
    if (!attr(element)) return false;
    list.list.push_back(element);
    return true;
  });
  if (ok) out = m_.attrs.intern(std::move(list));
  return ok;
}

bool Parser::attrNumber(AttrId& out) {
  if (at(Tok::Int) && (at(Tok::Star, 1) || at(Tok::Slash, 1))) return attrSize(out);
  Attr a;
  if (elementType_ ? !number(tok(), *elementType_, a) : !literal(a)) return false;
  if (elementType_) ++pos_;
  out = m_.attrs.intern(std::move(a));
  return true;
}

bool Parser::attrWord(AttrId& out) {
  if (atWord("true") || atWord("false")) return attrNumber(out);
  if (!atName() && !atDotted()) return unexpected("a value");
  if (at(Tok::Star, 1) || at(Tok::Slash, 1)) return attrSize(out);
  if (at(Tok::Colon, 1) && at(Tok::LParen, 2)) {
    Attr a;
    a.kind = Attr::Axis;
    if (!axis(a.axis)) return false;
    out = m_.attrs.intern(std::move(a));
    return true;
  }
  out = m_.attrs.word(m_.strings.intern(text(tok())));
  ++pos_;
  return true;
}

bool Parser::attrSize(AttrId& out) {
  Attr a;
  a.kind = Attr::Size;
  if (!dim(a.dim)) return false;
  if (a.dim.isStatic()) {
    out = m_.attrs.integer(a.dim.value());
    return true;
  }
  const DimExpr& e = m_.dims.dynamic(a.dim);
  bool bare = e.coefficient == 1 && e.symbols.size() == 1 && e.cut.empty();
  out = bare ? m_.attrs.word(e.symbols.front()) : m_.attrs.intern(std::move(a));
  return true;
}

// A value in the form that consumers see: 1 as a Float where a float is asked for, `dims = 1` as a list of one.
AttrId Parser::adapted(AttrId id, AttrType type) {
  const Attr& a = m_.attrs[id];
  switch (type) {
  case AttrType::Float:
    if (a.kind != Attr::Int) return id;
    return m_.attrs.real(a.isUnsigned ? static_cast<double>(static_cast<uint64_t>(a.i))
                                      : static_cast<double>(a.i));
  case AttrType::Size:
    if (a.kind != Attr::Word) return id;
    if (const auto bound = boundSize(a.text)) return m_.attrs.integer(*bound);
    return id;
  case AttrType::Sizes:
  case AttrType::Ints:
  case AttrType::Dims:
  case AttrType::Axes: {
    Attr list;
    list.kind = Attr::List;
    AttrType element = type == AttrType::Sizes ? AttrType::Size : AttrType::Int;
    if (a.kind != Attr::List)
      list.list.push_back(adapted(id, element));
    else
      for (AttrId e : a.list) list.list.push_back(adapted(e, element));
    return m_.attrs.intern(std::move(list));
  }
  default: return id;
  }
}

bool Parser::fitAttrs(std::vector<ParsedAttr>& written, std::span<const AttrSpec> specs,
                      std::span<const AttrSpec> common, std::string_view owner, AttrList& out) {
  bool ok = true;
  for (ParsedAttr& a : written) {
    std::string_view name = m_.strings[a.name.name];
    auto named = [&](const AttrSpec& s) { return name == s.name; };
    auto spec = std::find_if(specs.begin(), specs.end(), named);
    if (spec == specs.end()) {
      spec = std::find_if(common.begin(), common.end(), named);
      if (spec == common.end()) {
        std::vector<std::string_view> known;
        for (const AttrSpec& s : specs) known.emplace_back(s.name);
        std::string hint = suggestion(Vocabulary::Attribute, name, known);
        for (const AttrSpec& s : common) known.emplace_back(s.name); // not worth listing
        if (hint.empty() || hint.starts_with("; there"))
          if (std::string_view near = nearestWord(name, known); !near.empty())
            hint = "; did you mean '" + std::string(near) + "'?";
        ok = error(kUnknownAttr, a.name.range, owner, name, hint);
        continue;
      }
    }
    a.value = adapted(a.value, spec->type);
    const Attr& value = m_.attrs[a.value];
    const bool dotted =
        value.kind == Attr::Word && m_.strings[value.text].find('.') != std::string_view::npos;
    if (dotted || !attrFits(m_, a.value, spec->type))
      ok = error(kAttrType, a.valueRange, name, owner, attrTypeWords(spec->type),
                 valueHint(m_, a.value, spec->type, spec->doc));
    else
      out.push_back({a.name.name, a.value});
  }
  return ok;
}

bool Parser::opAttrs(Statement& s) {
  static const AttrSpec kCommon[] = {
      {"stage", AttrType::Int, "", ""},   {"stream", AttrType::Int, "", ""},
      {"at", AttrType::Ints, "", ""},     {"within", AttrType::Strings, "", ""},
      {"name", AttrType::String, "", ""}, {"loc", AttrType::String, "", ""}};
  if (at(Tok::LBrace) && at(Tok::Word, 1) && at(Tok::Colon, 2) && s.record->regions == RegionKind::None)
    return misplacedAttributes(), false;
  if (!atAttrs()) return true;
  return attrs(s.attrs) &&
         fitAttrs(s.attrs, s.record->attrs, kCommon, "'" + std::string(s.opName) + "'", s.attrList) &&
         localAxes(s);
}

// Mesh axes that an attribute names: of the mesh that the local text is on; in other text there are none to speak of. Those of size 1 are
// left out, as they are of shardings.
bool Parser::localAxes(Statement& s) {
  if (!localMesh_.valid()) return true;
  const Mesh& mesh = m_.shardings.mesh(localMesh_);
  for (const ParsedAttr& a : s.attrs) {
    auto isAxes = [&](const AttrSpec& x) {
      return x.type == AttrType::Axes && m_.strings[a.name.name] == x.name;
    };
    if (std::none_of(s.record->attrs.begin(), s.record->attrs.end(), isAxes)) continue;
    Attr kept;
    kept.kind = Attr::List;
    const Attr list = m_.attrs[a.value];
    for (AttrId e : list.list) {
      const Attr& axis = m_.attrs[e];
      const AxisRef ref = axis.kind == Attr::Axis ? axis.axis : AxisRef{axis.text};
      if (!checkAxis(ref, mesh, a.valueRange)) return false;
      if (!isUnit(ref, mesh)) kept.list.push_back(e);
    }
    const AttrId value = m_.attrs.intern(std::move(kept));
    for (NamedAttr& x : s.attrList)
      if (x.name == a.name.name) x.value = value;
  }
  return true;
}

// The numbers of a `value` are of the result's dtype, rounded once: read again now that it is known.
bool Parser::typeValueAttrs(Statement& s, OpId op, TypeId type) {
  for (const ParsedAttr& a : s.attrs) {
    auto spec = std::find_if(s.record->attrs.begin(), s.record->attrs.end(), [&](const AttrSpec& x) {
      return x.type == AttrType::Value && m_.strings[a.name.name] == x.name;
    });
    if (spec == s.record->attrs.end() || m_.attrs[a.value].kind == Attr::String) continue;
    size_t back = pos_;
    pos_ = a.firstToken;
    elementType_ = m_.types[type].dtype;
    AttrId value;
    bool ok = attr(value);
    pos_ = back;
    // What the record's default becomes in this dtype is the default still.
    AttrId fallback = defaultAttr(m_.strings, m_.attrs, *spec);
    elementType_.reset();
    if (!ok) return false;
    bool isDefault = false;
    if (fallback.valid()) {
      const Attr &d = m_.attrs[fallback], &v = m_.attrs[value];
      isDefault = (v.kind == Attr::Float || v.kind == Attr::Int) && d.kind == Attr::Int &&
                  (v.kind == Attr::Float ? v.f == static_cast<double>(d.i) && !(d.i == 0 && std::signbit(v.f))
                                         : v.i == d.i);
    }
    if (isDefault)
      std::erase_if(m_[op].attrs, [&](const NamedAttr& x) { return x.name == a.name.name; });
    else
      m_.setAttr(op, spec->name, value);
  }
  return true;
}

} // namespace dtc
