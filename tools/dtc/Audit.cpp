// dtc audit: reports the collectives of a partitioned program and what dtc would insert instead.
#include "dtc/Report/audit/Audit.h"
#include "Program.h"
#include "Verbs.h"
#include "dtc/Passes/simplify/Inline.h"
#include "dtc/Report/audit/XlaHlo.h"
#include "dtc/StableHlo/import/Import.h"
#include <CLI/CLI.hpp>

namespace dtc {

namespace {

struct AuditOptions {
  ProgramOptions program;
  bool json = false;
};

Result<int> auditProgram(Environment& env, const AuditOptions& o, SourceText source) {
  const bool mlir = looksLikeMlir(source.text);
  DTC_TRY(auto parse, parseOptionsOf(o.program));
  DTC_TRY(auto m, loadText(env, std::move(source), parse));
  DTC_TRY(auto entry, entryOf(m, o.program.entry));
  removeUnreachable(m, entry);
  if (levelOf(m, entry) < Level::Local)
    return inputError("audit needs a partitioned program: run `dtc opt -p propagate,partition` first; "
                      "`dtc explain` lists the collectives that a global program will need");
  if (Status s = runsOnAllDevices(m, "audit"); !s) return s.error();
  Diagnostics diags;
  if (!inlinePass(m, {}, diags)) return env.report(diags, m.source);
  AuditReport report = auditModule(m);
  if (mlir) report.format = "stablehlo";
  env.out(o.json ? auditJson(report) : auditText(report));
  return kExitDone;
}

Result<int> runAudit(Environment& env, const AuditOptions& o) {
  DTC_TRY(auto source, readProgram(env, o.program, true));
  if (!looksLikeXlaHlo(source.text)) return auditProgram(env, o, std::move(source));
  env.currentSource = source;
  Diagnostics diags;
  const auto report = auditXlaHlo(std::move(source), diags);
  if (int failed = env.report(diags, env.currentSource); failed || !report) return kExitInput;
  env.out(o.json ? auditJson(*report) : auditText(*report));
  return kExitDone;
}

} // namespace

Verb auditVerb() {
  Verb v;
  v.name = "audit";
  v.usage = "FILE [--json]";
  v.summary = "report the collectives of a partitioned program and cheaper alternatives";
  v.examples = "  dtc audit step.hlo          (XLA's HLO text: compiled.as_text() in JAX)\n"
               "  dtc audit step.mlir --json  (StableHLO with collectives)\n"
               "  dtc opt mlp.dt -p propagate,partition | dtc audit -";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<AuditOptions>();
    addProgramOptions(app, o->program);
    app.add_flag("--json", o->json, "print the report as JSON");
    return [o](Environment& env) { return runAudit(env, *o); };
  };
  return v;
}

} // namespace dtc
