#include "analysis/MinimumCut.h"
#include <algorithm>
#include <queue>

namespace dtc {

void MinimumCut::edge(uint32_t from, uint32_t to, int64_t capacity) {
  edges_.push_back({to, first_[from], capacity});
  first_[from] = static_cast<uint32_t>(edges_.size() - 1);
  edges_.push_back({from, first_[to], 0});
  first_[to] = static_cast<uint32_t>(edges_.size() - 1);
}

void MinimumCut::maximize(uint32_t source, uint32_t sink) {
  while (layer(source, sink)) {
    next_ = first_;
    while (augment(source, sink)) {}
  }
}

bool MinimumCut::layer(uint32_t source, uint32_t sink) {
  level_.assign(first_.size(), kNone);
  level_[source] = 0;
  std::queue<uint32_t> work;
  work.push(source);
  while (!work.empty()) {
    uint32_t n = work.front();
    work.pop();
    for (uint32_t e = first_[n]; e != kNone; e = edges_[e].next)
      if (edges_[e].capacity > 0 && level_[edges_[e].to] == kNone) {
        level_[edges_[e].to] = level_[n] + 1;
        work.push(edges_[e].to);
      }
  }
  return level_[sink] != kNone;
}

// One augmenting path along the layers, found iteratively (a chain of ops may be 100,000 long).
bool MinimumCut::augment(uint32_t source, uint32_t sink) {
  std::vector<uint32_t> path;
  uint32_t n = source;
  while (n != sink) {
    uint32_t& e = next_[n];
    while (e != kNone && (edges_[e].capacity <= 0 || level_[edges_[e].to] != level_[n] + 1))
      e = edges_[e].next;
    if (e != kNone) {
      path.push_back(e);
      n = edges_[e].to;
      continue;
    }
    if (path.empty()) return false;
    n = edges_[path.back() ^ 1].to; // a dead end: back up, and do not visit it again
    next_[n] = edges_[next_[n]].next;
    path.pop_back();
  }
  int64_t flow = kInfinite;
  for (uint32_t e : path) flow = std::min(flow, edges_[e].capacity);
  for (uint32_t e : path) edges_[e].capacity -= flow, edges_[e ^ 1].capacity += flow;
  return true;
}

} // namespace dtc
