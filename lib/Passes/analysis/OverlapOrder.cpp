#include "analysis/OverlapOrder.h"

#include <algorithm>
#include <set>
#include <utility>

namespace dtc {
namespace {

// List scheduling for two machines, one for overlapped tasks and one for the others, each with a clock.
class Planner {
public:
  explicit Planner(const std::vector<OverlapTask>& tasks)
      : tasks_(tasks), left_(tasks.size()), feeds_(tasks.size(), tasks.size()), readyAt_(tasks.size()),
        next_(tasks.size()) {
    for (uint32_t t = 0; t < tasks.size(); ++t) {
      left_[t] = tasks[t].after.size();
      for (uint32_t before : tasks[t].after) next_[before].push_back(t);
      if (tasks[t].overlapped) overlapped_.push_back(t);
      if (left_[t] == 0 && !tasks[t].overlapped) ready_.insert(t);
    }
    for (size_t t = tasks.size(), nth = overlapped_.size(); t-- > 0;) {
      if (tasks[t].overlapped) feeds_[t] = --nth;
      for (uint32_t before : tasks[t].after) feeds_[before] = std::min(feeds_[before], feeds_[t]);
    }
  }
  std::vector<uint32_t> plan() {
    while (order_.size() < tasks_.size()) {
      if (nextAside_ < overlapped_.size() && left_[overlapped_[nextAside_]] == 0)
        start(overlapped_[nextAside_++], asideClock_);
      else
        startOther();
    }
    return std::move(order_);
  }

private:
  // The first task that need not wait, or else the one with the shortest wait. One always exists: tasks
  // depend on earlier ones only. Tasks that the next overlapped task depends on are preferred.
  void startOther() {
    const auto rank = [&](uint32_t t) {
      return std::pair(std::max(readyAt_[t], clock_), feeds_[t] > nextAside_);
    };
    uint32_t best = *ready_.begin();
    for (uint32_t t : ready_) {
      if (rank(t) < rank(best)) best = t;
      if (rank(best) == std::pair(clock_, false)) break;
    }
    ready_.erase(best);
    start(best, clock_);
  }
  // An overlapped task starts after the tasks enqueued so far on the other machine.
  void start(uint32_t t, double& clock) {
    order_.push_back(t);
    clock = std::max({clock, readyAt_[t], tasks_[t].overlapped ? clock_ : 0}) + tasks_[t].ns;
    for (uint32_t after : next_[t]) {
      if (tasks_[t].overlapped) readyAt_[after] = std::max(readyAt_[after], clock);
      if (--left_[after] == 0 && !tasks_[after].overlapped) ready_.insert(after);
    }
  }

  const std::vector<OverlapTask>& tasks_;
  std::vector<size_t> left_;    // number of dependences that have not been started
  std::vector<size_t> feeds_;   // the first overlapped task that depends on it, as an index of `overlapped_`
  std::vector<double> readyAt_; // when the overlapped tasks that it depends on complete
  std::vector<std::vector<uint32_t>> next_;
  std::vector<uint32_t> overlapped_, order_;
  size_t nextAside_ = 0;
  std::set<uint32_t> ready_; // of the other machine
  double clock_ = 0, asideClock_ = 0;
};

} // namespace

std::vector<uint32_t> overlapOrder(const std::vector<OverlapTask>& tasks) { return Planner(tasks).plan(); }

} // namespace dtc
