// The reader of logs, and their charts: no input may crash it, and what it refuses it says. Numbers may have any size.

#include "dtc/Report/view/ViewMetrics.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const dtc::SourceText source{"fuzz.jsonl", std::string(reinterpret_cast<const char*>(data), size)};
  dtc::Diagnostics diagnostics;
  (void)dtc::looksLikeMetrics(source.text);
  const auto run = dtc::readMetrics(source, diagnostics);
  if (run) {
    const dtc::MetricRun runs[] = {*run, *run};
    const std::string all[] = {"*"};
    (void)dtc::metricsText({std::span(runs).first(1), {}}, 60);
    (void)dtc::metricsText({runs, all}, 1);
    (void)dtc::metricsSvg({runs, all});
  } else if (dtc::renderDiagnostics(diagnostics, source, false).empty()) {
    std::fprintf(stderr, "rejected without a word\n");
    std::abort();
  }
  return 0;
}
