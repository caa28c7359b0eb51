#include "Parser.h"

#include "Verifier.h"
#include "dtc/Support/Checked.h"

#include <algorithm>
#include <charconv>

namespace dtc {

namespace {

constexpr DiagKind kExpected{"syntax", "expected {0}, found {1}{2}"};
constexpr DiagKind kMeshTwice{"redefined-mesh", "mesh @{0} is already defined"};
constexpr DiagKind kAxisTwice{"redefined-axis", "mesh @{0} already has an axis '{1}'"};
constexpr DiagKind kAxisSize{"axis-size", "the size of mesh axis '{0}' is at least 1, found {1}"};
constexpr DiagKind kMeshSize{"mesh-too-large", "mesh @{0} has more than 2^31-1 devices"};
constexpr DiagKind kMeshDevices{"mesh-devices", "mesh @{0} has {1} places, but 'devices' is {2}"};
constexpr DiagKind kMeshOverride{"mesh-override", "mesh @{0} has no axis '{1}'{2}"};
constexpr DiagKind kFunctionTwice{"redefined-function", "function @{0} is already defined"};

constexpr std::string_view kReserved[] = {"mesh",   "func",  "spmd", "of",    "in",
                                          "return", "yield", "true", "false", "_"};

} // namespace

// --- words ---

bool Parser::atName(size_t ahead) const {
  if (!at(Tok::Word, ahead)) return false;
  std::string_view w = text(tok(ahead));
  if (w.find('.') != std::string_view::npos) return false;
  return std::find(std::begin(kReserved), std::end(kReserved), w) == std::end(kReserved);
}

bool Parser::expect(Tok kind, std::string_view what) { return accept(kind) || unexpected(what); }

bool Parser::expectName(std::string_view what, ParsedName& out) {
  if (!atName()) return unexpected(what);
  out = {m_.strings.intern(text(tok())), tok().range()};
  ++pos_;
  return true;
}

std::string Parser::found(const Token& t) const {
  if (t.kind == Tok::End) return "the end of the text";
  std::string_view word = text(t);
  constexpr size_t kShown = 40;
  if (word.size() > kShown) return "'" + std::string(word.substr(0, kShown)) + "…'";
  return "'" + std::string(word) + "'";
}

// A line that the lexer has reported, and brackets that do not match: nothing more is said about them.
bool Parser::suppressed() const {
  for (size_t i = pos_; i < tokens().size() && (i == pos_ || !tokens()[i].firstOnLine); ++i)
    if (tokens()[i].kind == Tok::Broken) return true;
  return std::any_of(lexed_.broken.begin(), lexed_.broken.end(),
                     [&](auto r) { return pos_ >= r.first && pos_ <= r.second; });
}

bool Parser::unexpected(std::string_view what, std::string_view hint) {
  if (hint.empty() && atDotted()) hint = "; names have letters, digits and '_'";
  return error(kExpected, tok().range(), what, found(tok()), hint);
}

// Over one word, or a pair of brackets with all that is in it.
void Parser::step() {
  const Token& t = tok();
  Tok close = t.kind == Tok::LBrace     ? Tok::RBrace
              : t.kind == Tok::LBracket ? Tok::RBracket
              : t.kind == Tok::LParen   ? Tok::RParen
                                        : Tok::End;
  bool opens = close != Tok::End && t.match > pos_;
  // What never closes ends before a word that is not its own.
  pos_ = !opens ? pos_ + 1 : tokens()[t.match].kind == close ? t.match + 1 : t.match;
}

void Parser::skipToTopLevel() {
  while (!at(Tok::End) && !atWord("mesh") && !atWord("func") && !atWord("spmd")) step();
}

// From an element's first word to what follows it, over all brackets that open in it.
void Parser::skipElement(Tok close, size_t start) {
  size_t wrong = pos_;
  for (pos_ = start; pos_ < wrong && !at(Tok::Comma) && !at(close) && !at(Tok::End);) step();
  while (!at(Tok::End) && !at(Tok::Comma) && !at(close) && !at(Tok::RBrace) && !atWord("func")) step();
}

// --- the module ---

bool Parser::module() {
  src_ = m_.source.text;
  if (!lex(src_, lexed_, diags_)) return false;
  if (!options_.sizes.empty()) scanCalls();
  mistypedKeywords();
  meshes();
  functionHeads();
  for (const Body& b : bodies_) {
    if (diags_.full()) break;
    size_t before = diags_.numErrors();
    localMesh_ = b.mesh;
    quiet_ = false;
    functionBody(b);
    if (b.sound && !quiet_ && diags_.numErrors() == before) sound_.push_back(b.func);
  }
  if (diags_.hasErrors()) verifySoundFunctions();
  return !diags_.hasErrors();
}

// What only a whole module has (recursion) is left to verifyModule; the rest is more news for the same run.
void Parser::verifySoundFunctions() {
  Verifier verifier(m_, diags_);
  for (FuncId f : sound_)
    if (!diags_.full()) verifier.function(f);
}

void Parser::meshes() {
  for (pos_ = 0; !at(Tok::End) && !diags_.full();) {
    if (!atWord("mesh")) {
      step();
      continue;
    }
    size_t first = pos_;
    if (!mesh()) skipToTopLevel();
    if (pos_ == first) ++pos_;
    meshEnds_[first] = pos_;
  }
}

bool Parser::mesh() {
  ++pos_;
  Mesh mesh;
  SourceRange nameRange = tok().range();
  if (atName() && at(Tok::Equal, 1)) { // read as if it had its '@'
    std::string_view name = text(tok());
    unexpected("the mesh's name, such as '@pod'", "; write '@" + std::string(name) + "'");
    mesh.name = m_.strings.intern(name);
  } else if (!at(Tok::Symbol)) {
    return unexpected("the mesh's name, such as '@pod'");
  } else {
    mesh.name = m_.strings.intern(text(tok()).substr(1));
  }
  ++pos_;
  auto [before, isNew] = meshRanges_.try_emplace(mesh.name, nameRange);
  if (!isNew) {
    report(kMeshTwice, nameRange, m_.strings[mesh.name]).note(before->second, "it is defined here");
    return false;
  }
  if (!expect(Tok::Equal, "'='") || !expect(Tok::LBracket, "'[' and the mesh's axes")) return false;
  std::unordered_set<StrId> seen;
  if (!commaList(Tok::RBracket, "']'", [&] { return meshAxis(mesh, seen); })) return false;
  if (!overrideSizes(mesh, nameRange)) return false;
  std::optional<int64_t> devices = 1;
  for (const MeshAxis& a : mesh.axes) devices = devices ? checkedMul(*devices, a.size) : devices;
  if (!devices || *devices > INT32_MAX) return error(kMeshSize, nameRange, m_.strings[mesh.name]);
  if (atAttrs() && !meshDevices(mesh, nameRange)) return false;
  m_.shardings.addMesh(std::move(mesh));
  return true;
}

bool Parser::meshAxis(Mesh& mesh, std::unordered_set<StrId>& seen) {
  ParsedName name;
  if (!expectName("the name of a mesh axis", name)) return false;
  if (at(Tok::Colon))
    return unexpected("'=' and the axis's size", "; write '" + std::string(m_.strings[name.name]) + "=2'");
  if (!expect(Tok::Equal, "'=' and the axis's size")) return false;
  if (!at(Tok::Int)) return unexpected("the axis's size");
  std::string_view digits = text(tok());
  Attr value;
  if (!number(tok(), DType::I64, value)) return false;
  if (value.i < 1) return error(kAxisSize, tok().range(), m_.strings[name.name], digits);
  if (!seen.insert(name.name).second)
    return error(kAxisTwice, name.range, m_.strings[mesh.name], m_.strings[name.name]);
  ++pos_;
  mesh.axes.push_back({name.name, value.i});
  return true;
}

// --mesh pod=dp:4,tp:2
bool Parser::overrideSizes(Mesh& mesh, SourceRange nameRange) {
  for (const ParseOptions::MeshSizes& o : options_.meshes) {
    if (o.mesh != m_.strings[mesh.name]) continue;
    for (const auto& [axis, size] : o.axes) {
      int index = mesh.axisIndex(m_.strings.intern(axis));
      if (index < 0) {
        std::vector<std::string_view> known;
        for (const MeshAxis& a : mesh.axes) known.push_back(m_.strings[a.name]);
        return error(kMeshOverride, nameRange, m_.strings[mesh.name], axis,
                     suggestion(Vocabulary::Plain, axis, known));
      }
      mesh.axes[static_cast<size_t>(index)].size = size;
    }
  }
  return true;
}

bool Parser::meshDevices(Mesh& mesh, SourceRange nameRange) {
  static const AttrSpec kDevices[] = {{"devices", AttrType::Ints, "", ""}};
  std::vector<ParsedAttr> written;
  AttrList list;
  std::string owner = "mesh @" + std::string(m_.strings[mesh.name]);
  if (!attrs(written) || !fitAttrs(written, kDevices, {}, owner, list)) return false;
  if (list.empty()) return true;
  for (AttrId e : m_.attrs[list.front().value].list) mesh.devices.push_back(m_.attrs[e].i);
  std::vector<int64_t> sorted = mesh.devices;
  std::sort(sorted.begin(), sorted.end());
  bool twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  bool overridden = std::any_of(options_.meshes.begin(), options_.meshes.end(),
                                [&](const auto& o) { return o.mesh == m_.strings[mesh.name]; });
  bool fits = static_cast<int64_t>(sorted.size()) == mesh.numDevices();
  if (overridden && !fits) mesh.devices.clear(); // the list was for other sizes
  std::string problem = twice                                          ? "a list with one device twice"
                        : !sorted.empty() && sorted.front() < 0        ? "a list with a negative number"
                        : !sorted.empty() && sorted.back() > INT32_MAX ? "a list with a number above 2^31-1"
                        : !fits && !overridden ? "a list of " + std::to_string(sorted.size())
                                               : "";
  if (problem.empty()) return true;
  return error(kMeshDevices, written.front().valueRange.valid() ? written.front().valueRange : nameRange,
               m_.strings[mesh.name], mesh.numDevices(), problem);
}

// --- functions ---

void Parser::functionHeads() {
  for (pos_ = 0; !at(Tok::End) && !diags_.full();) {
    if (auto it = meshEnds_.find(pos_); it != meshEnds_.end()) {
      pos_ = it->second;
    } else if (atWord("func") || atWord("spmd")) {
      size_t first = pos_;
      if (inSkippedFunction()) {
        pos_ += atWord("spmd") ? 2 : 1;
        skipToTopLevel();
      } else if (!functionHead()) {
        skipToTopLevel();
      }
      if (pos_ == first) ++pos_;
    } else {
      unexpected("'mesh', 'func' or 'spmd func'",
                 suggestion(Vocabulary::Keyword, text(tok()), {"func", "mesh", "spmd"}));
      step();
      skipToTopLevel();
    }
  }
}

// To the last block before the next function: the braces before it are shardings and attributes.
void Parser::skipToBody() {
  std::optional<size_t> body;
  for (; !at(Tok::End) && !atWord("mesh") && !atWord("func") && !atWord("spmd"); step())
    if (at(Tok::LBrace)) body = pos_;
  if (body) pos_ = *body;
}

bool Parser::functionHead() {
  size_t first = pos_;
  Function f;
  f.spmd = acceptWord("spmd");
  if (!acceptWord("func")) return unexpected("'func'");
  if (!at(Tok::Symbol)) return unexpected("the function's name, such as '@main'");
  f.loc = tok().range();
  f.name = m_.strings.intern(text(tok()).substr(1));
  ++pos_;
  f.body = m_.makeBlock();
  localMesh_ = f.spmd ? meshOfHead(first) : MeshId();
  FuncId id(static_cast<uint32_t>(m_.functions.size()));
  m_[f.body].parentFunc = id;
  size_t errors = diags_.numErrors();
  quiet_ = false;
  keepSizes_ = called_.contains(f.name);
  bool ok = signatureList("'(' and the arguments", [&] { return argument(f); }) &&
            expect(Tok::Arrow, "'->' and the results, '-> ()' if there are none") &&
            signatureList("'(' and the results", [&] { return result(f); });
  static const AttrSpec kOwn[] = {{"comm", AttrType::Strings, "", ""}, {"mesh", AttrType::Callee, "", ""},
                                  {"arena", AttrType::Int, "", ""},    {"grad", AttrType::Callee, "", ""},
                                  {"name", AttrType::String, "", ""},  {"loc", AttrType::String, "", ""}};
  std::vector<ParsedAttr> written;
  // A body may begin with a word and '=' by mistake, on a line of its own.
  const bool isOwn = std::any_of(std::begin(kOwn), std::end(kOwn), [&](const AttrSpec& a) {
    return at(Tok::Word, 1) && text(tok(1)) == a.name;
  });
  if (ok && atAttrs() && (isOwn || !tok(1).firstOnLine))
    ok = attrs(written) &&
         fitAttrs(written, kOwn, {}, "function @" + std::string(m_.strings[f.name]), f.attrs);
  Body body{id, 0, localMesh_, false};
  if (std::exchange(keepSizes_, false)) bindModuleSizes(f, body);
  auto [before, isNew] = functions_.try_emplace(f.name, id);
  if (!isNew && !suppressed()) {
    report(kFunctionTwice, f.loc, m_.strings[f.name]).note(m_[before->second].loc, "it is defined here");
    ok = false;
  }
  m_.functions.push_back(std::move(f));
  m_.order.push_back(id);
  if (ok && !at(Tok::LBrace)) ok = unexpected("'{' and the function's body");
  if (!ok) {
    skipToBody();
    if (!at(Tok::LBrace)) return true;
  }
  body.firstToken = pos_;
  body.sound = ok && !quiet_ && diags_.numErrors() == errors;
  if (isNew) bodies_.push_back(std::move(body));
  step();
  return true;
}

// The mesh of an spmd function (ir.md §2.3), read ahead of its types: that of its shardings, else {mesh = @m}, else the
// module's only one.
MeshId Parser::meshOfHead(size_t first) const {
  bool afterResults = false, inAttrs = false;
  for (size_t i = first + 1; i + 1 < tokens().size(); ++i) {
    const Token& t = tokens()[i];
    if (t.kind == Tok::Arrow) afterResults = true;
    if (t.kind == Tok::Word && (text(t) == "func") && i > first + 1) break;
    bool blockOpens = t.kind == Tok::LBrace && afterResults && tokens()[i - 1].kind == Tok::RParen;
    if (blockOpens && tokens()[i + 1].kind == Tok::Word &&
        tokens()[std::min(i + 2, tokens().size() - 1)].kind == Tok::Equal)
      inAttrs = true;
    else if (blockOpens || (inAttrs && t.kind == Tok::LBrace))
      break;
    Tok next = tokens()[i + 1].kind;
    bool ofSharding = next == Tok::LBrace || next == Tok::LBracket;
    bool ofAttr = inAttrs && tokens()[i - 1].kind == Tok::Equal && text(tokens()[i - 2]) == "mesh";
    if (t.kind != Tok::Symbol || !(ofSharding || ofAttr)) continue;
    StrId name = m_.strings.find(text(t).substr(1));
    if (name.valid() && m_.shardings.findMesh(name).valid()) return m_.shardings.findMesh(name);
  }
  return m_.shardings.numMeshes() == 1 ? MeshId(0) : MeshId();
}

bool Parser::argument(Function& f) {
  static const AttrSpec kOwn[] = {{"donate", AttrType::Bool, "", ""},
                                  {"stream", AttrType::Int, "", ""},
                                  {"at", AttrType::Ints, "", ""},
                                  {"name", AttrType::String, "", ""},
                                  {"loc", AttrType::String, "", ""}};
  FuncArg arg;
  ParsedName name;
  if (!at(Tok::Value)) return unexpected("an argument, such as '%x: f32[4]'");
  name = {m_.strings.intern(text(tok()).substr(1)), tok().range()};
  ++pos_;
  arg.value = m_.makeBlockArg(f.body, {}, name.name);
  m_[arg.value].loc = name.range;
  f.args.push_back(arg);
  FuncArg& made = f.args.back();
  ParsedType type, global;
  ParsedSharding sharding;
  std::vector<ParsedAttr> written;
  if (!expect(Tok::Colon, "':' and the argument's type") || !this->type(type, true)) return false;
  if (acceptWord("of") && !this->type(global, true)) return false;
  if (atSharding() && !this->sharding(sharding)) return false;
  if (atAttrs() && !(attrs(written) && fitAttrs(written, kOwn, {}, "an argument", made.attrs))) return false;
  made.globalType = global.id;
  m_[made.value].type = type.id;
  return finishSharding(sharding, global.id.valid() ? global.id : type.id, m_[made.value].sharding);
}

bool Parser::result(Function& f) {
  static const AttrSpec kOwn[] = {{"carry", AttrType::Bool, "", ""},
                                  {"stream", AttrType::Int, "", ""},
                                  {"at", AttrType::Ints, "", ""},
                                  {"name", AttrType::String, "", ""},
                                  {"loc", AttrType::String, "", ""}};
  FuncResult& r = f.results.emplace_back();
  size_t first = pos_;
  if (at(Tok::Value)) {
    r.label = m_.strings.intern(text(tok()).substr(1));
    ++pos_;
    if (!expect(Tok::Colon, "':' and the result's type")) return false;
  }
  ParsedType type, global;
  ParsedSharding sharding;
  std::vector<ParsedAttr> written;
  if (!this->type(type, true)) return false;
  if (acceptWord("of") && !this->type(global, true)) return false;
  if (atSharding() && !this->sharding(sharding)) return false;
  r.loc = since(first);
  if (atAttrs() && !(attrs(written) && fitAttrs(written, kOwn, {}, "a result", r.attrs))) return false;
  r.type = type.id;
  r.globalType = global.id;
  return finishSharding(sharding, global.id.valid() ? global.id : type.id, r.sharding);
}

void Parser::functionBody(const Body& b) {
  const FuncId id = b.func;
  pos_ = b.firstToken;
  func_ = id;
  ownSizes_ = &b.own;
  leaveScope({0, 0}); // what an earlier function has left
  for (const FuncArg& a : m_[id].args) define({m_[a.value].name, m_[a.value].loc}, a.value);
  block(m_[id].body, true);
}

bool parseModule(SourceText source, const OpRegistry& registry, Module& out, Diagnostics& diags,
                 const ParseOptions& options) {
  out = Module(registry);
  out.source = std::move(source);
  return Parser(out, diags, options).module();
}

} // namespace dtc
