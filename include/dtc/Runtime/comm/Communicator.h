#pragma once
// The interface of communication between devices. A collective consists of parts, one per member of a group.
#include "dtc/Runtime/comm/Collective.h"
#include "dtc/Runtime/comm/Processes.h"
#include <memory>

namespace dtc {

// Called once, by any thread, when an exchange between processes is to be continued.
struct ExchangeWake {
  void (*call)(void* self, uint32_t number) = nullptr;
  void* self = nullptr;
  uint32_t number = 0;
};

class Communicator {
public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual std::string_view name() const = 0; // "local"

  // Prepares a collective; called once for each collective at load time.
  [[nodiscard]] virtual Status prepare(const CollectivePlan&) { return Ok{}; }
  // Executes or enqueues the part of `member` in a group; results are complete when the parts of all members
  // are done. Parts of one group may run in parallel on several threads. A part is called only after all
  // members have arrived (their operands are written), and operands are not overwritten before all parts are
  // done; without a rendezvous (!plan.synchronizes()) parts are independent. `operands[i * numOperands + k]` and
  // `results[…]` are operand and result k of member i; no two overlap. Results are bitwise reproducible:
  // members are combined in index order.
  [[nodiscard]] virtual Status share(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
                                     std::span<const std::byte* const> operands,
                                     std::span<std::byte* const> results) = 0;
  // Called once after the parts of all members of a group have returned, before any member continues: an
  // asynchronous communicator synchronizes the members here.
  [[nodiscard]] virtual Status settle(const CollectivePlan&, const CollectiveGroup&) { return Ok{}; }

  // The devices that this process runs. A group with others is exchanged between processes.
  [[nodiscard]] virtual DeviceSlice devices() const { return {}; }
  // In place of share() and settle() for a group with members in several processes, called when all members of this
  // process have arrived; of operands and results, only theirs are set. True: complete. False: to be called again,
  // with the same arguments, after `wake` was called.
  [[nodiscard]] virtual Result<bool> exchange(const CollectivePlan&, const CollectiveGroup&,
                                              std::span<const std::byte* const>, std::span<std::byte* const>,
                                              const ExchangeWake&) {
    return Error{Error::Bug, "this communicator has one process"};
  }
  // The processes of this host, which share its kernel cache: the index of this one, and their number.
  struct OnHost {
    int index = 0, count = 1;
  };
  [[nodiscard]] virtual OnHost onHost() const { return {}; }
  // Waits for all processes. Not during a run. Error: another process cannot go on.
  [[nodiscard]] virtual Status barrier() { return Ok{}; }
  // The same, and compares the clocks of the processes if that was long ago. Before and after a timed run.
  [[nodiscard]] virtual Status synchronizeClocks() { return Ok{}; }
  // A time of this process's steady clock in that of process 0.
  [[nodiscard]] virtual int64_t inProcess0(int64_t ns) const { return ns; }
  // After a run that has failed: writes its latest collectives (--comm-dump), once.
  virtual void dump() {}
  // Names the process that runs a device, "rank 2 on node7"; empty if there is one process.
  [[nodiscard]] virtual std::string processOf(int64_t /*coordinate*/) const { return ""; }
  // " of rank 2 on node7", to follow the name of a device; empty if there is one process.
  [[nodiscard]] std::string ofProcess(int64_t coordinate) const {
    const std::string name = processOf(coordinate);
    return name.empty() ? "" : " of " + name;
  }
  // The texts of all processes on process 0, on others an empty list. Not during a run.
  [[nodiscard]] virtual Result<std::vector<std::string>> gather(std::string_view mine) {
    return std::vector<std::string>{std::string(mine)};
  }
  // The same on all processes.
  [[nodiscard]] virtual Result<std::vector<std::string>> gatherToAll(std::string_view mine) {
    return std::vector<std::string>{std::string(mine)};
  }
};

// A communicator for devices in one address space: copies and loops. Sums of f16, bf16 and f8 accumulate in
// f32 and are rounded once. Max and min propagate NaN and order +0 above -0.
[[nodiscard]] std::unique_ptr<Communicator> makeLocalCommunicator();

// For devices of several processes, each of which runs `perProcess` of them, in the order of ranks.
struct ProcessCommunicatorOptions {
  // Sums of floats combine all members in index order, as in one process; otherwise first those of each process.
  bool fixedOrder = false;
  // When a run fails, the latest collectives of process R are written to dump-R.json if this is dump.json; empty: not.
  std::string dump;
};
// Also what another communicator needs, whose devices are in several processes too.
class ProcessCommunicator : public Communicator {
public:
  // For the dump: a group of a collective that the other one executes, by `library`; returns its number. All processes
  // declare all groups in the same order.
  [[nodiscard]] virtual uint32_t declare(const CollectivePlan&, const CollectiveGroup&,
                                         const std::string& library) = 0;
  // The devices of this process have arrived; returns the number of this arrival, for completed().
  virtual uint64_t arrived(uint32_t number) = 0;
  virtual void completed(uint64_t arrival) = 0;
  void dump() override = 0;
};
[[nodiscard]] std::unique_ptr<ProcessCommunicator>
makeProcessCommunicator(Processes& processes, int64_t perProcess, const ProcessCommunicatorOptions& options);

} // namespace dtc
