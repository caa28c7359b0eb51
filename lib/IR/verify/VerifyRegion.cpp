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

std::vector<TypeId> Verifier::resultTypes(OpId o) const {
  std::vector<TypeId> types;
  for (uint32_t i = 0; i < m_[o].numResults; ++i) types.push_back(m_[m_.result(o, i)].type);
  return types;
}

void Verifier::regionOp(OpId o) {
  OpQuery q = queryOf(m_, o, diags_);
  if (!checkAttrs(q)) return;
  switch (m_.record(o).regions) {
  case RegionKind::Cond: cond(o); return;
  case RegionKind::While: whileLoop(o); return;
  case RegionKind::For: forLoop(o); return;
  case RegionKind::Local: localRegion(o); return;
  default: break;
  }
  argTypes(o, m_.region(o), 0, 0);
  regionBlock(o, 0, 0);
  yieldTypes(o, m_.region(o), resultTypes(o), "");
}

// Verifies the blocks, with the values that they see. `firstArg`: the first argument that is bound to an
// operand.
void Verifier::regionBlock(OpId o, uint32_t region, size_t firstArg) {
  uint32_t from = visibleFrom_;
  RegionKind kind = m_.record(o).regions;
  BlockId b = m_.region(o, region);
  if (isIsolated(kind)) visibleFrom_ = static_cast<uint32_t>(stack_.size());
  if (m_.shardings.numMeshes() > 1)
    for (size_t i = firstArg; i < m_[b].args.size() && i - firstArg < m_[o].numOperands; ++i) {
      size_t start = i - firstArg + (kind == RegionKind::For ? 2 : 0);
      if (start < m_[o].numOperands) setMesh(m_[b].args[i], meshOf(m_.operand(o, start)));
    }
  block(b);
  visibleFrom_ = from;
}

void Verifier::argTypes(OpId o, BlockId b, size_t firstArg, size_t firstStart) {
  std::span<const ValueId> starts = m_.operands(o).subspan(std::min<size_t>(firstStart, m_[o].numOperands));
  if (m_[b].args.size() != starts.size() + firstArg) {
    error(kBlockArgs, m_[o].loc, m_.record(o).name,
          counted(m_[b].args.size() - std::min(firstArg, m_[b].args.size()), "argument"), starts.size());
    return;
  }
  for (size_t i = 0; i < starts.size(); ++i) {
    ValueId arg = m_[b].args[i + firstArg];
    if (m_[arg].type != m_[starts[i]].type)
      error(kBlockArgType, m_[arg].loc, name(arg), name(starts[i]), typeName(m_[starts[i]].type),
            typeName(m_[arg].type));
    if (m_[arg].sharding.valid()) sharding(m_[arg].sharding, m_[arg].type, m_[arg].loc);
  }
}

void Verifier::yieldTypes(OpId o, BlockId b, std::span<const TypeId> wanted, std::string_view why) {
  const std::vector<ValueId>& yields = m_[b].yields;
  std::string_view what = m_.record(o).name;
  if (yields.size() != wanted.size()) {
    error(kYieldCount, m_[b].terminatorLoc, what, values(yields.size()), values(wanted.size()), why);
    return;
  }
  for (size_t i = 0; i < yields.size(); ++i)
    if (m_[yields[i]].type != wanted[i])
      error(kYieldType, m_[b].terminatorLoc, what, name(yields[i]), typeName(m_[yields[i]].type),
            typeName(wanted[i]), why);
}

void Verifier::cond(OpId o) {
  TypeId scalar = m_.tensorType(DType::Bool, std::initializer_list<int64_t>{});
  if (m_[o].numOperands != 1 || m_[m_.operand(o, 0)].type != scalar) {
    ValueId p = m_[o].numOperands ? m_.operand(o, 0) : ValueId();
    error(kPredicate, m_[o].loc, "cond", p.valid() ? name(p) : "nothing",
          p.valid() ? typeName(m_[p].type) : "missing");
  }
  for (uint32_t r = 0; r < 2; ++r) {
    argTypes(o, m_.region(o, r), 0, 1);
    regionBlock(o, r, 0);
    yieldTypes(o, m_.region(o, r), resultTypes(o), r ? ", as the first block yields" : "");
  }
}

void Verifier::whileLoop(OpId o) {
  for (uint32_t r = 0; r < 2; ++r) {
    argTypes(o, m_.region(o, r), 0, 0);
    regionBlock(o, r, 0);
  }
  TypeId scalar[] = {m_.tensorType(DType::Bool, std::initializer_list<int64_t>{})};
  yieldTypes(o, m_.region(o, 0), scalar, ", the condition");
  std::vector<TypeId> carried;
  for (ValueId a : m_[m_.region(o, 1)].args) carried.push_back(m_[a].type);
  yieldTypes(o, m_.region(o, 1), carried, ", which the loop carries");
  if (resultTypes(o) != carried)
    error(kRegionResults, m_[o].loc, "while", m_[o].numResults,
          values(carried.size()) + " of the types that it carries");
}

