// The reader of `.npz` files: no bytes may crash it, and what it writes it must read back.

#include "dtc/Files/TensorArchive.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto archive = dtc::openNpz(dtc::InputFile::inMemory("fuzz.npz", bytes));
  if (!archive) {
    if (archive.error().message.empty()) std::abort(); // rejected without a word
    return 0;
  }
  for (const std::string& name : (*archive)->names()) {
    if (!(*archive)->has(name)) std::abort();
    auto source = (*archive)->tensor(name, {});
    auto t = source ? source->tensor() : dtc::Result<dtc::Tensor>(source.error());
    if (!t) continue;
    if (t->bytes().size() > 1032 * size) std::abort(); // more than deflate can make of the file
    const std::string written = dtc::npzBytes({{name, &*t}});
    auto again = dtc::openNpz(dtc::InputFile::inMemory("again.npz", written));
    if (!again || !(*again)->has(name)) std::abort();
    auto back = (*again)->tensor(name, {});
    if (!back || *back->tensor() != *t) std::abort();
  }
  return 0;
}
