#include "ByteUses.h"

#include <iterator>

namespace dtc {

void ByteUses::split(int64_t at) {
  const auto next = from_.upper_bound(at);
  if (std::prev(next)->first != at) from_.emplace_hint(next, at, std::prev(next)->second);
}

void ByteUses::add(ByteRange bytes, bool writes, uint32_t number, std::vector<uint32_t>& before) {
  if (bytes.begin >= bytes.end) return;
  split(bytes.begin);
  split(bytes.end);
  for (auto it = from_.find(bytes.begin); it->first < bytes.end; ++it) {
    Last& last = it->second;
    if (last.written >= 0 && last.written != number) before.push_back(static_cast<uint32_t>(last.written));
    if (writes) {
      for (uint32_t reader : last.read)
        if (reader != number) before.push_back(reader);
      last.written = number;
      last.read.clear();
    } else if (last.read.empty() || last.read.back() != number) {
      last.read.push_back(number);
    }
  }
}

} // namespace dtc
