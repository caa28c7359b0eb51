#pragma once
// The pointers into some ranges of memory that prepared steps hold, so that a range can be replaced by other
// memory between runs.
#include "dtc/Runtime/backend/Backend.h"
#include <optional>

namespace dtc {

class PointerSlots {
public:
  explicit PointerSlots(std::span<const MemoryRange> ranges)
      : ranges_(ranges.begin(), ranges.end()), slots_(ranges.size()) {}

  // The range that contains the address.
  [[nodiscard]] std::optional<size_t> rangeOf(const void* p) const {
    const auto* at = static_cast<const std::byte*>(p);
    size_t low = 0, high = ranges_.size(); // the first range that begins after `at`
    while (low < high) {
      const size_t middle = (low + high) / 2;
      ranges_[middle].at <= at ? low = middle + 1 : high = middle;
    }
    if (low == 0 || at >= ranges_[low - 1].at + ranges_[low - 1].bytes) return std::nullopt;
    return low - 1;
  }
  // Remembers a pointer, if it is into a range. It must stay where it is.
  template <class T> void add(T*& pointer) {
    if (const auto range = rangeOf(pointer))
      slots_[*range].push_back(
          {static_cast<void*>(&pointer),
           reinterpret_cast<const std::byte*>(const_cast<const T*>(pointer)) - ranges_[*range].at});
  }
  [[nodiscard]] const MemoryRange& range(size_t i) const { return ranges_[i]; }
  // The pointers into a range refer to the same offsets from `to`.
  void rebind(size_t range, std::byte* to) const {
    for (const Slot& s : slots_[range]) {
      const std::byte* now = to + s.offset;
      std::memcpy(s.pointer, static_cast<const void*>(&now), sizeof now); // whatever type it points to
    }
  }

private:
  struct Slot {
    void* pointer;
    std::ptrdiff_t offset;
  };
  std::vector<MemoryRange> ranges_; // ascending, disjoint
  std::vector<std::vector<Slot>> slots_;
};

} // namespace dtc
