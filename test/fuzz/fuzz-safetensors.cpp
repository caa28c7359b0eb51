// The readers of `.safetensors` files and of their indices: no bytes may crash them, and what is written is read back.

#include "dtc/Files/TensorArchive.h"

#include <cstdint>
#include <cstdlib>

static void check(dtc::Result<std::unique_ptr<dtc::TensorArchive>> archive, size_t size) {
  if (!archive) {
    if (archive.error().message.empty()) std::abort(); // rejected without a word
    return;
  }
  std::vector<std::pair<std::string, dtc::Tensor>> tensors;
  size_t total = 0;
  for (const std::string& name : (*archive)->names()) {
    if (!(*archive)->has(name)) std::abort();
    auto source = (*archive)->tensor(name, {});
    auto t = source ? source->tensor() : dtc::Result<dtc::Tensor>(source.error());
    if (!t) continue;
    total += t->bytes().size();
    tensors.emplace_back(name, *std::move(t));
  }
  if (total > size) std::abort(); // more than the file held
  dtc::NamedTensors named;
  for (const auto& [name, t] : tensors) named.emplace_back(name, &t);
  const std::string written = dtc::safetensorsBytes(named);
  auto again = dtc::openSafetensors(dtc::InputFile::inMemory("again.safetensors", written));
  if (!again) std::abort();
  for (const auto& [name, t] : tensors)
    if (!(*again)->has(name) || *(*again)->tensor(name, {})->tensor() != t) std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check(dtc::openSafetensors(dtc::InputFile::inMemory("fuzz.safetensors", bytes)), size);
  // The files that an index names are looked for where there are none.
  check(dtc::openSafetensorsIndex(dtc::InputFile::inMemory("fuzz.index.json", bytes), "/proc/self/fdinfo"),
        size);
  return 0;
}
