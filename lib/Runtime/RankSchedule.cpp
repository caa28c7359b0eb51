#include "dtc/Runtime/RankSchedule.h"

#include <algorithm>
#include <unordered_map>

namespace dtc {

namespace {

class Rehearsal {
public:
  explicit Rehearsal(std::span<const RankSchedule> ranks) : ranks_(ranks), next_(ranks.size(), 0) {
    for (size_t p = ranks.size(); p-- > 0;) ready_.push_back(static_cast<int64_t>(p));
  }

  std::optional<RankProblem> run() {
    while (!ready_.empty()) {
      const int64_t place = ready_.back();
      ready_.pop_back();
      if (auto problem = arrive(place)) return problem;
    }
    for (size_t p = 0; p < ranks_.size(); ++p)
      if (const RankMeeting* at = current(static_cast<int64_t>(p)))
        return missing(static_cast<int64_t>(p), *at);
    return std::nullopt;
  }

private:
  const RankMeeting* current(int64_t place) const {
    const auto p = static_cast<size_t>(place);
    return next_[p] < ranks_[p].size() ? &ranks_[p][next_[p]] : nullptr;
  }

  std::optional<RankProblem> arrive(int64_t place) {
    const RankMeeting* at = current(place);
    if (!at) return std::nullopt;
    if (std::ranges::find(at->places, place) == at->places.end())
      return RankProblem{RankProblem::Stranger, place, place, at->op, at->op};
    auto [it, first] = waiting_.try_emplace(at->number, Waiting{at, place, 0});
    const Waiting& w = it->second;
    if (!first && (w.meeting->what != at->what || !std::ranges::equal(w.meeting->places, at->places)))
      return RankProblem{RankProblem::Differs, place, w.place, at->op, w.meeting->op};
    if (++it->second.arrived < at->places.size()) return std::nullopt;
    for (int64_t p : at->places) {
      ++next_[static_cast<size_t>(p)];
      ready_.push_back(p);
    }
    return std::nullopt;
  }

  RankProblem missing(int64_t place, const RankMeeting& at) const {
    for (int64_t other : at.places) {
      const RankMeeting* there = current(other);
      if (!there || there->number != at.number)
        return {RankProblem::Waits, place, other, at.op, there ? there->op : OpId()};
    }
    return {RankProblem::Stranger, place, place, at.op, at.op};
  }

  struct Waiting {
    const RankMeeting* meeting; // as the first who came has it
    int64_t place;              // of that one
    size_t arrived;
  };
  std::span<const RankSchedule> ranks_;
  std::vector<size_t> next_;
  std::vector<int64_t> ready_; // that may have a meeting before them
  std::unordered_map<uint32_t, Waiting> waiting_;
};

} // namespace

std::optional<RankProblem> problemOfRanks(std::span<const RankSchedule> ranks) {
  return Rehearsal(ranks).run();
}

} // namespace dtc
