#include "backend/emu/EmuOrder.h"
#include <algorithm>
#include <iterator>

namespace dtc {
static uintptr_t begin(const EmuOrder::Range& r) { return reinterpret_cast<uintptr_t>(r.at); }

void EmuOrder::addDevice(int64_t coordinate) {
  const std::lock_guard lock(mutex_);
  const size_t count = std::max(clocks_.size(), static_cast<size_t>(coordinate) + 1);
  clocks_.resize(count);
  for (auto& clocks : clocks_) clocks.resize(count, 0);
}

void EmuOrder::waitFor(int64_t coordinate, std::span<const int64_t> others) {
  const std::lock_guard lock(mutex_);
  std::vector<uint64_t>& mine = clocks_[static_cast<size_t>(coordinate)];
  for (int64_t other : others)
    for (size_t i = 0; i < mine.size(); ++i)
      mine[i] = std::max(mine[i], clocks_[static_cast<size_t>(other)][i]);
}

std::string EmuOrder::touch(int64_t coordinate, const std::string& work, std::span<const Range> reads,
                            std::span<const Range> writes) {
  const std::lock_guard lock(mutex_);
  if (clocks_.size() < 2) return {};
  const auto p = static_cast<size_t>(coordinate);
  const Access now{p, ++clocks_[p][p], number(work)};
  for (const Range& r : reads)
    if (r.bytes)
      if (std::string error = read(now, r); !error.empty()) return error;
  for (const Range& r : writes)
    if (r.bytes)
      if (std::string error = write(now, r); !error.empty()) return error;
  return {};
}

void EmuOrder::forget() {
  const std::lock_guard lock(mutex_);
  memory_.clear();
}

uint32_t EmuOrder::number(const std::string& work) {
  const auto [at, made] = numbers_.emplace(work, static_cast<uint32_t>(works_.size()));
  if (made) works_.push_back(work);
  return at->second;
}

// Splits at `at`; returns the interval that begins there, or the next one.
EmuOrder::Memory::iterator EmuOrder::splitAt(uintptr_t at) {
  auto next = memory_.lower_bound(at);
  if (next == memory_.begin()) return next;
  const auto last = std::prev(next);
  if (last->second.end <= at) return next;
  Stretch rest = last->second;
  last->second.end = at;
  return memory_.emplace_hint(next, at, std::move(rest));
}

bool EmuOrder::before(const Access& earlier, size_t coordinate) const {
  return earlier.clock <= clocks_[coordinate][earlier.coordinate];
}

std::string EmuOrder::conflict(const Access& earlier, const Access& now, const Range& range, bool wrote,
                               bool writes) const {
  return works_[now.work] + " of device " + std::to_string(now.coordinate) +
         (writes ? " writes " : " reads ") + std::to_string(range.bytes) + " bytes, some of which " +
         works_[earlier.work] + " of device " + std::to_string(earlier.coordinate) +
         (wrote ? " writes" : " reads") + ", and neither device waits for the other";
}

std::string EmuOrder::read(const Access& now, const Range& range) {
  uintptr_t at = begin(range);
  const uintptr_t end = at + range.bytes;
  splitAt(end);
  for (auto i = splitAt(at); at < end; ++i) {
    if (i == memory_.end() || i->first > at) // not accessed before
      i = memory_.emplace_hint(i, at, Stretch{i == memory_.end() ? end : std::min(end, i->first), {}, {}});
    Stretch& s = i->second;
    if (!before(s.writer, now.coordinate)) return conflict(s.writer, now, range, true, false);
    const auto mine =
        std::ranges::find_if(s.readers, [&](const Access& r) { return r.coordinate == now.coordinate; });
    if (mine == s.readers.end())
      s.readers.push_back(now);
    else
      *mine = now;
    at = s.end;
  }
  return {};
}

std::string EmuOrder::write(const Access& now, const Range& range) {
  const uintptr_t at = begin(range), end = at + range.bytes;
  splitAt(end);
  const auto first = splitAt(at);
  auto i = first;
  for (; i != memory_.end() && i->first < end; ++i) {
    if (!before(i->second.writer, now.coordinate)) return conflict(i->second.writer, now, range, true, true);
    for (const Access& r : i->second.readers)
      if (!before(r, now.coordinate)) return conflict(r, now, range, false, true);
  }
  memory_.erase(first, i);
  memory_.emplace(at, Stretch{end, now, {}});
  return {};
}

} // namespace dtc
