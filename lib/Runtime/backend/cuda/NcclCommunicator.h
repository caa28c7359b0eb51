#pragma once
// Collectives between GPUs by NCCL: one communicator over all devices, split for each set of mesh axes in
// use. A single host thread issues the calls of all ranks. A watchdog aborts collectives that do not
// complete.
#include "backend/cuda/NcclExchange.h"
#include "backend/cuda/NcclProcesses.h"
#include "comm/FlightRecorder.h"
#include "dtc/Runtime/comm/Communicator.h"
#include <functional>
#include <map>

namespace dtc {

class NcclCommunicator final : public Communicator {
public:
  struct Options {
    double timeoutSeconds = 600;    // without progress on any device
    std::string dump;               // file for the flight recorder's JSON after a failure; "": none
    Processes* processes = nullptr; // that the devices are in; null: all in this one
    std::string fewGpus;            // why devices share one; else empty
  };
  // `queue` must outlive it. Error (Machine): NCCL fails, for example with two ranks on one GPU.
  [[nodiscard]] static Result<std::unique_ptr<NcclCommunicator>>
  make(const Nccl& library, CudaDeviceQueue& queue, const Options& options);
  [[nodiscard]] std::string_view name() const override { return "nccl"; }
  [[nodiscard]] Status prepare(const CollectivePlan& plan) override;
  [[nodiscard]] Status share(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
                             std::span<const std::byte* const> operands,
                             std::span<std::byte* const> results) override;
  [[nodiscard]] Status settle(const CollectivePlan& plan, const CollectiveGroup& group) override;
  [[nodiscard]] DeviceSlice devices() const override { return across_ ? queue_.slice() : DeviceSlice(); }
  [[nodiscard]] Result<bool> exchange(const CollectivePlan& plan, const CollectiveGroup& group,
                                      std::span<const std::byte* const> operands,
                                      std::span<std::byte* const> results, const ExchangeWake& wake) override;
  // By messages between the processes.
  [[nodiscard]] OnHost onHost() const override { return across_ ? messages().onHost() : OnHost(); }
  [[nodiscard]] Status barrier() override { return across_ ? messages().barrier() : Ok{}; }
  [[nodiscard]] Status synchronizeClocks() override {
    return across_ ? messages().synchronizeClocks() : Ok{};
  }
  [[nodiscard]] int64_t inProcess0(int64_t ns) const override {
    return across_ ? messages().inProcess0(ns) : ns;
  }
  [[nodiscard]] std::string processOf(int64_t coordinate) const override {
    return across_ ? messages().processOf(coordinate) : "";
  }
  [[nodiscard]] Result<std::vector<std::string>> gather(std::string_view mine) override {
    return across_ ? messages().gather(mine) : Communicator::gather(mine);
  }
  [[nodiscard]] Result<std::vector<std::string>> gatherToAll(std::string_view mine) override {
    return across_ ? messages().gatherToAll(mine) : Communicator::gatherToAll(mine);
  }
  void dump() override {
    if (across_) messages().dump();
  }
  // Waits for the work of all devices, up to the timeout without progress.
  [[nodiscard]] Status finish();
  // The same for one device.
  [[nodiscard]] Status finish(int64_t coordinate);
  // Aborts enqueued work: some device may wait for one that will not arrive.
  void abandon();
  // A callback that destroys all graphs: destroying a NCCL communicator, aborted or not, waits for graphs
  // that captured its collectives.
  void dropGraphsBy(std::function<void()> drop) { dropGraphs_ = std::move(drop); }
  [[nodiscard]] FlightRecorder& recorder() { return recorder_; }

private:
  struct Prepared {
    uint32_t number = 0; // in the flight recorder
    size_t ranks = 0;    // index into communicators_
  };
  struct Communicators {
    std::vector<int> colors, keys; // by device
    std::vector<NcclRank> ranks;   // by device of this process
  };
  struct Waiting {
    std::span<const std::byte* const> operands;
    std::span<std::byte* const> results;
  };
  NcclCommunicator(const Nccl& library, CudaDeviceQueue& queue, Options options)
      : nccl_(library), queue_(queue), options_(std::move(options)),
        numDevices_(queue.count() * (options_.processes ? options_.processes->size() : 1)),
        recorder_(numDevices_), local_(makeDeviceCommunicator(queue)) {
    if (options_.processes)
      across_ = std::make_unique<NcclProcesses>(*options_.processes, queue, options_.dump, options_.fewGpus);
  }
  [[nodiscard]] ProcessCommunicator& messages() const { return across_->messages(); }
  [[nodiscard]] Result<std::vector<NcclRank>> createRanks();
  // Whether the collective is local to each device, without NCCL.
  [[nodiscard]] bool isLocal(const CollectivePlan& plan) const;
  [[nodiscard]] Result<size_t> communicatorsFor(const CollectivePlan& plan);
  [[nodiscard]] Status growStage(int64_t bytes);
  [[nodiscard]] Status begin(const CollectivePlan& plan, const CollectiveGroup& group,
                             const Waiting& waiting);
  [[nodiscard]] Status tell(int64_t coordinate, uint32_t word);
  [[nodiscard]] Result<bool> isIdle(std::span<const int64_t> coordinates);
  [[nodiscard]] Status waitFor(std::span<const int64_t> coordinates);
  void abortAll();
  [[nodiscard]] Result<std::vector<uint32_t>> readWords() const;
  // Aborts all communicators and returns the error.
  [[nodiscard]] Error broken(const std::string& why);
  // The same where the devices are in several processes.
  [[nodiscard]] Error brokenAcross(const Error& why);
  // Where the first of the devices of this process that is in a collective is.
  [[nodiscard]] std::optional<FlightRecorder::Place> placeOf(const std::vector<uint32_t>& words) const;
  // In several processes: tells the others how long this one has waited. Error: the run has failed.
  [[nodiscard]] Status lookAcross(const Status& health, const std::vector<uint32_t>& words, int64_t movedNs);

  Nccl nccl_;
  CudaDeviceQueue& queue_;
  Options options_;
  int64_t numDevices_; // of all processes
  FlightRecorder recorder_;
  std::unique_ptr<NcclProcesses> across_; // null: one process
  std::unique_ptr<Communicator> local_;   // for collectives without a rendezvous
  std::vector<Communicators> communicators_;
  std::map<const CollectivePlan*, Prepared> prepared_;
  std::map<const CollectiveGroup*, Waiting> waiting_;
  // By device of this process:
  std::vector<CudaMemory> stage_;             // by device: packed operands, then packed results
  int64_t stageBytes_ = 0;                    // size of each of the two
  std::vector<CudaMemory> words_;             // by device: progress word (FlightRecorder::arrivedWord)
  std::vector<CudaDevice::Aside> lastWrites_; // by device: its last write within a capture
  std::vector<CudaStream> watch_;             // by device: stream for reading the words
  std::function<void()> dropGraphs_;
  std::optional<Error> broken_;
};

} // namespace dtc
