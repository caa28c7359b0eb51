#pragma once
#include "dtc/Jit/CudaDriver.h"
#include "dtc/Runtime/Communicator.h"
#include <map>
#include <mutex>

namespace dtc {

// The streams of one GPU, one per place.
class CudaStreams {
public:
  explicit CudaStreams(const CudaDevice& device) : device_(device) {}
  [[nodiscard]] Result<CudaStream> of(int64_t place);
  [[nodiscard]] Status synchronize();

private:
  CudaDevice device_;
  std::mutex mutex_;
  std::map<int64_t, CudaStream> streams_;
};

// Collectives between the places of one GPU: operands come to the host, the local communicator does the work there (so
// the results are its results, bit for bit), and results go back, all in the order of the places' streams.
class CudaCommunicator final : public Communicator {
public:
  CudaCommunicator(const CudaDevice& device, CudaStreams& streams)
      : device_(device), streams_(streams), local_(makeLocalCommunicator()) {}
  [[nodiscard]] std::string_view name() const override { return "local"; }
  [[nodiscard]] Status share(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
                             std::span<const std::byte* const> operands,
                             std::span<std::byte* const> results) override;
  [[nodiscard]] Status settle(const CollectivePlan& plan, const CollectiveGroup& group) override;

private:
  struct Buffers {
    std::span<const std::byte* const> operands;
    std::span<std::byte* const> results;
  };
  // The shares of members [first, last), which read operands of those members only.
  [[nodiscard]] Status carry(const CollectivePlan& plan, const CollectiveGroup& group, size_t first,
                             size_t last, Buffers buffers);

  CudaDevice device_;
  CudaStreams& streams_;
  std::unique_ptr<Communicator> local_;
  std::mutex mutex_;
  std::map<const CollectiveGroup*, Buffers> waiting_; // groups whose members have begun to come
};

} // namespace dtc
