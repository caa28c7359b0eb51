#pragma once

namespace dtc {

// Cores that this process may run on, at least 1: fewer than the machine has under taskset, mpirun or srun.
// (std::thread::hardware_concurrency() counts those of the machine.)
[[nodiscard]] int availableCores();

} // namespace dtc
