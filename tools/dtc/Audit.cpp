// dtc audit: the collectives of a program that is partitioned already, and what dtc would do instead.
#include "dtc/Report/Audit.h"
#include "Program.h"
#include "Verbs.h"
#include "dtc/Import/Import.h"
#include "dtc/Import/XlaHlo.h"
#include "dtc/Ops/Ops.h"
#include "dtc/Passes/Inline.h"
#include <CLI/CLI.hpp>

namespace dtc {

namespace {

struct Options {
  ProgramOptions program;
  bool json = false;
};

int auditProgram(Environment& env, const Options& o, SourceText source) {
  const bool mlir = looksLikeMlir(source.text);
  int code = kExitDone;
  auto parse = parseOptionsOf(o.program);
  if (!parse) return env.fail(parse.error());
  auto m = loadText(env, std::move(source), *parse, code);
  if (!m) return code;
  auto entry = entryOf(*m, o.program.entry);
  if (!entry) return env.fail(entry.error());
  keepReached(*m, *entry);
  if (levelOf(*m, *entry) < Level::Local)
    return env.fail(inputError(
        "this is the program of all devices together, in which no collective stands: `dtc explain` "
        "says what it will need; audit takes what one device does"));
  Diagnostics diags;
  if (!inlinePass(*m, {}, diags)) return env.report(diags, m->source);
  AuditReport report = auditModule(*m);
  if (mlir) report.format = "stablehlo";
  env.out(o.json ? auditJson(report) : auditText(report));
  return kExitDone;
}

int run(Environment& env, const Options& o) {
  int code = kExitDone;
  auto source = readProgram(env, o.program, code, true);
  if (!source) return code;
  if (!looksLikeXlaHlo(source->text)) return auditProgram(env, o, std::move(*source));
  env.currentSource = *source;
  Diagnostics diags;
  const auto report = auditXlaHlo(std::move(*source), diags);
  if (int failed = env.report(diags, env.currentSource); failed || !report) return kExitInput;
  env.out(o.json ? auditJson(*report) : auditText(*report));
  return kExitDone;
}

} // namespace

Verb auditVerb() {
  Verb v;
  v.name = "audit";
  v.usage = "FILE [--json]";
  v.summary = "the collectives of a partitioned program, and what dtc would do instead";
  v.examples = "  dtc audit step.hlo          (XLA's HLO text: compiled.as_text() in JAX)\n"
               "  dtc audit step.mlir --json  (StableHLO with collectives)\n"
               "  dtc opt mlp.dt -p propagate,partition | dtc audit -";
  v.declare = [](CLI::App& app) -> std::function<int(Environment&)> {
    auto o = std::make_shared<Options>();
    addProgramOptions(app, o->program);
    app.add_flag("--json", o->json, "for other programs");
    return [o](Environment& env) { return run(env, *o); };
  };
  return v;
}

} // namespace dtc
