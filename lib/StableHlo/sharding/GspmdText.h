#pragma once
// GSPMD's sharding strings, mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", as data. A
// device's number is treated as a row-major index; a tile dim as ranges of its digits, major to minor.
#include "dtc/Sharding/DeviceDigits.h"
#include "mlir/MlirLexer.h"
#include <vector>

namespace dtc {

struct GspmdSharding {
  enum Kind : uint8_t {
    Replicated,
    Manual,
    Tiled
  } kind = Replicated;                       // Replicated: replicated, or on one device
  std::vector<std::vector<DigitRange>> dims; // Tiled: of the tensor's dims
  // Tiled: the manual axes, along which the value is already one device's shard
  std::vector<DigitRange> manual;
  int64_t devices = 0; // Tiled: how many there are
};

// The sharding, or for a tuple several. Nothing after a report. `part` lies within `source`.
[[nodiscard]] std::optional<std::vector<GspmdSharding>> parseGspmd(std::string_view source,
                                                                   std::string_view part, Diagnostics& diags);

} // namespace dtc
