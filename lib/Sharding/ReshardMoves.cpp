// The moves of the search for a reshard plan: the collectives that lead from a sharding to others.
#include "ReshardState.h"
#include <algorithm>
#include <array>
#include <set>

namespace dtc {
namespace {

// a permute lists its pairs, so it is limited to this number of devices
constexpr int64_t kMaxPairs = 1 << 16;

bool isAtom(Part p) { return p >= 0; }

struct Moves {
  const PlanSpace& space;
  const PlanState& at;
  const PlanState& to;
  MoveSet set;
  std::vector<PlanMove>& out;

  [[nodiscard]] int64_t blocksBefore(const PartRow& row, size_t i) const {
    int64_t b = 1;
    for (size_t j = 0; j < i; ++j)
      if (row[j] < 0) b *= -row[j];
    return b;
  }
  // The position in the local dim where the parts after position `i` begin: the next factor, or the rest of
  // the dim.
  [[nodiscard]] StepSlot slotAt(size_t dim, size_t i) const {
    const PartRow& row = at.dims[dim];
    size_t f = i;
    while (f < row.size() && isAtom(row[f])) ++f;
    return {static_cast<int>(dim), blocksBefore(row, i), f < row.size() ? -row[f] : 0};
  }

  void add(PlanMove move) {
    for (PartRow& row : move.next.dims) normalize(row);
    if (move.next == at || !space.valid(move.next)) return;
    out.push_back(std::move(move));
  }

  // Calls fn(dim, begin, end) for every run of adjacent atoms of `rows`.
  template <class Fn> static void forRuns(const std::vector<PartRow>& rows, Fn&& fn) {
    for (size_t d = 0; d < rows.size(); ++d)
      for (size_t i = 0; i < rows[d].size(); ++i)
        for (size_t j = i; j < rows[d].size() && isAtom(rows[d][j]); ++j) fn(d, i, j + 1);
  }

  // whether the list matches the target up to the end of this run
  [[nodiscard]] bool inPlace(size_t d, size_t i, size_t j) const {
    const PartRow &row = at.dims[d], &want = to.dims[d];
    return j <= want.size() &&
           std::equal(row.begin(), row.begin() + static_cast<ptrdiff_t>(j), want.begin()) && i < j;
  }

  void gathers() {
    forRuns(at.dims, [&](size_t d, size_t i, size_t j) {
      if (set != MoveSet::All && inPlace(d, i, j) && at.dims[d] == to.dims[d]) return;
      PlanState next = at;
      PartRow& row = next.dims[d];
      const std::vector<Part> run(row.begin() + static_cast<ptrdiff_t>(i),
                                  row.begin() + static_cast<ptrdiff_t>(j));
      row.erase(row.begin() + static_cast<ptrdiff_t>(i), row.begin() + static_cast<ptrdiff_t>(j));
      row.insert(row.begin() + static_cast<ptrdiff_t>(i), -space.productOf(run));
      add({std::move(next), StepKind::AllGather, PendingKind::None, run, slotAt(d, i)});
    });
  }

  // Calls fn(next, split slot) for every position in dim `d` where `run`, which `base` does not use there,
  // may be inserted. `base` is `at` without the run's old position; positions in its list d equal those of
  // `at` up to `limit`.
  template <class Fn>
  void forInsertions(const PlanState& base, size_t d, std::span<const Part> run, int64_t wantPrefix,
                     Fn&& fn) {
    const PartRow& row = at.dims[d];
    const int64_t k = space.productOf(run);
    for (size_t i = 0; i <= row.size(); ++i) {
      const bool rest = i == row.size();
      if (!rest && isAtom(row[i])) continue;
      std::set<int64_t> skips = {1};
      const int64_t prefix = space.productOf(std::span(row).first(i));
      if (wantPrefix % prefix == 0) skips.insert(wantPrefix / prefix);
      for (int64_t g : skips) {
        if (!rest && (-row[i] % g != 0 || -row[i] / g % k != 0)) continue;
        PlanState next = base;
        PartRow& list = next.dims[d];
        PartRow insert = {-g};
        insert.insert(insert.end(), run.begin(), run.end());
        const auto pos = list.begin() + static_cast<ptrdiff_t>(i);
        if (rest) {
          list.insert(list.end(), insert.begin(), insert.end());
        } else {
          insert.push_back(row[i] / (g * k));
          const auto where = list.erase(pos);
          list.insert(where, insert.begin(), insert.end());
        }
        fn(std::move(next), StepSlot{static_cast<int>(d), blocksBefore(row, i) * g, rest ? 0 : -row[i] / g});
      }
    }
  }

