#include "run/ResultParts.h"

#include "dtc/Support/ElementCount.h"

#include <map>

namespace dtc {

static const Sharding* shardingOf(const Module& m, const FuncResult& r) {
  return r.globalType && r.sharding ? &m.shardings[r.sharding] : nullptr;
}

bool isPartial(const Module& m, const FuncResult& r) {
  const Sharding* const sharding = shardingOf(m, r);
  return sharding && !sharding->pending.empty();
}

std::vector<ResultPart> partsOf(const Module& m, const Program& program, const FuncResult& r,
                                std::span<const int64_t> shape) {
  std::vector<ResultPart> parts;
  if (isPartial(m, r) || elementCount(shape) == 0) return parts;
  const Sharding* const sharding = shardingOf(m, r);
  const std::vector<bool> holds = holdersOf(m, program.mesh, r.attrs);
  const std::vector<int64_t> zeros(shape.size());
  const std::vector<TensorBlock> whole = {{zeros, zeros, {shape.begin(), shape.end()}}};
  std::map<std::vector<int64_t>, size_t> numbers; // by the place in the tensor
  for (int64_t p = 0; p < program.numDevices(); ++p) {
    if (!holds[static_cast<size_t>(p)]) continue;
    for (const TensorBlock& b : sharding ? blocksOf(*sharding, program.mesh, shape, p) : whole) {
      const auto [at, isNew] = numbers.emplace(b.global, parts.size());
      if (isNew) parts.push_back({b, {}});
      parts[at->second].devices.push_back(p);
    }
  }
  return parts;
}

} // namespace dtc
