#pragma once
// Collectives between GPUs by NCCL: one communicator for all places, split for each set of axes that the program's collectives
// run along. The host's one thread speaks for all ranks. A watchdog ends what does not end by itself.
#include "FlightRecorder.h"
#include "NcclExchange.h"
#include "dtc/Runtime/Communicator.h"
#include <functional>
#include <map>

namespace dtc {

class NcclCommunicator final : public Communicator {
public:
  struct Options {
    double timeoutSeconds = 600; // without a device coming any further
    std::string dump;            // the file that a failure writes the flight recorder to; "": none
  };
  // `places` outlives it. Error (Machine): NCCL refuses (two ranks on one GPU, say).
  [[nodiscard]] static Result<std::unique_ptr<NcclCommunicator>> make(const Nccl& library, CudaPlaces& places,
                                                                      const Options& options);
  [[nodiscard]] std::string_view name() const override { return "nccl"; }
  [[nodiscard]] Status prepare(const CollectivePlan& plan) override;
  [[nodiscard]] Status share(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
                             std::span<const std::byte* const> operands,
                             std::span<std::byte* const> results) override;
  [[nodiscard]] Status settle(const CollectivePlan& plan, const CollectiveGroup& group) override;
  // Waits for the work of all places, and for no longer than it goes on.
  [[nodiscard]] Status finish();
  // The same for one place.
  [[nodiscard]] Status finish(int64_t place);
  // Ends what has been started: some device may wait for one that did not come to it.
  void abandon();
  // What drops all graphs: NCCL waits, aborted or not, until those that captured its collectives are gone.
  void dropGraphsBy(std::function<void()> drop) { dropGraphs_ = std::move(drop); }
  [[nodiscard]] FlightRecorder& recorder() { return recorder_; }

private:
  struct Prepared {
    uint32_t number = 0; // the recorder's
    size_t ranks = 0;    // index into communicators_
  };
  struct Communicators {
    std::vector<int> colors, keys; // by place
    std::vector<NcclRank> ranks;   // by place
  };
  struct Waiting {
    std::span<const std::byte* const> operands;
    std::span<std::byte* const> results;
  };
  NcclCommunicator(const Nccl& library, CudaPlaces& places, Options options)
      : nccl_(library), places_(places), options_(std::move(options)), recorder_(places.count()),
        local_(makeDeviceCommunicator(places)) {}
  // Does one device do it alone, and NCCL nothing?
  [[nodiscard]] bool isLocal(const CollectivePlan& plan) const;
  [[nodiscard]] Result<size_t> communicatorsFor(const CollectivePlan& plan);
  [[nodiscard]] Status growStage(int64_t bytes);
  [[nodiscard]] Status begin(const CollectivePlan& plan, const CollectiveGroup& group,
                             const Waiting& waiting);
  [[nodiscard]] Status tell(int64_t place, uint32_t word);
  [[nodiscard]] Result<bool> isIdle(std::span<const int64_t> places);
  [[nodiscard]] Status waitFor(std::span<const int64_t> places);
  void abortAll();
  [[nodiscard]] Result<std::vector<uint32_t>> readWords() const;
  // Aborts all and says why.
  [[nodiscard]] Error broken(const std::string& why);

  Nccl nccl_;
  CudaPlaces& places_;
  Options options_;
  FlightRecorder recorder_;
  std::unique_ptr<Communicator> local_; // of what needs nobody else
  std::vector<Communicators> communicators_;
  std::map<const CollectivePlan*, Prepared> prepared_;
  std::map<const CollectiveGroup*, Waiting> waiting_;
  std::vector<CudaMemory> stage_; // by place: packed operands, then packed results
  int64_t stageBytes_ = 0;        // of each of the two
  std::vector<CudaMemory> words_; // by place: how far it is (FlightRecorder::arrivedWord)
  std::vector<CudaStream> watch_; // by place: on which the words are read
  std::function<void()> dropGraphs_;
  std::optional<Error> broken_;
};

} // namespace dtc