  // Runs of the target lists that are now unused (slice), pending (reduce_scatter) or in another dim
  // (all_to_all).
  void makeSharded() {
    forRuns(to.dims, [&](size_t d, size_t i, size_t j) {
      const std::span<const Part> run = std::span(to.dims[d]).subspan(i, j - i);
      const int64_t prefix = space.productOf(std::span(to.dims[d]).first(i));
      const bool unused = std::ranges::none_of(run, [&](Part p) { return at.uses(static_cast<int>(p)); });
      if (unused)
        forInsertions(at, d, run, prefix, [&](PlanState next, StepSlot split) {
          add({std::move(next), StepKind::AllSlice, PendingKind::None, {run.begin(), run.end()}, {}, split});
        });
      scatter(d, run, prefix);
      exchange(d, run, prefix);
    });
  }

  void scatter(size_t d, std::span<const Part> run, int64_t prefix) {
    PlanState base = at;
    base.pending.clear();
    PendingKind kind = PendingKind::None;
    size_t taken = 0;
    for (auto p : at.pending) {
      if (std::find(run.begin(), run.end(), p.first) == run.end()) {
        base.pending.push_back(p);
        continue;
      }
      if (kind != PendingKind::None && kind != p.second) return;
      kind = p.second;
      ++taken;
    }
    if (taken != run.size()) return;
    forInsertions(base, d, run, prefix, [&](PlanState next, StepSlot split) {
      add({std::move(next), StepKind::ReduceScatter, kind, {run.begin(), run.end()}, {}, split});
    });
  }

  // The run exists in another dim, adjacent and in this order: move it here.
  void exchange(size_t d, std::span<const Part> run, int64_t prefix) {
    for (size_t e = 0; e < at.dims.size(); ++e) {
      const PartRow& row = at.dims[e];
      const auto found = std::search(row.begin(), row.end(), run.begin(), run.end());
      if (found == row.end()) continue;
      const auto i = static_cast<size_t>(found - row.begin());
      // A placeholder of one entry per part keeps the positions of list d during the change.
      PlanState base = at;
      base.dims[e][i] = -space.productOf(run);
      for (size_t j = 1; j < run.size(); ++j) base.dims[e][i + j] = -1;
      forInsertions(base, d, run, prefix, [&](PlanState next, StepSlot split) {
        add({std::move(next),
             StepKind::AllToAll,
             PendingKind::None,
             {run.begin(), run.end()},
             slotAt(e, i),
             split});
      });
    }
  }

  // Runs whose atoms must leave their dim may be appended to another, where gathering them is cheaper.
  void park() {
    forRuns(at.dims, [&](size_t e, size_t i, size_t j) {
      const std::span<const Part> run = std::span(at.dims[e]).subspan(i, j - i);
      const PartRow& want = to.dims[e];
      if (std::ranges::any_of(run,
                              [&](Part p) { return std::find(want.begin(), want.end(), p) != want.end(); }))
        return;
      for (size_t d = 0; d < at.dims.size(); ++d)
        if (d != e) exchange(d, run, 1);
    });
  }

