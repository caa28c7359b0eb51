// The wire format of protocol buffers: fields of each type, and what malformed bytes are answered with.
#include "dtc/Support/ProtoWire.h"

#include <gtest/gtest.h>

using namespace dtc;
using namespace std::string_literals;

namespace {

// The first field of `bytes`, or the error.
Result<ProtoField> first(std::string_view bytes) {
  ProtoField field;
  ProtoReader reader(bytes);
  DTC_TRY(const bool more, reader.next(field));
  if (!more) return inputError("no field");
  return field;
}

std::string message(const Result<ProtoField>& result) { return result ? "" : result.error().message; }

} // namespace

TEST(ProtoWire, FieldsOfEachType) {
  EXPECT_EQ(*first("\x08\x96\x01"s)->integer(), 150);
  EXPECT_EQ(*first("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s)->integer(), -1);
  EXPECT_EQ(*first("\x15\x00\x00\xc0\x3f"s)->f32(), 1.5F);
  EXPECT_EQ(*first("\x11\x00\x00\x00\x00\x00\x00\x00\xc0"s)->f64(), -2.0);
  EXPECT_EQ(*first("\x22\x03"
                   "abc"s)
                 ->text(),
            "abc");
}

TEST(ProtoWire, RepeatedFieldsPackedOrNot) {
  std::vector<int64_t> integers;
  EXPECT_TRUE(first("\x32\x03\x01\x96\x01"s)->appendIntegers(integers));
  EXPECT_TRUE(first("\x30\x07"s)->appendIntegers(integers));
  EXPECT_EQ(integers, (std::vector<int64_t>{1, 150, 7}));
  std::vector<float> floats;
  EXPECT_TRUE(first("\x3a\x08\x00\x00\x80\x3f\x00\x00\x00\x40"s)->appendF32(floats));
  EXPECT_EQ(floats, (std::vector<float>{1, 2}));
  EXPECT_EQ(first("\x3a\x05\x00\x00\x80\x3f\x00"s)->appendF32(floats).error().message,
            "byte 0: field 7: 5 bytes are not a multiple of 4");
}

TEST(ProtoWire, NestedMessages) {
  ProtoField field;
  auto inner = *first("\x2a\x02\x08\x05"s)->message();
  ASSERT_TRUE(*inner.next(field));
  EXPECT_EQ(*field.integer(), 5);
  EXPECT_EQ(field.offset(), 2);
  EXPECT_FALSE(*inner.next(field));
}

TEST(ProtoWire, MalformedBytesAreErrorsWithTheirOffset) {
  EXPECT_EQ(message(first("\x08"s)), "byte 1: the message ends within a varint");
  EXPECT_EQ(message(first("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"s)),
            "byte 1: a varint has more than 64 bits");
  EXPECT_EQ(message(first("\x15\x00"s)), "byte 1: expected 4 bytes, but the message ends");
  EXPECT_EQ(message(first("\x22\x03"
                          "ab"s)),
            "byte 0: field 4: its length is 3, but its message has only 2 more bytes");
  EXPECT_EQ(message(first("\x0b"s)), "byte 0: field 1: unsupported wire type 3");
  EXPECT_EQ(message(first("\x00"s)), "byte 0: invalid field number 0");
  EXPECT_EQ(first("\x08\x01"s)->text().error().message,
            "byte 0: field 1: expected a string (length-delimited), but it is a varint");
  EXPECT_EQ(first("\x22\x01\xff"s)->text().error().message, "byte 0: field 4: the string is not valid UTF-8");
}

TEST(ProtoWire, NestingIsBounded) {
  std::string bytes;
  for (int i = 0; i < 120; ++i) { // each level wraps the last: field 1, its length as two bytes
    const size_t n = bytes.size();
    bytes = "\x0a"s + static_cast<char>((n & 0x7f) | 0x80) + static_cast<char>(n >> 7) + bytes;
  }
  ProtoReader reader(bytes);
  ProtoField field;
  while (*reader.next(field)) {
    auto inner = field.message();
    if (!inner) {
      EXPECT_NE(inner.error().message.find("nested deeper than 100"), std::string::npos);
      return;
    }
    reader = *inner;
  }
  FAIL() << "no limit";
}
