#include "dtc/Support/ProtoWire.h"
#include "dtc/Support/Utf8.h"
#include <bit>

namespace dtc {
namespace {

std::string wireTypeName(ProtoField::Type type) {
  switch (type) {
  case ProtoField::Varint: return "a varint";
  case ProtoField::Fixed64: return "8 bytes";
  case ProtoField::Bytes: return "length-delimited";
  case ProtoField::Fixed32: return "4 bytes";
  }
  return "unknown";
}

} // namespace

Error ProtoReader::errorAt(size_t position, std::string_view what) const {
  return inputError("byte " + std::to_string(start_ + static_cast<int64_t>(position)) + ": " +
                    std::string(what));
}

Result<uint64_t> ProtoReader::varint(std::string_view what) {
  const size_t start = position_;
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (position_ == message_.size()) return errorAt(start, "the message ends within " + std::string(what));
    const auto byte = static_cast<uint8_t>(message_[position_++]);
    if (shift == 63 && byte > 1) break; // more than 64 bits
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return errorAt(start, std::string(what) + " has more than 64 bits");
}

Result<uint64_t> ProtoReader::fixed(int bytes) {
  if (message_.size() - position_ < static_cast<size_t>(bytes))
    return errorAt(position_, "expected " + std::to_string(bytes) + " bytes, but the message ends");
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i)
    value |= static_cast<uint64_t>(static_cast<uint8_t>(message_[position_++])) << (8 * i);
  return value;
}

Result<bool> ProtoReader::next(ProtoField& field) {
  if (position_ == message_.size()) return false;
  const size_t start = position_;
  DTC_TRY(const uint64_t tag, varint("a field's tag"));
  if (tag >> 32 || tag >> 3 == 0) return errorAt(start, "invalid field number " + std::to_string(tag >> 3));
  field.number_ = static_cast<uint32_t>(tag >> 3);
  field.type_ = static_cast<ProtoField::Type>(tag & 7);
  field.depth_ = depth_;
  field.offset_ = start_ + static_cast<int64_t>(start);
  field.value_ = 0;
  field.bytes_ = {};
  switch (tag & 7) {
  case ProtoField::Varint: {
    DTC_TRY(field.value_, varint("a varint"));
    break;
  }
  case ProtoField::Fixed64: {
    DTC_TRY(field.value_, fixed(8));
    break;
  }
  case ProtoField::Fixed32: {
    DTC_TRY(field.value_, fixed(4));
    break;
  }
  case ProtoField::Bytes: {
    DTC_TRY(const uint64_t length, varint("a length"));
    const size_t left = message_.size() - position_;
    if (length > left)
      return field.error("its length is " + std::to_string(length) + ", but its message has only " +
                         std::to_string(left) + " more bytes");
    field.bytes_ = message_.substr(position_, length);
    field.payload_ = start_ + static_cast<int64_t>(position_);
    position_ += length;
    break;
  }
  default: return field.error("unsupported wire type " + std::to_string(tag & 7));
  }
  return true;
}

Error ProtoField::error(std::string_view what) const {
  return inputError("byte " + std::to_string(offset_) + ": field " + std::to_string(number_) + ": " +
                    std::string(what));
}

Status ProtoField::expect(Type type, std::string_view what) const {
  if (type_ == type) return Ok{};
  return error("expected " + std::string(what) + " (" + wireTypeName(type) + "), but it is " +
               wireTypeName(type_));
}

Result<int64_t> ProtoField::integer() const {
  if (auto good = expect(Varint, "an integer"); !good) return good.error();
  return static_cast<int64_t>(value_);
}

Result<float> ProtoField::f32() const {
  if (auto good = expect(Fixed32, "a float"); !good) return good.error();
  return std::bit_cast<float>(static_cast<uint32_t>(value_));
}

Result<double> ProtoField::f64() const {
  if (auto good = expect(Fixed64, "a double"); !good) return good.error();
  return std::bit_cast<double>(value_);
}

Result<std::string_view> ProtoField::bytes() const {
  if (auto good = expect(Bytes, "bytes"); !good) return good.error();
  return bytes_;
}

Result<std::string> ProtoField::text() const {
  if (auto good = expect(Bytes, "a string"); !good) return good.error();
  if (!isUtf8(bytes_)) return error("the string is not valid UTF-8");
  return std::string(bytes_);
}

Result<ProtoReader> ProtoField::message() const {
  if (auto good = expect(Bytes, "a message"); !good) return good.error();
  if (depth_ + 1 >= ProtoReader::kMaxDepth)
    return error("messages are nested deeper than " + std::to_string(ProtoReader::kMaxDepth));
  return ProtoReader(bytes_, payload_, depth_ + 1);
}

Status ProtoField::appendIntegers(std::vector<int64_t>& out) const {
  if (type_ == Varint) {
    out.push_back(static_cast<int64_t>(value_));
    return Ok{};
  }
  if (auto good = expect(Bytes, "packed integers"); !good) return good;
  ProtoReader packed(bytes_, payload_, depth_);
  while (packed.position_ < bytes_.size()) {
    DTC_TRY(const uint64_t value, packed.varint("a packed integer"));
    out.push_back(static_cast<int64_t>(value));
  }
  return Ok{};
}

template <class T> Status ProtoField::appendFixed(std::vector<T>& out, Type single) const {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  if (type_ == single) {
    out.push_back(std::bit_cast<T>(static_cast<Bits>(value_)));
    return Ok{};
  }
  if (auto good = expect(Bytes, "packed numbers"); !good) return good;
  if (bytes_.size() % sizeof(T))
    return error(std::to_string(bytes_.size()) + " bytes are not a multiple of " + std::to_string(sizeof(T)));
  ProtoReader packed(bytes_, payload_, depth_);
  out.reserve(out.size() + bytes_.size() / sizeof(T));
  while (packed.position_ < bytes_.size()) {
    DTC_TRY(const uint64_t value, packed.fixed(sizeof(T)));
    out.push_back(std::bit_cast<T>(static_cast<Bits>(value)));
  }
  return Ok{};
}

Status ProtoField::appendF32(std::vector<float>& out) const { return appendFixed(out, Fixed32); }
Status ProtoField::appendF64(std::vector<double>& out) const { return appendFixed(out, Fixed64); }

} // namespace dtc
