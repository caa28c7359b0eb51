#pragma once
// Control flow that a graph does by itself: `cond`, `while` and `for` as conditional nodes, while a graph is captured. A node is of
// the places that decide together, all on one GPU; the first of them is asked, so that they never part.
#include "CudaPlaces.h"
#include "dtc/Runtime/Backend.h"

namespace dtc {

class CudaDecisions {
public:
  // `places` outlives it.
  explicit CudaDecisions(CudaPlaces& places) : places_(places) {}
  // Can places decide together without the host?
  [[nodiscard]] bool possible(std::span<const int64_t> places) const;
  // Called before the first capture; as GraphBackend::prepareDecisions.
  [[nodiscard]] Status prepare(size_t depth, size_t counters);
  // As those of GraphBackend.
  [[nodiscard]] Status branch(std::span<const int64_t> places, const std::byte* predicate,
                              const GraphBackend::Body& then, const GraphBackend::Body& otherwise);
  [[nodiscard]] Status loop(std::span<const int64_t> places, const GraphBackend::Loop& loop,
                            const GraphBackend::Body& body);
  [[nodiscard]] Status count(std::span<const int64_t> places, std::span<std::byte* const> indices,
                             GraphBackend::Trips trips, const GraphBackend::Body& body);
  [[nodiscard]] Result<GraphBackend::Decided> decided();

private:
  using Group = std::span<const int64_t>;
  struct Gpu {
    CudaModule module;
    CudaFunction set, next;
  };
  [[nodiscard]] Status set(int64_t place, uint64_t handle, uint64_t otherwise,
                           const GraphBackend::Loop& loop);
  [[nodiscard]] Status next(Group places, std::span<std::byte* const> indices, uint64_t handle,
                            GraphBackend::Trips trips, bool first);
  // A node whose body is what `body` starts.
  [[nodiscard]] Status node(Group places, uint64_t handle, bool loop, const GraphBackend::Body& body);
  [[nodiscard]] uint32_t* words(int64_t place) const {
    return static_cast<uint32_t*>(words_[static_cast<size_t>(place)].get);
  }

  CudaPlaces& places_;
  std::vector<Gpu> gpus_;
  // By place: how often it was asked, the number of the loop that made one trip too many (0: none), and a count of trips for each
  // loop.
  std::vector<CudaMemory> words_;
  uint64_t asked_ = 0; // of all places, when decided() was called last
};

} // namespace dtc
