// The reader of packages: no bytes may crash it, and what it writes it must read back.

#include "dtc/Files/Package.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)dtc::looksLikePackage(bytes);
  auto package = dtc::readPackage(dtc::InputFile::inMemory("fuzz.dtcpkg", bytes));
  if (!package) {
    if (package.error().message.empty()) std::abort(); // rejected without a word
    return 0;
  }
  const std::string written = dtc::packageBytes(*package);
  auto again = dtc::readPackage(dtc::InputFile::inMemory("again.dtcpkg", written));
  if (!again || again->program != package->program || again->kernels != package->kernels) std::abort();
  return 0;
}
