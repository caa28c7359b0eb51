#pragma once
// What the parts of diff share.
#include <algorithm>
#include <cmath>
#include <vector>

namespace dtc {

// Sums in another order differ in the last bits.
[[nodiscard]] inline bool same(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

// A stable sort: rows with equal keys keep their order.
template <class Row, class Key> void sortRows(std::vector<Row>& rows, const Key& key) {
  std::vector<size_t> order(rows.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(key(rows[i]), i); });
  std::vector<Row> sorted;
  sorted.reserve(rows.size());
  for (size_t i : order) sorted.push_back(std::move(rows[i]));
  rows = std::move(sorted);
}

} // namespace dtc
