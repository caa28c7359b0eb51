#include "dtc/Support/DType.h"
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace dtc;

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();

// Every pattern widens and narrows to itself; a signalling NaN may come back quiet, with its sign.
template <class Bits, class Widen, class Narrow> void roundTrip(uint32_t count, Widen widen, Narrow narrow) {
  for (uint32_t i = 0; i < count; ++i) {
    const float f = widen(static_cast<Bits>(i));
    const auto back = narrow(f);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(widen(back))) << i;
      EXPECT_EQ(std::signbit(f), std::signbit(widen(back))) << i;
    } else {
      EXPECT_EQ(back, i);
    }
  }
}
} // namespace

TEST(DType, NamesParseBack) {
  for (int i = 0; i < kNumDTypes; ++i) EXPECT_EQ(parseDType(dtypeName(DType(i))), DType(i));
  EXPECT_FALSE(parseDType("f31"));
}

TEST(DType, EveryBitPatternRoundTrips) {
  roundTrip<uint16_t>(65536, bf16ToFloat, doubleToBf16);
  roundTrip<uint16_t>(65536, f16ToFloat, doubleToF16);
  roundTrip<uint8_t>(256, f8E4M3ToFloat, doubleToF8E4M3);
  roundTrip<uint8_t>(256, f8E5M2ToFloat, doubleToF8E5M2);
}

// Between two neighbors the middle goes to the even one, and a hair beyond it to the other.
TEST(DType, TiesGoToEven) {
  auto check = [](uint32_t last, auto widen, auto narrow) {
    for (uint32_t i = 0; i < last; ++i) {
      const double lo = widen(i), hi = widen(i + 1), mid = lo + (hi - lo) / 2;
      EXPECT_EQ(narrow(mid), i % 2 ? i + 1 : i) << i;
      EXPECT_EQ(narrow(std::nextafter(mid, kInf)), i + 1) << i;
      EXPECT_EQ(narrow(std::nextafter(mid, -kInf)), i) << i;
    }
  };
  check(0x7bff, f16ToFloat, doubleToF16);
  check(0x7f7f, bf16ToFloat, doubleToBf16);
  check(0x7e, f8E4M3ToFloat, doubleToF8E4M3);
  check(0x7b, f8E5M2ToFloat, doubleToF8E5M2);
}

TEST(DType, OverflowByFormat) {
  EXPECT_EQ(doubleToF16(65519.99), 0x7bff);
  EXPECT_EQ(doubleToF16(65520), 0x7c00);
  EXPECT_EQ(doubleToF16(-1e300), 0xfc00);
  EXPECT_EQ(doubleToBf16(3.5e38), 0x7f80);
  EXPECT_EQ(doubleToF8E4M3(448), 0x7e);
  EXPECT_EQ(doubleToF8E4M3(463.9), 0x7e);
  EXPECT_EQ(doubleToF8E4M3(465), 0x7f); // NaN: there is no infinity
  EXPECT_EQ(doubleToF8E4M3(-kInf), 0xff);
  EXPECT_EQ(doubleToF8E5M2(61440), 0x7c);
  EXPECT_EQ(doubleToF16(0x1p-25), 0);
  EXPECT_EQ(doubleToF16(std::nextafter(0x1p-25, 1)), 1);
  EXPECT_EQ(doubleToF16(-std::numeric_limits<double>::denorm_min()), 0x8000);
}

// f32 first would round twice: 1 + 2^-11 + 2^-40 is just above the tie of f16.
TEST(DType, DoublesAreRoundedOnce) { EXPECT_EQ(doubleToF16(1 + 0x1p-11 + 0x1p-40), 0x3c01); }

TEST(DType, FloatToIntSaturates) {
  EXPECT_EQ(floatToInt(DType::I8, 200.5), 127);
  EXPECT_EQ(floatToInt(DType::I8, -128.9), -128);
  EXPECT_EQ(floatToInt(DType::I32, -1.9), -1);
  EXPECT_EQ(floatToInt(DType::U8, -3), 0);
  EXPECT_EQ(floatToInt(DType::U64, 1e30), -1);
  EXPECT_EQ(floatToInt(DType::U64, 0x1p63), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(floatToInt(DType::I64, 0x1p63), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(floatToInt(DType::I64, std::nan("")), 0);
  EXPECT_EQ(floatToInt(DType::I64, -kInf), std::numeric_limits<int64_t>::min());
}

TEST(DType, IntegersWrap) {
  EXPECT_EQ(wrapToInt(DType::I8, 130), -126);
  EXPECT_EQ(wrapToInt(DType::U16, -1), 65535);
  EXPECT_EQ(wrapToInt(DType::U64, -1), -1);
  EXPECT_EQ(intMin(DType::I16), -32768);
  EXPECT_EQ(intMax(DType::U32), 4294967295);
}
