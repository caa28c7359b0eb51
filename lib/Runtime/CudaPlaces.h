#pragma once
// Where the devices of a mesh lie on real GPUs: each place has a stream of its own, on a GPU of its own or together with others, and
// one beside it for communication.
#include "DeviceCollectives.h"
#include "dtc/Jit/CudaDriver.h"
#include "dtc/Jit/Nvrtc.h"
#include <map>
#include <set>

namespace dtc {

// The first `count` GPUs of the driver.
[[nodiscard]] Result<std::vector<CudaDevice>> openGpus(const CudaDriver& driver, size_t count);

// Used by one thread at a time.
class CudaPlaces final : public DeviceQueue {
public:
  // Places lie on GPUs in equal stretches: p of n on gpus[p * gpus.size() / n]. `nvrtc` outlives it.
  [[nodiscard]] static Result<std::unique_ptr<CudaPlaces>> make(std::vector<CudaDevice> gpus, int64_t places,
                                                                const Nvrtc& nvrtc);
  // "8 devices on 2 GPUs (NVIDIA H200; devices 0-3, 4-7)".
  [[nodiscard]] std::string layoutText() const;
  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(places_.size()); }
  [[nodiscard]] size_t numGpus() const { return gpus_.size(); }
  [[nodiscard]] const CudaDevice& device(int64_t place) const { return gpus_[at(place).gpu]; }
  [[nodiscard]] size_t gpuOf(int64_t place) const { return at(place).gpu; }
  [[nodiscard]] const CudaStream& stream(int64_t place) const { return at(place).now().stream; }

  // Lets kernels of each GPU reach the memory of the others, where the machine can. Gives how many pairs cannot.
  [[nodiscard]] Result<size_t> connect(const CudaDriver& driver);

  // Compiles units for each GPU; their kernels are launched by name from then on. `shared`: the dynamic shared memory that each
  // is launched with, in bytes; none: none.
  [[nodiscard]] Status load(std::span<const SourceUnit> units, std::span<const int> shared = {});
  [[nodiscard]] bool has(const std::string& kernel) const { return kernels_.contains(kernel); }
  [[nodiscard]] const CudaFunction& function(int64_t place, const std::string& kernel) const;

  // Starts work on a place's stream: work(device, stream).
  template <class Work> [[nodiscard]] Status start(int64_t place, const Work& work) {
    Place& p = at(place);
    p.now().recorded = false;
    return work(gpus_[p.gpu], p.now().stream);
  }
  // Waits until all places have done what was started.
  [[nodiscard]] Status synchronize();
  [[nodiscard]] Status synchronize(int64_t place) { return device(place).synchronize(stream(place)); }

  // What is started from here on becomes a graph. `together`: one graph of all places, which may wait for each other; else one
  // for each. Nothing may wait for what was started before.
  [[nodiscard]] Status beginCapture(bool together);
  struct Graph {
    bool together = false;
    std::vector<CudaGraph> parts; // one, or by place
  };
  [[nodiscard]] Result<Graph> endCapture(bool together);
  [[nodiscard]] Status launch(const Graph& graph);

  // The first of `places` waits for the others; the others wait for the first.
  [[nodiscard]] Status gather(std::span<const int64_t> places);
  [[nodiscard]] Status spread(std::span<const int64_t> places);
  // What `places` start between the two is captured as the body of a conditional node (CudaDevice::beginBody), of streams of its
  // own. Bodies stand within each other as deep as was reserved.
  [[nodiscard]] Status reserveBodies(size_t depth);
  [[nodiscard]] Status enterBody(std::span<const int64_t> places, void* body);
  [[nodiscard]] Status leaveBody(std::span<const int64_t> places);

  // What a place starts between beginAside() and endAside() goes to its stream for communication (OverlapBackend).
  [[nodiscard]] Status reserveAside(size_t joins);
  [[nodiscard]] Status beginAside(int64_t place);
  [[nodiscard]] Status endAside(int64_t place, uint32_t join);
  [[nodiscard]] Status join(int64_t place, uint32_t join);
  // Has a place done all that was started? Without waiting.
  [[nodiscard]] Result<bool> idle(int64_t place) const;

  // A point in a place's work; its time is known when the work is done.
  [[nodiscard]] Result<CudaEvent> mark(int64_t place);

  Status compile(const SourceUnit& unit) override { return load(std::span(&unit, 1)); }
  Status launch(int64_t place, const std::string& kernel, int64_t elements, std::span<void*> arguments,
                std::span<const DeviceBuffer> buffers = {}) override;
  Status copy(int64_t place, std::byte* to, const std::byte* from, int64_t bytes) override;
  Status copyBetween(int64_t place, std::byte* to, int64_t toPlace, const std::byte* from, int64_t fromPlace,
                     int64_t bytes) override;
  bool reaches(int64_t place, int64_t other) const override {
    return gpuOf(place) == gpuOf(other) || reaches_.contains({gpuOf(place), gpuOf(other)});
  }
  Status reserve(int64_t place, int64_t bytes) override;
  std::byte* reserved(int64_t place) override { return static_cast<std::byte*>(at(place).room.get); }
  Status clear(int64_t place, std::byte* to, int64_t bytes) override;
  Status waitFor(int64_t place, std::span<const int64_t> others) override;
  Status meet(std::span<const int64_t> places) override;

private:
  struct Lane {
    CudaStream stream;
    CudaEvent event;       // after all that was started or waited for, where
    bool recorded = false; // is true
  };
  struct Place {
    size_t gpu = 0, depth = 0;
    CudaMemory room;                // reserved()
    std::vector<Lane> lanes;        // by depth: within how many bodies
    std::vector<Lane> sideLanes;    // the same, for communication
    std::vector<CudaEvent> arrived; // by number of join: behind what ended aside
    bool aside = false;
    Lane& now() { return (aside ? sideLanes : lanes)[depth]; }
    [[nodiscard]] const Lane& now() const { return (aside ? sideLanes : lanes)[depth]; }
  };
  CudaPlaces(std::vector<CudaDevice> gpus, const Nvrtc& nvrtc) : gpus_(std::move(gpus)), nvrtc_(nvrtc) {}
  Place& at(int64_t place) { return places_[static_cast<size_t>(place)]; }
  [[nodiscard]] const Place& at(int64_t place) const { return places_[static_cast<size_t>(place)]; }
  [[nodiscard]] Result<Lane> lane(size_t gpu, bool aside) const;
  [[nodiscard]] Status growLanes(Place& p, std::vector<Lane>& lanes, size_t depth) const;
  // The event of a lane, behind all that was started there.
  [[nodiscard]] Status recordNow(Place& p);

  std::vector<CudaDevice> gpus_;
  const Nvrtc& nvrtc_;
  std::vector<Place> places_;
  std::set<std::pair<size_t, size_t>> reaches_; // GPUs: kernels of the first and memory of the second
  std::vector<int64_t> all_;                    // places
  std::map<std::string, std::vector<CudaFunction>> kernels_; // by GPU
};

} // namespace dtc
