// dtc explain: why a value is sharded so, why a collective stands where it stands, what it costs.
#include "dtc/Report/Explain.h"
#include "Program.h"
#include "Verbs.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Ops/Ops.h"
#include "dtc/Passes/Autodiff.h"
#include "dtc/Passes/Canonicalize.h"
#include "dtc/Passes/CommContracts.h"
#include "dtc/Passes/Decompose.h"
#include "dtc/Passes/Inline.h"
#include "dtc/Passes/StandardPipeline.h"
#include "dtc/Report/ExplainProgram.h"
#include <CLI/CLI.hpp>

namespace dtc {

namespace {

struct Options {
  ProgramOptions program; // its file may be an equation
  std::vector<std::string> rest;
  std::string policy, reduceDType;
  bool json = false, limits = false, full = false, strictNonFinite = false;
  size_t top = 0;
};

// All values of a function that have the name, those in regions included; a result's label means what is returned there.
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

// The values that stand at these places: what a function's values have become where it was inlined, once for each call.
std::vector<ValueId> valuesAt(const Module& m, const std::vector<SourceRange>& places) {
  std::vector<ValueId> out;
  auto look = [&](ValueId v) {
    const SourceRange at = m[v].loc;
    const bool there =
        std::ranges::any_of(places, [&](SourceRange p) { return p.begin == at.begin && p.end == at.end; });
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
  return "function @" + std::string(m.strings[m[f].name]) + " has no value '" + name +
         "' once it is propagated" + (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?");
}

Status chosenPolicy(const Options& o, PropagateOptions& options) {
  if (Status s = checkChoices(o.policy, o.reduceDType); !s) return s;
  options.reduceDType = parseDType(o.reduceDType);
  if (auto policy = parsePolicy(o.policy)) options.policy = *policy;
  if (o.strictNonFinite) options.nonFinite = NonFinite::Strict;
  return Ok{};
}

int explainValueOf(Environment& env, const Options& o, Module& m, FuncId entry, const std::string& name,
                   const PropagateOptions& options) {
  Diagnostics diags;
  PropagationReport report;
  std::vector<SourceRange> written;
  for (ValueId v : valuesNamed(m, entry, name)) written.push_back(m[v].loc);
  const bool ok = autodiffPass(m, {}, diags) && decomposePass(m, {}, diags) &&
                  canonicalizePass(m, {}, diags) && propagate(m, diags, &report, options);
  if (int failed = env.report(diags, m.source); failed || !ok) return kExitInput;
  const bool inlined = std::ranges::find(m.order, entry) == m.order.end();
  std::vector<ValueId> values = inlined ? valuesAt(m, written) : valuesNamed(m, entry, name);
  if (values.empty()) return env.fail(inputError(noSuchValue(m, entry, name)));
  for (ValueId v : values) {
    ExplainValue e = explainValue(m, report, v);
    env.out(o.json ? explainJson(e) : explainText(e));
  }
  return kExitDone;
}

// The entry, and what it calls, as propagate takes it.
bool prepare(Module& m, FuncId entry, Diagnostics& diags) {
  keepReached(m, entry);
  const StandardPipeline pipeline = standardPipeline(levelOf(m, entry), 1, "");
  std::vector<PassStep> steps = pipeline.reference;
  for (const PassStep& step : pipeline.propagate)
    if (step.pass->gives != Level::Propagated) steps.push_back(step);
  return runPipeline(m, steps, diags).ok();
}

// The same passes up to where contracts are checked.
bool contractsHold(const Module& prepared, const Options& o, Diagnostics& diags) {
  Module m = prepared;
  const std::string wire = o.reduceDType.empty() ? "" : "reduce-dtype=" + o.reduceDType;
  std::string all = wire;
  if (!o.policy.empty()) all += (all.empty() ? "" : ",") + ("policy=" + o.policy);
  if (o.strictNonFinite) all += all.empty() ? "strict-nonfinite=true" : ",strict-nonfinite=true";
  auto steps = parsePipeline("propagate" + (all.empty() ? "" : "{" + all + "}") + ",partition" +
                             (wire.empty() ? "" : "{" + wire + "}") + ",optimize-collectives");
  return steps && runPipeline(m, *steps, diags).ok();
}

int explainWhole(Environment& env, const Options& o, Module& m, FuncId entry,
                 const PropagateOptions& options) {
  Diagnostics diags;
  const std::string name(m.strings[m[entry].name]);
  bool ok = prepare(m, entry, diags);
  if (int failed = env.report(diags, m.source); failed || !ok) return kExitInput;
  if (hasCommContracts(m)) {
    ok = contractsHold(m, o, diags);
    if (int failed = env.report(diags, m.source); failed || !ok) return kExitInput;
  }
  auto trace = traceCollectives(m, options, {}, diags);
  if (int failed = env.report(diags, m.source); failed || !trace) return kExitInput;
  ExplainOptions how;
  how.propagation = options;
  how.full = o.full;
  how.progress = env.status.progress();
  how.changes = !o.limits && levelOf(m, m.findFunction(name)) == Level::Global;
  auto parse = parseOptionsOf(o.program);
  if (!parse) return env.fail(parse.error());
  const PrepareProgram again = [&](SourceText text) -> std::optional<Module> {
    Module edited(standardOps());
    Diagnostics quiet;
    if (!readText(std::move(text), *parse, edited, quiet) || !verifyModule(edited, quiet))
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

int explainFile(Environment& env, Options& o) {
  int code = kExitDone;
  auto loaded = loadProgram(env, o.program, code);
  if (!loaded) return code;
  Module& m = *loaded;
  std::string name = o.rest.empty() ? "" : o.rest[0];
  if (size_t colon = name.find(':'); name.starts_with("@") && colon != std::string::npos) {
    o.program.entry = name.substr(0, colon);
    name = name.substr(colon + 1);
  }
  if (!name.empty() && !name.starts_with("%")) name = "%" + name;
  auto entry = entryOf(m, o.program.entry);
  if (!entry) return env.fail(entry.error());
  if (levelOf(m, *entry) >= Level::Local)
    return env.fail(inputError(
        "this is the program of one device, which has no shardings left to explain: give the global "
        "program"));
  PropagateOptions options;
  if (Status s = chosenPolicy(o, options); !s) return env.fail(s.error());
  if (levelOf(m, *entry) == Level::Propagated && !firstMisfit(m))
    env.err("note: this text is propagated already; the reasons were found when it was, and are not in it\n");
  return name.empty() ? explainWhole(env, o, m, *entry, options)
                      : explainValueOf(env, o, m, *entry, name, options);
}

int run(Environment& env, Options& o) {
  if (o.program.file.find("->") != std::string::npos) {
    auto answer = explainEquation(o.program.file, o.rest, standardOps(), o.json);
    if (!answer) return env.fail(answer.error());
    env.out(*answer);
    return kExitDone;
  }
  if (o.rest.size() > 1)
    return env.fail(usageError("explain takes one value, as %y or @f:%y; '" + o.rest[1] + "' is one more"));
  return explainFile(env, o);
}

} // namespace

Verb explainVerb() {
  Verb v;
  v.name = "explain";
  v.usage = "FILE [@f:%v] | 'EQUATION' 'NAME {SHARDING}'…";
  v.summary = "why a value is sharded so, why a collective is there, what it costs";
  v.examples =
      "  dtc explain examples/mlp.dt %y\n"
      "  dtc explain examples/mlp.dt                      (every collective, and what would remove it)\n"
      "  dtc explain examples/mlp.dt --limits             (per axis: time, latency floor, what is exposed)\n"
      "  dtc explain 'bi,oi->bo' 'x {_, _}' 'w {tp, _}'   (one product, and its gradients)";
  v.declare = [](CLI::App& app) -> std::function<int(Environment&)> {
    auto o = std::make_shared<Options>();
    addProgramOptions(app, o->program);
    app.add_option("VALUE", o->rest, "%v or @f:%v; of an equation, its operands with their shardings");
    app.add_option("--policy", o->policy, "how conflicts of shardings are settled")
        ->type_name("shardy|dtensor|cost|explicit");
    app.add_option("--reduce-dtype", o->reduceDType, "the float dtype that sums between devices travel in")
        ->type_name("DTYPE");
    app.add_flag("--strict-nonfinite", o->strictNonFinite,
                 "infinities and NaN are those of the unsharded program: no rule that holds for finite "
                 "values alone");
    app.add_flag("--limits", o->limits,
                 "of the whole program, per axis: what stays exposed, the latency floor");
    app.add_option("--top", o->top, "of a large program, the groups of collectives that are shown (8)")
        ->type_name("N")
        ->check(CLI::PositiveNumber);
    app.add_flag("--full", o->full, "every collective by itself, however many there are");
    app.add_flag("--json", o->json, "print the report as JSON");
    return [o](Environment& env) { return run(env, *o); };
  };
  return v;
}

} // namespace dtc
