// dtc import: programs of other compilers as .dt text.
#include "dtc/Import/Import.h"
#include "Program.h"
#include "Verbs.h"
#include "dtc/Ops/Ops.h"
#include "dtc/Runtime/TensorFiles.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Lines.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

namespace dtc {

namespace {

struct Options {
  ProgramOptions program;
  std::string out = "-", format;
  bool report = false, json = false;
};

// One line per op that does not import: where it stands, which it is, why.
std::string problemText(const SourceText& source, const std::vector<ImportProblem>& problems, bool json) {
  LineTable lines(source.text);
  std::string out = json ? "{\"problems\": [" : "";
  for (size_t i = 0; i < problems.size(); ++i) {
    const ImportProblem& p = problems[i];
    LineCol at = lines.at(p.range.valid() ? p.range.begin : 0);
    if (json)
      out += std::string(i ? ",\n  " : "\n  ") + "{\"line\": " + std::to_string(at.line) +
             ", \"column\": " + std::to_string(at.column) + ", \"op\": " + jsonString(p.op) +
             ", \"message\": " + jsonString(p.message) + "}";
    else
      out += source.name + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": " +
             p.message + "\n";
  }
  if (json) return out + (problems.empty() ? "]}\n" : "\n]}\n");
  if (problems.empty()) return "all of " + source.name + " imports\n";
  return out + std::to_string(problems.size()) + (problems.size() == 1 ? " op does" : " ops do") +
         " not import\n";
}

int report(Environment& env, SourceText source, bool json) {
  std::vector<ImportProblem> problems;
  Diagnostics diags;
  bool whole = reportMlir(source, standardOps(), problems, diags);
  if (int code = env.report(diags, source)) return code;
  env.out(problemText(source, problems, json));
  return whole ? kExitDone : kExitInput;
}

int run(Environment& env, const Options& o) {
  int code = kExitDone;
  auto source = readProgram(env, o.program, code);
  if (!source) return code;
  if (o.format.empty() && !looksLikeMlir(source->text))
    return env.fail(inputError(source->name +
                               " does not look like StableHLO text (it begins with neither a module nor a "
                               "func.func); --format stablehlo reads it as that all the same"));
  if (o.report) return report(env, std::move(*source), o.json);
  auto m = loadImported(env, std::move(*source), code);
  if (!m) return code;
  std::string text = printModule(*m);
  if (o.out == "-") {
    env.out(text);
    return kExitDone;
  }
  Status written = writeFileAtomically(o.out, text);
  return written ? kExitDone : env.fail(written.error());
}

} // namespace

Verb importVerb() {
  Verb v;
  v.name = "import";
  v.usage = "FILE [flags]";
  v.summary = "read a StableHLO program, as JAX prints it";
  v.examples = "  dtc import step.mlir -o step.dt\n"
               "  dtc import step.mlir --report\n"
               "verbs that read a program, such as run, import such a file themselves\n";
  v.declare = [](CLI::App& app) -> std::function<int(Environment&)> {
    auto o = std::make_shared<Options>();
    app.add_option("FILE", o->program.file, "the program, StableHLO text; - is standard input")
        ->type_name("");
    app.add_option("-o", o->out, "where the .dt text goes; - is standard output")->type_name("OUT");
    app.add_option("--format", o->format, "what FILE is; guessed from its content otherwise")
        ->type_name("stablehlo")
        ->check(CLI::IsMember({"stablehlo"}).description(""));
    app.add_flag("--report", o->report, "list all that does not import, without stopping");
    app.add_flag("--json", o->json, "the report as JSON");
    return [o](Environment& env) { return run(env, *o); };
  };
  return v;
}

} // namespace dtc
