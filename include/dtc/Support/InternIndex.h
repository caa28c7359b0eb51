#pragma once
// Finds equal entries of a table that numbers its entries from 0: open addressing with linear probing, at most
// half full, which takes one access to memory where a chained table takes three. Parsing interns each word,
// type and attribute of a text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtc {

class InternIndex {
public:
  static constexpr uint32_t kNone = 0xffffffffu;

  // The number of the entry for which `equals(number)` holds, or kNone. Equal entries have equal hashes.
  template <class Equals> [[nodiscard]] uint32_t find(size_t hash, const Equals& equals) const {
    return slots_.empty() ? kNone : slots_[slotOf(fold(hash), equals)].entry;
  }
  // The same; if there is none, `next` is added and returned, and the caller appends the entry.
  template <class Equals> uint32_t findOrAdd(size_t hash, uint32_t next, const Equals& equals) {
    if (2 * (size_t{next} + 1) > slots_.size()) grow();
    Slot& slot = slots_[slotOf(fold(hash), equals)];
    if (slot.entry == kNone) slot = {next, fold(hash)};
    return slot.entry;
  }

private:
  struct Slot {
    uint32_t entry = kNone, hash = 0;
  };
  // The low bits of a product depend on the low bits of its factors alone.
  static uint32_t fold(size_t hash) { return static_cast<uint32_t>(hash ^ hash >> 32); }
  template <class Equals> size_t slotOf(uint32_t hash, const Equals& equals) const {
    const size_t mask = slots_.size() - 1;
    size_t i = hash & mask;
    while (slots_[i].entry != kNone && !(slots_[i].hash == hash && equals(slots_[i].entry)))
      i = (i + 1) & mask;
    return i;
  }
  void grow() {
    std::vector<Slot> old(std::max<size_t>(64, 2 * slots_.size()));
    old.swap(slots_);
    for (const Slot& s : old)
      if (s.entry != kNone) slots_[slotOf(s.hash, [](uint32_t) { return false; })] = s;
  }
  std::vector<Slot> slots_; // a power of two, or empty
};

} // namespace dtc
