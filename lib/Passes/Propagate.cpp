#include "dtc/Passes/Propagate.h"
#include "ConstantCopies.h"
#include "InsertReshards.h"
#include "Policies.h"
#include "ReduceDType.h"
#include "dtc/Passes/PlanMemory.h"

namespace dtc {

static constexpr DiagKind kNotDifferentiated{
    "value-and-grad-left", "'value_and_grad' must be differentiated first: run the pass `autodiff` before "
                           "`propagate`"};

static constexpr DiagKind kUnknownPolicy{
    "unknown-policy", "there is no policy '{0}'{1}; there are shardy, dtensor, cost and explicit"};

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

// A program without a mesh runs on a mesh of one device: said in the text, as everything is.
static void ensureMesh(Module& m) {
  if (m.shardings.numMeshes() == 0) m.shardings.addMesh({m.strings.intern("one"), {}, {}});
}

static bool refuseLeftovers(Module& m, Diagnostics& diags) {
  OpKind vg = m.registry->find("value_and_grad");
  bool ok = true;
  for (FuncId f : m.order)
    forEachOp(m, m[f].body, [&](OpId o) {
      if (m[o].kind != vg || vg == kNoOpKind) return;
      diags.error(kNotDifferentiated, m[o].loc);
      ok = false;
    });
  return ok;
}

// How each op runs, now that its tensors have their shardings.
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
      chosen.form = chooseForm(state, r, pricing); // the same form, whose price nobody asks for
    else if (r.op.valid())
      chosen = cheapestForm(state, r, pricing);
    if (explain) recordDecision(state, r, chosen);
    forms.push_back(std::move(chosen.form));
  }
  return forms;
}

// A result that says {carry = true} has the sharding of the argument that it becomes.
static void tieCarried(PropagationState& state) {
  for (FuncId f : state.m.order)
    for (size_t r = 0; r < state.resultVars[f.index].size(); ++r)
      if (auto a = carriedArgument(state.m, f, r))
        state.resultVars[f.index][r] = state.varOf[state.m[f].args[*a].value.index];
}

static bool solve(Module& m, Diagnostics& diags, PropagationReport* report, const PropagateOptions& options) {
  PropagationReport unused;
  if (!refuseLeftovers(m, diags)) return false;
  ensureMesh(m);
  const ConstantCopies constants = splitConstants(m);
  PropagationState state(m, diags, report ? *report : unused);
  state.cutPrograms.reduceDType = options.reduceDType;
  if (!state.build()) return false;
  if (!state.solve(options)) return false;
  tieCarried(state);
  state.report.variable = state.varOf;
  std::vector<OpForm> forms = chooseForms(state, options, report != nullptr);
  PendingDecision decision =
      decidePending(state, forms, options.policy == PropagationPolicy::Dtensor, options.reduceDType);
  insertReshards(state, forms, decision);
  mergeConstants(m, constants);
  return !diags.hasErrors();
}

std::optional<OpId> firstMisfit(const Module& m) {
  Module tried = m;
  Diagnostics quiet;
  PropagationReport report;
  PropagationState state(tried, quiet, report);
  if (!refuseLeftovers(tried, quiet) || !state.build() || !state.solve({})) return OpId();
  std::vector<OpForm> forms;
  for (const Relation& r : state.relations) {
    const bool runs = r.op.valid() && !r.inner && m.record(r.op).constraint == Constraint::None;
    std::optional<OpForm> form = r.inner ? OpForm() : chooseForm(state, r, {});
    if (runs) form = formAsWritten(state, r);
    if (!form) return r.op;
    forms.push_back(std::move(*form));
  }
  const PendingDecision decision = decidePending(state, forms, true);
  insertReshards(state, forms, decision);
  if (report.reshards.empty()) return std::nullopt;
  const ReshardReason& why = report.reshards.front();
  for (OpId o : {why.kind == ReshardReason::Operand ? why.needs : why.cause, why.needs})
    if (o.valid() && o.index < m.ops.size() && m[o].loc.valid()) return o;
  return OpId();
}

bool propagate(Module& m, Diagnostics& diags, PropagationReport* report, const PropagateOptions& options) {
  bool anyGlobal = false;
  for (FuncId f : m.order) anyGlobal = anyGlobal || levelOf(m, f) == Level::Global;
  if (!anyGlobal && !firstMisfit(m)) return true; // done already: left as it is
  return solve(m, diags, report, options);
}

bool propagatePass(Module& m, const PassOptions& options, Diagnostics& diags) {
  PropagateOptions chosen;
  if (!readReduceDType(options, chosen.reduceDType, diags)) return false;
  auto written = options.values.find("policy");
  if (written == options.values.end()) return propagate(m, diags, nullptr, chosen);
  auto policy = parsePolicy(written->second);
  if (!policy) {
    std::vector<std::string_view> known;
    for (auto [name, value] : kPolicies) known.push_back(name);
    const std::string_view near = nearestWord(written->second, known);
    diags.error(kUnknownPolicy, {}, written->second,
                near.empty() ? std::string() : " (did you mean '" + std::string(near) + "'?)");
    return false;
  }
  chosen.policy = *policy;
  return propagate(m, diags, nullptr, chosen);
}

PassInfo propagateInfo() {
  return {.name = "propagate",
          .summary = "gives every value a closed sharding, and makes every change of sharding an op",
          .why = "After autodiff, so that gradients get their shardings from the same rules as the program "
                 "(Megatron's "
                 "reduction of the input gradient appears by itself); before partition, which only carries "
                 "out what is "
                 "written. Axes move along factors as in Shardy; where a pending value is reduced is a "
                 "minimum cut over bytes.",
          .needs = Level::Global,
          .gives = Level::Propagated,
          .run = propagatePass,
          .before = R"(mesh @pod = [tp=4]

func @main(%x: f32[8, 64] @pod{_, tp}, %w: f32[64, 16] @pod{tp, _}) -> (%y: f32[8, 16]) {
  %y = matmul %x, %w
  return %y
}
)",
          .after = R"(mesh @pod = [tp=4]

func @main(%x: f32[8, 64] @pod{_, tp}, %w: f32[64, 16] @pod{tp, _}) -> (%y: f32[8, 16] @pod{_, _}) {
  %0 = matmul %x, %w : f32[8, 16] @pod{_, _ | sum(tp)}
  %y = reshard %0 : f32[8, 16] @pod{_, _}
  return %y
}
)",
          .options = {{"policy", "shardy",
                       "how conflicts are settled: shardy; dtensor: forward only, op by op; cost: then by "
                       "price, within two ops; explicit: an error that lists the choices"},
                      kReduceDTypeOption}};
}

} // namespace dtc
