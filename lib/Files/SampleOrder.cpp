#include "dtc/Eval/RandomInputs.h"
#include "dtc/Files/SampleData.h"

#include <bit>

namespace dtc {

// Streams of other uses of a seed count arguments, from 0 on.
constexpr uint64_t kOrderStream = 0x6f72646572000000; // "order"
constexpr uint64_t kRounds = 6;

int64_t shuffledSample(uint64_t seed, int64_t numSamples, int64_t position) {
  const auto count = static_cast<uint64_t>(numSamples);
  const auto epoch = static_cast<uint64_t>(position) / count;
  auto number = static_cast<uint64_t>(position) % count;
  const auto half = static_cast<unsigned>((std::bit_width(count - 1) + 1) / 2);
  if (half == 0) return 0;
  const uint64_t mask = (uint64_t(1) << half) - 1;
  do {
    uint64_t left = number >> half, right = number & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t mixed = left ^ (randomBits(seed, kOrderStream + epoch, round << 32 | right) & mask);
      left = right;
      right = mixed;
    }
    number = left << half | right;
  } while (number >= count);
  return static_cast<int64_t>(number);
}

} // namespace dtc
