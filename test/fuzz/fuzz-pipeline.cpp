// The text of -p: no text may crash its reader, and what is refused is refused with a reason.

#include "dtc/Passes/pipeline/Pipeline.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto steps = dtc::parsePipeline(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!steps && steps.error().message.empty()) std::abort();
  if (steps)
    for (const dtc::PassStep& step : *steps)
      if (!step.pass) std::abort();
  return 0;
}
