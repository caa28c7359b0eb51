// dtc report: one page of a program.
#include "dtc/Report/report/Report.h"
#include "Program.h"
#include "Verbs.h"
#include "ViewTrace.h"
#include <CLI/CLI.hpp>

namespace dtc {

namespace {

struct ReportFlags {
  ProgramOptions program;
  std::vector<std::string> more;
  LoweringFlags lowering;
  std::string target, trace, out; // target: empty if it is not given
  bool json = false;
};

Result<int> runReport(Environment& env, const ReportFlags& o) {
  if (o.out.empty() && !o.json)
    return usageError("report writes a page: name it with -o report.html, or use --json");
  if (Status s = checkPageName(o.out); !s) return s.error();
  ReportOptions options;
  options.entry = o.program.entry, options.lowering = o.lowering;
  if (!o.target.empty()) options.target = o.target;
  options.progress = env.status.progress();
  LoadedTrace loaded;
  if (!o.trace.empty()) {
    if (!o.more.empty()) return usageError("--trace is of one program: report the others without it");
    DTC_TRY(loaded, loadTrace(env, o.trace));
    options.trace = &loaded.trace;
    if (o.target.empty()) {
      DTC_TRY(options.target, targetOfTrace(loaded.trace));
    }
  }
  std::vector<ProgramData> programs;
  int code = kExitDone;
  std::vector<std::string> files = {o.program.file};
  files.insert(files.end(), o.more.begin(), o.more.end());
  for (const std::string& file : files) {
    ProgramOptions one = o.program;
    one.file = file;
    DTC_TRY(options.read, parseOptionsOf(one));
    DTC_TRY(SourceText source, readProgram(env, one));
    env.currentSource = source;
    DTC_TRY(ProgramData data, programData(std::move(source), options));
    env.report(data.problems, data.source);
    if (!data.error.empty()) code = env.fail(inputError(data.error));
    if (!data.complete) code = kExitInput;
    programs.push_back(std::move(data));
  }
  const bool json = o.json && (o.out.empty() || o.out == "-");
  if (!o.out.empty() && !json) {
    const std::string text = o.out.ends_with(".json") ? reportJson(programs) : reportPage(programs);
    if (const int wrote = writeOut(env, o.out, text); wrote != kExitDone) return wrote;
  }
  if (o.json) env.out(reportJson(programs));
  return code;
}

} // namespace

Verb reportVerb() {
  Verb v;
  v.name = "report";
  v.usage = "FILE... -o report.html";
  v.summary = "write a page that shows a program: shards, schedule, memory, communication, kernels";
  v.examples =
      "  dtc report examples/mlp.dt -o report.html\n"
      "  dtc report before.dt after.dt -o both.html            (several programs in one page)\n"
      "  dtc report examples/gpt.dt --target cpu -o gpt.html   (kernels and order of steps of a CPU)\n"
      "  dtc report examples/mlp.dt --json                     (the data of the page)\n"
      "  dtc report examples/mlp.dt --trace trace.json -o report.html   (and a run of dtc run --trace)\n"
      "a program that does not compile is reported as far as it comes";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<ReportFlags>();
    addProgramOptions(app, o->program);
    app.add_option("MORE", o->more, "further programs")->type_name("");
    app.add_option("-o", o->out, "the page, one self-contained file; - is standard output")->type_name("OUT");
    app.add_flag("--json", o->json, "print the data of the page as JSON (docs/report.md)");
    app.add_option("--trace", o->trace, "a run of dtc run --trace, shown with the schedule")
        ->type_name("T.json");
    app.add_option("--target", o->target,
                   "what the program is compiled for: cpu, or a GPU (default sm_90a, or the trace's)")
        ->type_name("cpu|sm_90a|…");
    addLoweringOptions(app, o->lowering);
    return [o](Environment& env) { return runReport(env, *o); };
  };
  return v;
}

} // namespace dtc
