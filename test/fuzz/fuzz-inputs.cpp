// The arguments of --input and --data: no text may crash its reader, and a pattern must not take longer than its length asks for.

#include "dtc/Files/SampleData.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto spec = dtc::parseDataSpec("--data", text); !spec && spec.error().message.empty())
    std::abort();
  auto binding = dtc::parseInputBinding(text);
  if (!binding) {
    if (binding.error().message.empty()) std::abort(); // rejected without a word
    return 0;
  }
  (void)dtc::matchesPattern(binding->pattern, "blocks.0.attention.weight");
  (void)dtc::matchesPattern(binding->pattern, text);
  if (binding->kind == dtc::InputBinding::Made)
    for (dtc::DType d :
         {dtc::DType::Bool, dtc::DType::I8, dtc::DType::U64, dtc::DType::F8E4M3, dtc::DType::F32})
      (void)dtc::makeInput(binding->spec, d, {3, 2}, 1);
  return 0;
}
