// Types, attributes, locations.
#include "mlir/MlirAttributes.h"

#include <charconv>

namespace dtc {

// --- types ---

const MlirType* MlirAttributeParser::type() {
  Deeper deeper(*this);
  if (!deeper.allowed() || !countNode()) return nullptr;
  MlirType t;
  uint32_t begin = tok().begin;
  bool ok = true;
  if (tok().isWord("tensor")) {
    ok = tensorType(t);
  } else if (tok().is('(')) {
    t.kind = MlirType::Function;
    ok = typeList(t.inputs);
    if (ok && tok().kind != MlirTok::Arrow) ok = unexpected("'->'");
    if (ok) take();
    ok = ok && typeList(t.results);
  } else if (tok().isWord("tuple") ||
             (tok().kind == MlirTok::Bang && tok().text.ends_with("stablehlo.future"))) {
    t.kind = MlirType::Tuple; // a future is its values: they are computed where it begins
    take();
    ok = expect('<');
    while (ok && !accept('>')) {
      t.inputs.push_back(type());
      ok = t.inputs.back() && (tok().is('>') || expect(','));
    }
  } else if (tok().kind == MlirTok::Bang) {
    auto alias = tree_.typeAliases.find(tok().text);
    if (alias != tree_.typeAliases.end()) {
      take();
      return alias->second;
    }
    t.kind = tok().text.ends_with(".token") ? MlirType::Token : MlirType::Other;
    take();
    std::string_view body;
    if (tok().is('<')) ok = bodyOf(body);
  } else if (tok().kind == MlirTok::Word) {
    t.kind = MlirType::Element;
    ok = elementText(t.element);
  } else {
    ok = unexpected("a type");
  }
  if (!ok) return nullptr;
  t.range = since(begin);
  tree_.types.push_back(std::move(t));
  return &tree_.types.back();
}

bool MlirAttributeParser::typeList(std::vector<const MlirType*>& out) {
  if (!accept('(')) {
    out.push_back(type());
    return out.back() != nullptr;
  }
  while (!accept(')')) {
    out.push_back(type());
    if (!out.back() || (!tok().is(')') && !expect(','))) return false;
  }
  return true;
}

// tensor<2x?x3xf32, #encoding>; the dims are read by character, since the lexer does not split 2x3xf32.
bool MlirAttributeParser::tensorType(MlirType& t) {
  t.kind = MlirType::Tensor;
  take();
  if (!tok().is('<')) return unexpected("'<'");
  std::string_view text = lex_.source();
  uint32_t at = tok().end;
  auto blanks = [&] {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n')) ++at;
  };
  for (;;) {
    blanks();
    uint32_t begin = at;
    if (at < text.size() && (text[at] == '?' || text[at] == '*')) {
      if (text[at] == '*') t.unranked = true;
      t.dims.push_back(MlirType::kDynamic);
      ++at;
    } else {
      while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
      if (at == begin) break;
      int64_t size = 0;
      auto [stop, bad] = std::from_chars(text.data() + begin, text.data() + at, size);
      if (bad != std::errc()) return fail(SourceRange{begin, at}, "this size is too large");
      t.dims.push_back(size);
    }
    if (t.dims.size() > 1024) return fail(SourceRange{begin, at}, "a tensor has too many dims");
    blanks();
    if (at >= text.size() || text[at] != 'x') {
      lex_.seek(at);
      return unexpected("'x' and the next size or the element type");
    }
    ++at;
  }
  lex_.seek(at);
  if (!elementText(t.element)) return false;
  if (accept(',')) { // an encoding: bounds of dynamic sizes, a layout
    MlirAttr encoding;
    if (!attribute(encoding, false)) return false;
  }
  return expect('>');
}

// "f32", "complex<f32>", "!quant.uniform<i8:f32, 1.0>"
bool MlirAttributeParser::elementText(std::string_view& out) {
  uint32_t begin = tok().begin;
  if (tok().kind != MlirTok::Word && tok().kind != MlirTok::Bang) return unexpected("an element type");
  take();
  std::string_view body;
  if (tok().is('<') && !bodyOf(body)) return false;
  out = lex_.between(begin, lastEnd_);
  return true;
}

bool MlirAttributeParser::bodyOf(std::string_view& out) {
  auto body = lex_.skipBalanced();
  if (!body) return unexpected("balanced brackets");
  out = *body;
  lastEnd_ = static_cast<uint32_t>(body->data() + body->size() + 1 - lex_.source().data());
  return true;
}

// --- attributes ---

bool MlirAttributeParser::dictionary(std::vector<MlirNamedAttr>& out) {
  if (!expect('{')) return false;
  while (!accept('}')) {
    if (!countNode()) return false;
    MlirNamedAttr& a = out.emplace_back();
    if (tok().kind != MlirTok::Word && tok().kind != MlirTok::String)
      return unexpected("the name of an attribute");
    a.nameRange = tok().range();
    a.value.range = a.nameRange;
    a.name = take().text;
    if (accept('=') && !attribute(a.value, true)) return false;
    if (!tok().is('}') && !expect(',')) return false;
  }
  return true;
}

bool MlirAttributeParser::attribute(MlirAttr& out, bool withType) {
  Deeper deeper(*this);
  if (!deeper.allowed() || !countNode()) return false;
  uint32_t begin = tok().begin;
  if (!attributeBody(out)) return false;
  bool typed = out.kind == MlirAttr::Int || out.kind == MlirAttr::Float || out.kind == MlirAttr::Dense ||
               out.kind == MlirAttr::Resource || out.kind == MlirAttr::String;
  if (withType && typed && accept(':')) {
    out.type = type();
    if (!out.type) return false;
  }
  out.range = since(begin);
  return true;
}

bool MlirAttributeParser::attributeBody(MlirAttr& out) {
  switch (tok().kind) {
  case MlirTok::String:
    out.kind = MlirAttr::String;
    out.text = take().text;
    return true;
  case MlirTok::Symbol:
    out.kind = MlirAttr::SymbolRef;
    out.text = take().text;
    while (tok().is(':') && lex_.second().is(':')) { // @a::@b
      take();
      take();
      if (tok().kind != MlirTok::Symbol) return unexpected("a symbol");
      take();
    }
    return true;
  case MlirTok::Int:
  case MlirTok::Float: return numberAttr(out);
  case MlirTok::Hash: return dialectAttr(out);
  case MlirTok::Word: return wordAttr(out);
  case MlirTok::Bang: break;
  default:
    if (tok().is('[')) return listAttr(out);
    if (tok().is('{')) {
      out.kind = MlirAttr::Dict;
      return dictionary(out.dict);
    }
    if (tok().is('(')) break; // a function type
    return unexpected("an attribute");
  }
  out.kind = MlirAttr::TypeRef;
  out.type = type();
  return out.type != nullptr;
}

bool MlirAttributeParser::numberAttr(MlirAttr& out) {
  out.text = tok().text;
  if (tok().kind == MlirTok::Int) {
    out.kind = MlirAttr::Int;
    auto v = mlirInteger(tok().text);
    if (!v) return unexpected("a number of at most 64 bits");
    out.integer = *v;
    out.real = static_cast<double>(*v);
  } else {
    out.kind = MlirAttr::Float;
    // Overflow gives the nearest finite value, underflow 0.
    auto [stop, bad] = std::from_chars(out.text.data(), out.text.data() + out.text.size(), out.real);
    if (bad != std::errc() && bad != std::errc::result_out_of_range) return unexpected("a number");
  }
  take();
  return true;
}

bool MlirAttributeParser::listAttr(MlirAttr& out) {
  out.kind = MlirAttr::List;
  if (!expect('[')) return false;
  while (!accept(']')) {
    if (!attribute(out.list.emplace_back(), true)) return false;
    if (!tok().is(']') && !expect(',')) return false;
  }
  return true;
}

bool MlirAttributeParser::wordAttr(MlirAttr& out) {
  std::string_view w = tok().text;
  if (w == "true" || w == "false") {
    out.kind = MlirAttr::Bool;
    out.integer = w == "true";
    take();
    return true;
  }
  if (w == "unit") {
    take();
    return true;
  }
  if ((w == "dense" || w == "dense_resource") && lex_.second().is('<')) return denseAttr(out);
  if (w == "array" && lex_.second().is('<')) {
    out.kind = MlirAttr::Array;
    take();
    return bodyOf(out.body);
  }
  bool isType = w == "tensor" || w == "tuple" || w == "complex" || w == "index" || w == "none" ||
                ((w[0] == 'i' || w[0] == 'f') && w.size() > 1 && w[1] >= '0' && w[1] <= '9') ||
                ((w.starts_with("si") || w.starts_with("ui") || w.starts_with("bf")) && w.size() > 2 &&
                 w[2] >= '0' && w[2] <= '9');
  if (isType) {
    out.kind = MlirAttr::TypeRef;
    out.type = type();
    return out.type != nullptr;
  }
  if (w == "affine_map" || w == "affine_set" || w == "opaque" || w == "sparse" || w == "distinct") {
    out.kind = MlirAttr::Raw;
    take();
    return !tok().is('<') || bodyOf(out.body);
  }
  out.kind = MlirAttr::Word;
  out.text = take().text;
  return true;
}

// dense<…>: its contents are read once the element type is known (MlirDense.h).
bool MlirAttributeParser::denseAttr(MlirAttr& out) {
  out.kind = tok().text == "dense" ? MlirAttr::Dense : MlirAttr::Resource;
  take();
  if (!bodyOf(out.body)) return false;
  out.text = out.body;
  return true;
}

// #loc3, #stablehlo.dot<…>, #stablehlo<comparison_direction LT>
bool MlirAttributeParser::dialectAttr(MlirAttr& out) {
  out.kind = MlirAttr::Dialect;
  out.text = tok().text;
  take();
  if (tok().is('<')) return bodyOf(out.body);
  out.kind = MlirAttr::Alias;
  return true;
}

// --- locations ---

bool MlirAttributeParser::location(uint32_t& out) {
  Deeper deeper(*this);
  if (!deeper.allowed() || !countNode()) return false;
  if (!expectWord("loc") || !expect('(')) return false;
  out = static_cast<uint32_t>(tree_.locs.size());
  tree_.locs.emplace_back();
  return locationBody(out) && expect(')');
}

bool MlirAttributeParser::locationBody(uint32_t out) {
  Deeper deeper(*this);
  if (!deeper.allowed()) return false;
  if (tok().kind == MlirTok::Hash) {
    tree_.locs[out].alias = take().text;
    return true;
  }
  if (tok().isWord("unknown") || tok().kind == MlirTok::Symbol) {
    take();
    return true;
  }
  if (tok().kind == MlirTok::String) return fileLocation(out);
  if (acceptWord("callsite")) return expect('(') && locationParts(out, ')');
  if (acceptWord("fused")) {
    std::string_view metadata;
    if (tok().is('<') && !bodyOf(metadata)) return false;
    return expect('[') && locationParts(out, ']');
  }
  return unexpected("a location, as in \"file.py\":3:7");
}

// "a" at "b"; "a", "b"
bool MlirAttributeParser::locationParts(uint32_t out, char closer) {
  while (!accept(closer)) {
    if (!countNode()) return false;
    auto part = static_cast<uint32_t>(tree_.locs.size());
    tree_.locs.emplace_back();
    tree_.locs[out].of.push_back(part);
    if (!locationBody(part)) return false;
    if (!tok().is(closer) && !acceptWord("at") && !expect(',')) return false;
  }
  return true;
}

// "file.py":3:7, with " to 3:9" or " to :9"; "name"(inner); "name"
bool MlirAttributeParser::fileLocation(uint32_t out) {
  std::string text = unescapeMlir(take().text);
  auto number = [&](uint32_t& to) {
    auto v = tok().kind == MlirTok::Int ? mlirInteger(tok().text) : std::nullopt;
    if (!v || *v < 0) return unexpected("a line or column");
    to = static_cast<uint32_t>(std::min<int64_t>(*v, 0x7fffffff));
    take();
    return true;
  };
  if (!accept(':')) {
    tree_.locs[out].name = std::move(text);
    if (!accept('(')) return true;
    auto inner = static_cast<uint32_t>(tree_.locs.size());
    tree_.locs.emplace_back();
    tree_.locs[out].of.push_back(inner);
    return locationBody(inner) && expect(')');
  }
  tree_.locs[out].file = std::move(text);
  if (!number(tree_.locs[out].line) || !expect(':') || !number(tree_.locs[out].column)) return false;
  if (!acceptWord("to")) return true;
  uint32_t ignored = 0;
  if (tok().kind == MlirTok::Int && !number(ignored)) return false;
  return expect(':') && number(ignored);
}

} // namespace dtc
