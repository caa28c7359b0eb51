#pragma once
// Interned strings: StrIds are equal iff the texts are.
#include "dtc/Support/Id.h"
#include <algorithm>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

class StringTable {
public:
  StrId intern(std::string_view text) {
    if (2 * (texts_.size() + 1) > slots_.size()) grow();
    const size_t hash = std::hash<std::string_view>{}(text);
    Slot& slot = slots_[slotOf(text, hash)];
    if (!slot.id.valid()) {
      slot = {StrId(static_cast<uint32_t>(texts_.size())), static_cast<uint32_t>(hash)};
      texts_.emplace_back(text);
    }
    return slot.id;
  }
  // The id of `text` if it was interned, else an invalid one.
  [[nodiscard]] StrId find(std::string_view text) const {
    if (slots_.empty()) return StrId();
    return slots_[slotOf(text, std::hash<std::string_view>{}(text))].id;
  }
  [[nodiscard]] std::string_view operator[](StrId id) const {
    return id.valid() ? std::string_view(texts_[id.index]) : std::string_view();
  }

private:
  struct Slot {
    StrId id; // invalid: free
    uint32_t hash = 0;
  };

  // Where `text` is, or the free slot where it would be.
  [[nodiscard]] size_t slotOf(std::string_view text, size_t hash) const {
    const size_t mask = slots_.size() - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
      const Slot& s = slots_[i];
      if (!s.id.valid() || (s.hash == static_cast<uint32_t>(hash) && texts_[s.id.index] == text)) return i;
    }
  }
  void grow() {
    slots_.assign(std::max<size_t>(64, 2 * slots_.size()), Slot());
    for (uint32_t i = 0; i < texts_.size(); ++i) {
      const size_t hash = std::hash<std::string_view>{}(texts_[i]);
      slots_[slotOf(texts_[i], hash)] = {StrId(i), static_cast<uint32_t>(hash)};
    }
  }

  // Parsing interns each word of a text: open addressing (linear probing, at most half full) takes one
  // access to memory where a chained table takes three.
  std::vector<Slot> slots_;       // a power of two, or empty
  std::deque<std::string> texts_; // by id; a view of one stays valid
};

} // namespace dtc
