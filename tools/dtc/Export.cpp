// dtc export: programs as other compilers read them.
#include "dtc/Import/Export.h"
#include "Program.h"
#include "Verbs.h"
#include "dtc/Passes/Inline.h"
#include "dtc/Runtime/TensorFiles.h"
#include <CLI/CLI.hpp>

namespace dtc {

namespace {

struct Options {
  ProgramOptions program;
  std::string to = "stablehlo", output = "-";
};

int run(Environment& env, const Options& o) {
  int code = kExitDone;
  auto m = loadProgram(env, o.program, code);
  if (!m) return code;
  const SourceText source = m->source;
  auto entries = entriesOf(*m, o.program.entry);
  if (!entries) return env.fail(entries.error());
  FuncId entry;
  if (entries->size() == 1) {
    entry = entries->front();
    if (!o.program.entry.empty()) keepReached(*m, entry);
  } else {
    env.err("note: several functions are called by no other, and none is @main, which JAX and XLA start "
            "from; choose one "
            "with --entry\n");
  }
  Diagnostics diags;
  const std::string text = exportStablehlo(std::move(*m), diags, entry);
  code = env.report(diags, source);
  if (text.empty() || code) return kExitInput;
  if (o.output == "-") {
    env.out(text);
    return kExitDone;
  }
  if (Status s = writeFileAtomically(o.output, text); !s) return env.fail(s.error());
  return kExitDone;
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
  v.declare = [](CLI::App& app) -> std::function<int(Environment&)> {
    auto o = std::make_shared<Options>();
    addProgramOptions(app, o->program);
    app.add_option("--to", o->to, "what to print")
        ->type_name("stablehlo")
        ->check(CLI::IsMember({"stablehlo"}));
    app.add_option("-o,--output", o->output, "where the text goes; - is standard output")->type_name("OUT");
    return [o](Environment& env) { return run(env, *o); };
  };
  return v;
}

} // namespace dtc
