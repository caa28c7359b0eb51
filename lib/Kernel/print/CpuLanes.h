#pragma once
// The number of registers that a value of a CPU kernel takes, all lanes together.
#include "dtc/Kernel/LoopIr.h"
#include <optional>

namespace dtc {

// `lanes`: elements of one register. 1 where more have no benefit.
[[nodiscard]] int columnRegisters(const loops::Kernel& k, int lanes); // kernels that reduce columns
[[nodiscard]] int rowRegisters(const loops::Kernel& k, int lanes, int vectorBytes); // or rows

// A nest that copies elements whose neighbors in memory are along another axis than those of the result:
// both use complete cache lines if it proceeds by tiles. A unit is a run of kTransposedBlock elements of
// `blocked`, the longer of the two.
struct CpuTranspose {
  loops::AxisId read = 0, written = 0, blocked = 0;
};
constexpr int64_t kTransposedBlock = 64;
[[nodiscard]] std::optional<CpuTranspose> transposeOf(const loops::Kernel& k, const loops::Nest& nest);

} // namespace dtc
