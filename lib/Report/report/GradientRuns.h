#pragma once
// Which call of a function the generated ops of its gradient belong to.
#include "dtc/IR/Module.h"

#include <algorithm>
#include <map>
#include <vector>

namespace dtc {

// Autodiff visits statements in turn, so that the generated ops of one call are a run of ops of the same line. Calls that
// follow each other without another op are one run, whose ops repeat. Ops are added in the order of their block.
class GradientRuns {
public:
  void add(int line, OpKind kind) {
    Line& l = lines_[line];
    if (line != last_) l.starts.push_back(l.kinds.size());
    l.kinds.push_back(kind), last_ = line;
  }

  // Of a line with so many calls: the call, counted from 1 in the order of the ops, that its next op is for; 0 if that is
  // unknown. To be asked for each op once, in the order in which they were added.
  int next(int line, size_t calls) {
    const auto at = lines_.find(line);
    if (at == lines_.end() || calls < 2) return 0;
    Line& l = at->second;
    const size_t op = l.next++;
    if (l.starts.size() == calls)
      return static_cast<int>(std::ranges::upper_bound(l.starts, op) - l.starts.begin());
    return repeats(l.kinds, calls) ? static_cast<int>(op / (l.kinds.size() / calls)) + 1 : 0;
  }

private:
  struct Line {
    std::vector<OpKind> kinds;  // of its ops
    std::vector<size_t> starts; // of its runs
    size_t next = 0;
  };
  static bool repeats(const std::vector<OpKind>& kinds, size_t times) {
    if (kinds.size() % times != 0) return false;
    const size_t period = kinds.size() / times;
    for (size_t i = period; i < kinds.size(); ++i)
      if (kinds[i] != kinds[i - period]) return false;
    return true;
  }

  int last_ = -1;
  std::map<int, Line> lines_;
};

} // namespace dtc
