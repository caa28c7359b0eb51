#include "dtc/Files/OnnxTensor.h"
#include "dtc/Support/Checked.h"

#include <bit>

namespace dtc::onnx {

namespace {

Error tensorError(const TensorProto& t, const std::string& why) {
  return inputError("tensor '" + t.name + "' " + why);
}

// The elements in a typed field, as onnx.proto defines it for each type: the bits of 16-bit floats and the bytes of
// smaller types are in int32_data.
Result<Tensor> fromFields(const TensorProto& t, const ElementInfo& e) {
  Tensor out(*e.held, t.dims);
  const auto count = static_cast<size_t>(out.numElements());
  const auto wrong = [&](size_t has, size_t wants) {
    return tensorError(t, "has " + std::to_string(has) + " elements in its data, but its shape has " +
                              std::to_string(wants));
  };
  const size_t parts = isComplex(*e.held) ? 2 : 1;
  if (e.type == kFloat || e.type == kComplex64) {
    if (t.floats.size() != count * parts) return wrong(t.floats.size() / parts, count);
    std::ranges::copy(std::as_bytes(std::span(t.floats)), out.bytes().begin());
    return out;
  }
  if (e.type == kDouble || e.type == kComplex128) {
    if (t.doubles.size() != count * parts) return wrong(t.doubles.size() / parts, count);
    std::ranges::copy(std::as_bytes(std::span(t.doubles)), out.bytes().begin());
    return out;
  }
  if (e.bits < 8) { // packed bytes
    const auto bytes = static_cast<size_t>(*packedBytes(e, out.numElements()));
    if (t.integers.size() != bytes) return wrong(t.integers.size() * 8 / static_cast<size_t>(e.bits), count);
    std::string packed;
    for (int64_t v : t.integers) packed.push_back(static_cast<char>(v));
    unpack(e, packed, out);
    return out;
  }
  if (t.integers.size() != count) return wrong(t.integers.size(), count);
  const auto width = static_cast<size_t>(e.bits / 8);
  std::string bytes;
  bytes.reserve(count * width);
  for (int64_t v : t.integers)
    for (size_t i = 0; i < width; ++i)
      bytes.push_back(static_cast<char>(static_cast<uint64_t>(v) >> (8 * i)));
  unpack(e, bytes, out);
  return out;
}

Result<TensorSource> fromExternal(const TensorProto& t, const ElementInfo& e, int64_t bytes,
                                  const ModelPlace& place) {
  auto file = InputFile::openBeneath(place.folder, t.location);
  if (!file) return tensorError(t, "has external data: " + file.error().message);
  const auto end = checkedAdd(t.externalOffset, bytes);
  if (!end || *end > file->size() || (t.externalLength >= 0 && t.externalLength != bytes))
    return tensorError(
        t, "needs " + std::to_string(bytes) + " bytes at " + std::to_string(t.externalOffset) + " of '" +
               t.location + "', which has " + std::to_string(file->size()) + " bytes" +
               (t.externalLength >= 0 ? " (its length is " + std::to_string(t.externalLength) + ")" : ""));
  auto shared = std::make_shared<const InputFile>(*std::move(file));
  if (!e.narrow && e.type != kBool) return TensorSource(shared, t.externalOffset, *e.held, t.dims);
  DTC_TRY(const auto text, shared->text(t.externalOffset, bytes));
  Tensor out(*e.held, t.dims);
  unpack(e, text, out);
  return TensorSource(std::move(out));
}

} // namespace

Status checkTensor(const TensorProto& t) {
  const ElementInfo* e = findElement(t.dataType);
  if (!e || !e->held) return tensorError(t, "has the unsupported type " + elementName(t.dataType));
  for (int64_t d : t.dims)
    if (d < 0) return tensorError(t, "has a negative size: " + std::to_string(d));
  const auto count = checkedProduct(t.dims);
  if (!count || !checkedMul(*count, 128)) return tensorError(t, "has more than 2^63-1 bytes");
  return Ok{};
}

Result<TensorSource> tensorSource(const TensorProto& t, const ModelPlace& place) {
  const ElementInfo& e = *findElement(t.dataType);
  const int64_t count = *checkedProduct(t.dims);
  const int64_t bytes = *packedBytes(e, count);
  if (t.external) return fromExternal(t, e, bytes, place);
  if (!t.raw) {
    // Each element of the shape has one in the message, which bounds what is allocated.
    const auto listed = static_cast<int64_t>(t.integers.size() + t.floats.size() + t.doubles.size());
    if (count / 8 > listed)
      return tensorError(t, "has no data for its " + std::to_string(count) + " elements");
    DTC_TRY(auto out, fromFields(t, e));
    return TensorSource(std::move(out));
  }
  if (static_cast<int64_t>(t.raw->size()) != bytes)
    return tensorError(t, "has " + std::to_string(t.raw->size()) + " bytes of data, but its shape needs " +
                              std::to_string(bytes));
  if (!e.narrow && e.type != kBool && place.file)
    return TensorSource(place.file, t.rawOffset, *e.held, t.dims);
  Tensor out(*e.held, t.dims);
  unpack(e, *t.raw, out);
  return TensorSource(std::move(out));
}

Result<Tensor> tensorOf(const TensorProto& t, const ModelPlace& place) {
  DTC_TRY(const auto source, tensorSource(t, place));
  return source.tensor();
}

} // namespace dtc::onnx
