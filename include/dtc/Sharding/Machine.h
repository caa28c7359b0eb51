#pragma once
// The nominal machine: fixed link speeds, so that what propagation and reshard plans choose depends on no real machine.
#include "dtc/Sharding/Dim.h"

namespace dtc {

struct Link {
  double bytesPerSecond = 100e9; // that one device receives, while it sends as much
  double latencySeconds = 1e-6;  // of one message
};

struct NominalMachine {
  Link link;                                // of every axis that `axes` does not name
  std::vector<std::pair<StrId, Link>> axes; // by axis name
  double launchSeconds = 2e-6;              // of one collective, whatever its size
  double memoryBytesPerSecond = 1e12;       // of one device's memory, read or written
  double flopsPerSecond = 100e12;           // of one device
  [[nodiscard]] Link linkOf(const AxisRef& axis) const {
    for (const auto& [name, l] : axes)
      if (name == axis.name) return l;
    return link;
  }
};

} // namespace dtc
