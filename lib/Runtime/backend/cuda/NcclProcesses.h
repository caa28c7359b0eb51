#pragma once
// What NCCL's communicator needs where the devices are in several processes: messages of the host for its id, for operands
// of host ops, and about failures; NCCL itself does not say which process it waits for.
#include "backend/cuda/CudaDeviceQueue.h"
#include "comm/FlightRecorder.h"
#include "dtc/Cuda/Nccl.h"
#include "dtc/Runtime/comm/Communicator.h"

#include <deque>
#include <functional>
#include <map>

namespace dtc {

// The GPUs of each process: which of those that it sees are its own.
struct ProcessGpus {
  std::vector<int> ordinals; // of this process; fewer than its devices: some share one
  std::string few;           // then: "the 4 devices on node1 need 4 GPUs, and there are 2"
};
// All processes call it, each with the GPUs that it sees. On each host, GPUs are given to processes in the order of ranks,
// to each the first that it sees and that are not given yet: launchers may show all of them to each process, or each its own.
[[nodiscard]] Result<ProcessGpus> gpusOfProcess(Processes& processes, std::span<const CudaDeviceInfo> visible,
                                                int64_t perProcess);

class NcclProcesses {
public:
  // `dump`: see ProcessCommunicatorOptions.
  // `fewGpus`: why some devices share a GPU, which NCCL may reject; else empty.
  NcclProcesses(Processes& processes, CudaDeviceQueue& queue, const std::string& dump, std::string fewGpus)
      : processes_(processes), queue_(queue), recorded_(!dump.empty()), fewGpus_(std::move(fewGpus)),
        messages_(makeProcessCommunicator(processes, queue.count(), {true, dump})) {}
  [[nodiscard]] ProcessCommunicator& messages() { return *messages_; }
  [[nodiscard]] Processes& processes() { return processes_; }
  [[nodiscard]] int64_t numDevices() const { return queue_.count() * processes_.size(); }

  // A call that waits for the other processes, in a thread of its own: if one of them fails, that thread is left alone, and
  // an error is returned. `what`: for reports.
  using Ranks = Result<std::vector<NcclRank>>;
  [[nodiscard]] Ranks together(const std::string& what, std::function<Ranks()> call);
  // The id of a new communicator, made by process 0.
  [[nodiscard]] Result<std::string> id(const Nccl& library);

  // See Communicator::exchange, of a host op: reads the operands of this process first.
  [[nodiscard]] Result<bool> exchange(const CollectivePlan& plan, const CollectiveGroup& group,
                                      std::span<const std::byte* const> operands,
                                      std::span<std::byte* const> results, const ExchangeWake& wake);

  // A collective is enqueued, with its number in the flight recorder.
  void declare(uint32_t collective, const CollectivePlan& plan);
  void enqueued(uint32_t collective, const CollectivePlan& plan, const CollectiveGroup& group);
  // This process waits: `since` when its devices have made no progress, by the steady clock, and where the first of them is.
  void waits(int64_t sinceNs, const std::optional<FlightRecorder::Place>& at);
  void goesOn() { processes_.waits(std::nullopt); }
  // The error of a run that has failed, in which this process waits `at` a collective; writes the dump. `words`: by device
  // of this process.
  [[nodiscard]] Error failed(const Error& why, const std::optional<FlightRecorder::Place>& at,
                             std::span<const uint32_t> words);

private:
  struct Enqueued {
    uint32_t collective = 0;
    uint64_t arrival = 0; // of the recorder of messages_
    const std::vector<int64_t>* devices = nullptr;
  };
  void recordCompleted(std::span<const uint32_t> words);

  Processes& processes_;
  CudaDeviceQueue& queue_;
  bool recorded_;
  std::string fewGpus_;
  std::unique_ptr<ProcessCommunicator> messages_;
  std::map<const CollectiveGroup*, std::vector<std::vector<std::byte>>> staged_; // of host ops under way
  std::map<const CollectiveGroup*, uint32_t> declared_;
  std::deque<Enqueued> enqueued_; // the latest
};

} // namespace dtc
