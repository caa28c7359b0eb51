#pragma once
// Copies ops with their regions, under a map of values: what inlining, unrolling and differentiation are made of.
#include "dtc/IR/Module.h"

namespace dtc {

// Old value to new one; values that are not in it stand for themselves.
class ValueMap {
public:
  void set(ValueId from, ValueId to) { map_[from] = to; }
  [[nodiscard]] ValueId operator()(ValueId v) const {
    auto it = map_.find(v);
    return it == map_.end() ? v : it->second;
  }

private:
  std::unordered_map<ValueId, ValueId> map_;
};

// Names for copies: "<prefix>_<name>" where that is free in the function, else none. An empty prefix gives no names, or the
// same ones (for a copy that takes the original's place).
struct CloneNames {
  std::string prefix;
  std::unordered_map<std::string, bool>* taken = nullptr; // names in use in the function that is copied into
  bool same = false;
};

// A copy that belongs to block `parent` and stands nowhere yet; its results, and what its blocks define, are put into `map`.
[[nodiscard]] OpId cloneOp(Module&, OpId, BlockId parent, ValueMap& map, const CloneNames&);
// Appends copies of all ops of `from` to `out` (they belong to block `parent`) and records their results in `map`.
void cloneOps(Module&, BlockId from, BlockId parent, std::vector<OpId>& out, ValueMap& map,
              const CloneNames&);

} // namespace dtc
