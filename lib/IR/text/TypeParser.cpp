#include "text/TypeParser.h"

#include "dtc/Sharding/Canonical.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Counted.h"

#include <algorithm>
#include <charconv>

namespace dtc {

constexpr DiagKind kDType{"unknown-dtype", "unknown dtype '{0}'{1}"};
constexpr DiagKind kTypeTooLarge{"type-too-large", "this type has more than 2^63-1 bytes"};
constexpr DiagKind kNegativeSize{"negative-size", "expected a size of at least 0, found {0}"};
constexpr DiagKind kSizeTooLarge{"type-too-large", "this size is more than 2^63-1"};
constexpr DiagKind kUnknownAxis{"unknown-axis", "mesh @{0} has no axis '{1}'{2}"};
constexpr DiagKind kAxisTwiceInSize{"duplicate-axis", "axis '{0}' is used twice in this size"};
constexpr DiagKind kAxisTwice{"duplicate-axis", "axis '{0}' is used twice in this sharding"};
constexpr DiagKind kUnknownMesh{"unknown-mesh", "unknown mesh @{0}{1}"};
constexpr DiagKind kUnknownPack{"generic-parameter",
                                "'{0}...' is not a parameter of this function; a generic function lists them "
                                "after its name, as in '@f[{0}...](%x: f32[{0}...])'"};
constexpr DiagKind kWhichMesh{"ambiguous-mesh",
                              "the module has {0} meshes: write which one, as in '@{1}{2}'"};
constexpr DiagKind kNoMesh{
    "missing-mesh", "a sharding needs a mesh, and the module has none; write one, as in 'mesh @m = [dp=2]'"};
constexpr DiagKind kSharding{"invalid-sharding", "{0}"};
constexpr DiagKind kPriorityOnClosed{
    "priority-on-closed",
    "'_' is closed, so the priority '{0}' has no meaning: write '?{0}' or leave it out"};
constexpr DiagKind kPendingWord{"unknown-pending-kind", "unknown clause '{0}'{1}"};
constexpr DiagKind kPlacementWord{"placement-syntax",
                                  "expected a placement 'R', 'S(dim)' or 'P(kind)', found {0}{1}"};
constexpr DiagKind kPlacementCount{"placement-count", "mesh @{0} has {1} axes, but the sharding has {2}"};
constexpr DiagKind kPlacementDim{"dim-out-of-range", "'S({0})' shards dim {0}, but the tensor has {1}"};
constexpr DiagKind kPlacementFit{"invalid-sharding",
                                 "the blocks of this sharding do not fit together with the axes"};

// "p3": a user priority.
static bool isPriority(std::string_view word) {
  return word.size() > 1 && word[0] == 'p' &&
         std::all_of(word.begin() + 1, word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// --- types ---

bool TypeParser::type(ParsedType& out) {
  if (!at(Tok::Word)) return unexpected("a type, such as 'f32[2, 3]'");
  size_t first = in_.pos;
  std::string_view word = text(tok());
  auto dtype = parseDType(word);
  if (generic)
    if (const auto bound = generic->dtypes.find(m_.strings.intern(word)); bound != generic->dtypes.end())
      dtype = bound->second;
  if (!dtype) {
    if (!atName() && !atDotted()) return unexpected("a type, such as 'f32[2, 3]'");
    return error(kDType, tok().range(), word, dtypeHint(word));
  }
  ++in_.pos;
  if (!at(Tok::LBracket)) return unexpected("'[' and the dims ('" + std::string(word) + "[]' is a scalar)");
  ++in_.pos;
  Type t;
  t.dtype = *dtype;
  if (!commaList(Tok::RBracket, "']'", [&] {
        if (atPack()) return pack(t.dims);
        Dim d;
        if (!dim(d)) return false;
        t.dims.push_back(d);
        return true;
      }))
    return false;
  out.range = since(first);
  __int128 bytes = dtypeBytes(t.dtype);
  bool empty = false;
  for (Dim d : t.dims) {
    int64_t n = d.isStatic() ? d.value() : m_.dims.dynamic(d).coefficient;
    empty |= n == 0;
    if (bytes <= INT64_MAX) bytes *= std::max<int64_t>(n, 1);
  }
  if (bytes > INT64_MAX && !empty) return error(kTypeTooLarge, out.range);
  out.id = m_.types.intern(std::move(t));
  return true;
}

// `S...`: the dims that a call gives for S.
bool TypeParser::pack(std::vector<Dim>& out) {
  const StrId name = m_.strings.intern(text(tok()));
  const auto bound = generic ? generic->packs.find(name) : decltype(generic->packs.find(name))();
  if (!generic || bound == generic->packs.end()) return error(kUnknownPack, tok().range(), m_.strings[name]);
  out.insert(out.end(), bound->second.begin(), bound->second.end());
  in_.pos += 2;
  return true;
}

bool TypeParser::dim(Dim& out) {
  size_t first = in_.pos;
  DimExpr e;
  do
    if (!size(e)) return false;
  while (accept(Tok::Star));
  if (accept(Tok::Slash) && !shardOfSize(e, since(first))) return false;
  out = m_.dims.intern(std::move(e));
  return true;
}

// One factor of a size, which is multiplied into `e`.
bool TypeParser::size(DimExpr& e) {
  int64_t n = 1;
  if (at(Tok::Int)) {
    Attr value;
    if (!number(tok(), DType::I64, value)) return false;
    if (value.i < 0) return error(kNegativeSize, tok().range(), value.i);
    n = value.i;
  } else if (atName()) {
    const StrId symbol = m_.strings.intern(text(tok()));
    if (generic && generic->sizes.contains(symbol)) {
      const DimExpr given = m_.dims.expr(generic->sizes.at(symbol));
      n = given.coefficient;
      e.symbols.insert(e.symbols.end(), given.symbols.begin(), given.symbols.end());
    } else if (const auto bound = sizes_.of(symbol))
      n = *bound;
    else
      e.symbols.push_back(symbol);
  } else {
    return unexpected("a size");
  }
  auto product = checkedMul(e.coefficient, n);
  if (!product) return error(kSizeTooLarge, tok().range());
  e.coefficient = *product;
  ++in_.pos;
  return true;
}

// `11/b`: if the axes divide the number evenly, the type has the quotient.
bool TypeParser::shardOfSize(DimExpr& e, SourceRange range) {
  if (accept(Tok::LParen)) {
    if (!axisList(e.axes)) return false;
  } else {
    AxisRef a;
    if (!axis(a)) return false;
    e.axes.push_back(a);
  }
  if (!localMesh.valid()) return true;
  const Mesh& mesh = m_.shardings.mesh(localMesh);
  DimSharding s;
  std::unordered_map<StrId, std::vector<AxisRef>> seen; // by name
  for (AxisRef& a : e.axes) {
    if (!checkAxis(a, mesh, range)) return false;
    a = mesh.canonical(a);
    std::vector<AxisRef>& before = seen[a.name];
    for (const AxisRef& b : before)
      if (overlaps(a, b, mesh)) return error(kAxisTwiceInSize, range, m_.strings[a.name]);
    before.push_back(a);
    s.parts.push_back({a, 0});
  }
  DimExpr global = e;
  global.axes.clear();
  if (auto local = localDim(s, mesh, m_.dims.intern(std::move(global)), m_.dims)) e = m_.dims.expr(*local);
  return true;
}

// --- axes ---

bool TypeParser::axis(AxisRef& out) {
  const size_t first = in_.pos;
  ParsedName name;
  if (!expectName("the name of a mesh axis", name)) return false;
  out = {};
  out.name = name.name;
  if (at(Tok::Colon) && at(Tok::LParen, 1) && !axisSizes(out)) return false;
  if (axes_) axes_->push_back({out, since(first)});
  return true;
}

// ":(pre)size"
bool TypeParser::axisSizes(AxisRef& a) {
  in_.pos += 2;
  return integer(a.pre, "the product of the sizes before the sub-axis", 1) && expect(Tok::RParen, "')'") &&
         integer(a.size, "the sub-axis's size", 1);
}

// A number of at least `min`.
bool TypeParser::integer(int64_t& out, std::string_view what, int64_t min) {
  if (!at(Tok::Int)) return unexpected(what);
  Attr value;
  if (!number(tok(), DType::I64, value)) return false;
  if (value.i < min) return unexpected(std::string(what) + ", at min " + std::to_string(min));
  out = value.i;
  ++in_.pos;
  return true;
}

bool TypeParser::axisList(std::vector<AxisRef>& out) {
  if (at(Tok::RParen)) return unexpected("the name of a mesh axis");
  return commaList(Tok::RParen, "')'", [&] {
    AxisRef a;
    if (!axis(a)) return false;
    out.push_back(a);
    return true;
  });
}

bool TypeParser::checkAxis(const AxisRef& a, const Mesh& mesh, SourceRange range) {
  int i = mesh.axisIndex(a.name);
  if (i < 0) {
    std::vector<std::string_view> known;
    for (const MeshAxis& axis : mesh.axes) known.push_back(m_.strings[axis.name]);
    return error(kUnknownAxis, range, m_.strings[mesh.name], m_.strings[a.name],
                 m_.strings[a.name] == "None" ? "; a dim that is not sharded is written '_'"
                                              : suggestion(Vocabulary::Plain, m_.strings[a.name], known));
  }
  if (a.isFullAxis()) return true;
  auto product = checkedMul(a.pre, a.size);
  if (product && mesh.axes[static_cast<size_t>(i)].size % *product == 0) return true;
  return error(kSharding, range,
               "sub-axis '" + printAxis(a, m_.strings) + "' does not divide the " +
                   std::to_string(mesh.axes[static_cast<size_t>(i)].size) + " devices of axis '" +
                   std::string(m_.strings[a.name]) + "'");
}

// --- shardings ---

bool TypeParser::sharding(ParsedSharding& out) {
  size_t first = in_.pos;
  out.present = true;
  ShardingTable& table = m_.shardings;
  if (at(Tok::Symbol)) {
    std::string_view name = text(tok()).substr(1);
    out.sharding.mesh = table.findMesh(m_.strings.intern(name));
    if (!out.sharding.mesh.valid()) {
      std::vector<std::string_view> known;
      for (uint32_t i = 0; i < table.numMeshes(); ++i)
        known.push_back(m_.strings[table.mesh(MeshId(i)).name]);
      if (!declaredMeshes.contains(m_.strings.intern(name))) // otherwise the error is on the mesh's own line
        error(kUnknownMesh, tok().range(), name,
              known.empty() ? ": the module declares none; write one, as in 'mesh @m = [dp=2]'"
                            : suggestion(Vocabulary::Plain, name, known, "@"));
      in_.quiet = true;
      return false;
    }
    ++in_.pos;
  } else if (table.numMeshes() == 1) {
    out.sharding.mesh = MeshId(0);
  } else if (table.numMeshes() == 0) {
    in_.quiet = true;
    return declaredMeshes.empty() ? error(kNoMesh, tok().range()) : false;
  } else {
    return error(kWhichMesh, tok().range(), table.numMeshes(), m_.strings[table.mesh(MeshId(0)).name],
                 text(tok()));
  }
  out.meshStyle = at(Tok::LBracket);
  axes_ = &out.axes;
  bool ok = out.meshStyle ? meshStyle(out) : dimStyle(out.sharding);
  if (ok) out.range = since(first);
  axes_ = nullptr;
  return ok;
}

bool TypeParser::dimStyle(Sharding& s) {
  if (!expect(Tok::LBrace, "'{' and a sharding")) return false;
  if (accept(Tok::Bar)) return clauses(s);
  if (accept(Tok::RBrace)) return true;
  for (;;) {
    if (!dimSharding(s.dims.emplace_back())) return false;
    if (accept(Tok::RBrace)) return true;
    if (accept(Tok::Bar)) return clauses(s);
    if (!expect(Tok::Comma, "',', '|' or '}'")) return false;
  }
}

bool TypeParser::dimSharding(DimSharding& d) {
  bool closed = acceptWord("_");
  if (!closed && !at(Tok::Question) && !shardingParts(d)) return false;
  if (!closed) d.open = accept(Tok::Question);
  if (!at(Tok::Word) || !isPriority(text(tok()))) return true;
  std::string_view word = text(tok());
  if (closed) return error(kPriorityOnClosed, tok().range(), word);
  auto [end, bad] = std::from_chars(word.data() + 1, word.data() + word.size(), d.priority);
  if (bad != std::errc()) return unexpected("a priority of at most 2^31-1");
  ++in_.pos;
  return true;
}

bool TypeParser::shardingParts(DimSharding& d) {
  if (!accept(Tok::LParen)) {
    AxisRef a;
    if (!atName()) return unexpected("'_', '?' or the name of a mesh axis");
    if (!axis(a)) return false;
    d.parts.push_back({a, 0});
    return true;
  }
  if (at(Tok::RParen)) return unexpected("the name of a mesh axis");
  return commaList(Tok::RParen, "')'", [&] {
    DimPart p;
    if (at(Tok::Int) ? !integer(p.blocks, "a number of blocks", 1) : !axis(p.axis)) return false;
    d.parts.push_back(p);
    return true;
  });
}

// After the bar: `sum(dp, tp), rep(ep)`.
bool TypeParser::clauses(Sharding& s) {
  do {
    if (!at(Tok::Word)) return unexpected("a clause, such as 'sum(dp)'");
    std::string_view word = text(tok());
    auto kind = parsePendingKind(word);
    if (!kind && word != "rep")
      return error(
          kPendingWord, tok().range(), word,
          suggestion(Vocabulary::Plain, word, {"sum", "avg", "prod", "max", "min", "any", "all", "rep"}));
    ++in_.pos;
    std::vector<AxisRef> axes;
    if (!expect(Tok::LParen, "'(' and mesh axes") || !axisList(axes)) return false;
    for (const AxisRef& a : axes) {
      if (kind)
        s.pending.push_back({a, *kind});
      else
        s.replicated.push_back(a);
    }
  } while (accept(Tok::Comma));
  return expect(Tok::RBrace, "',' or '}'");
}

bool TypeParser::meshStyle(ParsedSharding& s) {
  ++in_.pos;
  return commaList(Tok::RBracket, "']'", [&] { return placement(s.placements.emplace_back()); });
}

bool TypeParser::placement(Placement& p) {
  if (acceptWord("R")) return true;
  if (acceptWord("S")) {
    p.kind = Placement::S;
    int64_t dim = 0;
    if (!expect(Tok::LParen, "'(' and a dim") || !integer(dim, "a dim", 0)) return false;
    p.dim = static_cast<int>(std::min<int64_t>(dim, 1 << 20));
    if (accept(Tok::Comma) && !integer(p.blocks, "a number of blocks", 1)) return false;
    return expect(Tok::RParen, "')'");
  }
  if (!acceptWord("P")) {
    std::string_view word = text(tok());
    std::string_view hint = word == "Shard"       ? "; write 'S(0)' for Shard(0)"
                            : word == "Replicate" ? "; write 'R' for Replicate()"
                            : word == "Partial"   ? "; write 'P(sum)' for Partial()"
                                                  : "";
    return error(kPlacementWord, tok().range(), found(tok()), hint);
  }
  p.kind = Placement::P;
  if (!expect(Tok::LParen, "'(' and a pending kind, as in 'P(sum)'")) return false;
  auto kind = at(Tok::Word) ? parsePendingKind(text(tok())) : std::nullopt;
  if (!kind) return unexpected("one of sum avg prod max min any all");
  p.pending = *kind;
  ++in_.pos;
  return expect(Tok::RParen, "')'");
}

// Checks that the mesh has the axes of a sharding and that each is used once. All missing axes are reported.
bool TypeParser::checkAxes(const ParsedSharding& written, const Mesh& mesh) {
  bool ok = true;
  for (const ParsedAxis& a : written.axes) ok &= checkAxis(a.axis, mesh, a.range);
  if (!ok) return false;
  std::unordered_map<StrId, std::vector<const ParsedAxis*>> seen; // by name
  for (const ParsedAxis& second : written.axes) {
    std::vector<const ParsedAxis*>& before = seen[second.axis.name];
    for (const ParsedAxis* first : before) {
      if (!(first->axis == second.axis)) continue; // overlapping parts: reported by validateSharding
      if (!suppressed())
        diags_.error(kAxisTwice, second.range, printAxis(second.axis, m_.strings)).alsoAt(first->range);
      return false;
    }
    before.push_back(&second);
  }
  return true;
}

bool TypeParser::finishSharding(const ParsedSharding& written, TypeId globalType, ShardingId& out) {
  if (!written.present || !globalType.valid()) return true;
  const Mesh& mesh = m_.shardings.mesh(written.sharding.mesh);
  const std::vector<Dim>& shape = m_.types[globalType].dims;
  Sharding s = written.sharding;
  if (written.meshStyle) {
    if (written.placements.size() != mesh.axes.size())
      return error(kPlacementCount, written.range, m_.strings[mesh.name], mesh.axes.size(),
                   counted(written.placements.size(), "placement"));
    for (const Placement& p : written.placements)
      if (p.kind == Placement::S && static_cast<size_t>(p.dim) >= shape.size())
        return error(kPlacementDim, written.range, p.dim, counted(shape.size(), "dim"));
    auto made = fromPlacements(written.placements, written.sharding.mesh, mesh, shape.size());
    if (!made) return error(kPlacementFit, written.range);
    s = std::move(*made);
  }
  if (!checkAxes(written, mesh)) return false;
  std::string problem = validateSharding(s, mesh, shape, m_.dims, m_.strings);
  if (!problem.empty()) return error(kSharding, written.range, problem);
  out = m_.shardings.intern(std::move(s));
  return true;
}

bool TypeParser::onlySharding(MeshId mesh, Sharding& out) {
  ParsedSharding s;
  if (at(Tok::LBrace) || at(Tok::LBracket)) {
    s.sharding.mesh = mesh;
    s.meshStyle = at(Tok::LBracket);
    if (!(s.meshStyle ? meshStyle(s) : dimStyle(s.sharding))) return false;
  } else if (!sharding(s)) {
    return false;
  }
  if (!at(Tok::End)) return unexpected("the end of the sharding");
  if (s.meshStyle) {
    int rank = 0;
    for (const Placement& p : s.placements) rank = std::max(rank, p.kind == Placement::S ? p.dim + 1 : 0);
    const Mesh& m = m_.shardings.mesh(s.sharding.mesh);
    auto made = rank < 64 ? fromPlacements(s.placements, s.sharding.mesh, m, static_cast<size_t>(rank))
                          : std::nullopt;
    if (!made)
      return error(kPlacementCount, {0, static_cast<uint32_t>(in_.text.size())}, m_.strings[m.name],
                   m.axes.size(), counted(s.placements.size(), "placement"));
    out = std::move(*made);
  } else {
    out = std::move(s.sharding);
  }
  return true;
}

} // namespace dtc
