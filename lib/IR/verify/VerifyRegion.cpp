// Ops with blocks, and calls (ir.md).
#include "verify/Verifier.h"

#include "dtc/IR/CallSizes.h"
#include "dtc/Support/Counted.h"

#include <algorithm>

namespace dtc {

constexpr DiagKind kPredicate{"predicate-type", "the predicate of '{0}' must be bool[], but {1} is {2}"};
constexpr DiagKind kBlockArgs{"block-arguments",
                              "a block of '{0}' has {1}, but the number of initial values is {2}"};
constexpr DiagKind kBlockArgType{"block-argument-type",
                                 "the initial value of {0} is {1} of type {2}: expected {3}"};
constexpr DiagKind kYieldCount{"yield-count", "this block of '{0}' yields {1}: expected {2}{3}"};
constexpr DiagKind kYieldType{"yield-type", "this block of '{0}' yields {1}, which is {2}: expected {3}{4}"};
constexpr DiagKind kRegionResults{"result-count", "'{0}' has {1} results, but {2} expected"};
constexpr DiagKind kRegionResultType{"result-type", "the result of '{0}' is {1}, but {2} is {3}"};
constexpr DiagKind kBoundType{"bound-type", "the bounds of 'for' must be i32[], but {0} is {1}"};
constexpr DiagKind kStackedBound{
    "stacked-bound",
    "'for' stacks one row for each iteration, so its bounds must be numbers, or 0 and a symbol, not values"};
constexpr DiagKind kLocalInLocal{
    "local-in-local", "'local' cannot be used in local text, where every value is per device already"};
constexpr DiagKind kLocalResult{"open-sharding", "a result of 'local' needs a closed sharding"};
constexpr DiagKind kLocalMesh{"mixed-meshes",
                              "a 'local' block is on one mesh, but its shardings name @{0} and @{1}"};
constexpr DiagKind kCalleeGone{"unknown-function", "there is no function @{0}"};
constexpr DiagKind kCallKind{"call-kind", "@{0} is {1}: {2} calls only functions of its own kind"};
constexpr DiagKind kCallCount{"argument-count", "@{0} takes {1}, not {2}"};
constexpr DiagKind kCallType{"argument-type", "argument {0} of @{1}: expected {2}, found {3}, which is {4}"};
constexpr DiagKind kCallSize{"call-size", "{0}"};
constexpr DiagKind kGradInLocal{"gradient-in-local",
                                "'{0}' is valid only in global text: autodiff runs before partitioning"};

static std::string values(size_t n) { return std::to_string(n) + (n == 1 ? " value" : " values"); }

std::vector<TypeId> RegionVerifier::resultTypes() const {
  std::vector<TypeId> types;
  for (uint32_t i = 0; i < m_[op_].numResults; ++i) types.push_back(m_[m_.result(op_, i)].type);
  return types;
}

void RegionVerifier::region() {
  OpQuery q = queryOf(m_, op_, diags_);
  if (!checkAttrs(q)) return;
  switch (m_.record(op_).regions) {
  case RegionKind::Cond: cond(); return;
  case RegionKind::While: whileLoop(); return;
  case RegionKind::For: forLoop(); return;
  case RegionKind::Local: local(); return;
  default: break;
  }
  argTypes(m_.region(op_), 0, 0);
  block(0, 0);
  yieldTypes(m_.region(op_), resultTypes(), "");
}

// Verifies the blocks, with the values that they see. `firstArg`: the first argument that is bound to an
// operand.
void RegionVerifier::block(uint32_t region, size_t firstArg) {
  RegionKind kind = m_.record(op_).regions;
  BlockId b = m_.region(op_, region);
  if (m_.shardings.numMeshes() > 1)
    for (size_t i = firstArg; i < m_[b].args.size() && i - firstArg < m_[op_].numOperands; ++i) {
      size_t start = i - firstArg + (kind == RegionKind::For ? 2 : 0);
      if (start < m_[op_].numOperands)
        verifier_.setMesh(m_[b].args[i], verifier_.meshOf(m_.operand(op_, start)));
    }
  verifier_.innerBlock(b, isIsolated(kind));
}

void RegionVerifier::argTypes(BlockId b, size_t firstArg, size_t firstStart) {
  std::span<const ValueId> starts =
      m_.operands(op_).subspan(std::min<size_t>(firstStart, m_[op_].numOperands));
  if (m_[b].args.size() != starts.size() + firstArg) {
    error(kBlockArgs, m_[op_].loc, m_.record(op_).name,
          counted(m_[b].args.size() - std::min(firstArg, m_[b].args.size()), "argument"), starts.size());
    return;
  }
  for (size_t i = 0; i < starts.size(); ++i) {
    ValueId arg = m_[b].args[i + firstArg];
    if (m_[arg].type != m_[starts[i]].type)
      error(kBlockArgType, m_[arg].loc, name(arg), name(starts[i]), typeName(m_[starts[i]].type),
            typeName(m_[arg].type));
    if (m_[arg].sharding.valid()) verifier_.sharding(m_[arg].sharding, m_[arg].type, m_[arg].loc);
  }
}

void RegionVerifier::yieldTypes(BlockId b, std::span<const TypeId> wanted, std::string_view why) {
  const std::vector<ValueId>& yields = m_[b].yields;
  std::string_view what = m_.record(op_).name;
  if (yields.size() != wanted.size()) {
    error(kYieldCount, m_[b].terminatorLoc, what, values(yields.size()), values(wanted.size()), why);
    return;
  }
  for (size_t i = 0; i < yields.size(); ++i)
    if (m_[yields[i]].type != wanted[i])
      error(kYieldType, m_[b].terminatorLoc, what, name(yields[i]), typeName(m_[yields[i]].type),
            typeName(wanted[i]), why);
}

void RegionVerifier::cond() {
  TypeId scalar = m_.tensorType(DType::Bool, std::initializer_list<int64_t>{});
  if (m_[op_].numOperands != 1 || m_[m_.operand(op_, 0)].type != scalar) {
    ValueId p = m_[op_].numOperands ? m_.operand(op_, 0) : ValueId();
    error(kPredicate, m_[op_].loc, "cond", p.valid() ? name(p) : "nothing",
          p.valid() ? typeName(m_[p].type) : "missing");
  }
  for (uint32_t r = 0; r < 2; ++r) {
    argTypes(m_.region(op_, r), 0, 1);
    block(r, 0);
    yieldTypes(m_.region(op_, r), resultTypes(), r ? ", as the first block yields" : "");
  }
}

void RegionVerifier::whileLoop() {
  for (uint32_t r = 0; r < 2; ++r) {
    argTypes(m_.region(op_, r), 0, 0);
    block(r, 0);
  }
  TypeId scalar[] = {m_.tensorType(DType::Bool, std::initializer_list<int64_t>{})};
  yieldTypes(m_.region(op_, 0), scalar, ", the condition");
  std::vector<TypeId> carried;
  for (ValueId a : m_[m_.region(op_, 1)].args) carried.push_back(m_[a].type);
  yieldTypes(m_.region(op_, 1), carried, ", which the loop carries");
  if (resultTypes() != carried)
    error(kRegionResults, m_[op_].loc, "while", m_[op_].numResults,
          values(carried.size()) + " of the types that it carries");
}

void RegionVerifier::forLoop() {
  BlockId b = m_.region(op_);
  TypeId i32 = m_.tensorType(DType::I32, std::initializer_list<int64_t>{});
  for (size_t i = 0; i < 2; ++i)
    if (ValueId v = m_.operand(op_, i); m_[v].type != i32)
      error(kBoundType, m_[op_].loc, name(v), typeName(m_[v].type));
  argTypes(b, 1, 2);
  if (m_[b].args.empty()) return;
  block(0, 1);
  size_t carried = m_[b].args.size() - 1;
  const std::vector<ValueId>& yields = m_[b].yields;
  if (yields.size() < carried || yields.size() != m_[op_].numResults) {
    error(kYieldCount, m_[b].terminatorLoc, "for", values(yields.size()), "at least " + values(carried),
          ", which the loop carries");
    return;
  }
  for (size_t i = 0; i < yields.size(); ++i) {
    TypeId yielded = m_[yields[i]].type, given = m_[m_.result(op_, i)].type;
    if (i < carried) {
      TypeId arg = m_[m_[b].args[i + 1]].type;
      if (yielded != arg)
        error(kYieldType, m_[b].terminatorLoc, "for", name(yields[i]), typeName(yielded), typeName(arg),
              ", which the loop carries");
      yielded = arg;
    } else if (auto iterations = iterationCount(m_, op_)) {
      Type t = m_.types[yielded];
      t.dims.insert(t.dims.begin(), *iterations);
      yielded = m_.types.intern(std::move(t));
    } else {
      error(kStackedBound, m_[op_].loc);
    }
    if (yielded != given)
      error(kRegionResultType, m_[op_].loc, "for", typeName(yielded), name(m_.result(op_, i)),
            typeName(given));
  }
}

void RegionVerifier::local() {
  if (verifier_.inLocal()) {
    error(kLocalInLocal, m_[op_].loc);
    return;
  }
  LocalVerifier checks(m_, diags_, function_);
  BlockId b = m_.region(op_);
  MeshId mesh;
  auto onOneMesh = [&](ShardingId s, SourceRange range) {
    MeshId own = m_.shardings[s].mesh;
    if (mesh.valid() && mesh != own)
      error(kLocalMesh, range, m_.strings[m_.shardings.mesh(mesh).name],
            m_.strings[m_.shardings.mesh(own).name]);
    mesh = own;
  };
  std::span<const ValueId> starts = m_.operands(op_);
  if (m_[b].args.size() != starts.size()) {
    error(kBlockArgs, m_[op_].loc, "local", counted(m_[b].args.size(), "argument"), starts.size());
    return;
  }
  size_t before = diags_.numErrors();
  for (size_t i = 0; i < starts.size(); ++i) {
    const Value& arg = m_[m_[b].args[i]];
    TypeId start = m_[m_.operand(op_, i)].type;
    if (arg.sharding.valid()) onOneMesh(arg.sharding, arg.loc);
    TypeId local = arg.sharding.valid() ? checks.shardType(start, arg.sharding, arg.loc) : start;
    if (local.valid() && local != arg.type)
      error(kBlockArgType, arg.loc, name(m_[b].args[i]), name(m_.operand(op_, i)), typeName(local),
            typeName(arg.type));
  }
  verifier_.setLocal(true, m_.attr(op_, "free").valid());
  block(0, 0);
  verifier_.setLocal(false, false);
  std::vector<TypeId> localTypes;
  for (uint32_t i = 0; i < m_[op_].numResults; ++i) {
    const Value& r = m_[m_.result(op_, i)];
    if (!r.sharding.valid()) {
      error(kLocalResult, m_[op_].loc);
      return;
    }
    onOneMesh(r.sharding, r.loc);
    localTypes.push_back(checks.shardType(r.type, r.sharding, r.loc));
  }
  if (diags_.numErrors() != before) return;
  yieldTypes(b, localTypes, ", its shard of the result");
  if (diags_.numErrors() != before) return;
  LocalTypes types(m_, op_);
  checks.varying(types.varying(), b);
  checks.yields(op_, types);
  checks.handles(b);
}

void RegionVerifier::call() {
  std::string_view callee = m_.strings[m_[op_].callee];
  FuncId id = m_.findFunction(callee);
  if (!id.valid()) {
    error(kCalleeGone, m_[op_].loc, callee);
    return;
  }
  const Function& f = m_[id];
  bool gradient = m_.record(op_).differentiates;
  if (gradient && verifier_.inLocal()) {
    error(kGradInLocal, m_[op_].loc, m_.record(op_).name);
    return;
  }
  if (f.spmd != verifier_.inLocal())
    error(kCallKind, m_[op_].loc, callee, f.spmd ? "an spmd function" : "a global function",
          verifier_.inLocal() ? "local text" : "global text")
        .note(f.loc, "it is defined here");
  std::span<const ValueId> given = m_.operands(op_);
  if (given.size() != f.args.size()) {
    error(kCallCount, m_[op_].loc, callee, counted(f.args.size(), "argument"), given.size())
        .note(f.loc, "it is defined here");
    return;
  }
  std::vector<TypeId> givenTypes;
  for (ValueId v : given) givenTypes.push_back(m_[v].type);
  SizeMismatch mismatch;
  // an argument without a type belongs to a function that failed to parse
  const auto binding = bindSizes(m_, f, givenTypes, mismatch);
  if (!binding) {
    const size_t i = mismatch.argument;
    const bool ofTypes = !mismatch.first && mismatch.why.empty();
    Diagnostic& d = ofTypes ? error(kCallType, m_[op_].loc, i, callee, typeName(m_[f.args[i].value].type),
                                    name(given[i]), typeName(givenTypes[i]))
                            : error(kCallSize, m_[op_].loc,
                                    mismatchText(m_, f, mismatch, [&](size_t k) { return name(given[k]); }));
    d.note(m_[f.args[i].value].loc, "the argument is declared here");
    return;
  }
  std::vector<TypeId> types = resultTypes();
  if (types.size() < f.results.size() || (!gradient && types.size() != f.results.size())) {
    error(kRegionResults, m_[op_].loc, m_.record(op_).name, types.size(), values(f.results.size()));
    return;
  }
  for (size_t i = 0; i < f.results.size(); ++i) {
    const TypeId returns = typeInCall(m_, f.results[i].type, *binding, meshOfCall(m_, f));
    if (f.results[i].type.valid() && types[i] != returns)
      error(kRegionResultType, m_[op_].loc, m_.record(op_).name,
            typeName(returns.valid() ? returns : f.results[i].type), name(m_.result(op_, i)),
            typeName(types[i]));
  }
}

} // namespace dtc
