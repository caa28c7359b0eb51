#include "text/DeclarationParser.h"

#include "dtc/Support/Checked.h"

#include <algorithm>

namespace dtc {

// A generic function may call itself with more and more dims.
constexpr size_t kMaxInstances = 1 << 12, kMaxDepth = 64;

constexpr DiagKind kMeshTwice{"redefined-mesh", "mesh @{0} is already defined"};
constexpr DiagKind kMeshAxisTwice{"redefined-axis", "mesh @{0} already has an axis '{1}'"};
constexpr DiagKind kAxisSize{"axis-size", "the size of mesh axis '{0}' is at least 1, found {1}"};
constexpr DiagKind kMeshSize{"mesh-too-large", "mesh @{0} has more than 2^31-1 devices"};
constexpr DiagKind kMeshDevices{"mesh-devices", "mesh @{0} has size {1}, but 'devices' is {2}"};
constexpr DiagKind kMeshOverride{"mesh-override", "mesh @{0} has no axis '{1}'{2}"};
constexpr DiagKind kInstances{"generic-instances", "more than {0} functions are made of generic ones"};
constexpr DiagKind kTooDeep{"generic-instances", "generic functions call each other more than {0} deep"};
constexpr DiagKind kFunctionTwice{"redefined-function", "function @{0} is already defined"};

// --- meshes ---

void DeclarationParser::meshes() {
  for (in_.pos = 0; !at(Tok::End) && !diags_.full();) {
    if (!atWord("mesh")) {
      step();
      continue;
    }
    size_t first = in_.pos;
    if (!mesh()) skipToTopLevel();
    if (in_.pos == first) ++in_.pos;
    meshEnds_[first] = in_.pos;
  }
}

bool DeclarationParser::mesh() {
  ++in_.pos;
  Mesh mesh;
  SourceRange nameRange = tok().range();
  if (atName() && at(Tok::Equal, 1)) { // parsed as if the '@' were there
    std::string_view name = text(tok());
    unexpected("the mesh's name, such as '@pod'", "; write '@" + std::string(name) + "'");
    mesh.name = m_.strings.intern(name);
  } else if (!at(Tok::Symbol)) {
    return unexpected("the mesh's name, such as '@pod'");
  } else {
    mesh.name = m_.strings.intern(text(tok()).substr(1));
  }
  ++in_.pos;
  auto [before, isNew] = types_.declaredMeshes.try_emplace(mesh.name, nameRange);
  if (!isNew) {
    diags_.error(kMeshTwice, nameRange, m_.strings[mesh.name]).note(before->second, "it is defined here");
    return false;
  }
  if (!expect(Tok::Equal, "'='") || !expect(Tok::LBracket, "'[' and the mesh's axes")) return false;
  std::unordered_set<StrId> names;
  if (!commaList(Tok::RBracket, "']'", [&] { return meshAxis(mesh, names); })) return false;
  if (!overrideSizes(mesh, nameRange)) return false;
  std::optional<int64_t> devices = 1;
  for (const MeshAxis& a : mesh.axes) devices = devices ? checkedMul(*devices, a.size) : devices;
  if (!devices || *devices > INT32_MAX) return error(kMeshSize, nameRange, m_.strings[mesh.name]);
  if (atAttrs() && !meshDevices(mesh, nameRange)) return false;
  m_.shardings.addMesh(std::move(mesh));
  return true;
}

bool DeclarationParser::meshAxis(Mesh& mesh, std::unordered_set<StrId>& names) {
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
  if (!names.insert(name.name).second)
    return error(kMeshAxisTwice, name.range, m_.strings[mesh.name], m_.strings[name.name]);
  ++in_.pos;
  mesh.axes.push_back({name.name, value.i});
  return true;
}

// --mesh pod=dp:4,tp:2
bool DeclarationParser::overrideSizes(Mesh& mesh, SourceRange nameRange) {
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

bool DeclarationParser::meshDevices(Mesh& mesh, SourceRange nameRange) {
  static const AttrSpec kDevices[] = {{"devices", AttrType::Ints, "", ""}};
  std::vector<ParsedAttr> written;
  AttrList list;
  std::string owner = "mesh @" + std::string(m_.strings[mesh.name]);
  if (!attrs_.attrs(written, kDevices, {}, owner, list)) return false;
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

// --- signatures ---

void DeclarationParser::signatures() {
  for (in_.pos = 0; !at(Tok::End) && !diags_.full();) {
    if (auto it = meshEnds_.find(in_.pos); it != meshEnds_.end()) {
      in_.pos = it->second;
    } else if (atImport()) {
      in_.pos += 2; // its text follows that of the module
    } else if (atWord("func") || atWord("spmd")) {
      size_t first = in_.pos;
      const Token& name = tok(atWord("spmd") ? 2 : 1);
      const bool skipped = name.kind == Tok::Symbol && sizes_.skips(m_.strings.find(text(name).substr(1)));
      if (skipped || parsedOnCall()) {
        in_.pos += atWord("spmd") ? 2 : 1;
        skipToTopLevel();
      } else if (!signature()) {
        skipToTopLevel();
      }
      if (in_.pos == first) ++in_.pos;
    } else if (atWord("import")) {
      ++in_.pos;
      const std::string name(text(tok()));
      unexpected("the module's name in quotes", at(Tok::Word) ? "; write import \"" + name + "\"" : "");
      skipToTopLevel();
    } else {
      unexpected("'mesh', 'func', 'spmd func' or 'import'",
                 suggestion(Vocabulary::Keyword, text(tok()), {"func", "mesh", "spmd", "import"}));
      step();
      skipToTopLevel();
    }
  }
}

// Whether the function is parsed where it is called: a generic one, or one of an imported file.
bool DeclarationParser::parsedOnCall() {
  const bool imported = !m_.source.imported.empty() && tok().begin >= m_.source.imported.front().begin;
  FunctionOnCall f;
  bool isGeneric = false;
  if (tok(atWord("spmd") ? 2 : 1).kind != Tok::Symbol) return false; // signature() reports it
  f.failed = !generics_.read(f, isGeneric);
  if (!isGeneric && !imported) return false;
  const auto parsed = functions_.parsed.find(f.name.name);
  const auto before = functions_.onCall.find(f.name.name);
  if (parsed == functions_.parsed.end() && before == functions_.onCall.end()) {
    functions_.onCall.emplace(f.name.name, std::move(f));
    return true;
  }
  diags_.error(kFunctionTwice, f.name.range, m_.strings[f.name.name])
      .note(before == functions_.onCall.end() ? m_[parsed->second].loc : before->second.name.range,
            "it is defined here");
  return true;
}

bool DeclarationParser::instance(FunctionOnCall& f, std::span<const TypeId> given, SourceRange call,
                                 FuncId& out) {
  Instance made{&f, call, {}, {}, {}, 0};
  if (!f.parameters.empty() && !generics_.bind(f, given, call, made.binding)) return false;
  made.text = generics_.textOf(f, made.binding);
  if (const auto known = f.instances.find(made.text); known != f.instances.end()) {
    out = known->second;
    return true;
  }
  made.depth = (caller_ ? caller_->depth : 0) + !f.parameters.empty();
  if (made.depth > kMaxDepth) return error(kTooDeep, call, kMaxDepth);
  if (instances_.size() >= kMaxInstances) return error(kInstances, call, kMaxInstances);
  const std::string name = generics_.nameOf(f, made.binding);
  made.name = m_.strings.intern(name);
  for (int n = 2; !f.parameters.empty() && functions_.parsed.contains(made.name); ++n)
    made.name = m_.strings.intern(name + "_" + std::to_string(n));
  out = FuncId(static_cast<uint32_t>(m_.functions.size()));
  if (parseInstance(instances_.emplace_back(std::move(made)))) {
    f.instances.emplace(instances_.back().text, out);
    return true;
  }
  f.failed = true;
  return false;
}

// The signature, in the middle of another function.
bool DeclarationParser::parseInstance(const Instance& instance) {
  const TokenStream::Place back = in_.place();
  const MeshId mesh = types_.localMesh;
  const GenericBinding* generic = types_.generic;
  const std::vector<StrId>* own = sizes_.body();
  const size_t errors = diags_.numErrors();
  instance_ = &instance;
  types_.generic = &instance.binding;
  in_.pos = instance.of->firstToken;
  const bool ok = signature() && diags_.numErrors() == errors;
  instance_ = nullptr;
  types_.generic = generic;
  types_.localMesh = mesh;
  sizes_.enterBody(own);
  in_.restore(back);
  noteInstance(instance, errors);
  return ok;
}

void DeclarationParser::noteInstance(const Instance& instance, size_t errors) {
  if (diags_.numErrors() == errors || instance.of->parameters.empty()) return;
  instance.of->failed = true;
  diags_.noteSince(errors, instance.call,
                   "in @" + std::string(m_.strings[instance.of->name.name]) + " with " +
                       (instance.text.size() > 100 ? instance.text.substr(0, 100) + "..." : instance.text) +
                       ", which is called here");
}

bool DeclarationParser::signature() {
  size_t first = in_.pos;
  Function f;
  ParsedName name;
  f.spmd = acceptWord("spmd");
  if (!acceptWord("func")) return unexpected("'func'");
  if (!expectName(Tok::Symbol, "the function's name, such as '@main'", name)) return false;
  if (at(Tok::LBracket)) step(); // the parameters of a generic function
  f.name = instance_ ? instance_->name : name.name;
  f.loc = name.range;
  f.body = m_.makeBlock();
  types_.localMesh = f.spmd ? meshOfHead(first) : MeshId();
  FuncId id(static_cast<uint32_t>(m_.functions.size()));
  m_[f.body].parentFunc = id;
  size_t errors = diags_.numErrors();
  in_.quiet = false;
  sizes_.enterSignature(name.name);
  bool ok = list("'(' and the arguments", [&] { return argument(f); }) &&
            expect(Tok::Arrow, "'->' and the results, '-> ()' if there are none") &&
            list("'(' and the results", [&] { return result(f); });
  ok = ok && functionAttrs(f);
  Body body{id, 0, types_.localMesh, false, sizes_.leaveSignature(f, types_.localMesh), instance_};
  if (instance_) {
    functions_.instances.insert(f.name);
  } else if (const auto generic = functions_.onCall.find(f.name); generic != functions_.onCall.end()) {
    diags_.error(kFunctionTwice, f.loc, m_.strings[f.name])
        .note(generic->second.name.range, "it is defined here");
    ok = false;
  }
  auto [before, isNew] = functions_.parsed.try_emplace(f.name, id);
  if (!isNew && !suppressed()) {
    diags_.error(kFunctionTwice, f.loc, m_.strings[f.name])
        .note(m_[before->second].loc, "it is defined here");
    ok = false;
  }
  m_.functions.push_back(std::move(f));
  m_.order.push_back(id);
  if (ok && !at(Tok::LBrace)) ok = unexpected("'{' and the function's body");
  if (!ok) {
    skipToBody();
    if (!at(Tok::LBrace)) return true;
  }
  body.firstToken = in_.pos;
  body.sound = ok && !in_.quiet && diags_.numErrors() == errors;
  if (isNew) bodies_.push_back(std::move(body));
  step();
  return gradientOf(id);
}

// An imported function is also called as the gradient of another.
bool DeclarationParser::gradientOf(FuncId id) {
  AttrId gradient;
  for (const NamedAttr& a : m_[id].attrs)
    if (m_.strings[a.name] == "grad") gradient = a.value;
  if (!gradient.valid()) return true;
  const auto it = functions_.onCall.find(m_.attrs[gradient].text);
  FuncId unused;
  return it == functions_.onCall.end() || !it->second.parameters.empty() ||
         instance(it->second, {}, m_[id].loc, unused);
}

// Skips to the last block before the next function: braces before it are shardings and attributes.
void DeclarationParser::skipToBody() {
  std::optional<size_t> body;
  for (; !at(Tok::End) && !atWord("mesh") && !atWord("func") && !atWord("spmd"); step())
    if (at(Tok::LBrace)) body = in_.pos;
  if (body) in_.pos = *body;
}

bool DeclarationParser::functionAttrs(Function& f) {
  static const AttrSpec kOwn[] = {
      {"comm", AttrType::Strings, "", ""},    {"mesh", AttrType::Callee, "", ""},
      {"target", AttrType::String, "", ""},   {"streams", AttrType::Int, "", ""},
      {"arena", AttrType::Int, "", ""},       {"grad", AttrType::Callee, "", ""},
      {"recomputes", AttrType::Bool, "", ""}, {"pipeline", AttrType::String, "", ""},
      {"devices", AttrType::Ints, "", ""},    {"program", AttrType::Callee, "", ""},
      {"name", AttrType::String, "", ""},     {"loc", AttrType::String, "", ""}};
  std::vector<ParsedAttr> written;
  // By mistake, a body may begin with a word and '=', on a new line.
  const bool isOwn = std::any_of(std::begin(kOwn), std::end(kOwn), [&](const AttrSpec& a) {
    return at(Tok::Word, 1) && text(tok(1)) == a.name;
  });
  if (!atAttrs() || (!isOwn && tok(1).firstOnLine)) return true;
  return attrs_.attrs(written, kOwn, {}, "function @" + std::string(m_.strings[f.name]), f.attrs);
}

// The mesh of an spmd function (ir.md), determined before its types are parsed: that of its shardings,
// else {mesh = @m}, else the module's only mesh.
MeshId DeclarationParser::meshOfHead(size_t first) const {
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

static constexpr const char* kArgumentFlags[] = {"donate", "frozen"};
static constexpr const char* kResultFlags[] = {"carry"};

bool DeclarationParser::typed(size_t first, std::span<const char* const> flags, std::string_view owner,
                              Typed& out) {
  std::vector<AttrSpec> own = {{"devices", AttrType::Ints, "", ""},
                               {"stream", AttrType::Int, "", ""},
                               {"at", AttrType::Ints, "", ""},
                               {"name", AttrType::String, "", ""},
                               {"loc", AttrType::String, "", ""}};
  for (const char* flag : flags) own.push_back({flag, AttrType::Bool, "", ""});
  ParsedType type, global;
  ParsedSharding sharding;
  std::vector<ParsedAttr> written;
  if (!types_.type(type)) return false;
  if (acceptWord("of") && !types_.type(global)) return false;
  if (atSharding() && !types_.sharding(sharding)) return false;
  out.range = since(first);
  if (atAttrs() && !attrs_.attrs(written, own, {}, owner, out.attrs)) return false;
  out.type = type.id;
  out.globalType = global.id;
  return types_.finishSharding(sharding, global.id.valid() ? global.id : type.id, out.sharding);
}

bool DeclarationParser::argument(Function& f) {
  ParsedName name;
  if (!expectName(Tok::Value, "an argument, such as '%x: f32[4]'", name)) return false;
  FuncArg& arg = f.args.emplace_back();
  arg.value = m_.makeBlockArg(f.body, {}, name.name);
  m_[arg.value].loc = name.range;
  Typed made;
  if (!expect(Tok::Colon, "':' and the argument's type")) return false;
  const bool ok = typed(in_.pos, kArgumentFlags, "an argument", made);
  arg.attrs = std::move(made.attrs);
  arg.globalType = made.globalType;
  m_[arg.value].type = made.type;
  m_[arg.value].sharding = made.sharding;
  return ok;
}

bool DeclarationParser::result(Function& f) {
  FuncResult& r = f.results.emplace_back();
  const size_t first = in_.pos;
  if (at(Tok::Value)) {
    ParsedName label;
    if (!expectName(Tok::Value, "", label)) return false;
    r.label = label.name;
    if (!expect(Tok::Colon, "':' and the result's type")) return false;
  }
  Typed made;
  const bool ok = typed(first, kResultFlags, "a result", made);
  r.loc = made.range;
  r.attrs = std::move(made.attrs);
  r.type = made.type;
  r.globalType = made.globalType;
  r.sharding = made.sharding;
  return ok;
}

} // namespace dtc
