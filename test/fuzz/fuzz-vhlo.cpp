// The reader of portable artifacts: no bytes may crash it, and its text is bounded by the size of the file.

#include "dtc/Ops/record/Ops.h"
#include "dtc/StableHlo/import/Import.h"
#include "dtc/StableHlo/vhlo/Vhlo.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)dtc::looksLikeVhlo(bytes);
  auto text = dtc::vhloText("fuzz.mlirbc", bytes);
  if (!text) {
    if (text.error().message.find(": byte ") == std::string::npos)
      std::abort(); // rejected without a location
    return 0;
  }
  if (text->size() > (size_t{4} << 20) + 512 * size) std::abort();
  if (text->size() > 1u << 16) return 0; // the text is what fuzz-mlir tests
  dtc::Module module(dtc::standardOps());
  dtc::Diagnostics diagnostics;
  if (!dtc::importMlir({"fuzz.mlir", *text}, dtc::standardOps(), module, diagnostics) &&
      !diagnostics.hasErrors())
    std::abort();
  return 0;
}
