#pragma once
// The independent parts of a region: sets of ops that no value made in the region connects.
#include "dtc/IR/Module.h"
#include <optional>

namespace dtc {

class RegionParts {
public:
  RegionParts(const Module& m, const Block& body);
  [[nodiscard]] uint32_t count() const { return count_; }
  // The number of an op's part. Parts are numbered in the order of their first ops.
  [[nodiscard]] uint32_t of(OpId o) const { return parts_[o.index - low_]; }
  // The part that makes a value; nothing for values that are not made in the region.
  [[nodiscard]] std::optional<uint32_t> of(ValueId v) const;

private:
  const Module& m_;
  uint32_t low_ = 0, count_ = 0;
  std::vector<uint32_t> parts_; // by op, from low_ on
};

} // namespace dtc
