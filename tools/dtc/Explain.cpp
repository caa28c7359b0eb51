// dtc explain: the reason for a sharding or a collective, and its cost.
#include "dtc/Report/explain/Explain.h"
#include "CalledValues.h"
#include "Program.h"
#include "Verbs.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/GivenNames.h"
#include "dtc/IR/text/TextNames.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/analysis/PipelineText.h"
#include "dtc/Passes/trace/CommContracts.h"
#include "dtc/Passes/trace/TraceCollectives.h"
#include "dtc/Report/explain/StepCost.h"
#include "dtc/Session/Session.h"
#include "dtc/Target/Target.h"
#include <CLI/CLI.hpp>

namespace dtc {

namespace {

struct ExplainFlags {
  ProgramOptions program; // program.file may be an equation
  std::vector<std::string> rest;
  LoweringFlags lowering; // only the propagation flags are used
  bool json = false, limits = false, full = false;
  size_t top = 0;
  std::string target;
  bool rings = false; // for the target
};

std::string noSuchValue(const Module& written, FuncId entry, const std::string& name) {
  const std::string function(written.strings[written[entry].name]);
  if (!nameInText(written, entry, name).empty())
    return "function @" + function + " has no value '" + name +
           "' any more when shardings are propagated: it was simplified away";
  const std::string missing = "function @" + function + " has no value '" + name + "'";
  for (FuncId f : written.order)
    if (f != entry && !valuesNamed(written, f, name).empty())
      return missing + "; did you mean '@" + std::string(written.strings[written[f].name]) + ":" + name +
             "'?";
  std::vector<std::string> texts;
  const TextNames names(written);
  for (const FuncArg& a : written[entry].args)
    for (const std::string& n : argumentNames(written, a)) texts.push_back("%" + n);
  forEachOp(written, written[entry].body, [&](OpId o) {
    for (uint32_t r = 0; r < written[o].numResults; ++r) texts.push_back(names(written.result(o, r)));
  });
  std::vector<std::string_view> known(texts.begin(), texts.end());
  std::string_view near = nearestWord(name, known);
  return missing + (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?");
}

Status chosenPolicy(const ExplainFlags& o, PropagateOptions& options) {
  if (Status s = checkChoices(o.lowering); !s) return s;
  options.reduceDType = parseDType(o.lowering.reduceDType);
  if (auto policy = parsePolicy(o.lowering.policy)) options.policy = *policy;
  if (o.lowering.strictNonFinite) options.nonFinite = NonFinite::Strict;
  return Ok{};
}

// Lowers the entry and its callees to the input of propagate.
bool prepare(Module& m, FuncId entry, Diagnostics& diags) {
  Session session(m, entry);
  const bool done = session.lower(Stage::Closed, diags).ok();
  m = std::move(session.module());
  return done;
}

// "@f:%y" is the value %y of a function; "%y" and "in %y" are of the entry.
struct NamedValue {
  std::string scope, name; // "@f", "%y"
};

NamedValue namedValue(std::string text) {
  NamedValue out;
  if (text.starts_with("in ")) text = text.substr(3);
  if (size_t colon = text.find(':'); text.starts_with("@") && colon != std::string::npos) {
    out.scope = text.substr(0, colon);
    text = text.substr(colon + 1);
  }
  out.name = text.empty() || text.starts_with("%") ? text : "%" + text;
  return out;
}

// Explains the value in the lowered `entry`, which may be the caller of the function `f` that has the value.
Result<int> explainValueOf(Environment& env, const ExplainFlags& o, const Module& written, FuncId entry,
                           FuncId f, const NamedValue& value, const PropagateOptions& options) {
  Diagnostics diags;
  ValueQuery query{value.name, {}};
  CalledValue called;
  if (f != entry) {
    query.name = value.scope + ":" + value.name;
    called = calledValue(written, entry, f, value.name);
    query.locations = called.places;
  } else {
    if (std::string known = nameInText(written, f, value.name); !known.empty()) query.name = std::move(known);
  }
  Session session(written, entry);
  const bool ok = session.lower(Stage::Closed, diags).ok();
  if (int failed = env.report(diags, written.source); failed || !ok) return kExitInput;
  auto trace = traceCollectives(session.module(), options, {}, diags, session.entry());
  if (int failed = env.report(diags, written.source); failed || !trace) return kExitInput;
  std::vector<ValueId> values = valuesOf(trace->propagated, trace->report, query);
  for (const std::string& passed : called.passed)
    for (const ValueId v : valuesOf(trace->propagated, trace->report, {passed, {}}))
      if (std::ranges::find(values, v) == values.end()) values.push_back(v);
  if (values.empty() && f != entry) return explainValueOf(env, o, written, f, f, value, options);
  if (values.empty()) return inputError(noSuchValue(written, f, value.name));
  const OpCollectives runs = opCollectives(*trace);
  std::vector<std::string> said; // an argument of a function is the same in equal calls
  for (ValueId v : values) {
    ExplainValue e = explainValue(trace->propagated, trace->report, v, &runs);
    e.assumed = trace->assumed;
    std::string text = o.json ? explainJson(e) : explainText(e);
    if (std::ranges::find(said, text) != said.end()) continue;
    env.out(text);
    said.push_back(std::move(text));
  }
  return kExitDone;
}

// Lowers up to the pass that checks communication contracts.
bool contractsHold(const Module& prepared, FuncId entry, const ExplainFlags& o, Diagnostics& diags) {
  return Session(prepared, entry, o.lowering.pipeline()).lower(Stage::Local, diags).ok();
}

SummaryRow sumOf(const std::vector<TracedCollective>& collectives) {
  SummaryRow sum;
  for (const TracedCollective& c : collectives) {
    const int64_t count = c.counted;
    sum.count += count;
    if (!c.price) continue;
    sum.bytes += static_cast<double>(c.price->bytesReceived) * static_cast<double>(count);
    sum.seconds += c.price->seconds * static_cast<double>(count);
  }
  return sum;
}

// What is known only of local text: the order of a pipeline, and which collectives `recompute` repeats.
void addLocal(ProgramReport& report, const Module& prepared, FuncId entry, const ExplainFlags& o) {
  const std::string_view name = prepared.strings[prepared[entry].name];
  Session local(prepared, entry, o.lowering.pipeline());
  SummaryRow before;
  local.hooks.after = [&](const PassStep& step, const Module& after, double) {
    if (levelOf(after, after.findFunction(name)) < Level::Local) return;
    Module priced = after;
    const SummaryRow sum = sumOf(countedCollectivesOf(priced, {}));
    if (std::string_view(step.pass->name) == "recompute")
      report.repeated = {"", sum.count - before.count, sum.bytes - before.bytes,
                         sum.seconds - before.seconds};
    before = sum;
  };
  if (Diagnostics quiet; local.lower(Stage::Local, quiet).ok() && hasStages(prepared, entry))
    report.pipeline = readPipeline(local.module(), local.entry());
}

Result<int> explainWhole(Environment& env, const ExplainFlags& o, Module& m, FuncId entry,
                         const PropagateOptions& options) {
  Diagnostics diags;
  const std::string name(m.strings[m[entry].name]);
  ExplainOptions how;
  how.links = AnnotationLinks(m);
  bool ok = prepare(m, entry, diags);
  if (int failed = env.report(diags, m.source); failed || !ok) return kExitInput;
  if (hasCommContracts(m)) {
    ok = contractsHold(m, m.findFunction(name), o, diags);
    if (int failed = env.report(diags, m.source); failed || !ok) return kExitInput;
  }
  auto trace = traceCollectives(m, options, {}, diags, m.findFunction(name));
  if (int failed = env.report(diags, m.source); failed || !trace) return kExitInput;
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
  const std::string target = o.target.empty() ? kReportTarget : o.target;
  how.scheduleCost = [&](const Module& program) {
    return scheduleCostOf(program, program.findFunction(name), o.lowering, target);
  };
  ProgramReport report = explainCollectives(m, *trace, how, again);
  const auto step = stepCostOf(m, m.findFunction(name), o.lowering, target, *trace, report);
  addLocal(report, m, m.findFunction(name), o);
  if (o.rings) {
    report.rings = explainRings(*trace, o.target, diags);
    if (int failed = env.report(diags, m.source); failed) return kExitInput;
  }
  const auto decisions = explainDecisions(trace->propagated, trace->report);
  const OpCollectives runs = opCollectives(*trace);
  if (o.json)
    env.out(programJson(report, explainProgram(trace->propagated, trace->report, &runs), decisions,
                        step ? &*step : nullptr));
  else
    env.out((o.limits ? limitsText(report) : collectivesText(report, decisions, {o.full, o.top})) +
            (step ? stepCostText(*step) + stepMessagesText(*step, report) : ""));
  return kExitDone;
}

Result<int> explainFile(Environment& env, ExplainFlags& o) {
  DTC_TRY(auto m, loadProgram(env, o.program));
  NamedValue value = namedValue(o.rest.empty() ? "" : o.rest[0]);
  if (const auto whole = entryOf(m, o.program.entry);
      whole.ok() && value.scope.empty() && !value.name.empty())
    if (const auto own = calledNames(m, *whole, value.name); own.size() == 1) value = namedValue(own[0]);
  DTC_TRY(auto entry, entryOf(m, o.program.entry.empty() ? value.scope : o.program.entry));
  const FuncId scope = entry;
  if (!value.scope.empty() && o.program.entry.empty())
    if (auto whole = entryOf(m, ""); whole.ok()) entry = *whole;
  if (levelOf(m, entry) >= Level::Local)
    return inputError(
        "explain needs a global program, but this one is partitioned and has no shardings left");
  if (!o.target.empty()) {
    DTC_TRY(const auto target, targetNamed(o.target));
    o.rings = target.gpu; // on a CPU, messages do not overlap with matmuls
  }
  PropagateOptions options;
  if (Status s = chosenPolicy(o, options); !s) return s.error();
  if (levelOf(m, entry) == Level::Propagated && !firstMisfit(m))
    env.err(
        "note: this program is already propagated; its text does not record the reasons for its shardings\n");
  return value.name.empty() ? explainWhole(env, o, m, entry, options)
                            : explainValueOf(env, o, m, entry, scope, value, options);
}

// An error for a flag that reports of whole programs read, given with something else.
std::optional<Error> idleFlag(const ExplainFlags& o, bool equation) {
  const bool value = !o.rest.empty();
  const std::pair<bool, const char*> ofPrograms[] = {
      {o.limits, "--limits"}, {o.full, "--full"}, {o.top > 0, "--top"}, {!o.target.empty(), "--target"}};
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
    addPipelineOption(app, o->lowering);
    app.add_flag("--limits", o->limits, "for the whole program, per axis: exposed time and latency bound");
    app.add_option("--top", o->top, "show the N most expensive groups of collectives of a large program (8)")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000));
    app.add_option("--target", o->target,
                   "compile the schedule for it (sm_90a), and show the collectives that overlap with matmuls "
                   "as rings on this GPU")
        ->type_name("cpu|sm_90a|…");
    app.add_flag("--full", o->full, "list each collective separately");
    app.add_flag("--json", o->json, "print the report as JSON");
    return [o](Environment& env) { return runExplain(env, *o); };
  };
  return v;
}

} // namespace dtc
