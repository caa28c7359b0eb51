#pragma once
// Maps devices of a mesh to GPUs: each device has a compute stream, on its own GPU or shared with others, and
// a communication stream.
#include "backend/DeviceCollectives.h"
#include "dtc/Cuda/CudaDriver.h"
#include "dtc/Cuda/Nvrtc.h"
#include "dtc/Runtime/comm/Processes.h"
#include <map>
#include <set>

namespace dtc {

// Workspace limit of one cuDNN call.
inline constexpr size_t kMaxWorkspaceBytes = size_t{1} << 30;
// Rounded up to the alignment of device allocations.
[[nodiscard]] inline size_t alignedBytes(size_t bytes) { return (bytes + 255) / 256 * 256; }

[[nodiscard]] Result<std::vector<CudaDevice>> openGpus(const CudaDriver& driver,
                                                       std::span<const int> ordinals);

// Not thread-safe.
class CudaDeviceQueue final : public DeviceQueue {
public:
  // Assigns the devices of this process to GPUs in equal contiguous ranges: p of n to gpus[p * gpus.size() / n].
  // `nvrtc` must outlive it.
  [[nodiscard]] static Result<std::unique_ptr<CudaDeviceQueue>> make(std::vector<CudaDevice> gpus,
                                                                     DeviceSlice devices, const Nvrtc& nvrtc);
  // "8 devices on 2 GPUs (NVIDIA H200; devices 0-3, 4-7)".
  [[nodiscard]] std::string layoutText() const;
  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(devices_.size()); }
  // The devices of this process.
  [[nodiscard]] const std::vector<int64_t>& all() const { return all_; }
  [[nodiscard]] DeviceSlice slice() const { return {first_, first_ + count()}; }
  // The index of a device among them.
  [[nodiscard]] size_t indexOf(int64_t coordinate) const { return static_cast<size_t>(coordinate - first_); }
  [[nodiscard]] size_t numGpus() const { return gpus_.size(); }
  [[nodiscard]] const CudaDevice& device(int64_t coordinate) const { return gpus_[at(coordinate).gpu]; }
  [[nodiscard]] size_t gpuOf(int64_t coordinate) const { return at(coordinate).gpu; }
  [[nodiscard]] const CudaStream& stream(int64_t coordinate) const { return at(coordinate).now().stream; }

  // Later work of all devices waits for what is enqueued in a stream of the caller, of the first device's GPU.
  [[nodiscard]] Status waitForStream(void* stream);

  // Enables peer access between GPUs. Returns the number of pairs without it.
  [[nodiscard]] Result<size_t> connect(const CudaDriver& driver);

  // Compiles units for each GPU; their kernels are then launched by name. `shared`: dynamic shared memory of
  // each launch in bytes; empty: none.
  [[nodiscard]] Status load(std::span<const SourceUnit> units, std::span<const int> shared = {});
  [[nodiscard]] bool has(const std::string& kernel) const { return kernels_.contains(kernel); }
  [[nodiscard]] const CudaFunction& function(int64_t coordinate, const std::string& kernel) const;

  // Enqueues work on a device's stream: work(device, stream).
  template <class Work> [[nodiscard]] Status start(int64_t coordinate, const Work& work) {
    DeviceState& p = at(coordinate);
    p.now().recorded = false;
    return work(gpus_[p.gpu], p.now().stream);
  }
  // Synchronizes with all devices.
  [[nodiscard]] Status synchronize();
  [[nodiscard]] Status synchronize(int64_t coordinate) {
    return device(coordinate).synchronize(stream(coordinate));
  }

  // Begins capture. `together`: one graph over all devices, which may wait for each other; else one graph per
  // device. Captured work must not wait for earlier work.
  [[nodiscard]] Status beginCapture(bool together);
  struct Graph {
    bool together = false;
    std::vector<CudaGraph> parts; // one, or by device
  };
  [[nodiscard]] Result<Graph> endCapture(bool together);
  [[nodiscard]] Status launch(const Graph& graph);

  // gather: the first of `coordinates` waits for the others; spread: the others wait for the first.
  [[nodiscard]] Status gather(std::span<const int64_t> coordinates);
  [[nodiscard]] Status spread(std::span<const int64_t> coordinates);
  // Work enqueued between the two calls is captured as the body of a conditional node
  // (CudaDevice::beginBody), with its own streams. Bodies can be nested up to the reserved depth.
  [[nodiscard]] Status reserveBodies(size_t depth);
  [[nodiscard]] Status enterBody(std::span<const int64_t> coordinates, void* body);
  [[nodiscard]] Status leaveBody(std::span<const int64_t> coordinates);

