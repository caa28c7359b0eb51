#include "dtc/Files/OnnxWeights.h"

#include <algorithm>

namespace dtc::onnx {

namespace {

constexpr unsigned kVarint = 0, kLengthDelimited = 2; // protobuf's wire types
constexpr uint64_t kIrVersion = 1, kOldestIr = 3, kNewestIr = 64;

struct ModelField {
  uint64_t number;
  unsigned wireType;
};
// The fields of ModelProto: versions are numbers, all others are texts and messages.
constexpr ModelField kModelFields[] = {
    {kIrVersion, kVarint},  {2, kLengthDelimited},  {3, kLengthDelimited},  {4, kLengthDelimited},
    {5, kVarint},           {6, kLengthDelimited},  {7, kLengthDelimited},  {8, kLengthDelimited},
    {14, kLengthDelimited}, {20, kLengthDelimited}, {25, kLengthDelimited}, {26, kLengthDelimited},
};

// Takes a number from the begin of `bytes`; false if it does not end there.
bool takeVarint(std::string_view& bytes, uint64_t& value) {
  value = 0;
  for (size_t i = 0; i < std::min<size_t>(bytes.size(), 10); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte & 0x80) continue;
    bytes.remove_prefix(i + 1);
    return true;
  }
  return false;
}

} // namespace

// The fields that begin in `head`, of which the last may end behind it.
bool looksLikeOnnx(std::string_view head) {
  bool versioned = false;
  size_t fields = 0;
  uint64_t key = 0, value = 0;
  while (!head.empty() && takeVarint(head, key)) {
    const auto is = [&](const ModelField& f) { return key == (f.number << 3 | f.wireType); };
    if (std::ranges::none_of(kModelFields, is)) return false;
    if (!takeVarint(head, value)) break;
    ++fields;
    if (key >> 3 == kIrVersion) {
      if (value < kOldestIr || value > kNewestIr) return false;
      versioned = true;
    }
    if ((key & 7) == kLengthDelimited) head.remove_prefix(std::min<uint64_t>(value, head.size()));
  }
  return versioned && fields > 1;
}

} // namespace dtc::onnx
