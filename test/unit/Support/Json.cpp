// JSON text: names of any bytes, numbers of any kind.
#include "dtc/Support/Json.h"

#include <gtest/gtest.h>
#include <limits>

using namespace dtc;

TEST(Json, StringsAreEscaped) {
  EXPECT_EQ(jsonString("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\u000a\\u0001\"");
  EXPECT_EQ(jsonString("é→𝛿"), "\"é→𝛿\"");
  EXPECT_EQ(jsonString("\xff\xc0\x80x\xe2\x82"), "\"\uFFFD\uFFFD\uFFFDx\uFFFD\uFFFD\"");
}

TEST(Json, NumbersReadBack) {
  EXPECT_EQ(jsonNumber(0.1), "0.1");
  EXPECT_EQ(jsonNumber(3), "3");
  EXPECT_EQ(jsonNumber(-std::numeric_limits<double>::infinity()), "\"-inf\"");
  EXPECT_EQ(jsonNumber(std::numeric_limits<double>::quiet_NaN()), "\"nan\"");
}
