#include "dtc/Passes/propagate/Propagate.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/analysis/MemoryPlan.h"
#include "dtc/Sharding/MeshView.h"
#include "propagate/ConstantCopies.h"
#include "propagate/InsertReshards.h"
#include "propagate/Policies.h"

namespace dtc {

static constexpr DiagKind kNotDifferentiated{
    "needs-autodiff", "'value_and_grad' must be differentiated first: run the pass `autodiff` before "
                      "`propagate`"};

static constexpr std::pair<std::string_view, PropagationPolicy> kPolicies[] = {
    {"shardy", PropagationPolicy::Shardy},
    {"dtensor", PropagationPolicy::Dtensor},
    {"cost", PropagationPolicy::Cost},
    {"explicit", PropagationPolicy::Explicit}};

std::optional<PropagationPolicy> parsePolicy(std::string_view name) {
  for (auto [known, policy] : kPolicies)
    if (known == name) return policy;
  return std::nullopt;
}

// A program without a mesh runs on a mesh of one device, which is written into the text.
static void ensureMesh(Module& m) {
  if (m.shardings.numMeshes() == 0) m.shardings.addMesh({m.strings.intern("one"), {}, {}});
}

static bool refuseLeftovers(Module& m, Diagnostics& diags) {
  bool ok = true;
  for (FuncId f : m.order)
    forEachOp(m, m[f].body, [&](OpId o) {
      if (!m.record(o).differentiates) return;
      diags.error(kNotDifferentiated, m[o].loc);
      ok = false;
    });
  return ok;
}

// Chooses the form of each op for the solved shardings.
static std::vector<OpForm> chooseForms(PropagationState& state, const PropagateOptions& options,
                                       bool explain) {
  FormPricing pricing;
  pricing.votes = options.policy == PropagationPolicy::Shardy;
  pricing.freeReductions = options.policy == PropagationPolicy::Dtensor;
  if (options.policy == PropagationPolicy::Cost) pricing.machine = &options.machine;
  std::vector<OpForm> forms;
  forms.reserve(state.relations.size());
  for (const Relation& r : state.relations) {
    PricedForm chosen;
    if (r.inner) {
      forms.emplace_back();
      continue;
    }
    if (r.op.valid() && options.policy == PropagationPolicy::Shardy && !explain)
      chosen.form = chooseForm(state, r, pricing); // the same form without its price
    else if (r.op.valid())
      chosen = cheapestForm(state, r, pricing);
    if (explain) recordDecision(state, r, chosen, pricing);
    forms.push_back(std::move(chosen.form));
  }
  return forms;
}

// A result with {carry = true} has the sharding of the argument that it replaces in the next step.
static void tieCarried(PropagationState& state) {
  for (FuncId f : state.m.order)
    for (auto [result, argument] : carriedResults(state.m, f))
      state.resultVars[f.index][result] = state.varOf[state.m[f].args[argument].value.index];
}

// The first parts of a dim, as long as they are whole axes, of any mesh, whose devices have shards of one size.
static void keepWholeAxes(DimSharding& sharding, MeshId id, const ShardingTable& all, Dim size) {
  const Mesh& mesh = all.mesh(id);
  int64_t devices = 1;
  size_t kept = 0;
  for (const DimPart& p : sharding.parts) {
    if (!p.isAxis() || !isOfWholeAxes(p.axis, id, all)) break;
    devices *= mesh.axisSize(p.axis);
    if (!size.isStatic() || size.value() % devices != 0) break;
    ++kept;
  }
  while (sharding.parts.size() > kept) sharding.parts.pop_back();
}

// As Shardy does for JAX, whose shardings have neither sub-axes nor shards of different sizes. The returned value
// keeps its sharding, and is resharded after its other uses. Carried results keep that of their argument.
static void keepWholeAxesOfResults(PropagationState& state) {
  for (FuncId f : state.m.order)
    for (size_t r = 0; r < state.resultVars[f.index].size(); ++r) {
      const VarId v = state.resultVars[f.index][r];
      const Type& type = state.m.types[state.m[f].results[r].type];
      if (!state.vars[v].isResult) continue;
      for (size_t d = 0; d < type.dims.size(); ++d)
        keepWholeAxes(state.vars[v].dims[d], state.vars[v].mesh, state.m.shardings, type.dims[d]);
    }
}

static bool solve(Module& m, Diagnostics& diags, PropagationReport* report, const PropagateOptions& options) {
  PropagationReport unused;
  if (!refuseLeftovers(m, diags)) return false;
  ensureMesh(m);
  const ConstantCopies constants = splitConstants(m);
  PropagationState state(m, diags, report ? *report : unused);
  state.shardedPrograms.reduceDType = options.reduceDType;
  if (!state.build()) return false;
  if (!solveShardings(state, options)) return false;
  tieCarried(state);
  if (options.wholeAxisResults) keepWholeAxesOfResults(state);
  state.report.variable = state.varOf;
  std::vector<OpForm> forms = chooseForms(state, options, report != nullptr);
  PendingDecision decision = decidePending(
      state, forms, {options.policy == PropagationPolicy::Dtensor, options.reduceDType, options.nonFinite});
  insertReshards(state, forms, decision);
  mergeConstants(m, constants);
  return !diags.hasErrors();
}

// "%x @m{a}, %w @m{_, b} -> %y @m{a, b}"
static std::string writtenOn(const Module& m, OpId o) {
  std::string text;
  auto add = [&](ValueId v, bool first, std::string_view before) {
    if (!m[v].sharding.valid()) return;
    text += first ? before : ", ";
    text += printValueName(m, v) + " " + printSharding(m, m[v].sharding);
  };
  for (uint32_t i = 0; i < m[o].numOperands; ++i) add(m.operand(o, i), text.empty(), "");
  for (uint32_t r = 0; r < m[o].numResults; ++r) add(m.result(o, r), r == 0, text.empty() ? "" : " -> ");
  return text;
}

// What propagation would have to add for the text to be consistent. `tried` is `m` with these additions.
static Misfit describe(const Module& m, const Module& tried, const ReshardReason& why) {
  const ValueId from = tried.operand(why.reshard, 0), to = tried.result(why.reshard);
  const std::string given = printSharding(tried, tried[from].sharding),
                    wanted = printSharding(tried, tried[to].sharding);
  auto known = [&](OpId o) { return o.valid() && o.index < m.ops.size(); };
  const bool isResult = why.kind == ReshardReason::Result || !known(why.needs);
  const bool isOp = why.kind != ReshardReason::Boundary;
  const std::string value = from.index < m.values.size() ? printValueName(m, from) : "a value";
  const OpId o = isResult ? why.cause : why.needs;
  auto name = [&] { return "'" + std::string(m.record(o).name) + "'"; };
  if (isOp && known(o))
    return {m[o].loc, isResult
                          ? name() + " produces " + value + " as " + given + ", but " + wanted + " is written"
                          : name() + " takes " + value + " as " + wanted + ", but " + given + " is written"};
  const SourceRange loc = known(why.needs)               ? m[why.needs].loc
                          : from.index < m.values.size() ? m[from].loc
                                                         : SourceRange{};
  return {loc, value + " is " + given + ", but its use requires " + wanted};
}

std::optional<Misfit> firstMisfit(const Module& m) {
  Module tried = m;
  Diagnostics quiet;
  PropagationReport report;
  PropagationState state(tried, quiet, report);
  if (!refuseLeftovers(tried, quiet) || !state.build() || !solveShardings(state, {}))
    return Misfit{{}, quiet.all().empty() ? "no op fits" : quiet.all().front().message()};
  std::vector<OpForm> forms;
  OpId unfit; // the first op without a form for the annotated shardings
  for (const Relation& r : state.relations) {
    const bool runs = r.op.valid() && !r.inner && m.record(r.op).constraint == Constraint::None;
    std::optional<OpForm> form = runs ? formAsWritten(state, r) : std::nullopt;
    if (runs && !form && !unfit.valid()) unfit = r.op;
    forms.push_back(form ? std::move(*form) : r.inner ? OpForm() : chooseForm(state, r, {}));
  }
  const PendingDecision decision = decidePending(state, forms, {.late = true});
  insertReshards(state, forms, decision);
  for (const ReshardReason& why : report.reshards)
    if (!unfit.valid() || why.needs == unfit || why.cause == unfit) return describe(m, tried, why);
  if (!unfit.valid()) return std::nullopt;
  return Misfit{m[unfit].loc, "'" + std::string(m.record(unfit).name) +
                                  "' cannot run with these shardings: " + writtenOn(m, unfit)};
}

bool propagate(Module& m, Diagnostics& diags, PropagationReport* report, const PropagateOptions& options) {
  bool anyGlobal = false;
  for (FuncId f : m.order) anyGlobal = anyGlobal || levelOf(m, f) == Level::Global;
  if (!anyGlobal && !firstMisfit(m)) return true; // done already: left as it is
  return solve(m, diags, report, options);
}

bool propagatePass(Module& m, const PassOptions& options, Diagnostics& diags) {
  PropagateOptions chosen;
  chosen.reduceDType = options.dtype("reduce-dtype");
  if (options.flag("strict-nonfinite", false)) chosen.nonFinite = NonFinite::Strict;
  chosen.wholeAxisResults = options.word("results", "free") == "whole-axes";
  chosen.policy = *parsePolicy(options.word("policy", "shardy"));
  return propagate(m, diags, nullptr, chosen);
}

} // namespace dtc
