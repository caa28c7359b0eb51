#pragma once
// The clocks of the processes of a run, compared by messages. Hosts count from their start, so their steady clocks differ
// by any amount; those of the time of day differ by what NTP leaves.
#include "dtc/Runtime/comm/Processes.h"

namespace dtc {

[[nodiscard]] int64_t steadyNs(); // of this process's steady clock

class ProcessClocks {
public:
  // All processes call it, outside of a run. Rounds of two messages between process 0 and each other one give the offset
  // of their clocks; the round with the shortest time under way is used, as by Cristian (Probabilistic clock
  // synchronization, Distributed Computing 3, 1989), with the four times of NTP (RFC 5905, section 8).
  [[nodiscard]] Status compare(Processes& processes);
  // A time of this process's steady clock in that of process 0: linear between two comparisons.
  [[nodiscard]] int64_t inProcess0(int64_t ns) const;
  // What is to be subtracted from the time of day of this process.
  [[nodiscard]] int64_t timeOfDayOffsetNs() const { return timeOfDayNs_; }
  // The offset is known up to this: half the time under way of the shortest round.
  [[nodiscard]] int64_t errorNs() const { return samples_.empty() ? 0 : samples_.back().errorNs; }

  struct Sample {
    int64_t ns = 0, offsetNs = 0, errorNs = 0; // of the steady clock
  };
  void add(const Sample& sample) { samples_.push_back(sample); }

private:
  std::vector<Sample> samples_; // empty: this is process 0, or clocks were not compared
  int64_t timeOfDayNs_ = 0;
};

// One round: when each message was sent and received, by the clock of that process.
struct ClockRound {
  int64_t sent = 0, received = 0, answered = 0, back = 0; // process 0, other, other, process 0
};
// The offset of the other process's clock, and its error, from the best of some rounds.
[[nodiscard]] ProcessClocks::Sample bestOf(std::span<const ClockRound> rounds);

} // namespace dtc
