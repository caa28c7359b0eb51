#pragma once
// Facts by value or op of a module, in arrays: hash tables of as many entries cost several times as much.
#include "dtc/IR/Module.h"
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace dtc {

// Several T per value: all are added, then `group` is called, then they are read.
template <class T> class ByValue {
public:
  void add(ValueId v, T t) { all_.push_back({v.index, std::move(t)}); }
  // Groups them by value, in the order in which they were added.
  void group() {
    if (all_.empty()) return;
    const auto [low, high] = std::ranges::minmax(all_, {}, &Entry::value);
    first_ = low.value;
    starts_.assign(high.value - first_ + 2, 0);
    for (const Entry& e : all_) ++starts_[e.value - first_ + 1];
    for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
    std::vector<uint32_t> next(starts_.begin(), starts_.end() - 1);
    grouped_.resize(all_.size());
    for (Entry& e : all_) grouped_[next[e.value - first_]++] = std::move(e.item);
    all_.clear();
  }
  [[nodiscard]] std::span<const T> of(ValueId v) const {
    const size_t at = v.index - first_;
    if (v.index < first_ || at + 1 >= starts_.size()) return {};
    return std::span(grouped_).subspan(starts_[at], starts_[at + 1] - starts_[at]);
  }

private:
  struct Entry {
    uint32_t value;
    T item;
  };
  std::vector<Entry> all_; // before `group`
  uint32_t first_ = 0;
  std::vector<uint32_t> starts_; // by value - first_
  std::vector<T> grouped_;
};

// One T per index, all T() after `clear`, which takes constant time unless the table grows.
template <class T> class ScratchMap {
public:
  void clear(size_t size) {
    if (entries_.size() < size) entries_.resize(size);
    ++round_;
  }
  [[nodiscard]] T& operator[](uint32_t i) {
    Entry& e = entries_[i];
    if (e.round != round_) e = {round_, T()};
    return e.item;
  }

private:
  struct Entry {
    uint32_t round = 0;
    T item = T();
  };
  std::vector<Entry> entries_;
  uint32_t round_ = 0;
};

} // namespace dtc
