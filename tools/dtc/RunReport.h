#pragma once
// What `dtc run` prints at its end: the document of --json, or text.
#include "RunResults.h"

#include "dtc/Check/run/RunCheck.h"
#include "dtc/Runtime/trace/Trace.h"

namespace dtc {

struct RunReport {
  const Module& module; // scheduled
  FuncId entry;
  std::string_view backend;
  const RunResults& results;
  std::vector<const RunResult*> printed;
  std::span<const std::string> texts; // results whose bytes are printed as text
  const RunStats& stats;
  const Executable* timed = nullptr;  // of which `stats` are printed; null: they are not
  const NanSearch* nans = nullptr;    // null without --nan
  const CheckReport* check = nullptr; // null without --check

  [[nodiscard]] std::string json() const;
  [[nodiscard]] std::string text() const;
  // "5 runs: median 1.204 ms, min 1.187 ms"; empty for one run, and where `stats` are printed.
  [[nodiscard]] std::string times() const;
};

} // namespace dtc
