// Dynamic storage allocation: packs live ranges into an arena without overlap. NP-hard in general; heuristics
// come close to the bound on real programs.
#include "memory/MemoryPlacement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace dtc {
namespace {

using Range = MemoryPlan::Range;

int64_t aligned(int64_t bytes) { return (bytes + kBufferAlignment - 1) & ~(kBufferAlignment - 1); }

struct Item {
  uint32_t buffer = 0;
  int64_t bytes = 0;
  uint32_t first = 0, last = 0; // the hull of its live ranges
  bool whole = false;           // it is live during all of it
};

struct Placing {
  std::vector<int64_t> offsets; // by item
  int64_t end = INT64_MAX;
};

// The free blocks of an unbounded arena, by offset and by size.
class FreeBlocks {
public:
  explicit FreeBlocks(int64_t capacity) : capacity_(capacity) { insert(0, kEndless); }

  // The smallest block that fits; on ties, the lowest. The unbounded one at the top is the last resort.
  int64_t takeLow(int64_t bytes) {
    const auto [size, at] = *bySize_.lower_bound({bytes, 0});
    erase(at, size);
    if (size > bytes) insert(at + bytes, size - bytes);
    return at;
  }
  // The highest offset that ends within the capacity; otherwise as takeLow.
  int64_t takeHigh(int64_t bytes) {
    auto it = byOffset_.lower_bound(capacity_);
    for (int tries = 0; it != byOffset_.begin() && tries < 64; ++tries) {
      --it;
      const auto [at, size] = *it;
      const int64_t top = std::min(at + size, capacity_);
      if (top - at < bytes) continue;
      erase(at, size);
      if (top - bytes > at) insert(at, top - bytes - at);
      if (at + size > top) insert(top, at + size - top);
      return top - bytes;
    }
    return takeLow(bytes);
  }
  void release(int64_t at, int64_t bytes) {
    auto next = byOffset_.lower_bound(at);
    if (next != byOffset_.end() && next->first == at + bytes) {
      bytes += next->second;
      erase(next->first, next->second);
      next = byOffset_.lower_bound(at);
    }
    if (next != byOffset_.begin())
      if (auto [before, size] = *std::prev(next); before + size == at) {
        erase(before, size);
        at = before, bytes += size;
      }
    insert(at, bytes);
  }

private:
  static constexpr int64_t kEndless = INT64_MAX / 2;
  void insert(int64_t at, int64_t bytes) { byOffset_[at] = bytes, bySize_.insert({bytes, at}); }
  void erase(int64_t at, int64_t bytes) { byOffset_.erase(at), bySize_.erase({bytes, at}); }
  int64_t capacity_;
  std::map<int64_t, int64_t> byOffset_;
  std::set<std::pair<int64_t, int64_t>> bySize_; // size, offset
};

class Placer {
public:
  // `bound`: the plan's lower bound without always-live buffers.
  Placer(const MemoryPlan& plan, std::vector<Item> items, int64_t bound)
      : plan_(plan), items_(std::move(items)), bound_(bound),
        enough_(bound + (items_.size() > kLarge ? plan.lowerBound / 50 : 0)) {}

  Placing run() {
    sweeps();
    if (best_.end > bound_ && !items_.empty() && connect()) search();
    return std::move(best_);
  }

private:
  // The budget of the search: pairs of simultaneously live buffers, each inspected once per round.
  static constexpr size_t kMaxPairs = 2'000'000, kSearchWork = 8'000'000, kLarge = 100;

  // True if the search can stop: at the bound, or for larger programs within 2 % of it. A round costs as much
  // as all other passes together, and gains a few tenths of a percent.
  bool keep(Placing p) {
    if (p.end < best_.end) best_ = std::move(p);
    return best_.end <= enough_;
  }

