#include "dtc/IR/RegionParts.h"
#include <algorithm>

namespace dtc {

static constexpr uint32_t kOutside = ~0u;

RegionParts::RegionParts(const Module& m, const Block& body) : m_(m) {
  if (body.ops.empty()) return;
  const auto [low, high] =
      std::ranges::minmax(body.ops, {}, [](OpId o) { return o.index; }); // a region's ops have near ids
  low_ = low.index;
  // Each op points to an earlier one of its part, or to itself; first by position.
  std::vector<uint32_t> above(body.ops.size());
  parts_.assign(high.index - low_ + size_t{1}, kOutside);
  const auto root = [&](uint32_t i) {
    while (above[i] != i) i = above[i] = above[above[i]];
    return i;
  };
  for (uint32_t i = 0; i < body.ops.size(); ++i) {
    above[i] = i;
    for (ValueId v : m.operands(body.ops[i])) {
      const std::optional<uint32_t> made = of(v); // a position until all are known
      if (!made) continue;
      const auto [a, b] = std::minmax({root(*made), root(i)});
      above[b] = a;
    }
    parts_[body.ops[i].index - low_] = i;
  }
  std::vector<uint32_t> numbers(body.ops.size());
  for (uint32_t i = 0; i < body.ops.size(); ++i) {
    const uint32_t first = root(i);
    numbers[i] = first == i ? count_++ : numbers[first];
    parts_[body.ops[i].index - low_] = numbers[i];
  }
}

std::optional<uint32_t> RegionParts::of(ValueId v) const {
  const OpId o = m_.definingOp(v);
  if (!o.valid() || o.index < low_ || o.index - low_ >= parts_.size()) return std::nullopt;
  const uint32_t part = parts_[o.index - low_];
  return part == kOutside ? std::nullopt : std::optional(part);
}

} // namespace dtc
