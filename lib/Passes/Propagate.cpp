#include "dtc/Passes/Propagate.h"
#include "ConstantCopies.h"
#include "InsertReshards.h"
#include "Policies.h"
#include "ReduceDType.h"
#include "dtc/IR/Text.h"
#include "dtc/Passes/PlanMemory.h"
#include "dtc/Support/Suggest.h"

namespace dtc {

static constexpr DiagKind kNotDifferentiated{
    "needs-autodiff", "'value_and_grad' must be differentiated first: run the pass `autodiff` before "
                      "`propagate`"};

static constexpr DiagKind kUnknownPolicy{"unknown-policy", "unknown policy '{0}'{1}"};

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

static constexpr DiagKind kStrictNonFinite{"strict-nonfinite",
                                           "strict-nonfinite takes true or false, not '{0}'"};
static bool readStrictNonFinite(const PassOptions& options, NonFinite& out, Diagnostics& diags) {
  const auto written = options.values.find("strict-nonfinite");
  if (written == options.values.end()) return true;
  const std::string& value = written->second;
  if (value != "true" && value != "false") {
    diags.error(kStrictNonFinite, {}, value);
    return false;
  }
  out = value == "true" ? NonFinite::Strict : NonFinite::Promised;
  return true;
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

// What propagation would have to add before the text fits. `tried` is `m` with all that it would add.
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
                          ? name() + " gives " + value + " as " + given + ", but " + wanted + " is written"
                          : name() + " takes " + value + " as " + wanted + ", but " + given + " is written"};
  const SourceRange loc = known(why.needs)               ? m[why.needs].loc
                          : from.index < m.values.size() ? m[from].loc
                                                         : SourceRange{};
  return {loc, value + " is " + given + ", but where it goes " + wanted + " is written"};
}

std::optional<Misfit> firstMisfit(const Module& m) {
  Module tried = m;
  Diagnostics quiet;
  PropagationReport report;
  PropagationState state(tried, quiet, report);
  if (!refuseLeftovers(tried, quiet) || !state.build() || !state.solve({}))
    return Misfit{{}, quiet.all().empty() ? "no op fits" : quiet.all().front().message()};
  std::vector<OpForm> forms;
  OpId unfit; // the first op that has no form for what is written
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
                                  "' cannot run as it is sharded here: " + writtenOn(m, unfit)};
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
  if (!readStrictNonFinite(options, chosen.nonFinite, diags)) return false;
  auto written = options.values.find("policy");
  if (written == options.values.end()) return propagate(m, diags, nullptr, chosen);
  auto policy = parsePolicy(written->second);
  if (!policy) {
    std::vector<std::string_view> known;
    for (auto [name, value] : kPolicies) known.push_back(name);
    diags.error(kUnknownPolicy, {}, written->second, suggestion(Vocabulary::Choice, written->second, known));
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
                      kReduceDTypeOption,
                      {"strict-nonfinite", "false",
                       "leave out the rules for pending values that hold for finite factors and divisors "
                       "alone: infinities and NaN are then those of the unsharded program"}}};
}

} // namespace dtc
