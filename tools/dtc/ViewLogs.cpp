#include "ViewLogs.h"

#include "Program.h"
#include "dtc/Files/InputFile.h"
#include "dtc/Report/view/View.h"
#include "dtc/Report/view/ViewMetrics.h"
#include "dtc/Support/Suggest.h"

#include <algorithm>

namespace dtc {

static constexpr size_t kMaxLogBytes = size_t{256} << 20;

Result<bool> isLog(Environment& env, const std::string& file) {
  constexpr int64_t kHead = 1 << 16;
  if (file == "-") {
    DTC_TRY(const auto source, env.read(file, kMaxProgramBytes));
    return looksLikeMetrics(source.text);
  }
  if (file.ends_with(".jsonl")) return true;
  const auto opened = file.empty() ? Result<InputFile>(InputFile()) : InputFile::open(file);
  if (!opened) return false; // reported when it is read
  const auto head = opened->text(0, std::min(opened->size(), kHead));
  return head && looksLikeMetrics(*head);
}

// The runs; empty if errors have been reported.
static Result<std::vector<MetricRun>> readLogs(Environment& env, const ViewLogs& logs) {
  std::vector<MetricRun> runs;
  for (const std::string& file : logs.files) {
    DTC_TRY(auto source, env.read(file, kMaxLogBytes));
    if (source.text.size() > kMaxLogBytes)
      return inputError(quotedPath(file) + " is too long for a log: at most 256 MiB are read");
    env.currentSource = source;
    Diagnostics diags;
    auto run = readMetrics(source, diags);
    if (env.report(diags, source) != 0 || !run) return std::vector<MetricRun>();
    if (run->incomplete)
      env.err("note: " + quotedPath(file) +
              " ends within a line, which is left out: the run goes on, or was killed\n");
    runs.push_back(*std::move(run));
  }
  return runs;
}

static Status checkMetrics(const std::vector<std::string>& wanted, const std::vector<MetricRun>& runs) {
  const std::vector<std::string> names = metricPanelNames(runs);
  for (const std::string& name : wanted)
    if (name != "*" && std::ranges::find(names, name) == names.end())
      return usageError(
          "--value: no metric '" + name + "'" +
          suggestion(Vocabulary::Plain, name, std::vector<std::string_view>(names.begin(), names.end())));
  return Ok{};
}

Result<int> viewLogs(Environment& env, const ViewLogs& logs) {
  if (logs.format == "dot") return usageError("--format dot draws graphs of programs, not logs");
  if (logs.files.size() > kMaxMetricRuns)
    return usageError("at most " + std::to_string(kMaxMetricRuns) + " logs are drawn in one chart");
  DTC_TRY(const auto runs, readLogs(env, logs));
  if (runs.empty()) return kExitInput;
  if (Status s = checkMetrics(logs.metrics, runs); !s) return s.error();
  const ViewMetrics view{runs, logs.metrics};
  if (logs.format == "text") return writeOut(env, logs.out, metricsText(view, logs.columns));
  const std::string svg = metricsSvg(view);
  return writeOut(env, logs.out, logs.format == "html" ? htmlPage(runs[0].name, svg) : svg);
}

} // namespace dtc