  void reduces() {
    std::vector<std::vector<std::pair<int, PendingKind>>> sets;
    for (int k = 1; k <= static_cast<int>(PendingKind::All); ++k) {
      std::vector<std::pair<int, PendingKind>> unwanted;
      for (auto p : at.pending) {
        if (p.second != static_cast<PendingKind>(k)) continue;
        if (std::find(to.pending.begin(), to.pending.end(), p) != to.pending.end()) continue;
        unwanted.push_back(p);
        sets.push_back({p});
      }
      if (unwanted.size() > 1) sets.push_back(unwanted);
    }
    for (const auto& kinds : sets) {
      PlanState next = at;
      std::vector<Part> run;
      for (auto p : kinds) {
        std::erase(next.pending, p);
        run.push_back(p.first);
      }
      // Unwanted ones may also be scattered over any dim, and gathered when the tensor is smaller.
      if (set == MoveSet::Detours)
        for (size_t d = 0; d < at.dims.size(); ++d) scatter(d, run, 1);
      add({std::move(next), StepKind::AllReduce, kinds.front().second, std::move(run)});
    }
  }

  // Last: delaying a reduction has no benefit.
  void makePending() {
    if (at.dims != to.dims) return;
    auto group = [](PendingKind k) { return k == PendingKind::Avg ? PendingKind::Sum : k; };
    for (PendingKind kind : {PendingKind::Sum, PendingKind::Avg, PendingKind::Prod, PendingKind::Max,
                             PendingKind::Min, PendingKind::Any, PendingKind::All}) {
      if (!at.pending.empty() && group(at.pending.front().second) != group(kind)) continue;
      PlanState next = at;
      std::vector<Part> run;
      for (auto p : to.pending) {
        if (p.second != kind || at.uses(p.first)) continue;
        next.pending.push_back(p);
        run.push_back(p.first);
      }
      if (run.empty()) continue;
      std::ranges::sort(next.pending);
      add({std::move(next), StepKind::MakePending, kind, std::move(run)});
    }
  }

  // --- permute ---

  // A permute needs equal shards, or shards that can be padded to a known size, which excludes symbolic dims.
  [[nodiscard]] bool equalShards() const {
    for (size_t d = 0; d < at.dims.size(); ++d) {
      const PlannedSize& n = space.shape[d];
      if (n.size != n.divisor && n.divisor % space.productOf(at.dims[d]) != 0) return false;
    }
    return true;
  }

  // Products of the runs of atoms, and the factors (negative) between them: equal lists have equal shards.
  [[nodiscard]] PartRow skeleton(const PartRow& row) const {
    PartRow out;
    for (Part p : row) {
      if (p >= 0 && !out.empty() && out.back() > 0)
        out.back() *= space.sizeOf(p);
      else
        out.push_back(p < 0 ? p : space.sizeOf(p));
    }
    return out;
  }

  void permuteTo(PlanState next) {
    if (!equalShards()) return;
    std::set<Part> all; // the atoms of the lists that change
    for (size_t d = 0; d < next.dims.size(); ++d) {
      if (next.dims[d] == at.dims[d]) continue;
      if (skeleton(next.dims[d]) != skeleton(at.dims[d])) return;
      std::copy_if(at.dims[d].begin(), at.dims[d].end(), std::inserter(all, all.end()), isAtom);
      std::copy_if(next.dims[d].begin(), next.dims[d].end(), std::inserter(all, all.end()), isAtom);
    }
    std::vector<Part> axes(all.begin(), all.end());
    if (axes.empty() || space.productOf(axes) > kMaxPairs) return;
    add({std::move(next), StepKind::Permute, PendingKind::None, std::move(axes)});
  }

