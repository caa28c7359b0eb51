#pragma once
// Which uses of an arena's bytes must come after which: two that touch the same byte, one of them to write it, keep their order.
#include <cstdint>
#include <map>
#include <vector>

namespace dtc {

struct ByteRange {
  int64_t begin = 0, end = 0; // offsets; `end` is behind the last
};

class ByteUses {
public:
  // Use number `number`, no less than those before it, reads or (`writes`) writes these bytes. Appends to `before` the other uses
  // that must be over by then, once or more each; those that one of them must itself come after may be missing. O(log n), and the
  // ranges and readers between.
  void add(ByteRange bytes, bool writes, uint32_t number, std::vector<uint32_t>& before);

private:
  struct Last {
    int64_t written = -1;       // by this use; -1: none
    std::vector<uint32_t> read; // since then, ascending
  };
  void split(int64_t at);
  std::map<int64_t, Last> from_{{INT64_MIN, {}}}; // each from its key to the next
};

} // namespace dtc
