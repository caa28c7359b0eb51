// The reader of `.dt` text: no input may crash it, and what it accepts it must read back from its own print.

#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

void fail(const char* what, const std::string& first, const std::string& second) {
  std::fprintf(stderr, "%s\n--- first\n%s\n--- second\n%s\n", what, first.c_str(), second.c_str());
  std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dtc::SourceText source{"fuzz.dt", std::string(reinterpret_cast<const char*>(data), size)};
  dtc::Diagnostics diagnostics;
  dtc::Module module(dtc::standardOps());
  if (!dtc::parseModule(source, dtc::standardOps(), module, diagnostics)) {
    std::string said = dtc::renderDiagnostics(diagnostics, source, false);
    if (said.empty()) fail("rejected without a word", source.text, said);
    return 0;
  }
  std::string once = dtc::printModule(module);
  dtc::Diagnostics again;
  dtc::Module second(dtc::standardOps());
  if (!dtc::parseModule({"printed.dt", once}, dtc::standardOps(), second, again))
    fail("the print does not parse", once, dtc::renderDiagnostics(again, {"printed.dt", once}, false));
  if (std::string twice = dtc::printModule(second); twice != once)
    fail("the print is not stable", once, twice);
  if (!dtc::verifyModule(module, diagnostics)) (void)dtc::renderDiagnostics(diagnostics, source, false);
  return 0;
}
