// The reader of `.npy` files: no bytes may crash it or make it allocate what the file cannot hold.

#include "dtc/Files/TensorFiles.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (std::optional<dtc::DType> want : {std::optional<dtc::DType>(), std::optional(dtc::DType::BF16)}) {
    auto source = dtc::openNpy(dtc::InputFile::inMemory("fuzz.npy", bytes), want);
    if (!source) {
      if (source.error().message.empty()) std::abort(); // rejected without a word
      continue;
    }
    auto whole = source->tensor();
    if (whole && whole->bytes().size() > size) std::abort(); // more than the file held
  }
  return 0;
}
