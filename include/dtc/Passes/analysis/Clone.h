#pragma once
// Clones ops with their regions under a value map, for inlining, unrolling and differentiation.
#include "dtc/IR/Module.h"

namespace dtc {

// Maps old values to new ones; values without an entry map to themselves.
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

// Names for clones: "<prefix>_<name>" if that is free in the function, otherwise none. An empty prefix
// assigns no names, or keeps the names (for a clone that replaces the original).
struct CloneNames {
  std::string prefix;
  std::unordered_map<std::string, bool>* taken = nullptr; // names in use in the destination function
  bool same = false;
};

// A clone that belongs to block `parent`, but is not inserted; its results, and values defined in its blocks,
// are added to `map`.
[[nodiscard]] OpId cloneOp(Module&, OpId, BlockId parent, ValueMap& map, const CloneNames&);
// Appends clones of all ops of `from` to `out` (they belong to block `parent`) and adds their results to
// `map`.
void cloneOps(Module&, BlockId from, BlockId parent, std::vector<OpId>& out, ValueMap& map,
              const CloneNames&);

// A copy of a function under another name, at the end of the module.
[[nodiscard]] FuncId cloneFunction(Module&, FuncId, StrId name);

} // namespace dtc
