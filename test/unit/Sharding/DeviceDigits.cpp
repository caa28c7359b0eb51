// Mesh axes from lists of devices.
#include "dtc/Sharding/DeviceDigits.h"

#include <gtest/gtest.h>

using namespace dtc;

namespace {
std::vector<std::pair<int64_t, int64_t>> pairs(const std::vector<DigitRange>& digits) {
  std::vector<std::pair<int64_t, int64_t>> out;
  for (const DigitRange& d : digits) out.emplace_back(d.pre, d.size);
  return out;
}
using Pairs = std::vector<std::pair<int64_t, int64_t>>;
} // namespace

TEST(DeviceDigits, OrdersAreTransposedGrids) {
  EXPECT_EQ(pairs(*digitOrder({0, 1, 2, 3})), (Pairs{{1, 4}}));
  EXPECT_EQ(pairs(*digitOrder({0, 2, 4, 1, 3, 5})), (Pairs{{3, 2}, {1, 3}}));
  EXPECT_FALSE(digitOrder({0, 3, 1, 2}));
  EXPECT_FALSE(digitOrder({1, 2}));
  EXPECT_FALSE(digitOrder({}));
}

TEST(DeviceDigits, GridsSplitDigits) {
  const auto split = splitDigits({2, 3, 2}, {{1, 6}, {6, 2}});
  ASSERT_TRUE(split);
  EXPECT_EQ(pairs((*split)[0]), (Pairs{{1, 2}}));
  EXPECT_EQ(pairs((*split)[1]), (Pairs{{2, 3}}));
  EXPECT_EQ(pairs((*split)[2]), (Pairs{{6, 2}}));
  EXPECT_FALSE(splitDigits({4}, {{1, 6}}));
}

TEST(DeviceDigits, AxesEndAtTheBoundariesOfDigits) {
  EXPECT_EQ(axisSizes({1, 2, 6}, 6), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(axisSizes({2, 3, 6}, 6), (std::vector<int64_t>{6}));
}
