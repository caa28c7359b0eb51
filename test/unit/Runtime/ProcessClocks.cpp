// The clocks of processes, from rounds of messages whose times are known.
#include "../../../lib/Runtime/comm/ProcessClocks.h"

#include <gtest/gtest.h>

namespace dtc {
namespace {

// The other process's clock is ahead by `offset`; the messages are under way for `there` and `back`.
ClockRound roundAt(int64_t sent, int64_t offset, int64_t there, int64_t back) {
  constexpr int64_t kThinks = 700;
  return {sent, sent + there + offset, sent + there + offset + kThinks, sent + there + kThinks + back};
}

TEST(ProcessClocks, TheShortestRoundGivesTheOffset) {
  for (const int64_t offset : {0ll, 5'000'000'000ll, -123'456'789ll}) {
    // Only the first message of the second round waits: by itself, it would give an offset that is wrong by 40 us.
    const ClockRound rounds[] = {roundAt(1000, offset, 9000, 9000), roundAt(50'000, offset, 90'000, 10'000),
                                 roundAt(200'000, offset, 8000, 8400)};
    const ProcessClocks::Sample best = bestOf(rounds);
    EXPECT_NEAR(static_cast<double>(best.offsetNs), static_cast<double>(offset), 200);
    EXPECT_EQ(best.errorNs, 8200);
    EXPECT_LE(std::abs(best.offsetNs - offset), best.errorNs);
  }
}

TEST(ProcessClocks, TheOffsetIsLinearBetweenComparisons) {
  ProcessClocks clocks;
  EXPECT_EQ(clocks.inProcess0(77), 77);
  clocks.add({1000, 500, 10});
  EXPECT_EQ(clocks.inProcess0(0), -500);
  EXPECT_EQ(clocks.inProcess0(5000), 4500);
  clocks.add({3000, 700, 20});
  EXPECT_EQ(clocks.inProcess0(900), 400);
  EXPECT_EQ(clocks.inProcess0(2000), 2000 - 600);
  EXPECT_EQ(clocks.inProcess0(4000), 3300);
  EXPECT_EQ(clocks.errorNs(), 20);
}

} // namespace
} // namespace dtc
