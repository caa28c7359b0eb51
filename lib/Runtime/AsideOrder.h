#pragma once
// In which order a device starts its steps where collectives run beside the others.
#include <cstdint>
#include <vector>

namespace dtc {

struct AsideTask {
  std::vector<uint32_t> after; // earlier tasks that it must come after
  double ns = 0;               // how long it may take; what comes out is right whatever it says
  bool aside = false;          // runs beside those that are not, after the one aside before it
};

// An order, of the tasks' numbers, that keeps what `after` says and the order of those aside among each other. These come as early as
// that allows: what the next of them needs goes before what it does not. Else the others keep their order, but for one that would
// wait for something aside: what need not wait goes first, for as long as the wait is thought to last. O(n (log n + tasks that are ready)
// + edges).
[[nodiscard]] std::vector<uint32_t> asideOrder(const std::vector<AsideTask>& tasks);

} // namespace dtc
