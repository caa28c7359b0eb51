#include "verify/Verifier.h"

#include "dtc/IR/CallSizes.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/CommContract.h"
#include "dtc/IR/verify/Verify.h"

#include "dtc/Support/Counted.h"
#include "dtc/Support/Suggest.h"
#include "dtc/Support/Words.h"
#include "dtc/Target/Target.h"
#include <algorithm>

namespace dtc {

constexpr DiagKind kNotVisible{"value-not-visible", "{0} is not defined where it is used"};
constexpr DiagKind kResultType{"result-type", "the result of '{0}' is {1}, but {2} is {3}"};
constexpr DiagKind kResultCount{"result-count", "'{0}' has {1} results, but {2} are named"};
constexpr DiagKind kSharding{"invalid-sharding", "{0}: {1}"};
constexpr DiagKind kReshardNeeds{"reshard-needs-sharding",
                                 "'{0}' changes the sharding: write the new sharding after its result type"};
constexpr DiagKind kMeshes{"mixed-meshes",
                           "'{0}' has {1} on mesh @{2} and {3} on mesh @{4}: insert a 'reshard' before it"};
constexpr DiagKind kShardSizeInGlobal{"shard-size-in-global",
                                      "{0} is {1}: only local text has sizes of shards such as 'n/axis'"};
constexpr DiagKind kLabelTwice{"duplicate-result-name", "two results are named %{0}"};
constexpr DiagKind kFrozenArgument{"frozen-argument", "argument %{0} cannot have frozen = true: {1}"};
constexpr DiagKind kCarry{"carry-mismatch", "'carry' needs an argument %{0} of the same type and sharding"};
constexpr DiagKind kNoFunction{"unknown-function",
                               "'{0}' of @{1} names @{2}, which is not a function of this module{3}"};
constexpr DiagKind kTarget{"unknown-target", "@{0}: {1}"};
constexpr DiagKind kNoMesh{"unknown-mesh",
                           "'mesh' of @{0} names @{1}, which is not a mesh of this module{2}"};
constexpr DiagKind kTwoMeshes{"mixed-meshes",
                              "the spmd function @{0} is on one mesh, but its shardings name @{1} and @{2}"};
constexpr DiagKind kReturnCount{"return-count", "@{0} has {1}, but {2} returned"};
constexpr DiagKind kReturnType{"return-type", "result {0} of @{1}: expected {2}, found {3}, which is {4}"};
constexpr DiagKind kOfInGlobal{"shard-in-global",
                               "{0} is a shard ('of'), but only spmd functions have shards"};
constexpr DiagKind kOfNeeds{"of-needs-sharding", "{0} is a shard of {1}: write its sharding after it"};
constexpr DiagKind kShardType{"shard-type", "{0}: a shard of {1} is {2}, found {3}"};
constexpr DiagKind kNeedsOf{
    "needs-of", "{0} of an spmd function has a sharding: write the tensor that is sharded, as in '{1} of …'"};
constexpr DiagKind kGradientSignature{"gradient-signature",
                                      "@{0} is the gradient of @{1}: expected {2}, found {3}"};
constexpr DiagKind kLocalGradient{
    "local-gradient",
    "@{0} has the gradient @{1}: both must be global functions, because autodiff runs before partitioning"};
constexpr DiagKind kContract{"contract-syntax", "this is not a communication contract: {0}"};
constexpr DiagKind kContractWhat{"unknown-collective", "there is no collective '{0}'{1}"};
constexpr DiagKind kContractAxis{"unknown-axis", "no mesh of this module has an axis '{0}'{1}"};
constexpr DiagKind kRecursion{"recursion", "@{0} calls itself{1}"};

std::optional<Dim> iterationCount(const Module& m, OpId op) {
  const Value &lo = m[m.operand(op, 0)], &hi = m[m.operand(op, 1)];
  if (lo.kind != ValueKind::Literal) return std::nullopt;
  int64_t from = m.attrs[lo.literal].i;
  if (hi.kind == ValueKind::Literal) return Dim(std::max<int64_t>(m.attrs[hi.literal].i - from, 0));
  if (hi.kind == ValueKind::Symbol && from == 0) return hi.symbol;
  return std::nullopt;
}

std::string VerifierPart::name(ValueId v) const { return printValueName(m_, v); }
std::string VerifierPart::typeName(TypeId t) const { return t.valid() ? printType(m_, t) : "untyped"; }
std::string Verifier::functionName(FuncId f) const { return "@" + std::string(m_.strings[m_[f].name]); }

// --- signatures ---

void Verifier::function(FuncId id) {
  const Function& f = m_[id];
  func_ = id;
  local_ = f.spmd;
  meshes_.clear();
  signature(f);
  labels(f);
  functionAttrs(f);
  LocalVerifier local(m_, diags_, id);
  local.placement();
  if (f.spmd) oneMesh(f);
  size_t before = diags_.numErrors();
  block(f.body);
  returned(f);
  if (f.spmd && diags_.numErrors() == before) {
    Varying v(m_, id);
    local.varying(v, f.body);
    local.varyingResults(v);
    local.handles(f.body);
  }
}

void Verifier::signature(const Function& f) {
  MeshId mesh = meshOfFunction(m_, func_); // of arguments without a sharding, as propagation has it
  if (!mesh.valid()) mesh = MeshId(0);
  for (const FuncArg& a : f.args) {
    const Value& v = m_[a.value];
    if (m_.shardings.numMeshes() > 1)
      setMesh(a.value, v.sharding.valid() ? m_.shardings[v.sharding].mesh : mesh);
    auto what = [&] { return "argument " + name(a.value); };
    signaturePart(f, what, v.loc, v.type, a.globalType, v.sharding);
  }
  for (size_t i = 0; i < f.results.size(); ++i) {
    const FuncResult& r = f.results[i];
    auto what = [&] {
      return "result " + (r.label.valid() ? "%" + std::string(m_.strings[r.label]) : std::to_string(i));
    };
    signaturePart(f, what, r.loc, r.type, r.globalType, r.sharding);
  }
}

void Verifier::signaturePart(const Function& f, const std::function<std::string()>& what, SourceRange range,
                             TypeId type, TypeId global, ShardingId s) {
  if (s.valid()) sharding(s, global.valid() ? global : type, range);
  auto shardedSizeIn = [&](TypeId t) {
    const std::vector<Dim>& dims = m_.types[t].dims;
    return std::any_of(dims.begin(), dims.end(), [&](Dim d) { return !m_.dims.expr(d).axes.empty(); });
  };
  if (!f.spmd) {
    if (global.valid())
      error(kOfInGlobal, range, what());
    else if (shardedSizeIn(type))
      error(kShardSizeInGlobal, range, what(), typeName(type));
    return;
  }
  if (!global.valid()) {
    if (s.valid() && !m_.shardings[s].fullyReplicated()) error(kNeedsOf, range, what(), typeName(type));
    return;
  }
  if (shardedSizeIn(global)) {
    error(kShardSizeInGlobal, range, "the global type of " + what(), typeName(global));
  } else if (!s.valid()) {
    error(kOfNeeds, range, what(), typeName(global));
  } else if (TypeId local = LocalVerifier(m_, diags_, func_).shardType(global, s, range);
             local.valid() && local != type) {
    error(kShardType, range, what(), typeName(global) + " under " + printSharding(m_, s), typeName(local),
          typeName(type));
  }
}

void Verifier::labels(const Function& f) {
  std::unordered_map<StrId, SourceRange> seen;
  std::unordered_map<StrId, const FuncArg*> args;
  for (const FuncArg& a : f.args) args.emplace(m_[a.value].name, &a);
  StrId carry = m_.strings.find("carry");
  const auto flag = [&](const AttrList& attrs, const char* name) {
    const AttrId a = findAttr(attrs, m_.strings.find(name));
    return a.valid() && m_.attrs[a].i != 0;
  };
  for (const FuncArg& a : f.args)
    if (flag(a.attrs, "frozen") && flag(a.attrs, "donate"))
      error(kFrozenArgument, m_[a.value].loc, m_.strings[m_[a.value].name], "its memory is donated");
  for (const FuncResult& r : f.results) {
    if (!r.label.valid()) continue;
    auto [before, isNew] = seen.emplace(r.label, r.loc);
    if (!isNew) error(kLabelTwice, r.loc, m_.strings[r.label]).note(before->second, "the first is here");
    AttrId a = findAttr(r.attrs, carry);
    if (!a.valid() || !m_.attrs[a].i) continue;
    auto fits = [&](const FuncArg& arg) {
      const Value& v = m_[arg.value];
      return v.type == r.type && arg.globalType == r.globalType &&
             (v.sharding == r.sharding || !v.sharding.valid() || !r.sharding.valid());
    };
    auto arg = args.find(r.label);
    if (arg == args.end() || !fits(*arg->second)) error(kCarry, r.loc, m_.strings[r.label]);
    if (arg != args.end() && flag(arg->second->attrs, "frozen"))
      error(kFrozenArgument, m_[arg->second->value].loc, m_.strings[r.label], "a result replaces it");
  }
}

void Verifier::functionAttrs(const Function& f) {
  std::string_view own = m_.strings[f.name];
  if (AttrId a = findAttr(f.attrs, m_.strings.find("mesh")); a.valid())
    if (!m_.shardings.findMesh(m_.attrs[a].text).valid()) {
      std::vector<std::string_view> known;
      for (uint32_t i = 0; i < m_.shardings.numMeshes(); ++i)
        known.push_back(m_.strings[m_.shardings.mesh(MeshId(i)).name]);
      const std::string_view named = m_.strings[m_.attrs[a].text];
      error(kNoMesh, f.loc, own, named, suggestion(Vocabulary::Plain, named, known, "@"));
    }
  for (const char* attr : {"grad", "program"}) {
    const AttrId a = findAttr(f.attrs, m_.strings.find(attr));
    if (!a.valid()) continue;
    const std::string_view named = m_.strings[m_.attrs[a].text];
    if (const FuncId g = m_.findFunction(named); !g.valid()) {
      std::vector<std::string_view> known;
      for (FuncId other : m_.order)
        if (&m_[other] != &f) known.push_back(m_.strings[m_[other].name]);
      error(kNoFunction, f.loc, attr, own, named, suggestion(Vocabulary::Plain, named, known, "@"));
    } else if (attr == std::string_view("grad")) {
      gradientSignature(f, m_[g]);
    }
  }
  if (AttrId a = findAttr(f.attrs, m_.strings.find("target")); a.valid())
    if (const auto target = targetNamed(m_.strings[m_.attrs[a].text]); !target)
      error(kTarget, f.loc, own, target.error().message);
  for (const WrittenContract& c : contractsOf(m_, f)) contract(c);
}

// Checks the syntax of a contract, and that its collective and axes exist.
void Verifier::contract(const WrittenContract& written) {
  std::string_view text = m_.strings[m_.attrs[written.attr].text];
  ContractError problem;
  const std::optional<CommContract> contract = parseCommContract(text, problem);
  if (!contract) {
    error(kContract, written.range(problem.begin, problem.end), problem.message);
    return;
  }
  if (contract->what != CommContract::kAny) {
    const OpKind kind = m_.registry->find(contract->what);
    if (kind == kNoOpKind || !isContractCollective((*m_.registry)[kind])) {
      std::vector<std::string_view> known = {CommContract::kAny, CommContract::kNone};
      for (size_t k = 0; k < m_.registry->size(); ++k)
        if (const OpRecord& r = (*m_.registry)[static_cast<OpKind>(k)]; isContractCollective(r))
          known.emplace_back(r.name);
      error(kContractWhat, written.range(contract->whatBegin, contract->whatEnd), contract->what,
            suggestion(Vocabulary::Op, contract->what, known));
    }
  }
  for (const CommContract::Axis& axis : contract->axes) {
    std::vector<std::string_view> known;
    for (uint32_t i = 0; i < m_.shardings.numMeshes(); ++i)
      for (const MeshAxis& a : m_.shardings.mesh(MeshId(i)).axes) known.push_back(m_.strings[a.name]);
    if (std::find(known.begin(), known.end(), axis.name) != known.end()) continue;
    error(kContractAxis, written.range(axis.begin, axis.end), axis.name,
          suggestion(Vocabulary::Plain, axis.name, known));
  }
}

// A gradient function takes the function's arguments, optionally its results, and the cotangents of its float
// results, and returns the gradients of its float arguments.
void Verifier::gradientSignature(const Function& f, const Function& g) {
  if (f.spmd || g.spmd) {
    error(kLocalGradient, f.loc, m_.strings[f.name], m_.strings[g.name]);
    return;
  }
  std::vector<TypeId> args, results, cotangents, gradients, has, returns;
  for (const FuncArg& a : f.args) {
    args.push_back(m_[a.value].type);
    if (args.back().valid() && isFloat(partType(m_.types[args.back()].dtype)))
      gradients.push_back(args.back());
  }
  for (const FuncResult& r : f.results) {
    results.push_back(r.type);
    if (r.type.valid() && isFloat(partType(m_.types[r.type].dtype))) cotangents.push_back(r.type);
  }
  for (const FuncArg& a : g.args) has.push_back(m_[a.value].type);
  for (const FuncResult& r : g.results) returns.push_back(r.type);
  if (has.size() > args.size() + cotangents.size()) args.insert(args.end(), results.begin(), results.end());
  args.insert(args.end(), cotangents.begin(), cotangents.end());
  // The function's own sizes: those that its types bind.
  SizeMismatch mismatch;
  if (has.size() == args.size())
    if (const auto binding = bindSizes(m_, g, args, mismatch)) {
      for (TypeId& t : returns)
        if (const TypeId in = typeInCall(m_, t, *binding, {}); in.valid()) t = in;
      if (returns == gradients) return;
      returns.clear();
      for (const FuncResult& r : g.results) returns.push_back(r.type);
    }
  auto text = [&](const std::vector<TypeId>& from, const std::vector<TypeId>& to) {
    auto list = [&](const std::vector<TypeId>& types) {
      return "(" + joined(types, ", ", [&](TypeId t) { return typeName(t); }) + ")";
    };
    return list(from) + " -> " + list(to);
  };
  error(kGradientSignature, g.loc, m_.strings[g.name], m_.strings[f.name], text(args, gradients),
        text(has, returns))
      .note(f.loc, "a gradient function takes the arguments of this function, optionally its results, and "
                   "the cotangents of its "
                   "float results; it returns the gradients of its float arguments");
}

void Verifier::oneMesh(const Function& f) {
  MeshId mesh = meshOfFunction(m_, func_);
  auto check = [&](ShardingId s, SourceRange range) {
    if (!s.valid() || m_.shardings[s].mesh == mesh || !mesh.valid()) return;
    error(kTwoMeshes, range, m_.strings[f.name], m_.strings[m_.shardings.mesh(mesh).name],
          m_.strings[m_.shardings.meshOf(s).name]);
  };
  for (const FuncArg& a : f.args) check(m_[a.value].sharding, m_[a.value].loc);
  for (const FuncResult& r : f.results) check(r.sharding, r.loc);
}

void Verifier::returned(const Function& f) {
  const Block& b = m_[f.body];
  if (b.yields.size() != f.results.size()) {
    error(kReturnCount, b.terminatorLoc, m_.strings[f.name], counted(f.results.size(), "result"),
          counted(b.yields.size(), "value") + (b.yields.size() == 1 ? " is" : " are"))
        .note(f.loc, functionName(func_) + " is declared here");
    return;
  }
  for (size_t i = 0; i < b.yields.size(); ++i) {
    TypeId type = m_[b.yields[i]].type;
    if (type == f.results[i].type || !type.valid()) continue;
    error(kReturnType, b.terminatorLoc, i, m_.strings[f.name], typeName(f.results[i].type), name(b.yields[i]),
          typeName(type))
        .note(f.results[i].loc, "the result is declared here");
  }
}

// --- blocks and ops ---

void Verifier::define(ValueId v) {
  stack_.push_back(v);
  defined_[v.index] = static_cast<uint32_t>(stack_.size());
}

void Verifier::block(BlockId b) {
  size_t mark = stack_.size();
  for (ValueId a : m_[b].args) define(a);
  for (size_t i = 0; i < m_[b].ops.size() && !diags_.full(); ++i) {
    OpId o = m_[b].ops[i];
    op(o);
    for (uint32_t r = 0; r < m_[o].numResults; ++r) define(m_.result(o, r));
  }
  operandsVisible(m_[b].yields, m_[b].terminatorLoc);
  for (; stack_.size() > mark; stack_.pop_back()) defined_[stack_.back().index] = 0;
}

void Verifier::innerBlock(BlockId b, bool isolated) {
  const uint32_t from = visibleFrom_;
  if (isolated) visibleFrom_ = static_cast<uint32_t>(stack_.size());
  block(b);
  visibleFrom_ = from;
}

void Verifier::operandsVisible(std::span<const ValueId> values, SourceRange range) {
  for (ValueId v : values) {
    ValueKind kind = m_[v].kind;
    if (kind == ValueKind::Literal || kind == ValueKind::Symbol || visible(v)) continue;
    error(kNotVisible, range, name(v));
  }
}

void Verifier::op(OpId o) {
  const OpRecord& record = m_.record(o);
  size_t before = diags_.numErrors();
  operandsVisible(m_.operands(o), m_[o].loc);
  if (diags_.numErrors() != before || !typed(o)) return;
  if (record.regions != RegionKind::None)
    RegionVerifier(m_, diags_, *this, func_, o).region();
  else if (record.isCall)
    RegionVerifier(m_, diags_, *this, func_, o).call();
  else
    inferred(o);
  if (diags_.numErrors() == before) resultShardings(o);
  LocalVerifier(m_, diags_, func_).op(o, local_, freeAxes_);
  if (m_.shardings.numMeshes() > 1) meshes(o);
}

bool Verifier::typed(OpId o) {
  std::span<const ValueId> operands = m_.operands(o);
  bool all = std::all_of(operands.begin(), operands.end(), [&](ValueId v) { return m_[v].type.valid(); });
  for (uint32_t i = 0; i < m_[o].numResults; ++i) all &= m_[m_.result(o, i)].type.valid();
  return all;
}

void Verifier::inferred(OpId o) {
  const Op& op = m_[o];
  types_.clear();
  OpQuery q = queryOf(m_, o, diags_);
  if (!inferResultTypes(q, types_)) return;
  std::string_view what = m_.record(o).name;
  if (types_.size() != op.numResults) {
    error(kResultCount, op.loc, what, types_.size(), op.numResults);
    return;
  }
  for (uint32_t i = 0; i < op.numResults; ++i) {
    ValueId v = m_.result(o, i);
    if (m_[v].type != types_[i])
      error(kResultType, op.loc, what, typeName(types_[i]), name(v), typeName(m_[v].type));
  }
}

void Verifier::sharding(ShardingId s, TypeId global, SourceRange range) {
  const uint64_t pair = uint64_t{s.index} << 32 | global.index;
  if (valid_.contains(pair)) return;
  std::string problem =
      validateSharding(m_.shardings[s], m_.shardings.meshOf(s), m_.types[global].dims, m_.dims, m_.strings);
  if (problem.empty())
    valid_.insert(pair);
  else
    error(kSharding, range, printSharding(m_, s), problem);
}

void Verifier::resultShardings(OpId o) {
  if (m_.record(o).constraint == Constraint::Reshard && !local_ && !m_[m_.result(o)].sharding.valid())
    error(kReshardNeeds, m_[o].loc, m_.record(o).name);
  for (uint32_t i = 0; i < m_[o].numResults; ++i) {
    const Value& v = m_[m_.result(o, i)];
    if (v.sharding.valid()) sharding(v.sharding, v.type, v.loc);
    if (local_) continue;
    for (Dim d : m_.types[v.type].dims)
      if (!m_.dims.expr(d).axes.empty()) {
        error(kShardSizeInGlobal, v.loc, name(m_.result(o, i)), typeName(v.type));
        break;
      }
  }
}

// --- meshes (ir.md): a value without annotation is on the mesh of its operands ---

MeshId Verifier::meshOf(ValueId v) const {
  if (m_[v].sharding.valid()) return m_.shardings[m_[v].sharding].mesh;
  auto it = meshes_.find(v);
  return it == meshes_.end() ? MeshId() : it->second;
}

void Verifier::setMesh(ValueId v, MeshId mesh) {
  if (mesh.valid()) meshes_[v] = mesh;
}

void Verifier::meshes(OpId o) {
  MeshId mesh;
  ValueId first;
  Constraint constraint = m_.record(o).constraint;
  auto on = [&](MeshId id) { return m_.strings[m_.shardings.mesh(id).name]; };
  for (ValueId v : m_.operands(o)) {
    MeshId own = meshOf(v);
    if (!own.valid()) continue;
    if (mesh.valid() && mesh != own && m_.record(o).regions == RegionKind::None && !m_.record(o).isCall) {
      error(kMeshes, m_[o].loc, m_.record(o).name, name(first), on(mesh), name(v), on(own));
      return;
    }
    if (!mesh.valid()) first = v;
    if (!mesh.valid()) mesh = own;
  }
  for (uint32_t i = 0; i < m_[o].numResults; ++i) {
    ValueId v = m_.result(o, i);
    MeshId own = meshOf(v);
    bool free =
        constraint == Constraint::Reshard || m_.record(o).regions != RegionKind::None || m_.record(o).isCall;
    if (own.valid() && mesh.valid() && own != mesh && !free) {
      error(kMeshes, m_[o].loc, m_.record(o).name, name(first), on(mesh), name(v), on(own));
      return;
    }
    if (!own.valid()) setMesh(v, mesh);
  }
}

// --- recursion ---

void Verifier::recursion() {
  enum State : uint8_t { New, Open, Done };
  std::vector<State> state(m_.functions.size(), New);
  std::unordered_map<StrId, FuncId> byName;
  for (FuncId f : m_.order)
    if (m_[f].body.valid()) byName.emplace(m_[f].name, f);
  std::vector<std::vector<std::pair<FuncId, SourceRange>>> calls(m_.functions.size());
  for (const auto& [name, f] : byName)
    forEachOp(m_, m_[f].body, [&, f = f](OpId o) {
      auto it = byName.find(m_[o].callee);
      if (m_[o].callee.valid() && it != byName.end()) calls[f.index].emplace_back(it->second, m_[o].loc);
    });
  for (FuncId root : m_.order) {
    if (state[root.index] != New || !m_[root].body.valid()) continue;
    std::vector<std::pair<FuncId, size_t>> path = {{root, 0}};
    state[root.index] = Open;
    while (!path.empty()) {
      auto& [f, next] = path.back();
      if (next == calls[f.index].size()) {
        state[f.index] = Done;
        path.pop_back();
        continue;
      }
      auto [callee, where] = calls[f.index][next++];
      if (state[callee.index] == Open) {
        std::string through;
        for (size_t i = path.size(); i-- > 0 && path[i].first != callee;)
          through.insert(0, (through.empty() ? "" : ", ") + functionName(path[i].first));
        error(kRecursion, where, m_.strings[m_[callee].name], through.empty() ? "" : " through " + through);
      } else if (state[callee.index] == New) {
        state[callee.index] = Open;
        path.emplace_back(callee, 0);
      }
    }
  }
}

void verifyFunctions(Module& m, std::span<const FuncId> functions, Diagnostics& diags) {
  Verifier verifier(m, diags);
  for (FuncId f : functions)
    if (!diags.full()) verifier.function(f);
}

bool verifyModule(Module& m, Diagnostics& diags) {
  size_t before = diags.numErrors();
  Verifier verifier(m, diags);
  for (FuncId f : m.order)
    if (m[f].body.valid() && !diags.full()) verifier.function(f);
  if (diags.numErrors() == before) verifier.recursion();
  if (diags.numErrors() == before) verifyDevices(m, diags);
  return diags.numErrors() == before;
}

} // namespace dtc
