#include "sharding/ShardyText.h"

namespace dtc {

static constexpr DiagKind kShardyText{"shardy-syntax", "expected {0} in this sharding, found {1}"};
static constexpr size_t kMaxParts = 1u << 16; // axes, dims and devices of one attribute

bool ShardyReader::unexpected(std::string_view wanted) {
  const MlirToken& t = lex_.peek();
  const std::string found =
      t.kind == MlirTok::End ? "the end" : "'" + std::string(t.text.substr(0, 40)) + "'";
  return diags_.fail(kShardyText, t.range(), wanted, found);
}

bool ShardyReader::expect(char c) { return lex_.accept(c) || unexpected(std::string("'") + c + "'"); }

bool ShardyReader::integer(int64_t& out) {
  const auto v = lex_.peek().kind == MlirTok::Int ? mlirInteger(lex_.peek().text) : std::nullopt;
  if (!v || *v < 0) return unexpected("a number");
  out = *v;
  lex_.next();
  return true;
}

bool ShardyReader::integers(std::vector<int64_t>& out) {
  if (!expect('[')) return false;
  while (!lex_.accept(']')) {
    if (out.size() > kMaxParts) return unexpected("fewer numbers");
    if (!integer(out.emplace_back()) || (!lex_.peek().is(']') && !expect(','))) return false;
  }
  return true;
}

bool ShardyReader::axis(ShardyAxis& out) {
  out.range = lex_.peek().range();
  if (lex_.peek().kind != MlirTok::String) return unexpected("an axis, as in \"x\"");
  out.name = unescapeMlir(lex_.next().text);
  if (!lex_.accept(':')) return true;
  if (!expect('(') || !integer(out.pre) || !expect(')') || !integer(out.size)) return false;
  return out.size > 0 || unexpected("a sub-axis with a size");
}

bool ShardyReader::axes(std::vector<ShardyAxis>& out) {
  if (!expect('{')) return false;
  while (!lex_.accept('}')) {
    if (out.size() > kMaxParts) return unexpected("fewer axes");
    if (!axis(out.emplace_back()) || (!lex_.peek().is('}') && !expect(','))) return false;
  }
  return true;
}

bool ShardyReader::dim(ShardyDim& out) {
  if (!expect('{')) return false;
  while (!lex_.accept('}')) {
    if (lex_.accept('?'))
      out.open = true;
    else if (out.open || out.axes.size() > kMaxParts || !axis(out.axes.emplace_back()))
      return out.open ? unexpected("'}' after '?'") : false;
    if (!lex_.peek().is('}') && !expect(',')) return false;
  }
  const MlirToken& t = lex_.peek();
  if (t.kind != MlirTok::Word || t.text.size() < 2 || t.text[0] != 'p') return true;
  const auto priority = mlirInteger(t.text.substr(1));
  if (!priority || *priority < 0 || *priority > 1000000) return unexpected("a priority, as in p1");
  out.priority = static_cast<int32_t>(*priority);
  lex_.next();
  return true;
}

bool ShardyReader::mesh(ShardyMesh& out) {
  if (!expect('[')) return false;
  while (!lex_.accept(']')) {
    ShardyAxis& a = out.axes.emplace_back();
    a.range = lex_.peek().range();
    if (out.axes.size() > 64) return unexpected("a mesh of at most 64 axes");
    if (lex_.peek().kind != MlirTok::String) return unexpected("an axis, as in \"x\"=2");
    a.name = unescapeMlir(lex_.next().text);
    if (!expect('=') || !integer(a.size) || (!lex_.peek().is(']') && !expect(','))) return false;
  }
  if (!lex_.accept(',')) return true;
  if (!lex_.acceptWord("device_ids") || !expect('=')) return unexpected("'device_ids = […]'");
  out.hasDevices = true;
  return integers(out.devices);
}

bool ShardyReader::sharding(ShardyText& out) {
  out.range = lex_.peek().range();
  if (lex_.peek().kind == MlirTok::Symbol) {
    out.mesh = lex_.next().text;
  } else if (lex_.acceptWord("mesh")) {
    if (!expect('<') || !mesh(out.inlined) || !expect('>')) return false;
  } else {
    return unexpected("a mesh, as in @mesh");
  }
  if (!expect(',') || !expect('[')) return false;
  while (!lex_.accept(']')) {
    if (out.dims.size() > kMaxParts) return unexpected("fewer dims");
    if (!dim(out.dims.emplace_back()) || (!lex_.peek().is(']') && !expect(','))) return false;
  }
  return extras(out);
}

bool ShardyReader::extras(ShardyText& out) {
  while (lex_.accept(',')) {
    auto* list = lex_.acceptWord("replicated")  ? &out.replicated
                 : lex_.acceptWord("unreduced") ? &out.unreduced
                                                : nullptr;
    if (!list) return unexpected("'replicated' or 'unreduced'");
    if (!expect('=')) return false;
    if (list == &out.unreduced && lex_.peek().kind == MlirTok::Word) out.reduction = lex_.next().text;
    if (!axes(*list)) return false;
  }
  return true;
}

bool ShardyReader::shardings(std::vector<ShardyText>& out) {
  const bool bracketed = lex_.accept('[');
  while (bracketed ? !lex_.accept(']') : !lex_.atEnd()) {
    if (out.size() > kMaxParts) return unexpected("fewer shardings");
    if (lex_.peek().kind == MlirTok::Hash) lex_.next(); // #sdy.sharding<…>
    if (!expect('<') || !sharding(out.emplace_back()) || !expect('>')) return false;
    if (!lex_.peek().is(']') && !lex_.atEnd() && !expect(',')) return false;
  }
  return true;
}

} // namespace dtc
