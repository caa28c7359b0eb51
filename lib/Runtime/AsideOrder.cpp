#include "AsideOrder.h"

#include <algorithm>
#include <set>
#include <utility>

namespace dtc {
namespace {

// A list schedule of two machines, one for tasks aside and one for the others, each with a clock.
class Planner {
public:
  explicit Planner(const std::vector<AsideTask>& tasks)
      : tasks_(tasks), left_(tasks.size()), feeds_(tasks.size(), tasks.size()), readyAt_(tasks.size()),
        next_(tasks.size()) {
    for (uint32_t t = 0; t < tasks.size(); ++t) {
      left_[t] = tasks[t].after.size();
      for (uint32_t before : tasks[t].after) next_[before].push_back(t);
      if (tasks[t].aside) aside_.push_back(t);
      if (left_[t] == 0 && !tasks[t].aside) ready_.insert(t);
    }
    for (size_t t = tasks.size(), nth = aside_.size(); t-- > 0;) {
      if (tasks[t].aside) feeds_[t] = --nth;
      for (uint32_t before : tasks[t].after) feeds_[before] = std::min(feeds_[before], feeds_[t]);
    }
  }
  std::vector<uint32_t> plan() {
    while (order_.size() < tasks_.size()) {
      if (nextAside_ < aside_.size() && left_[aside_[nextAside_]] == 0)
        start(aside_[nextAside_++], asideClock_);
      else
        startOther();
    }
    return std::move(order_);
  }

private:
  // The first that need not wait, or else the one that waits least. There is one: tasks come after earlier ones only. What the next one
  // aside needs goes before what it does not.
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
  // Something aside begins behind what the other machine has been given so far.
  void start(uint32_t t, double& clock) {
    order_.push_back(t);
    clock = std::max({clock, readyAt_[t], tasks_[t].aside ? clock_ : 0}) + tasks_[t].ns;
    for (uint32_t after : next_[t]) {
      if (tasks_[t].aside) readyAt_[after] = std::max(readyAt_[after], clock);
      if (--left_[after] == 0 && !tasks_[after].aside) ready_.insert(after);
    }
  }

  const std::vector<AsideTask>& tasks_;
  std::vector<size_t> left_;    // how many it still waits for to be started
  std::vector<size_t> feeds_;   // the first one aside that must come after it, as `aside_` counts them
  std::vector<double> readyAt_; // when what is aside that it waits for is over
  std::vector<std::vector<uint32_t>> next_;
  std::vector<uint32_t> aside_, order_;
  size_t nextAside_ = 0;
  std::set<uint32_t> ready_; // of those not aside
  double clock_ = 0, asideClock_ = 0;
};

} // namespace

std::vector<uint32_t> asideOrder(const std::vector<AsideTask>& tasks) { return Planner(tasks).plan(); }

} // namespace dtc
