#pragma once
// The nominal machine: fixed link speeds, so that propagation and reshard plans do not depend on the actual
// machine.
#include "dtc/Sharding/Dim.h"

namespace dtc {

struct Link {
  double bytesPerSecond = 100e9; // receive bandwidth of one device, full duplex
  double latencySeconds = 1e-6;  // of one message
};

struct NominalMachine {
  Link link;                                // of every axis that `axes` does not list
  std::vector<std::pair<StrId, Link>> axes; // by axis name
  double launchSeconds = 2e-6;              // of one collective, independent of its size
  double memoryBytesPerSecond = 1e12;       // of one device's memory, read or write
  double flopsPerSecond = 100e12;           // of one device
  // Of a copy: the bytes are read and written.
  [[nodiscard]] double copySeconds(double bytes) const { return 2 * bytes / memoryBytesPerSecond; }
  [[nodiscard]] Link linkOf(const AxisRef& axis) const {
    for (const auto& [name, l] : axes)
      if (name == axis.name) return l;
    return link;
  }
};

} // namespace dtc
