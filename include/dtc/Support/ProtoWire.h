#pragma once
// Reads the wire format of protocol buffers, without a schema (protobuf.dev, "Encoding"). The bytes are
// untrusted: every length is checked against its message, nesting is bounded, and every error (Input) begins
// with the byte offset of the field. Groups, which proto3 does not have, are refused.
#include "dtc/Support/Result.h"
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

class ProtoReader;

class ProtoField {
public:
  enum Type : uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

  [[nodiscard]] uint32_t number() const { return number_; }
  [[nodiscard]] Type type() const { return type_; }
  [[nodiscard]] int64_t offset() const { return offset_; }         // of the field's tag
  [[nodiscard]] int64_t payloadOffset() const { return payload_; } // of what bytes() returns

  // The value as the declared type of the field; an error if the wire type is another.
  [[nodiscard]] Result<int64_t> integer() const; // int32, int64, uint32, uint64 (the same bits), bool, enum
  [[nodiscard]] Result<float> f32() const;
  [[nodiscard]] Result<double> f64() const;
  [[nodiscard]] Result<std::string_view> bytes() const;
  [[nodiscard]] Result<std::string> text() const; // UTF-8
  [[nodiscard]] Result<ProtoReader> message() const;
  // Appends the elements of a repeated field, packed or not.
  [[nodiscard]] Status appendIntegers(std::vector<int64_t>&) const;
  [[nodiscard]] Status appendF32(std::vector<float>&) const;
  [[nodiscard]] Status appendF64(std::vector<double>&) const;

  // An error at this field: "byte 12: field 3: WHAT".
  [[nodiscard]] Error error(std::string_view what) const;

private:
  friend class ProtoReader;
  [[nodiscard]] Status expect(Type, std::string_view what) const;
  template <class T> [[nodiscard]] Status appendFixed(std::vector<T>&, Type) const;

  uint32_t number_ = 0;
  Type type_ = Varint;
  int depth_ = 0;
  int64_t offset_ = 0, payload_ = 0;
  uint64_t value_ = 0; // Varint, Fixed64, Fixed32
  std::string_view bytes_;
};

// Iterates over the fields of one message, in the order of the bytes.
class ProtoReader {
public:
  static constexpr int kMaxDepth = 100; // protobuf's own limit

  // `offset`: of the first byte within the file, for errors.
  explicit ProtoReader(std::string_view message, int64_t offset = 0, int depth = 0)
      : message_(message), start_(offset), depth_(depth) {}

  // Sets `field` to the next one; false at the end of the message.
  [[nodiscard]] Result<bool> next(ProtoField& field);

private:
  friend class ProtoField;
  [[nodiscard]] Result<uint64_t> varint(std::string_view what);
  [[nodiscard]] Result<uint64_t> fixed(int bytes);
  [[nodiscard]] Error errorAt(size_t position, std::string_view what) const;

  std::string_view message_;
  int64_t start_ = 0;
  int depth_ = 0;
  size_t position_ = 0;
};

} // namespace dtc