  void permutes() {
    for (size_t d = 0; d < at.dims.size(); ++d) {
      if (at.dims[d] == to.dims[d]) continue;
      // The atoms that stay in this dim, in target order, before those that leave it.
      PlanState next = at;
      PartRow& row = next.dims[d];
      auto rank = [&](Part p) {
        return std::find(to.dims[d].begin(), to.dims[d].end(), p) - to.dims[d].begin();
      };
      for (size_t i = 0; i < row.size();) {
        size_t j = i;
        while (j < row.size() && isAtom(row[j])) ++j;
        std::sort(row.begin() + static_cast<ptrdiff_t>(i), row.begin() + static_cast<ptrdiff_t>(j),
                  [&](Part a, Part b) { return std::pair(rank(a), a) < std::pair(rank(b), b); });
        i = j + 1;
      }
      if (next != at) permuteTo(next);
      // The target list itself, if its atoms are free.
      next = at;
      next.dims[d].clear();
      const bool free = std::ranges::none_of(
          to.dims[d], [&](Part p) { return isAtom(p) && next.uses(static_cast<int>(p)); });
      next.dims[d] = to.dims[d];
      if (free) permuteTo(std::move(next));
    }
    PlanState next = at;
    next.dims = to.dims;
    for (auto p : at.pending)
      for (const PartRow& row : to.dims)
        if (std::find(row.begin(), row.end(), p.first) != row.end()) return;
    permuteTo(std::move(next));
  }
};

// Every collective over usable atoms, whatever the target: with these the search is exhaustive.
struct AllMoves : Moves {
  void run() {
    slices();
    scatters({}, at.pending);
    for (size_t set = 1; set < size_t{1} << std::min<size_t>(at.pending.size(), 6); ++set) reduce(set);
    forRuns(at.dims, [&](size_t e, size_t i, size_t j) {
      for (size_t d = 0; d < at.dims.size(); ++d) exchange(d, std::span(at.dims[e]).subspan(i, j - i), 1);
    });
    permuteAll();
  }

private:
  void slices() {
    for (size_t a = 0; a < space.atoms.size(); ++a) {
      if (!space.usable[a] || at.uses(static_cast<int>(a))) continue;
      const std::array run = {static_cast<Part>(a)};
      for (size_t d = 0; d < at.dims.size(); ++d)
        forInsertions(at, d, run, 1, [&](PlanState next, StepSlot split) {
          add({std::move(next), StepKind::AllSlice, PendingKind::None, {run.begin(), run.end()}, {}, split});
        });
    }
  }

  // Pending atoms in every order, scattered over every dim.
  void scatters(const std::vector<Part>& run, const std::vector<std::pair<int, PendingKind>>& left) {
    if (!run.empty())
      for (size_t d = 0; d < at.dims.size(); ++d) scatter(d, run, 1);
    for (size_t i = 0; i < left.size(); ++i) {
      std::vector<Part> longer = run;
      longer.push_back(left[i].first);
      std::vector<std::pair<int, PendingKind>> others = left;
      others.erase(others.begin() + static_cast<ptrdiff_t>(i));
      scatters(longer, others);
    }
  }

  void reduce(size_t set) {
    PlanState next = at;
    std::vector<Part> run;
    PendingKind kind = PendingKind::None;
    for (size_t i = 0; i < at.pending.size(); ++i) {
      if (!(set >> i & 1)) continue;
      if (kind != PendingKind::None && kind != at.pending[i].second) return;
      kind = at.pending[i].second;
      std::erase(next.pending, at.pending[i]);
      run.push_back(at.pending[i].first);
    }
    add({std::move(next), StepKind::AllReduce, kind, std::move(run)});
  }

