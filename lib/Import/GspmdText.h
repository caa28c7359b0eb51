#pragma once
// GSPMD's sharding strings, mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", as data. A device's number is
// seen as a row-major index; a tile dim as ranges of its digits, major to minor.
#include "MlirLexer.h"
#include <vector>

namespace dtc {

// The digit (index / post) % size of a device's number, `pre` being the product of the sizes that are major to it.
struct DigitRange {
  int64_t pre = 1, size = 1;
};

struct GspmdSharding {
  enum Kind : uint8_t { Whole, Manual, Tiled } kind = Whole; // Whole: replicated, or on one device
  std::vector<std::vector<DigitRange>> dims;                 // Tiled: of the tensor's dims
  std::vector<DigitRange> manual; // Tiled: along these the value is one device's piece already
  int64_t devices = 0;            // Tiled: how many there are
};

// One sharding, or of a tuple several. Nothing after a report. `part` lies within `source`.
[[nodiscard]] std::optional<std::vector<GspmdSharding>> parseGspmd(std::string_view source,
                                                                   std::string_view part, Diagnostics& diags);

// The digits that a list of numbers is made of, minor to major; empty where it is no such list. `numbers[0]` is what all begin at.
struct Digit {
  int64_t stride = 1, count = 1;
};
[[nodiscard]] std::vector<Digit> digitsOf(const std::vector<int64_t>& numbers);

} // namespace dtc
