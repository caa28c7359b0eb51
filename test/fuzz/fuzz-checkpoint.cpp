// The manifest of a checkpoint: no bytes may crash its reader, and what is written is read back.

#include "dtc/Files/Checkpoint.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto manifest = dtc::parseCheckpointManifest({reinterpret_cast<const char*>(data), size});
  if (!manifest) {
    if (manifest.error().message.empty()) std::abort(); // rejected without a word
    return 0;
  }
  const std::string written = dtc::manifestJson(*manifest);
  const auto again = dtc::parseCheckpointManifest(written);
  if (!again || dtc::manifestJson(*again) != written) std::abort();
  return 0;
}
