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

// What the import says of single ops: those that do not import, and those that are kept and cannot run.
struct Report {
  std::vector<ImportProblem> problems, kept;
};

std::string problemsJson(const LineTable& lines, const std::vector<ImportProblem>& problems) {
  std::string out = "[";
  for (const ImportProblem& p : problems) {
    const LineCol at = lines.at(p.range.valid() ? p.range.begin : 0);
    out += std::string(out.size() > 1 ? ",\n  " : "\n  ") + "{\"line\": " + std::to_string(at.line) +
           ", \"column\": " + std::to_string(at.column) +
           ", \"op\": " + (p.op.empty() ? "null" : jsonString(p.op)) +
           ", \"message\": " + jsonString(p.message) + "}";
  }
  return out + (problems.empty() ? "]" : "\n]");
}

std::string opCount(size_t n, const char* one, const char* many) {
  return std::to_string(n) + (n == 1 ? " op " : " ops ") + (n == 1 ? one : many);
}

std::string reportText(const SourceText& source, const Report& r) {
  LineTable lines(source.text);
  std::string out;
  for (const auto* list : {&r.problems, &r.kept})
    for (const ImportProblem& p : *list) {
      const LineCol at = lines.at(p.range.valid() ? p.range.begin : 0);
      out += source.name + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": " +
             p.message + "\n";
    }
  if (!r.problems.empty()) out += opCount(r.problems.size(), "does not import", "do not import") + "\n";
  if (r.problems.empty() && r.kept.empty()) out += "all of " + source.name + " imports\n";
  if (!r.kept.empty())
    out += opCount(r.kept.size(), "is kept", "are kept") +
           " as 'custom': `dtc explain` and `dtc opt` work on the program, `dtc run` does not\n";
  return out;
}

// As JSON, a text that cannot be parsed is a report, too.
int report(Environment& env, const SourceText& source, bool json) {
  Report r;
  Diagnostics diags;
  const bool whole = reportMlir(source, standardOps(), r.problems, r.kept, diags);
  if (!json) {
    if (int code = env.report(diags, source)) return code;
    env.out(reportText(source, r));
    return whole ? kExitDone : kExitInput;
  }
  for (const Diagnostic& d : diags.all()) r.problems.push_back({"", d.range, d.message()});
  LineTable lines(source.text);
  env.out("{\"problems\": " + problemsJson(lines, r.problems) + ", \"kept\": " + problemsJson(lines, r.kept) +
          "}\n");
  return whole ? kExitDone : kExitInput;
}

int run(Environment& env, const Options& o) {
  int code = kExitDone;
  auto source = readProgram(env, o.program, code);
  if (!source) return code;
  if (o.format.empty() && source->name.ends_with(".dt"))
    return env.fail(inputError(source->name + " is a .dt program already: every verb reads it as it is"));
  if (o.format.empty() && !looksLikeMlir(source->text))
    return env.fail(inputError(source->name +
                               " does not look like StableHLO text (it begins with neither a module nor a "
                               "func.func); --format stablehlo reads it as that all the same"));
  if (o.report) return report(env, *source, o.json);
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
