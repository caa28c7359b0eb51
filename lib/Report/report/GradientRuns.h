#pragma once
// Which call of a function the generated ops of its gradient belong to.
#include <map>

namespace dtc {

// Autodiff visits statements in turn, so that the generated ops of one call are a run of ops of the same line. The ops of
// a block, in order.
class GradientRuns {
public:
  // The number of the run that an op of this line is in, counted from 1.
  int of(int line) {
    int& number = number_[line];
    if (line != last_) ++number;
    last_ = line;
    return number;
  }
  [[nodiscard]] const std::map<int, int>& byLine() const { return number_; }

private:
  int last_ = -1;
  std::map<int, int> number_;
};

} // namespace dtc