  // The items in the order of time, or its reverse, by their begins and by their ends.
  struct TimeOrder {
    TimeOrder(std::span<const Item> items, uint32_t numPositions, bool reversed)
        : end(numPositions), backward(reversed), start(items.size()) {
      std::iota(start.begin(), start.end(), 0u);
      stop = start;
      std::ranges::sort(start, {},
                        [&](uint32_t i) { return std::tuple(begins(items[i]), -items[i].bytes, i); });
      std::ranges::sort(stop, {}, [&](uint32_t i) { return std::pair(ends(items[i]), i); });
    }
    [[nodiscard]] uint32_t begins(const Item& i) const { return backward ? end - i.last : i.first; }
    [[nodiscard]] uint32_t ends(const Item& i) const { return backward ? end - i.first : i.last; }

    uint32_t end;
    bool backward;
    std::vector<uint32_t> start, stop;
  };

  // Best fit in the order of time (or its reverse); buffers that are live for at most `brief` positions are
  // allocated from the top.
  Placing sweep(const TimeOrder& order, uint32_t brief) const {
    Placing p{std::vector<int64_t>(items_.size()), 0};
    FreeBlocks arena(bound_);
    size_t next = 0;
    for (uint32_t i : order.start) {
      const Item& item = items_[i];
      for (; order.ends(items_[order.stop[next]]) < order.begins(item); ++next)
        arena.release(p.offsets[order.stop[next]], items_[order.stop[next]].bytes);
      p.offsets[i] = item.last - item.first < brief ? arena.takeHigh(item.bytes) : arena.takeLow(item.bytes);
      p.end = std::max(p.end, p.offsets[i] + item.bytes);
    }
    return p;
  }

  void sweeps() {
    const TimeOrder orders[] = {{items_, plan_.numPositions, false}, {items_, plan_.numPositions, true}};
    for (uint32_t brief : {0u, 4u, 16u, 64u, 256u, plan_.numPositions / 8, plan_.numPositions / 2})
      for (const TimeOrder& order : orders)
        if (keep(sweep(order, brief))) return;
  }

  // Of two items whose hulls overlap.
  [[nodiscard]] bool together(uint32_t a, uint32_t b) const {
    if (items_[a].whole && items_[b].whole) return true;
    const std::vector<Range>&x = plan_.buffers[items_[a].buffer].live,
          &y = plan_.buffers[items_[b].buffer].live;
    for (size_t i = 0, j = 0; i < x.size() && j < y.size();) {
      if (x[i].last < y[j].first)
        ++i;
      else if (y[j].last < x[i].first)
        ++j;
      else
        return true;
    }
    return false;
  }

