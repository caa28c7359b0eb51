#pragma once
// Layers that one of two programs has alone: "%blocks_4", where the other has layers 0 to 3.
#include "diff/MatchedStatements.h"

namespace dtc {

// The prefix of names of one layer: "%blocks_" and 4 of "%blocks_4_h"; "" if there is none.
struct LayerName {
  std::string base;
  int64_t number = 0;
};
[[nodiscard]] LayerName layerName(const SnapshotStatement&);

// By statement of B, or of A: the layer that it belongs to if the other program lacks it, as "%blocks_4"; otherwise "".
// The statements are like those of a layer that both have.
[[nodiscard]] std::vector<std::string> layersAlone(const MatchedStatements&, bool inB);

} // namespace dtc
