// dtc import: translates StableHLO programs to .dt text.
#include "dtc/StableHlo/import/Import.h"
#include "GraphFiles.h"
#include "Program.h"
#include "Verbs.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Lines.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

namespace dtc {

namespace {

struct ImportFlags {
  ProgramOptions program;
  std::string out = "-", format;
  bool report = false, json = false;
};

// Import problems by op: ops that cannot be imported, and ops kept as 'custom'.
struct Report {
  std::vector<ImportProblem> problems, kept;
};

std::string problemsJson(const LineTable& lines, const std::vector<ImportProblem>& problems) {
  std::string out = "[";
  for (const ImportProblem& p : problems) {
    const LineCol at = lines.at(p.range.valid() ? p.range.begin : 0).at;
    out += std::string(out.size() > 1 ? ",\n  " : "\n  ") + "{\"line\": " + std::to_string(at.line) +
           ", \"column\": " + std::to_string(at.column) +
           ", \"op\": " + (p.op.empty() ? "null" : jsonString(p.op)) +
           ", \"message\": " + jsonString(p.message) +
           (p.where.empty() ? "" : ", \"where\": " + jsonString(p.where)) + "}";
  }
  return out + (problems.empty() ? "]" : "\n]");
}

std::string opCount(size_t n, const char* one, const char* many) {
  return std::to_string(n) + (n == 1 ? " op " : " ops ") + (n == 1 ? one : many);
}

std::string reportText(const SourceText& source, const Report& r) {
  LineTable lines(source);
  std::string out;
  for (const auto* list : {&r.problems, &r.kept})
    for (const ImportProblem& p : *list)
      out += lines.text(p.range.valid() ? p.range : SourceRange{0, 0}, true) + ": " + p.message +
             (p.where.empty() ? "" : "\n  at " + p.where) + "\n";
  if (!r.problems.empty())
    out += opCount(r.problems.size(), "cannot be imported", "cannot be imported") + "\n";
  if (r.problems.empty() && r.kept.empty()) out += "all ops of " + source.name + " can be imported\n";
  if (!r.kept.empty())
    out += opCount(r.kept.size(), "is kept", "are kept") +
           " as 'custom': `dtc explain` and `dtc opt` accept the program, `dtc run` does not\n";
  return out;
}

void printReport(Environment& env, const SourceText& source, const Report& r, bool json) {
  if (!json) return env.out(reportText(source, r));
  LineTable lines(source);
  env.out("{\"problems\": " + problemsJson(lines, r.problems) + ", \"kept\": " + problemsJson(lines, r.kept) +
          "}\n");
}

// With --json, parse errors are part of the report.
Result<int> report(Environment& env, const SourceText& source, bool json) {
  Report r;
  Diagnostics diags;
  const bool complete = reportMlir(source, standardOps(), r.problems, r.kept, diags);
  if (!json)
    if (int code = env.report(diags, source)) return code;
  for (const Diagnostic& d : diags.all()) r.problems.push_back({"", d.range, d.message()});
  printReport(env, source, r, json);
  return complete ? kExitDone : kExitInput;
}

Result<int> importGraphFile(Environment& env, const ImportFlags& o, const GraphFormat& format) {
  DTC_TRY(const auto options, parseOptionsOf(o.program));
  if (o.report) {
    DTC_TRY(const auto imported, graphProblems(env, format, o.program.file, options));
    printReport(env, imported.module.source, {imported.problems, {}}, o.json);
    return imported.complete ? kExitDone : kExitInput;
  }
  DTC_TRY(const auto m, loadGraph(env, format, o.program.file, options));
  return writeOut(env, o.out, printModule(m));
}

Result<int> runImport(Environment& env, const ImportFlags& o) {
  if (const GraphFormat* format = o.format.empty() ? graphFormatOf(env, o.program.file) : nullptr)
    return importGraphFile(env, o, *format);
  DTC_TRY(auto source, readProgram(env, o.program));
  if (o.format.empty() && source.name.ends_with(".dt"))
    return inputError(source.name + " is already a .dt program: no import is needed");
  if (o.format.empty() && !looksLikeMlir(source.text))
    return inputError(source.name +
                      " does not look like StableHLO text (expected `module` or `func.func` at its "
                      "begin); --format stablehlo imports it anyway");
  if (o.report) return report(env, source, o.json);
  DTC_TRY(auto m, loadImported(env, std::move(source)));
  return writeOut(env, o.out, printModule(m));
}

} // namespace

Verb importVerb() {
  Verb v;
  v.name = "import";
  v.usage = "FILE [flags]";
  v.summary = "import a program of JAX (StableHLO text) or PyTorch (.pt2), or an ONNX model";
  v.examples = "  dtc import step.mlir -o step.dt\n"
               "  dtc import step.mlir --report\n"
               "  dtc import model.pt2 -o model.dt\n"
               "other verbs, such as run, import such files on the fly\n";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<ImportFlags>();
    app.add_option("FILE", o->program.file,
                   "StableHLO text (- is standard input), a PyTorch program (.pt2) or an ONNX model")
        ->type_name("");
    app.add_option("-o", o->out, "output file for the .dt text; - is standard output")->type_name("OUT");
    app.add_option("--format", o->format, "format of FILE (detected from its content)")
        ->type_name("stablehlo")
        ->check(CLI::IsMember({"stablehlo"}).description(""));
    app.add_option("--dim", o->program.dims, "bind a symbolic size of a PyTorch program: s0=64")
        ->type_name("NAME=N")
        ->allow_extra_args(false);
    addBindOption(app, o->program);
    app.add_flag("--report", o->report, "list all ops that cannot be imported");
    app.add_flag("--json", o->json, "print the report as JSON");
    return [o](Environment& env) { return runImport(env, *o); };
  };
  return v;
}

} // namespace dtc
