#pragma once
// Attention as a call of the device header's function, with lambdas that compute the addresses.
#include "dtc/Target/Target.h"
#include "print/Emitter.h"
#include <optional>

namespace dtc {

// The tiling of an attention in the CUDA form: rows and keys of a tile.
struct AttentionTile {
  int64_t rows = 0, keys = 0;
  int multiple = 0;   // on tensor cores: each warp has this many times 16 rows; 0: not on them
  int split = 1;      // warps that share a tile's keys
  bool stays = false; // the query's operands stay in registers
  int minBlocks = 0;  // PrintedKernel::minBlocks
  [[nodiscard]] int threads() const {
    return multiple ? static_cast<int>(rows) / (16 * multiple) * split * 32 : 128;
  }
};
// True if blocks of 128 rows have hardly more idle rows than blocks of 64.
[[nodiscard]] bool fillsWideBlocks(int64_t rows);
// The memory of a tile of 16-bit rows (dtc_tile): an odd number of 16-byte units per row, except for the longest.
[[nodiscard]] int64_t tileBytes(int64_t rows, int64_t columns);
// The best first. None, if no tile fits shared memory, or if the sizes of a row are unknown: then the loops are
// printed unchanged.
[[nodiscard]] std::vector<AttentionTile> attentionTiles(const loops::Kernel& k, const Target& target);
// The kernel's attention, with the emitter of the target: by blocks of rows in its lanes, or, where it has
// none, by CUDA blocks with this tile.
void printAttention(Emitter& e, const loops::Kernel& k, PrintedKernel& out,
                    std::optional<AttentionTile> tile = std::nullopt);

} // namespace dtc
