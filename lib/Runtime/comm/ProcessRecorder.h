#pragma once
// Records the collectives between processes, for `dtc trace merge`: the latest of this process in a ring buffer. The JSON
// keys are those of PyTorch's flight recorder
// (https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html), with a process group for each group of
// devices.
#include "comm/ProcessClocks.h"
#include "dtc/Runtime/comm/Collective.h"

#include <deque>
#include <map>
#include <mutex>

namespace dtc {

class ProcessRecorder {
public:
  // Registers one group of a collective, with the processes of its devices and what executes it ("mpi"); returns its number. All processes register
  // the same groups in the same order.
  uint32_t declare(const CollectivePlan& plan, const CollectiveGroup& group, std::vector<int> processes,
                   const std::string& library);
  // All devices of this process have arrived; all messages are done. By any thread.
  uint64_t arrived(uint32_t number); // returns the number of this arrival
  void completed(uint32_t number);   // its latest arrival
  void completedArrival(uint64_t arrival);
  [[nodiscard]] std::string json(const Processes& processes, const ProcessClocks& clocks) const;

private:
  struct Kind {
    std::string name, where, library; // "all_reduce"; "gpt.dt:12: 'all_reduce'"; "mpi"
    DType dtype = DType::F32;
    std::vector<int64_t> resultElements; // on the first member
    size_t group = 0;                    // of groups_
    bool isMove = false;
  };
  struct Group {
    std::vector<int64_t> devices;
    std::vector<int> processes; // ascending
    uint64_t count = 0;
  };
  struct Entry {
    uint32_t kind = 0;
    uint64_t number = 0, inGroup = 0;       // sequence numbers of the process and of the group
    int64_t arrivedNs = 0, completedNs = 0; // time of day
  };
  [[nodiscard]] std::string entryJson(const Entry& e) const;

  mutable std::mutex mutex_;
  std::vector<Kind> kinds_;
  std::vector<Group> groups_;
  std::map<std::vector<int64_t>, size_t> groupOf_; // by devices
  std::deque<Entry> ring_;
  uint64_t count_ = 0;
};

} // namespace dtc
