// dtc explain: the reason for a sharding or a collective, and its cost.
#include "dtc/Report/explain/Explain.h"
#include "Program.h"
#include "Verbs.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/autodiff/Autodiff.h"
#include "dtc/Passes/simplify/Canonicalize.h"
#include "dtc/Passes/split/Decompose.h"
#include "dtc/Passes/trace/CommContracts.h"
#include "dtc/Report/explain/ExplainProgram.h"
#include "dtc/Session/Session.h"
#include <CLI/CLI.hpp>

namespace dtc {

namespace {

struct ExplainFlags {
  ProgramOptions program; // program.file may be an equation
  std::vector<std::string> rest;
  LoweringFlags lowering; // only the propagation flags are used
  bool json = false, limits = false, full = false;
  size_t top = 0;
};

// All values of a function with this name, also in regions. A result's label selects the yielded value.
std::vector<ValueId> valuesNamed(const Module& m, FuncId f, std::string_view name) {
  std::vector<ValueId> out;
  auto look = [&](ValueId v) {
    if (printValueName(m, v) == name) out.push_back(v);
  };
  for (const FuncArg& a : m[f].args) look(a.value);
  forEachOp(m, m[f].body, [&](OpId o) {
    for (uint32_t r = 0; r < m[o].numResults; ++r) look(m.result(o, r));
    for (uint32_t k = 0; k < m[o].numRegions; ++k)
      for (ValueId a : m[m.region(o, k)].args) look(a);
  });
  for (size_t r = 0; r < m[f].results.size() && out.empty(); ++r)
    if (m[f].results[r].label.valid() && "%" + std::string(m.strings[m[f].results[r].label]) == name)
      out.push_back(m[m[f].body].yields[r]);
  return out;
}

// The values with these source locations: the copies of a function's values after inlining, one per call.
std::vector<ValueId> valuesAt(const Module& m, const std::vector<SourceRange>& locations) {
  std::vector<ValueId> out;
  auto look = [&](ValueId v) {
    const SourceRange at = m[v].loc;
    const bool there =
        std::ranges::any_of(locations, [&](SourceRange p) { return p.begin == at.begin && p.end == at.end; });
    if (at.valid() && there) out.push_back(v);
  };
  for (FuncId f : m.order)
    forEachOp(m, m[f].body, [&](OpId o) {
      for (uint32_t r = 0; r < m[o].numResults; ++r) look(m.result(o, r));
      for (uint32_t k = 0; k < m[o].numRegions; ++k)
        for (ValueId a : m[m.region(o, k)].args) look(a);
    });
  return out;
}

std::string noSuchValue(const Module& m, FuncId f, const std::string& name) {
  std::vector<std::string> texts;
  for (const FuncArg& a : m[f].args) texts.push_back(printValueName(m, a.value));
  forEachOp(m, m[f].body, [&](OpId o) {
    for (uint32_t r = 0; r < m[o].numResults; ++r) texts.push_back(printValueName(m, m.result(o, r)));
  });
  std::vector<std::string_view> known(texts.begin(), texts.end());
  std::string_view near = nearestWord(name, known);
  return "function @" + std::string(m.strings[m[f].name]) + " has no value '" + name + "' after propagation" +
         (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?");
}

Status chosenPolicy(const ExplainFlags& o, PropagateOptions& options) {
  if (Status s = checkChoices(o.lowering); !s) return s;
  options.reduceDType = parseDType(o.lowering.reduceDType);
  if (auto policy = parsePolicy(o.lowering.policy)) options.policy = *policy;
  if (o.lowering.strictNonFinite) options.nonFinite = NonFinite::Strict;
  return Ok{};
}

Result<int> explainValueOf(Environment& env, const ExplainFlags& o, Module& m, FuncId entry,
                           const std::string& name, const PropagateOptions& options) {
  Diagnostics diags;
  PropagationReport report;
  std::vector<SourceRange> written;
  for (ValueId v : valuesNamed(m, entry, name)) written.push_back(m[v].loc);
  const bool ok = autodiffPass(m, {}, diags) && decomposePass(m, {}, diags) &&
                  canonicalizePass(m, {}, diags) && propagate(m, diags, &report, options);
  if (int failed = env.report(diags, m.source); failed || !ok) return kExitInput;
  const bool inlined = std::ranges::find(m.order, entry) == m.order.end();
  std::vector<ValueId> values = inlined ? valuesAt(m, written) : valuesNamed(m, entry, name);
  if (values.empty()) return inputError(noSuchValue(m, entry, name));
  for (ValueId v : values) {
    ExplainValue e = explainValue(m, report, v);
    env.out(o.json ? explainJson(e) : explainText(e));
  }
  return kExitDone;
}

// Lowers the entry and its callees to the input of propagate.
bool prepare(Module& m, FuncId entry, Diagnostics& diags) {
  Session session(m, entry);
  const bool done = session.lower(Stage::Closed, diags).ok();
  m = std::move(session.module());
  return done;
}

// Lowers up to the pass that checks communication contracts.
bool contractsHold(const Module& prepared, FuncId entry, const ExplainFlags& o, Diagnostics& diags) {
  return Session(prepared, entry, o.lowering.pipeline()).lower(Stage::Local, diags).ok();
}

Result<int> explainWhole(Environment& env, const ExplainFlags& o, Module& m, FuncId entry,
                         const PropagateOptions& options) {
  Diagnostics diags;
  const std::string name(m.strings[m[entry].name]);
  bool ok = prepare(m, entry, diags);
  if (int failed = env.report(diags, m.source); failed || !ok) return kExitInput;
  if (hasCommContracts(m)) {
    ok = contractsHold(m, m.findFunction(name), o, diags);
    if (int failed = env.report(diags, m.source); failed || !ok) return kExitInput;
  }
  auto trace = traceCollectives(m, options, {}, diags);
  if (int failed = env.report(diags, m.source); failed || !trace) return kExitInput;
  ExplainOptions how;
  how.propagation = options;
  how.full = o.full;
  how.progress = env.status.progress();
  how.changes = !o.limits && levelOf(m, m.findFunction(name)) == Level::Global;
  DTC_TRY(auto parse, parseOptionsOf(o.program));
  const PrepareProgram again = [&](SourceText text) -> std::optional<Module> {
    Module edited(standardOps());
    Diagnostics quiet;
    if (!readText(std::move(text), parse, edited, quiet) || !annotate(edited, parse) ||
        !verifyModule(edited, quiet))
      return std::nullopt;
    const FuncId f = edited.findFunction(name);
    if (!f.valid() || !prepare(edited, f, quiet)) return std::nullopt;
    return edited;
  };
  const ProgramReport report = explainCollectives(m, *trace, how, again);
  const auto decisions = explainDecisions(trace->propagated, trace->report);
  if (o.json)
    env.out(programJson(report, explainProgram(trace->propagated, trace->report), decisions));
  else
    env.out(o.limits ? limitsText(report) : collectivesText(report, decisions, {o.full, o.top}));
  return kExitDone;
}

Result<int> explainFile(Environment& env, ExplainFlags& o) {
  DTC_TRY(auto m, loadProgram(env, o.program));
  std::string name = o.rest.empty() ? "" : o.rest[0];
  if (size_t colon = name.find(':'); name.starts_with("@") && colon != std::string::npos) {
    o.program.entry = name.substr(0, colon);
    name = name.substr(colon + 1);
  }
  if (!name.empty() && !name.starts_with("%")) name = "%" + name;
  DTC_TRY(auto entry, entryOf(m, o.program.entry));
  if (levelOf(m, entry) >= Level::Local)
    return inputError(
        "explain needs a global program, but this one is partitioned and has no shardings left");
  PropagateOptions options;
  if (Status s = chosenPolicy(o, options); !s) return s.error();
  if (levelOf(m, entry) == Level::Propagated && !firstMisfit(m))
    env.err(
        "note: this program is already propagated; its text does not record the reasons for its shardings\n");
  return name.empty() ? explainWhole(env, o, m, entry, options)
                      : explainValueOf(env, o, m, entry, name, options);
}

// An error for a flag that reports of whole programs read, given with something else.
std::optional<Error> idleFlag(const ExplainFlags& o, bool equation) {
  const bool value = !o.rest.empty();
  const std::pair<bool, const char*> ofPrograms[] = {
      {o.limits, "--limits"}, {o.full, "--full"}, {o.top > 0, "--top"}};
  for (const auto& [given, flag] : ofPrograms)
    if (given && (value || equation))
      return usageError(std::string(flag) + " has no effect here: it is a flag of `dtc explain FILE`");
  const ProgramOptions& p = o.program;
  const bool ofFile =
      !p.meshes.empty() || !p.dims.empty() || !p.entry.empty() || !(o.lowering == LoweringFlags());
  if (equation && ofFile)
    return usageError(
        "--mesh, --dim, --entry, --policy, --reduce-dtype and --strict-nonfinite have no effect on "
        "an equation: they are flags of `dtc explain FILE`");
  return std::nullopt;
}

Result<int> runExplain(Environment& env, ExplainFlags& o) {
  const bool equation = o.program.file.find("->") != std::string::npos;
  if (const auto idle = idleFlag(o, equation)) return *idle;
  if (equation) {
    DTC_TRY(auto answer, explainEquation(o.program.file, o.rest, standardOps(), o.json));
    env.out(answer);
    return kExitDone;
  }
  if (o.rest.size() > 1)
    return usageError("unexpected argument '" + o.rest[1] +
                      "': explain takes one value, such as %y or @f:%y");
  return explainFile(env, o);
}

} // namespace

Verb explainVerb() {
  Verb v;
  v.name = "explain";
  v.usage = "FILE [@f:%v] | 'EQUATION' 'NAME {SHARDING}'…";
  v.summary = "explain why a value is sharded, why a collective is needed, and what it costs";
  v.examples =
      "  dtc explain examples/mlp.dt %y\n"
      "  dtc explain examples/mlp.dt                      (all collectives and how to avoid them)\n"
      "  dtc explain examples/mlp.dt --limits             (per axis: time, latency bound, exposed time)\n"
      "  dtc explain 'bi,oi->bo' 'x {_, _}' 'w {tp, _}'   (one matmul and its gradients)";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<ExplainFlags>();
    addProgramOptions(app, o->program);
    app.add_option("VALUE", o->rest, "%v or @f:%v; for an equation, its operands with their shardings");
    addPropagationOptions(app, o->lowering);
    app.add_flag("--limits", o->limits, "for the whole program, per axis: exposed time and latency bound");
    app.add_option("--top", o->top, "show the N most expensive groups of collectives of a large program (8)")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000));
    app.add_flag("--full", o->full, "list each collective separately");
    app.add_flag("--json", o->json, "print the report as JSON");
    return [o](Environment& env) { return runExplain(env, *o); };
  };
  return v;
}

} // namespace dtc
