// The reader of protobuf's wire format: no bytes may crash it, and no field extends beyond its message.

#include "dtc/Support/ProtoWire.h"

#include <cstdint>
#include <cstdlib>

namespace {

// Fields outlive the reader of their message: what they hold is checked against the bytes of the whole.
void check(dtc::ProtoReader reader, std::string_view whole) {
  dtc::ProtoField field;
  while (true) {
    auto more = reader.next(field);
    if (!more) {
      if (more.error().message.empty()) std::abort(); // rejected without a word
      return;
    }
    if (!*more) return;
    std::vector<int64_t> integers;
    std::vector<float> floats;
    std::vector<double> doubles;
    (void)field.appendIntegers(integers);
    (void)field.appendF32(floats);
    (void)field.appendF64(doubles);
    if (integers.size() > whole.size() || floats.size() * 4 > whole.size() ||
        doubles.size() * 8 > whole.size())
      std::abort();
    (void)field.integer();
    (void)field.f32();
    (void)field.f64();
    (void)field.text();
    if (auto bytes = field.bytes()) {
      const size_t end = static_cast<size_t>(field.payloadOffset()) + bytes->size();
      if (end > whole.size() || bytes->data() + bytes->size() != whole.data() + end) std::abort();
    }
    if (auto message = field.message()) check(*message, whole);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check(dtc::ProtoReader(bytes), bytes);
  return 0;
}