  // Work between beginOverlap() and endOverlap() goes to the device's communication stream (OverlapBackend).
  [[nodiscard]] Status reserveOverlap(size_t joins);
  [[nodiscard]] Status beginOverlap(int64_t coordinate);
  [[nodiscard]] Status endOverlap(int64_t coordinate, uint32_t join);
  [[nodiscard]] Status join(int64_t coordinate, uint32_t join);
  // Whether a device has completed all enqueued work; does not wait.
  [[nodiscard]] Result<bool> idle(int64_t coordinate) const;

  // Enqueues work that takes longer than enqueueing a few steps does, about 50 µs, and replaces what L2 holds. A
  // mark on an idle device would be stamped when it arrives, and a kernel after it microseconds later.
  [[nodiscard]] Status occupy(int64_t coordinate);
  // A mark in a device's work; its time is available when the work has completed.
  [[nodiscard]] Result<CudaEvent> mark(int64_t coordinate);

  Status compile(const SourceUnit& unit) override { return load(std::span(&unit, 1)); }
  Status launch(int64_t coordinate, const std::string& kernel, int64_t elements, std::span<void*> arguments,
                std::span<const DeviceBuffer> buffers = {}) override;
  Status copy(int64_t coordinate, std::byte* to, const std::byte* from, int64_t bytes) override;
  Status copyBetween(int64_t coordinate, std::byte* to, int64_t toCoordinate, const std::byte* from,
                     int64_t fromCoordinate, int64_t bytes) override;
  bool reaches(int64_t coordinate, int64_t other) const override {
    // Nothing is copied from or to devices of other processes.
    if (!slice().contains(coordinate) || !slice().contains(other)) return true;
    return gpuOf(coordinate) == gpuOf(other) || reaches_.contains({gpuOf(coordinate), gpuOf(other)});
  }
  Status reserve(int64_t coordinate, int64_t bytes) override;
  std::byte* reserved(int64_t coordinate) override {
    return static_cast<std::byte*>(at(coordinate).room.get);
  }
  Status clear(int64_t coordinate, std::byte* to, int64_t bytes) override;
  Status waitFor(int64_t coordinate, std::span<const int64_t> others) override;
  Status rendezvous(std::span<const int64_t> coordinates) override;

private:
  struct Lane {
    CudaStream stream;
    CudaEvent event; // after all enqueued work and waits, if `recorded`
    bool recorded = false;
  };
  struct DeviceState {
    size_t gpu = 0, depth = 0;
    CudaMemory room;                // reserved()
    std::vector<Lane> lanes;        // by nesting depth of bodies
    std::vector<Lane> commLanes;    // communication lanes, by nesting depth
    std::vector<CudaEvent> arrived; // by join number: end of the overlapped work
    bool overlapped = false;
    Lane& now() { return (overlapped ? commLanes : lanes)[depth]; }
    [[nodiscard]] const Lane& now() const { return (overlapped ? commLanes : lanes)[depth]; }
  };
  CudaDeviceQueue(std::vector<CudaDevice> gpus, const Nvrtc& nvrtc) : gpus_(std::move(gpus)), nvrtc_(nvrtc) {}
  DeviceState& at(int64_t coordinate) { return devices_[indexOf(coordinate)]; }
  [[nodiscard]] const DeviceState& at(int64_t coordinate) const { return devices_[indexOf(coordinate)]; }
  [[nodiscard]] Result<Lane> lane(size_t gpu, bool overlapped) const;
  [[nodiscard]] Status growLanes(DeviceState& p, std::vector<Lane>& lanes, size_t depth) const;
  // A lane's event, after all its enqueued work.
  [[nodiscard]] Status recordNow(DeviceState& p);

  std::vector<CudaDevice> gpus_;
  std::optional<CudaEvent> external_; // of waitForStream()
  std::vector<CudaMemory> occupied_;  // by GPU, allocated by the first occupy()
  const Nvrtc& nvrtc_;
  int64_t first_ = 0;
  std::vector<DeviceState> devices_;
  std::set<std::pair<size_t, size_t>> reaches_; // pairs (a, b): kernels on GPU a can access memory of GPU b
  std::vector<int64_t> all_;                    // all devices
  std::map<std::string, std::vector<CudaFunction>> kernels_; // by GPU
};

} // namespace dtc
