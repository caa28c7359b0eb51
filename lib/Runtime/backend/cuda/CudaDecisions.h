#pragma once
// Captures control flow as conditional graph nodes: `cond`, `while` and `for`. A node belongs to devices on
// one GPU that share a rendezvous; the predicate of the first decides for all, so that they never diverge.
#include "backend/cuda/CudaDeviceQueue.h"
#include "dtc/Runtime/backend/Backend.h"

namespace dtc {

class CudaDecisions {
public:
  // `queue` must outlive it.
  explicit CudaDecisions(CudaDeviceQueue& queue) : queue_(queue) {}
  // Whether these devices can share conditional nodes. Loads their kernels.
  [[nodiscard]] bool possible(std::span<const int64_t> coordinates);
  // Why the driver, which supports conditional nodes, did not load their kernels; "" if it did.
  [[nodiscard]] const std::string& whyNot() const { return whyNot_; }
  // Called before the first capture; see GraphBackend::prepareDecisions.
  [[nodiscard]] Status prepare(size_t depth, size_t counters);
  // See GraphBackend.
  [[nodiscard]] Status branch(std::span<const int64_t> coordinates, const std::byte* predicate,
                              const GraphBackend::Body& then, const GraphBackend::Body& otherwise);
  [[nodiscard]] Status loop(std::span<const int64_t> coordinates, const GraphBackend::Loop& loop,
                            const GraphBackend::Body& body);
  [[nodiscard]] Status count(std::span<const int64_t> coordinates, std::span<std::byte* const> indices,
                             GraphBackend::Range range, const GraphBackend::Body& body);
  [[nodiscard]] Result<GraphBackend::Decided> decided();

private:
  using Group = std::span<const int64_t>;
  [[nodiscard]] bool load();
  struct Gpu {
    CudaModule module;
    CudaFunction set, next;
  };
  [[nodiscard]] Status set(int64_t coordinate, uint64_t handle, uint64_t otherwise,
                           const GraphBackend::Loop& loop);
  [[nodiscard]] Status next(Group coordinates, std::span<std::byte* const> indices, uint64_t handle,
                            GraphBackend::Range range, bool first);
  // Adds a node whose body captures the work of `body`.
  [[nodiscard]] Status node(Group coordinates, uint64_t handle, bool loop, const GraphBackend::Body& body);
  [[nodiscard]] uint32_t* words(int64_t coordinate) const {
    return static_cast<uint32_t*>(words_[static_cast<size_t>(coordinate)].get);
  }

  CudaDeviceQueue& queue_;
  std::vector<Gpu> gpus_; // empty before load()
  std::string whyNot_;
  // By device: the number of decisions, the number of the loop that exceeded its limit (0: none), and the
  // iteration count of each loop.
  std::vector<CudaMemory> words_;
  uint64_t asked_ = 0; // total over devices at the last decided()
};

} // namespace dtc
