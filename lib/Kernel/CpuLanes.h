#pragma once
// How many registers a value of a CPU kernel takes, all lanes together (private to lib/Kernel).
#include "dtc/Kernel/Loops.h"
#include <optional>

namespace dtc {

// `lanes`: elements of one register. 1 where more gain nothing.
[[nodiscard]] int columnRegisters(const loops::Kernel& k, int lanes); // kernels that reduce columns
[[nodiscard]] int rowRegisters(const loops::Kernel& k, int lanes, int vectorBytes); // or rows

// A nest that copies elements whose neighbours in memory lie along another axis than those of what is written: both in whole lines
// where it goes by tiles. A unit is a run of kTransposedBlock elements of `blocked`, the longer of the two.
struct CpuTranspose {
  loops::AxisId read = 0, written = 0, blocked = 0;
};
constexpr int64_t kTransposedBlock = 64;
[[nodiscard]] std::optional<CpuTranspose> transposeOf(const loops::Kernel& k, const loops::Nest& nest);

} // namespace dtc
