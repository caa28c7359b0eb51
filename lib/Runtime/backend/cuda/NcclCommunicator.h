#pragma once
// Collectives between GPUs by NCCL: one communicator over all devices, split for each set of mesh axes in
// use. A single host thread issues the calls of all ranks. A watchdog aborts collectives that do not
// complete.
#include "backend/cuda/NcclExchange.h"
#include "comm/FlightRecorder.h"
#include "dtc/Runtime/comm/Communicator.h"
#include <functional>
#include <map>

namespace dtc {

class NcclCommunicator final : public Communicator {
public:
  struct Options {
    double timeoutSeconds = 600; // without progress on any device
    std::string dump;            // file for the flight recorder's JSON after a failure; "": none
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
    std::vector<NcclRank> ranks;   // by device
  };
  struct Waiting {
    std::span<const std::byte* const> operands;
    std::span<std::byte* const> results;
  };
  NcclCommunicator(const Nccl& library, CudaDeviceQueue& queue, Options options)
      : nccl_(library), queue_(queue), options_(std::move(options)), recorder_(queue.count()),
        local_(makeDeviceCommunicator(queue)) {}
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

  Nccl nccl_;
  CudaDeviceQueue& queue_;
  Options options_;
  FlightRecorder recorder_;
  std::unique_ptr<Communicator> local_; // for collectives without a rendezvous
  std::vector<Communicators> communicators_;
  std::map<const CollectivePlan*, Prepared> prepared_;
  std::map<const CollectiveGroup*, Waiting> waiting_;
  std::vector<CudaMemory> stage_;             // by device: packed operands, then packed results
  int64_t stageBytes_ = 0;                    // size of each of the two
  std::vector<CudaMemory> words_;             // by device: progress word (FlightRecorder::arrivedWord)
  std::vector<CudaDevice::Aside> lastWrites_; // by device: its last write within a capture
  std::vector<CudaStream> watch_;             // by device: stream for reading the words
  std::function<void()> dropGraphs_;
  std::optional<Error> broken_;
};

} // namespace dtc