void Verifier::forLoop(OpId o) {
  BlockId b = m_.region(o);
  TypeId i32 = m_.tensorType(DType::I32, std::initializer_list<int64_t>{});
  for (size_t i = 0; i < 2; ++i)
    if (ValueId v = m_.operand(o, i); m_[v].type != i32)
      error(kBoundType, m_[o].loc, name(v), typeName(m_[v].type));
  argTypes(o, b, 1, 2);
  if (m_[b].args.empty()) return;
  regionBlock(o, 0, 1);
  size_t carried = m_[b].args.size() - 1;
  const std::vector<ValueId>& yields = m_[b].yields;
  if (yields.size() < carried || yields.size() != m_[o].numResults) {
    error(kYieldCount, m_[b].terminatorLoc, "for", values(yields.size()), "at least " + values(carried),
          ", which the loop carries");
    return;
  }
  for (size_t i = 0; i < yields.size(); ++i) {
    TypeId yielded = m_[yields[i]].type, given = m_[m_.result(o, i)].type;
    if (i < carried) {
      TypeId arg = m_[m_[b].args[i + 1]].type;
      if (yielded != arg)
        error(kYieldType, m_[b].terminatorLoc, "for", name(yields[i]), typeName(yielded), typeName(arg),
              ", which the loop carries");
      yielded = arg;
    } else if (auto iterations = iterationCount(m_, o)) {
      Type t = m_.types[yielded];
      t.dims.insert(t.dims.begin(), *iterations);
      yielded = m_.types.intern(std::move(t));
    } else {
      error(kStackedBound, m_[o].loc);
    }
    if (yielded != given)
      error(kRegionResultType, m_[o].loc, "for", typeName(yielded), name(m_.result(o, i)), typeName(given));
  }
}

void Verifier::localRegion(OpId o) {
  if (local_) {
    error(kLocalInLocal, m_[o].loc);
    return;
  }
  BlockId b = m_.region(o);
  MeshId mesh;
  auto onOneMesh = [&](ShardingId s, SourceRange range) {
    MeshId own = m_.shardings[s].mesh;
    if (mesh.valid() && mesh != own)
      error(kLocalMesh, range, m_.strings[m_.shardings.mesh(mesh).name],
            m_.strings[m_.shardings.mesh(own).name]);
    mesh = own;
  };
  std::span<const ValueId> starts = m_.operands(o);
  if (m_[b].args.size() != starts.size()) {
    error(kBlockArgs, m_[o].loc, "local", counted(m_[b].args.size(), "argument"), starts.size());
    return;
  }
  size_t before = diags_.numErrors();
  for (size_t i = 0; i < starts.size(); ++i) {
    const Value& arg = m_[m_[b].args[i]];
    TypeId start = m_[m_.operand(o, i)].type;
    if (arg.sharding.valid()) onOneMesh(arg.sharding, arg.loc);
    TypeId local = arg.sharding.valid() ? shardType(start, arg.sharding, arg.loc) : start;
    if (local.valid() && local != arg.type)
      error(kBlockArgType, arg.loc, name(m_[b].args[i]), name(m_.operand(o, i)), typeName(local),
            typeName(arg.type));
  }
  local_ = true;
  freeAxes_ = m_.attr(o, "free").valid();
  regionBlock(o, 0, 0);
  local_ = freeAxes_ = false;
  std::vector<TypeId> localTypes;
  for (uint32_t i = 0; i < m_[o].numResults; ++i) {
    const Value& r = m_[m_.result(o, i)];
    if (!r.sharding.valid()) {
      error(kLocalResult, m_[o].loc);
      return;
    }
    onOneMesh(r.sharding, r.loc);
    localTypes.push_back(shardType(r.type, r.sharding, r.loc));
  }
  if (diags_.numErrors() != before) return;
  yieldTypes(o, b, localTypes, ", its shard of the result");
  if (diags_.numErrors() != before) return;
  LocalTypes types(m_, o);
  varying(types.varying(), b);
  localYields(o, types);
  handles(b);
}

void Verifier::call(OpId o) {
  std::string_view callee = m_.strings[m_[o].callee];
  FuncId id = m_.findFunction(callee);
  if (!id.valid()) {
    error(kCalleeGone, m_[o].loc, callee);
    return;
  }
  const Function& f = m_[id];
  bool gradient = m_.record(o).differentiates;
  if (gradient && local_) {
    error(kGradInLocal, m_[o].loc, m_.record(o).name);
    return;
  }
  if (f.spmd != local_)
    error(kCallKind, m_[o].loc, callee, f.spmd ? "an spmd function" : "a global function",
          local_ ? "local text" : "global text")
        .note(f.loc, "it is defined here");
  std::span<const ValueId> given = m_.operands(o);
  if (given.size() != f.args.size()) {
    error(kCallCount, m_[o].loc, callee, counted(f.args.size(), "argument"), given.size())
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
    Diagnostic& d = ofTypes ? error(kCallType, m_[o].loc, i, callee, typeName(m_[f.args[i].value].type),
                                    name(given[i]), typeName(givenTypes[i]))
                            : error(kCallSize, m_[o].loc,
                                    mismatchText(m_, f, mismatch, [&](size_t k) { return name(given[k]); }));
    d.note(m_[f.args[i].value].loc, "the argument is declared here");
    return;
  }
  std::vector<TypeId> types = resultTypes(o);
  if (types.size() < f.results.size() || (!gradient && types.size() != f.results.size())) {
    error(kRegionResults, m_[o].loc, m_.record(o).name, types.size(), values(f.results.size()));
    return;
  }
  for (size_t i = 0; i < f.results.size(); ++i) {
    const TypeId returns = typeInCall(m_, f.results[i].type, *binding, meshOfCall(m_, f));
    if (f.results[i].type.valid() && types[i] != returns)
      error(kRegionResultType, m_[o].loc, m_.record(o).name,
            typeName(returns.valid() ? returns : f.results[i].type), name(m_.result(o, i)),
            typeName(types[i]));
  }
}

} // namespace dtc
