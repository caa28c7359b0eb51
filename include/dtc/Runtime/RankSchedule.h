#pragma once
// What each rank does with the others, in order, and whether all of it fits together. Checked when a program is loaded: ranks
// that do not issue the same collectives in the same order would wait for each other forever.
#include "dtc/IR/Module.h"
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtc {

struct RankMeeting {
  uint32_t number = 0;             // those who meet have one number, which each rank goes to once
  std::span<const int64_t> places; // who is expected, in the order of the group
  std::string what;                // "all_reduce of f32": every rank must mean the same
  OpId op;
};
using RankSchedule = std::vector<RankMeeting>;

// The rank at `place` cannot get past `op`.
struct RankProblem {
  enum Kind : uint8_t {
    Waits,    // for the rank at `other`, which is at `otherOp`, or at its end where that is invalid
    Differs,  // the rank at `other` means something else by this meeting, in `otherOp`
    Stranger, // its own group does not name it
  } kind = Waits;
  int64_t place = 0, other = 0;
  OpId op, otherOp;
};

// One schedule per place. Every rank is taken as far as it gets; nothing where all reach their ends. Linear in the schedules.
[[nodiscard]] std::optional<RankProblem> problemOfRanks(std::span<const RankSchedule> ranks);

} // namespace dtc
