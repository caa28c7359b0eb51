#include "diff/Match.h"

#include <algorithm>
#include <unordered_map>

namespace dtc {

namespace {

constexpr size_t kMaxTable = size_t{1} << 20; // cells of one longest common subsequence

struct Segment {
  size_t a0, a1, b0, b1, level;
};

struct Anchor {
  size_t a, b;
};

class Matcher {
public:
  Matcher(const MatchKeys& a, const MatchKeys& b) : a_(a), b_(b), out_(a.empty() ? 0 : a[0].size(), -1) {}

  std::vector<int32_t> run() {
    if (a_.empty() || b_.empty()) return std::move(out_);
    std::vector<Segment> todo = {{0, a_[0].size(), 0, b_[0].size(), 0}};
    while (!todo.empty()) {
      Segment s = todo.back();
      todo.pop_back();
      trim(s);
      if (s.a0 == s.a1 || s.b0 == s.b1) continue;
      std::vector<Anchor> anchors = unique(s);
      size_t next = s.level;
      if (anchors.empty()) {
        anchors = subsequence(s);
        if (++next == a_.size() && anchors.empty()) continue;
      }
      size_t a = s.a0, b = s.b0;
      const auto between = [&](size_t toA, size_t toB) {
        if (next < a_.size() && a < toA && b < toB) todo.push_back({a, toA, b, toB, next});
      };
      for (const Anchor& m : anchors) {
        between(m.a, m.b);
        match(m.a, m.b);
        a = m.a + 1, b = m.b + 1;
      }
      between(s.a1, s.b1);
    }
    return std::move(out_);
  }

private:
  void match(size_t a, size_t b) { out_[a] = static_cast<int32_t>(b); }

  bool equal(size_t a, size_t b, size_t level) const {
    return a_[level][a] != 0 && a_[level][a] == b_[level][b];
  }

  // Matches equal elements at both ends.
  void trim(Segment& s) {
    while (s.a0 < s.a1 && s.b0 < s.b1 && equal(s.a0, s.b0, s.level)) match(s.a0++, s.b0++);
    while (s.a0 < s.a1 && s.b0 < s.b1 && equal(s.a1 - 1, s.b1 - 1, s.level)) match(--s.a1, --s.b1);
  }

  // The longest increasing sequence of the elements whose keys are unique in both.
  std::vector<Anchor> unique(const Segment& s) const {
    struct Seen {
      uint32_t inA = 0, inB = 0;
      size_t b = 0;
    };
    std::unordered_map<uint32_t, Seen> seen;
    for (size_t i = s.a0; i < s.a1; ++i) ++seen[a_[s.level][i]].inA;
    for (size_t i = s.b0; i < s.b1; ++i)
      if (const auto it = seen.find(b_[s.level][i]); it != seen.end()) ++it->second.inB, it->second.b = i;
    std::vector<Anchor> all;
    for (size_t i = s.a0; i < s.a1; ++i)
      if (const Seen& k = seen.at(a_[s.level][i]); a_[s.level][i] != 0 && k.inA == 1 && k.inB == 1)
        all.push_back({i, k.b});
    return increasing(all);
  }

  // Patience sorting: the top of each pile, and for each element the one before it in a longest sequence.
  static std::vector<Anchor> increasing(const std::vector<Anchor>& all) {
    std::vector<size_t> piles;
    std::vector<size_t> before(all.size(), all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const auto pile = std::ranges::lower_bound(piles, all[i].b, {}, [&](size_t k) { return all[k].b; });
      if (pile != piles.begin()) before[i] = *(pile - 1);
      if (pile == piles.end())
        piles.push_back(i);
      else
        *pile = i;
    }
    std::vector<Anchor> out;
    for (size_t i = piles.empty() ? all.size() : piles.back(); i < all.size(); i = before[i])
      out.push_back(all[i]);
    std::ranges::reverse(out);
    return out;
  }

  // A longest common subsequence; nothing if the table would be too large.
  std::vector<Anchor> subsequence(const Segment& s) const {
    const size_t n = s.a1 - s.a0, m = s.b1 - s.b0;
    if (n >= kMaxTable || m >= kMaxTable || (n + 1) * (m + 1) > kMaxTable) return {};
    std::vector<uint32_t> length((n + 1) * (m + 1), 0); // of the suffixes from i and j
    const auto at = [&](size_t i, size_t j) -> uint32_t& { return length[i * (m + 1) + j]; };
    for (size_t i = n; i-- > 0;)
      for (size_t j = m; j-- > 0;)
        at(i, j) =
            equal(s.a0 + i, s.b0 + j, s.level) ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
    std::vector<Anchor> out;
    for (size_t i = 0, j = 0; i < n && j < m;) {
      if (equal(s.a0 + i, s.b0 + j, s.level)) {
        out.push_back({s.a0 + i++, s.b0 + j++});
      } else if (at(i + 1, j) >= at(i, j + 1)) {
        ++i;
      } else {
        ++j;
      }
    }
    return out;
  }

  const MatchKeys& a_;
  const MatchKeys& b_;
  std::vector<int32_t> out_;
};

} // namespace

std::vector<int32_t> matchSequences(const MatchKeys& a, const MatchKeys& b) { return Matcher(a, b).run(); }

void matchMoved(std::span<const uint32_t> a, std::span<const uint32_t> b, std::vector<int32_t>& matches) {
  std::vector<bool> taken(b.size(), false);
  for (int32_t m : matches)
    if (m >= 0) taken[static_cast<size_t>(m)] = true;
  struct Seen {
    uint32_t inA = 0, inB = 0;
    size_t b = 0;
  };
  std::unordered_map<uint32_t, Seen> seen;
  for (size_t i = 0; i < a.size(); ++i)
    if (matches[i] < 0 && a[i] != 0) ++seen[a[i]].inA;
  for (size_t i = 0; i < b.size(); ++i)
    if (const auto it = seen.find(b[i]); !taken[i] && it != seen.end()) ++it->second.inB, it->second.b = i;
  for (size_t i = 0; i < a.size(); ++i) {
    if (matches[i] >= 0 || a[i] == 0) continue;
    if (const Seen& k = seen.at(a[i]); k.inA == 1 && k.inB == 1) matches[i] = static_cast<int32_t>(k.b);
  }
}

} // namespace dtc