  // The interference graph. False if it has too many edges.
  bool connect() {
    std::vector<uint32_t> order(items_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(items_[a].first, a) < std::pair(items_[b].first, b);
    });
    struct Alive {
      uint32_t last, item;
    };
    std::vector<Alive> alive; // a copy of `last`, as the loop over these takes most of the time
    with_.resize(items_.size());
    for (uint32_t i : order) {
      std::erase_if(alive, [&](const Alive& a) { return a.last < items_[i].first; });
      for (const Alive& a : alive)
        if (together(a.item, i)) with_[a.item].push_back(i), with_[i].push_back(a.item);
      pairs_ += with_[i].size();
      alive.push_back({items_[i].last, i});
      if (pairs_ > kMaxPairs || (alive.size() > 20'000)) return false;
    }
    return true;
  }

  // Allocates buffers in order, each at the lowest offset (or in the tightest hole) among those allocated
  // already.
  Placing stack(std::span<const uint32_t> order, bool tight) {
    Placing p{std::vector<int64_t>(items_.size(), -1), 0};
    std::vector<uint32_t> placed, few;                      // by offset
    std::vector<uint32_t> meets(items_.size(), UINT32_MAX); // the last item that was compared with this one
    const auto offset = [&](uint32_t a) { return p.offsets[a]; };
    for (uint32_t i : order) {
      for (uint32_t a : with_[i]) meets[a] = i;
      // Most of the time of a search: of many items, all are visited in order; of few, these are sorted.
      const bool sorts = with_[i].size() * 16 < placed.size();
      if (sorts) {
        few.clear();
        std::ranges::copy_if(with_[i], std::back_inserter(few),
                             [&](uint32_t a) { return p.offsets[a] >= 0; });
        std::ranges::sort(few, {}, offset);
      }
      int64_t at = 0, best = -1, room = INT64_MAX;
      for (uint32_t a : sorts ? few : placed) {
        if (meets[a] != i) continue;
        const int64_t gap = p.offsets[a] - at;
        if (gap >= items_[i].bytes && gap < room) best = at, room = gap;
        if (best >= 0 && !tight) break;
        at = std::max(at, p.offsets[a] + items_[a].bytes);
      }
      p.offsets[i] = best >= 0 ? best : at;
      p.end = std::max(p.end, p.offsets[i] + items_[i].bytes);
      placed.insert(std::ranges::upper_bound(placed, p.offsets[i], {}, offset), i);
    }
    return p;
  }

  // Squeaky wheel optimization (Joslin and Clements 1999): buffers above the bound move towards the front of
  // the order.
  bool improve(std::vector<uint32_t> order, bool tight, size_t rounds) {
    int64_t smallest = INT64_MAX;
    size_t idle = 0;
    for (size_t round = 0; round < rounds && idle < 24; ++round) {
      Placing p = stack(order, tight);
      ++idle;
      if (p.end < smallest) smallest = p.end, idle = 0;
      std::vector<uint64_t> rank(items_.size()); // the new position, then the old one
      for (size_t k = 0; k < order.size(); ++k) {
        const bool above = p.offsets[order[k]] + items_[order[k]].bytes > bound_;
        rank[order[k]] = uint64_t(above ? k / 2 : k) << 32 | k;
      }
      std::ranges::sort(order, {}, [&](uint32_t i) { return rank[i]; });
      if (keep(std::move(p))) return true;
    }
    return false;
  }

  void search() {
    std::vector<uint32_t> order(items_.size());
    std::iota(order.begin(), order.end(), 0u);
    auto by = [&](auto key) {
      std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        const double x = key(items_[a]), y = key(items_[b]);
        return x != y ? x > y : a < b;
      });
      return order;
    };
    auto length = [](const Item& i) { return static_cast<double>(i.last - i.first) + 1; };
    const std::vector<uint32_t> orders[] = {
        by([&](const Item& i) { return static_cast<double>(i.bytes); }),
        by([&](const Item& i) { return static_cast<double>(i.bytes) * length(i); }),
        by([&](const Item& i) { return length(i); }),
        by([&](const Item& i) { return -static_cast<double>(i.first); }),
    };
    for (const std::vector<uint32_t>& o : orders)
      for (bool tight : {false, true})
        if (keep(stack(o, tight))) return;
    const size_t rounds =
        std::min<size_t>(200, kSearchWork / (std::size(orders) * 2 * (pairs_ + items_.size() + 1)));
    for (const std::vector<uint32_t>& o : orders)
      for (bool tight : {false, true})
        if (improve(o, tight, rounds)) return;
  }

  const MemoryPlan& plan_;
  std::vector<Item> items_;
  int64_t bound_, enough_; // enough: the size at which the search stops
  Placing best_;
  std::vector<std::vector<uint32_t>> with_; // by item
  size_t pairs_ = 0;
};

} // namespace

bool placeBuffers(MemoryPlan& plan) {
  if (!measureBuffers(plan)) return false;
  int64_t base = 0; // always-live buffers are below all others
  std::vector<Item> items;
  for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
    MemoryPlan::Buffer& b = plan.buffers[i];
    if (b.bytes == 0) continue;
    if (b.live.size() == 1 && b.live[0] == Range{0, plan.numPositions - 1}) {
      b.offset = base;
      base += aligned(b.bytes);
    } else {
      items.push_back({i, aligned(b.bytes), b.live.front().first, b.live.back().last, b.live.size() == 1});
    }
  }
  const std::vector<Item> copy = items;
  const Placing placed = Placer(plan, std::move(items), plan.lowerBound - base).run();
  for (size_t i = 0; i < copy.size(); ++i) plan.buffers[copy[i].buffer].offset = base + placed.offsets[i];
  plan.arenaBytes = copy.empty() ? base : base + placed.end;
  return true;
}

} // namespace dtc
