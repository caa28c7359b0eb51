#include "text/AttrParser.h"

#include "AttrTypes.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Sharding/Canonical.h"
#include "dtc/Support/Suggest.h"
#include "dtc/Support/Words.h"

#include <cmath>

namespace dtc {

constexpr DiagKind kUnknownAttr{"unknown-attribute", "{0} has no attribute '{1}'{2}"};
constexpr DiagKind kAttrTwice{"duplicate-attribute", "attribute '{0}' is given twice"};
constexpr DiagKind kAttrType{"attribute-type", "attribute '{0}' of {1} takes {2}{3}"};

constexpr DiagKind kAttrWord{"attribute-value", "attribute '{0}' of {1} takes {2}, not \"{3}\"{4}"};

// A hint for a value of the wrong type.
static std::string valueHint(const Module& m, AttrId value, AttrType type, std::string_view doc) {
  const Attr& a = m.attrs[value];
  if (type == AttrType::String && a.kind == Attr::Word) {
    const std::string word(m.strings[a.text]), quoted = '"' + word + '"';
    // A doc that lists strings lists all allowed values.
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
  return dtypeHint(word);
}

bool AttrParser::attrs(std::vector<ParsedAttr>& written, std::span<const AttrSpec> specs,
                       std::span<const AttrSpec> common, std::string_view owner, AttrList& out) {
  ++in_.pos;
  const bool ok = commaList(Tok::RBrace, "'}'", [&] {
    if (!at(Tok::Word)) return unexpected("the name of an attribute");
    ParsedAttr a;
    a.name = {m_.strings.intern(text(tok())), tok().range()};
    ++in_.pos;
    if (!expect(Tok::Equal, "'=' and the attribute's value")) return false;
    a.firstToken = in_.pos;
    if (!attr(a.value)) return false;
    a.valueRange = since(a.firstToken);
    for (const ParsedAttr& before : written)
      if (before.name.name == a.name.name) return error(kAttrTwice, a.name.range, m_.strings[a.name.name]);
    written.push_back(a);
    return true;
  });
  return ok && fit(written, specs, common, owner, out);
}

bool AttrParser::attr(AttrId& out) {
  switch (tok().kind) {
  case Tok::LBracket: return list(out);
  case Tok::Int:
  case Tok::Float: return numberOrSize(out);
  case Tok::Word: return word(out);
  case Tok::String: {
    std::string_view quoted = text(tok());
    out = m_.attrs.string(m_.strings.intern(unescape(quoted.substr(1, quoted.size() - 2))));
    ++in_.pos;
    return true;
  }
  case Tok::Symbol:
    out = m_.attrs.symbol(m_.strings.intern(text(tok()).substr(1)));
    ++in_.pos;
    return true;
  case Tok::LParen: return unexpected("a value", "; a list is written with brackets, as in [1, 2]");
  default: return unexpected("a value: a number, a word, a string, '@name' or a list");
  }
}

bool AttrParser::list(AttrId& out) {
  ++in_.pos;
  std::vector<AttrId> list;
  bool ok = commaList(Tok::RBracket, "']'", [&] {
    if (!types_.atPack()) return attr(list.emplace_back());
    std::vector<Dim> dims;
    if (!types_.pack(dims)) return false;
    for (Dim d : dims) list.push_back(sizeAttr(m_, d));
    return true;
  });
  if (ok) out = m_.attrs.list(std::move(list));
  return ok;
}

bool AttrParser::numberOrSize(AttrId& out) {
  if (at(Tok::Int) && (at(Tok::Star, 1) || at(Tok::Slash, 1))) return size(out);
  Attr a;
  if (elementType_ ? !number(tok(), *elementType_, a) : !literal(a)) return false;
  if (elementType_) ++in_.pos;
  out = m_.attrs.intern(std::move(a));
  return true;
}

bool AttrParser::word(AttrId& out) {
  if (atWord("true") || atWord("false")) return numberOrSize(out);
  if (!atName() && !atDotted()) return unexpected("a value");
  if (at(Tok::Star, 1) || at(Tok::Slash, 1)) return size(out);
  if (at(Tok::Colon, 1) && at(Tok::LParen, 2)) {
    AxisRef a;
    if (!types_.axis(a)) return false;
    out = m_.attrs.intern({.kind = Attr::Axis, .axis = a});
    return true;
  }
  const StrId name = m_.strings.intern(text(tok()));
  const GenericBinding* generic = types_.generic;
  if (generic && generic->sizes.contains(name)) return size(out);
  const bool isDType = generic && generic->dtypes.contains(name);
  out = m_.attrs.word(isDType ? m_.strings.intern(dtypeName(generic->dtypes.at(name))) : name);
  ++in_.pos;
  return true;
}

bool AttrParser::size(AttrId& out) {
  Dim d;
  if (!types_.dim(d)) return false;
  out = sizeAttr(m_, d);
  return true;
}

// Normalizes a value for consumers: 1 becomes a Float if a float is required, `dims = 1` a list with one
// element.
AttrId AttrParser::adapted(AttrId id, AttrType type) {
  const Attr& a = m_.attrs[id];
  switch (type) {
  case AttrType::Float:
    if (a.kind != Attr::Int) return id;
    return m_.attrs.real(a.isUnsigned ? static_cast<double>(static_cast<uint64_t>(a.i))
                                      : static_cast<double>(a.i));
  case AttrType::Size:
    if (a.kind != Attr::Word) return id;
    if (const auto bound = sizes_.of(a.text)) return m_.attrs.integer(*bound);
    return id;
  case AttrType::Sizes:
  case AttrType::Ints:
  case AttrType::Dims:
  case AttrType::Axes: {
    std::vector<AttrId> list;
    AttrType element = type == AttrType::Sizes ? AttrType::Size : AttrType::Int;
    if (a.kind != Attr::List)
      list.push_back(adapted(id, element));
    else
      for (AttrId e : a.list) list.push_back(adapted(e, element));
    return m_.attrs.list(std::move(list));
  }
  default: return id;
  }
}

bool AttrParser::fit(std::vector<ParsedAttr>& written, std::span<const AttrSpec> specs,
                     std::span<const AttrSpec> common, std::string_view owner, AttrList& out) {
  bool ok = true;
  for (ParsedAttr& a : written) {
    std::string_view name = m_.strings[a.name.name];
    const AttrSpec* spec = findSpec(specs, name);
    const bool isOwn = spec != nullptr;
    if (!spec) spec = findSpec(common, name);
    if (!spec) {
      std::vector<std::string_view> known;
      for (const AttrSpec& s : specs) known.emplace_back(s.name);
      std::string hint = suggestion(Vocabulary::Attribute, name, known);
      for (const AttrSpec& s : common) known.emplace_back(s.name); // common attributes are not listed
      if (hint.empty() || listsWords(hint))
        if (std::string_view near = nearestWord(name, known); !near.empty())
          hint = "; did you mean '" + std::string(near) + "'?";
      ok = error(kUnknownAttr, a.name.range, owner, name, hint);
      continue;
    }
    a.value = adapted(a.value, spec->type);
    const Attr& value = m_.attrs[a.value];
    const bool dotted =
        value.kind == Attr::Word && m_.strings[value.text].find('.') != std::string_view::npos;
    if (dotted || !attrFits(m_, a.value, spec->type))
      ok = error(kAttrType, a.valueRange, name, owner, attrTypeWords(spec->type),
                 valueHint(m_, a.value, spec->type, spec->doc));
    else if (isOwn || isCommonWord(a, owner))
      out.push_back({a.name.name, a.value});
    else
      ok = false;
  }
  return ok;
}

// Of a common attribute: whether it takes any string, or this word.
bool AttrParser::isCommonWord(const ParsedAttr& a, std::string_view owner) {
  const std::string_view name = m_.strings[a.name.name], word = m_.strings[m_.attrs[a.value].text];
  for (const auto& [attr, words] : kCommonWords) {
    if (name != attr || std::ranges::find(words, word) != words.end()) continue;
    const std::string listed = "\"" + joined(words, "\", \"") + "\"";
    std::string near = suggestion(Vocabulary::Plain, word, {words.begin(), words.end()});
    if (listsWords(near)) near.clear();
    return error(kAttrWord, a.valueRange, name, owner, listed, word, near);
  }
  return true;
}

bool AttrParser::ofOp(Statement& s) {
  if (at(Tok::LBrace) && at(Tok::Word, 1) && at(Tok::Colon, 2) && s.record->regions == RegionKind::None &&
      mistakes_.misplacedAttributes())
    return false;
  if (!atAttrs()) return true;
  return attrs(s.attrs, s.record->attrs, kCommonAttrs, "'" + std::string(s.opName) + "'", s.attrList) &&
         localAxes(s);
}

// Resolves the mesh axes that an attribute names, on the mesh of the local text (other text has none). Axes
// of size 1 are left out, as in shardings.
bool AttrParser::localAxes(Statement& s) {
  if (!types_.localMesh.valid()) return true;
  const Mesh& mesh = m_.shardings.mesh(types_.localMesh);
  for (const ParsedAttr& a : s.attrs) {
    const AttrSpec* spec = findSpec(s.record->attrs, m_.strings[a.name.name]);
    if (!spec || spec->type != AttrType::Axes) continue;
    std::vector<AttrId> kept;
    const Attr list = m_.attrs[a.value];
    for (AttrId e : list.list) {
      const Attr& axis = m_.attrs[e];
      const AxisRef ref = axis.kind == Attr::Axis ? axis.axis : AxisRef{axis.text};
      if (!types_.checkAxis(ref, mesh, a.valueRange)) return false;
      if (!isUnit(ref, mesh)) kept.push_back(e);
    }
    const AttrId value = m_.attrs.list(std::move(kept));
    for (NamedAttr& x : s.attrList)
      if (x.name == a.name.name) x.value = value;
  }
  return true;
}

bool AttrParser::typeValues(const Statement& s, OpId op, TypeId type) {
  for (const ParsedAttr& a : s.attrs) {
    const AttrSpec* spec = findSpec(s.record->attrs, m_.strings[a.name.name]);
    if (!spec || !isOfElements(*spec) || m_.attrs[a.value].kind == Attr::String) continue;
    size_t back = in_.pos;
    in_.pos = a.firstToken;
    elementType_ = m_.types[type].dtype;
    AttrId value;
    bool ok = attr(value);
    in_.pos = back;
    // A default that was converted to this dtype still counts as the default.
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
