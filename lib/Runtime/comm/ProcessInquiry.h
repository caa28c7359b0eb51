#pragma once
// What processes answer when one has waited too long for the others.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

struct ProcessInquiry {
  bool active = false;
  int64_t endNs = 0; // no answer is waited for any longer
  std::string reason;
  bool certain = false; // the run fails, also if all answer
  std::optional<int64_t>
      sinceNs; // the start of the wait that it is about; if that has ended, there is no failure
  // By rank: "2,3 gpt.dt:12:8: 'all_reduce'", for whom it waits and where; "" if it does not wait. None: no answer.
  std::vector<std::optional<std::string>> answers;

  [[nodiscard]] bool isComplete() const;
  [[nodiscard]] int firstAnswer() const; // the first rank that has answered
  // One line about those that answer, but have not come; "" if another process than `rank` writes it, or all have come.
  [[nodiscard]] std::string note(int rank, const std::function<std::string(int)>& nameOf) const;
  // The reason, and which processes do not answer, have not come to the collective, or wait for which.
  // `nameOf`: "rank 2 on node7". `onDevices`: this process waits for its devices.
  [[nodiscard]] std::string diagnosis(const std::function<std::string(int)>& nameOf, bool terminated,
                                      bool onDevices) const;
};

} // namespace dtc
