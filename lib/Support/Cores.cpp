#include "dtc/Support/Cores.h"

#include <algorithm>
#include <sched.h>
#include <thread>

namespace dtc {

int availableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on machines with more cores than a cpu_set_t holds (1024).
  const int cores = sched_getaffinity(0, sizeof set, &set) == 0
                        ? CPU_COUNT(&set)
                        : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(cores, 1);
}

} // namespace dtc
