#pragma once
// The launch order of a device's steps when collectives overlap other steps.
#include <cstdint>
#include <vector>

namespace dtc {

struct OverlapTask {
  std::vector<uint32_t> after; // earlier tasks that it depends on
  double ns = 0;               // estimated duration; the result is correct whatever it is
  bool overlapped = false;     // overlapped with the other tasks; overlapped tasks run one after another
};

// A topological order of the tasks under `after`, which keeps the order of overlapped tasks. These are
// started as early as possible: dependences of the next overlapped task go first. Other tasks keep their
// order, except that a task that would wait for an overlapped one is delayed by tasks that need not wait, for
// the estimated duration of the wait. O(n (log n + number of ready tasks) + edges).
[[nodiscard]] std::vector<uint32_t> overlapOrder(const std::vector<OverlapTask>& tasks);

} // namespace dtc