  // Replaces the shard atoms by other atoms of the same sizes, in every way.
  void permuteAll() {
    if (!equalShards()) return;
    PlanState next = at;
    std::vector<std::pair<size_t, size_t>> slots; // dim, position of a run's product in its skeleton
    for (size_t d = 0; d < at.dims.size(); ++d) {
      next.dims[d] = skeleton(at.dims[d]);
      for (size_t i = 0; i < next.dims[d].size(); ++i)
        if (next.dims[d][i] > 0) slots.push_back({d, i});
    }
    if (std::find(space.atomSize.begin(), space.atomSize.end(), 1) != space.atomSize.end()) return;
    std::vector<bool> taken(space.atoms.size());
    for (auto& [atom, kind] : at.pending) taken[static_cast<size_t>(atom)] = true;
    std::vector<std::vector<Part>> filled(slots.size());
    fill(next, slots, filled, 0, taken);
  }
  void fill(const PlanState& skeletons, std::span<const std::pair<size_t, size_t>> slots,
            std::vector<std::vector<Part>>& filled, size_t at0, std::vector<bool>& taken) {
    if (at0 == slots.size()) return permuteTo(filledIn(skeletons, slots, filled));
    const auto [d, i] = slots[at0];
    const int64_t want = skeletons.dims[d][i], have = space.productOf(filled[at0]);
    if (have == want) return fill(skeletons, slots, filled, at0 + 1, taken);
    for (size_t a = 0; a < space.atoms.size(); ++a) {
      if (!space.usable[a] || taken[a] || want % (have * space.atomSize[a]) != 0) continue;
      taken[a] = true;
      filled[at0].push_back(static_cast<Part>(a));
      fill(skeletons, slots, filled, at0, taken);
      filled[at0].pop_back();
      taken[a] = false;
    }
  }
  [[nodiscard]] static PlanState filledIn(const PlanState& skeletons,
                                          std::span<const std::pair<size_t, size_t>> slots,
                                          const std::vector<std::vector<Part>>& filled) {
    PlanState next = skeletons;
    for (size_t n = slots.size(); n-- > 0;) {
      const auto [d, i] = slots[n];
      PartRow& row = next.dims[d];
      row.erase(row.begin() + static_cast<ptrdiff_t>(i));
      row.insert(row.begin() + static_cast<ptrdiff_t>(i), filled[n].begin(), filled[n].end());
    }
    return next;
  }
};

// The device with index n in the old lists sends to the device with index n in the new lists.
std::vector<std::pair<int64_t, int64_t>> pairsOf(const PlanSpace& space, const PlanState& at,
                                                 const PlanMove& move) {
  const std::vector<Part>& axes = move.run;
  auto order = [&](const PlanState& s) {
    std::vector<Part> list;
    for (size_t d = 0; d < s.dims.size(); ++d)
      if (at.dims[d] != move.next.dims[d])
        std::copy_if(s.dims[d].begin(), s.dims[d].end(), std::back_inserter(list), isAtom);
    // Followed by the atoms that only the other side shards by, so that the list identifies every device.
    for (Part p : axes)
      if (std::find(list.begin(), list.end(), p) == list.end()) list.push_back(p);
    return list;
  };
  auto indexOf = [&](const std::vector<Part>& list, int64_t n) {
    std::vector<int64_t> coordinate(space.atoms.size());
    for (size_t i = list.size(); i-- > 0; n /= space.sizeOf(list[i]))
      coordinate[static_cast<size_t>(list[i])] = n % space.sizeOf(list[i]);
    int64_t index = 0;
    for (Part p : axes) index = index * space.sizeOf(p) + coordinate[static_cast<size_t>(p)];
    return index;
  };
  const std::vector<Part> source = order(at), target = order(move.next);
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (int64_t n = 0; n < space.productOf(axes); ++n)
    pairs.push_back({indexOf(source, n), indexOf(target, n)});
  std::ranges::sort(pairs);
  return pairs;
}

} // namespace

ReshardStep stepOf(const PlanSpace& space, const PlanState& at, const PlanMove& move) {
  ReshardStep step;
  step.kind = move.kind;
  step.op = move.op;
  step.axes = space.axesOf(move.run);
  step.concat = move.concat;
  step.split = move.split;
  if (move.kind == StepKind::Permute) step.pairs = pairsOf(space, at, move);
  return step;
}

void collectMoves(const PlanSpace& space, const PlanState& at, const PlanState& to, MoveSet set,
                  std::vector<PlanMove>& out) {
  AllMoves m{{space, at, to, set, out}};
  m.makePending();
  m.makeSharded();
  m.reduces();
  if (set == MoveSet::Detours) m.park();
  m.permutes();
  m.gathers();
  if (set == MoveSet::All) m.run();
}

} // namespace dtc
