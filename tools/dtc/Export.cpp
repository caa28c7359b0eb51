// dtc export: prints programs as StableHLO and Shardy text.
#include "dtc/StableHlo/export/Export.h"
#include "Program.h"
#include "Verbs.h"
#include "dtc/Passes/simplify/Inline.h"
#include <CLI/CLI.hpp>

namespace dtc {

namespace {

struct ExportOptions {
  ProgramOptions program;
  std::string to = "stablehlo", output = "-";
};

Result<int> runExport(Environment& env, const ExportOptions& o) {
  DTC_TRY(auto m, loadProgram(env, o.program));
  const SourceText source = m.source;
  DTC_TRY(auto entries, entriesOf(m, o.program.entry));
  FuncId entry;
  if (entries.size() == 1) {
    entry = entries.front();
    if (!o.program.entry.empty()) removeUnreachable(m, entry);
  } else {
    env.err("note: the module has several uncalled functions and no @main, which JAX and XLA expect; choose "
            "one with --entry\n");
  }
  if (Status s = runsOnAllDevices(m, "export"); !s) return s.error();
  Diagnostics diags;
  const std::string text = exportStablehlo(std::move(m), diags, entry);
  if (env.report(diags, source) || text.empty()) return kExitInput;
  return writeOut(env, o.output, text);
}

} // namespace

Verb exportVerb() {
  Verb v;
  v.name = "export";
  v.usage = "FILE [flags]";
  v.summary = "print a program as StableHLO and Shardy text";
  v.examples = "  dtc export mlp.dt -o mlp.mlir\n"
               "  dtc opt mlp.dt -p inline,propagate,partition | dtc export - > one-device.mlir\n"
               "  dtc export mlp.dt | dtc import - | dtc run - --input '*=randn(1)'";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<ExportOptions>();
    addProgramOptions(app, o->program);
    app.add_option("--to", o->to, "output format")
        ->type_name("stablehlo")
        ->check(CLI::IsMember({"stablehlo"}));
    app.add_option("-o,--output", o->output, "output file; - is standard output")->type_name("OUT");
    return [o](Environment& env) { return runExport(env, *o); };
  };
  return v;
}

} // namespace dtc
