#include "dtc/Emu/EmuMemory.h"
#include <algorithm>
#include <atomic>

namespace dtc {
namespace {

// Calls fn(word, mask) for the words of bits [begin, begin + count), until it returns false.
template <class Fn> bool eachWord(uint64_t* bits, size_t begin, size_t count, const Fn& fn) {
  while (count) {
    const size_t at = begin & 63, n = std::min(count, 64 - at);
    const uint64_t mask = (n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << at;
    if (!fn(bits[begin / 64], mask)) return false;
    begin += n, count -= n;
  }
  return true;
}

} // namespace

void EmuMemory::add(const void* begin, size_t bytes) {
  areas_.push_back({addressOf(begin), bytes, std::make_unique<uint64_t[]>(bytes / 64 + 1)});
}

const EmuMemory::Area* EmuMemory::areaOf(const void* begin, size_t bytes) const {
  for (const Area& area : areas_)
    if (addressOf(begin) >= area.begin && addressOf(begin) - area.begin <= area.bytes &&
        bytes <= area.bytes - (addressOf(begin) - area.begin))
      return &area;
  return nullptr;
}

bool EmuMemory::holds(const void* begin, size_t bytes) const { return areaOf(begin, bytes) != nullptr; }

void EmuMemory::set(const void* begin, size_t bytes, bool defined) {
  const Area* area = areaOf(begin, bytes);
  if (!area) return;
  // Adjacent bytes may be another thread's and share a word.
  eachWord(area->bits.get(), addressOf(begin) - area->begin, bytes, [&](uint64_t& word, uint64_t mask) {
    const std::atomic_ref<uint64_t> shared(word);
    if (defined)
      shared.fetch_or(mask, std::memory_order_relaxed);
    else
      shared.fetch_and(~mask, std::memory_order_relaxed);
    return true;
  });
}

bool EmuMemory::defined(const void* begin, size_t bytes) const {
  const Area* area = areaOf(begin, bytes);
  return !area ||
         eachWord(area->bits.get(), addressOf(begin) - area->begin, bytes, [](uint64_t& word, uint64_t mask) {
           return (std::atomic_ref<uint64_t>(word).load(std::memory_order_relaxed) & mask) == mask;
         });
}

void EmuMemory::copy(const void* to, const void* from, size_t bytes) {
  const auto* source = static_cast<const std::byte*>(from);
  const auto* target = static_cast<const std::byte*>(to);
  for (size_t at = 0; at < bytes;) { // runs of equal bits
    const bool state = defined(source + at, 1);
    size_t n = std::min<size_t>(bytes - at, 4096);
    if (!state || !defined(source + at, n))
      for (n = 1; at + n < bytes && n < 4096 && defined(source + at + n, 1) == state;) ++n;
    set(target + at, n, state);
    at += n;
  }
}

} // namespace dtc
