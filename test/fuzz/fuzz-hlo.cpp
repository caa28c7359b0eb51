// The reader of XLA's HLO text, and what audit makes of it: no input may crash it, and what it refuses it says.

#include "dtc/Report/audit/Audit.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dtc::SourceText source{"fuzz.hlo", std::string(reinterpret_cast<const char*>(data), size)};
  dtc::Diagnostics diagnostics;
  const auto report = dtc::auditXlaHlo(source, diagnostics);
  if (report) {
    (void)dtc::auditText(*report);
    (void)dtc::auditJson(*report);
  } else if (dtc::renderDiagnostics(diagnostics, source, false).empty()) {
    std::fprintf(stderr, "rejected without a word\n");
    std::abort();
  }
  return 0;
}
