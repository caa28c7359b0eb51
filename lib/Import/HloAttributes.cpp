// What a converter reads of its op's attributes, whatever form the producer wrote them in.
#include "HloImporter.h"
#include "MlirLexer.h"
#include "dtc/Support/Tensor.h"

#include <cstring>

namespace dtc {

namespace {

constexpr int64_t kMaxInts = 1 << 20; // numbers of one attribute

std::string_view sourceOf(const HloContext& c) { return c.module.source.text; }

// "i64: 0, 1, -1" behind array<; the element type stands before the colon.
std::optional<std::vector<int64_t>> arrayInts(std::string_view source, std::string_view body) {
  MlirLexer lex(source, body);
  lex.next();
  std::vector<int64_t> out;
  if (lex.atEnd()) return out;
  if (!lex.accept(':')) return std::nullopt;
  while (!lex.atEnd()) {
    MlirToken t = lex.next();
    auto v = t.kind == MlirTok::Int                  ? mlirInteger(t.text)
             : t.isWord("true") || t.isWord("false") ? std::optional<int64_t>(t.text == "true")
                                                     : std::nullopt;
    if (!v || (!lex.atEnd() && !lex.accept(','))) return std::nullopt;
    out.push_back(*v);
  }
  return out;
}

bool listInts(const MlirAttr& a, std::vector<int64_t>& out) {
  if (a.kind == MlirAttr::Int || a.kind == MlirAttr::Bool) {
    out.push_back(a.integer);
    return true;
  }
  if (a.kind != MlirAttr::List) return false;
  for (const MlirAttr& e : a.list)
    if (!listInts(e, out)) return false;
  return true;
}

} // namespace

const MlirAttr* HloContext::attr(std::string_view name) const {
  for (const MlirNamedAttr& a : op.attrs)
    if (a.name == name) return importer.tree.resolve(a.value);
  return nullptr;
}

std::optional<std::vector<int64_t>> HloContext::ints(std::string_view name, int64_t count) {
  if (!has(name)) {
    fail("needs the attribute '" + std::string(name) + "'");
    return std::nullopt;
  }
  return intsOr(name, {}, count);
}

std::optional<std::vector<int64_t>> HloContext::intsOr(std::string_view name, std::vector<int64_t> fallback,
                                                       int64_t count) {
  const MlirAttr* a = attr(name);
  if (!a) return fallback;
  std::vector<int64_t> out;
  std::string why = "is no list of integers";
  bool ok = false;
  if (a->kind == MlirAttr::Array) {
    auto v = arrayInts(sourceOf(*this), a->body);
    ok = v.has_value();
    if (v) out = std::move(*v);
  } else if (a->kind == MlirAttr::Dense && a->type && a->type->kind == MlirType::Tensor) {
    int64_t n = 1;
    for (int64_t d : a->type->dims) n = d < 0 || d > kMaxInts || n > kMaxInts ? kMaxInts + 1 : n * d;
    if (n > kMaxInts) {
      failAttr(name, "is too large");
      return std::nullopt;
    }
    bool flags = a->type->element == "i1";
    auto numbers = readNumbers(sourceOf(*this), importer.tree, *a, flags ? DType::Bool : DType::I64, n, why);
    ok = numbers.has_value();
    for (size_t i = 0; ok && i < static_cast<size_t>(n); ++i) {
      size_t at = numbers->splat ? 0 : i;
      int64_t v = 0;
      if (flags)
        v = static_cast<int64_t>(numbers->bytes[at]);
      else
        std::memcpy(&v, numbers->bytes.data() + at * sizeof v, sizeof v);
      out.push_back(v);
    }
  } else {
    ok = listInts(*a, out);
  }
  if (ok && count >= 0 && static_cast<int64_t>(out.size()) != count) {
    ok = false;
    why = "has " + std::to_string(out.size()) + " numbers where " + std::to_string(count) + " are asked for";
  }
  if (ok) return out;
  failAttr(name, why);
  return std::nullopt;
}

std::optional<int64_t> HloContext::integer(std::string_view name) {
  if (has(name)) return integerOr(name, 0);
  fail("needs the attribute '" + std::string(name) + "'");
  return std::nullopt;
}

std::optional<int64_t> HloContext::integerOr(std::string_view name, int64_t fallback) {
  const MlirAttr* a = attr(name);
  if (!a) return fallback;
  if (a->kind == MlirAttr::Int || a->kind == MlirAttr::Bool) return a->integer;
  if (a->kind == MlirAttr::List || a->kind == MlirAttr::Dense || a->kind == MlirAttr::Array) {
    auto one = intsOr(name, {}, 1);
    if (one) return one->front();
    return std::nullopt;
  }
  failAttr(name, "is no integer");
  return std::nullopt;
}

const MlirTree& HloContext::tree() const { return importer.tree; }

std::optional<std::vector<int64_t>> HloContext::bodyInts(const MlirAttr& dialect, std::string_view name) {
  MlirLexer lex(sourceOf(*this), dialect.body);
  std::vector<int64_t> out;
  for (MlirToken t = lex.next(); t.kind != MlirTok::End; t = lex.next()) {
    if (!t.isWord(name) || !lex.accept('=')) continue;
    bool list = lex.accept('[');
    while (lex.peek().kind == MlirTok::Int) {
      auto v = mlirInteger(lex.next().text);
      if (v) out.push_back(*v);
      if (!v || !list || !lex.accept(',')) break;
    }
    if (!list || lex.accept(']')) return out;
    failAt(t.range(), "has in '" + std::string(name) + "' no list of integers");
    return std::nullopt;
  }
  return out;
}

std::optional<double> HloContext::real(std::string_view name) {
  const MlirAttr* a = attr(name);
  if (a && a->kind == MlirAttr::Float) return a->real;
  if (a && a->kind == MlirAttr::Int) {
    // 0x7FC00000 : f32 is the float of these bits.
    if (a->text.find("0x") == std::string_view::npos) return a->real;
    DType d = a->type && hloDType(a->type->element) ? *hloDType(a->type->element) : DType::F64;
    Tensor t(d, {});
    if (isFloat(d)) {
      std::memcpy(t.bytes().data(), &a->integer, t.bytes().size());
      return t.getFloat(0);
    }
  }
  if (a)
    failAttr(name, "is no number");
  else
    fail("needs the attribute '" + std::string(name) + "'");
  return std::nullopt;
}

std::optional<bool> HloContext::flagOr(std::string_view name, bool fallback) {
  const MlirAttr* a = attr(name);
  if (!a) return fallback;
  if (a->kind == MlirAttr::Unit) return true;
  if (a->kind == MlirAttr::Bool) return a->integer != 0;
  failAttr(name, "is neither true nor false");
  return std::nullopt;
}

std::string_view HloContext::word(std::string_view name) const {
  const MlirAttr* a = attr(name);
  if (!a) return {};
  if (a->kind == MlirAttr::Word || a->kind == MlirAttr::String || a->kind == MlirAttr::SymbolRef)
    return a->text;
  if (a->kind != MlirAttr::Dialect && a->kind != MlirAttr::Raw) return {};
  // "comparison_direction LT"
  MlirLexer lex(sourceOf(*this), a->body);
  std::string_view last;
  while (lex.peek().kind == MlirTok::Word) last = lex.next().text;
  return last;
}

std::string HloContext::text(std::string_view name) const {
  const MlirAttr* a = attr(name);
  if (!a || (a->kind != MlirAttr::String && a->kind != MlirAttr::SymbolRef)) return {};
  return unescapeMlir(a->text);
}

} // namespace dtc
