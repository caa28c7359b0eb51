// The reader of packages: no bytes may crash it, what it writes it must read back, and each weight is within the file.

#include "dtc/Files/Package.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto read = [](std::string_view bytes) {
    return dtc::readPackage(
        std::make_shared<const dtc::InputFile>(dtc::InputFile::inMemory("fuzz.dtcpkg", bytes)));
  };
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)dtc::looksLikePackage(bytes);
  auto package = read(bytes);
  if (!package) {
    if (package.error().message.empty()) std::abort(); // rejected without a word
    return 0;
  }
  std::string written;
  const auto append = [&](std::string_view part) -> dtc::Status {
    written += part;
    return dtc::Ok{};
  };
  if (!dtc::writePackage(*package, append)) std::abort(); // a weight that is not in the file
  auto again = read(written);
  if (!again || again->program != package->program || again->kernels != package->kernels) std::abort();
  if (again->weights.size() != package->weights.size()) std::abort();
  for (size_t i = 0; i < again->weights.size(); ++i) {
    auto before = package->weights[i].value.tensor(), after = again->weights[i].value.tensor();
    if (!before || !after || !(*before == *after)) std::abort();
  }
  return 0;
}
