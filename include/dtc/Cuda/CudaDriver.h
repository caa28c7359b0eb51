#pragma once
// NVIDIA GPUs through the driver API (libcuda.so.1), which is opened at run time. Every error (Machine) names
// the call, the device and the driver's reason. Objects release what they own; all of them keep the driver
// and the device's context alive.
#include "dtc/Support/Result.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

struct CudaTable; // the driver's functions

struct CudaDeviceInfo {
  int ordinal = 0;
  std::string name; // "NVIDIA H200"
  int major = 0, minor = 0;
  uint64_t memoryBytes = 0;
  int multiprocessors = 0;
  int sharedPerBlock = 0; // the maximum that a kernel can request, bytes
  int pciDomain = 0, pciBus = 0, pciDevice = 0;
  // The target that kernels are compiled for: "sm_90a" on 9.0, "sm_100a" on 10.0, else "sm_" and the numbers.
  [[nodiscard]] std::string arch() const;
};

// The opened driver.
class CudaDriver {
public:
  // Error: no driver on this machine (with how to install one), or it does not start, or it has no device.
  [[nodiscard]] static Result<CudaDriver> open(const std::string& library = "libcuda.so.1");
  [[nodiscard]] const std::vector<CudaDeviceInfo>& devices() const { return devices_; }
  [[nodiscard]] int version() const { return version_; } // 13000 is 13.0
  // True if kernels on GPU `from` can read and write the memory of GPU `to`.
  [[nodiscard]] bool reaches(int from, int to) const;
  [[nodiscard]] const std::shared_ptr<const CudaTable>& table() const { return table_; }

private:
  std::shared_ptr<const CudaTable> table_;
  std::vector<CudaDeviceInfo> devices_;
  int version_ = 0;
};

// An owned handle of the driver.
struct CudaHandle {
  void* get = nullptr;
  std::shared_ptr<const void> owner; // its deleter destroys the handle
};

struct CudaStream : CudaHandle {};
struct CudaEvent : CudaHandle {};
struct CudaModule : CudaHandle {};
struct CudaCapture : CudaHandle {}; // a captured graph
struct CudaGraph : CudaHandle {};   // instantiated
struct CudaFunction : CudaHandle {
  std::string name;
}; // keeps its module alive
struct CudaMemory : CudaHandle {
  size_t bytes = 0;
}; // of the device

struct CudaDim {
  uint32_t x = 1, y = 1, z = 1;
};

// One GPU: its primary context. Thread-safe; each call makes the context current on its thread.
class CudaDevice {
public:
  [[nodiscard]] static Result<CudaDevice> open(const CudaDriver& driver, int ordinal);
  [[nodiscard]] const CudaDeviceInfo& info() const;

  [[nodiscard]] Result<CudaMemory> allocate(size_t bytes) const; // 256-byte aligned, not cleared
  // Does not synchronize with the default stream. `first`: high priority for blocks of its kernels.
  [[nodiscard]] Result<CudaStream> stream(bool first = false) const;
  [[nodiscard]] Result<CudaEvent> event(bool timing = false) const;
  [[nodiscard]] Result<CudaModule> load(std::string_view image) const; // a cubin, or PTX text
  // `dynamicShared`: the maximum that its launches request, in bytes.
  [[nodiscard]] Result<CudaFunction> function(const CudaModule& module, const std::string& name,
                                              int dynamicShared = 0) const;

  // Asynchronous, in stream order. Host memory that is not page-locked is copied before the return.
  [[nodiscard]] Status copyIn(void* device, const void* host, size_t bytes, const CudaStream& stream) const;
  [[nodiscard]] Status copyOut(void* host, const void* device, size_t bytes, const CudaStream& stream) const;
  [[nodiscard]] Status copy(void* to, const void* from, size_t bytes, const CudaStream& stream) const;
  // Between two GPUs, one of which is this one: peer to peer where possible, else through the host.
  [[nodiscard]] Status copyPeer(void* to, const CudaDevice& toDevice, const void* from,
                                const CudaDevice& fromDevice, size_t bytes, const CudaStream& stream) const;
  // Lets kernels of this GPU access the other's memory (where CudaDriver::reaches returns true).
  [[nodiscard]] Status reach(const CudaDevice& other) const;
  [[nodiscard]] Status fill(void* device, uint8_t byte, size_t bytes, const CudaStream& stream) const;
  [[nodiscard]] Status fillWord(void* device, uint32_t word, const CudaStream& stream) const; // 4 bytes
  // The same on a captured stream, by a node that later work of the stream does not wait for; such writes are in
  // order among themselves. Without graph nodes (CUDA before 12.3), it is fillWord().
  struct Aside {
    uint64_t capture = 0;
    void *graph = nullptr, *node = nullptr; // the last write
  };
  [[nodiscard]] Status fillWordAside(void* device, uint32_t word, const CudaStream& stream,
                                     Aside& last) const;
  [[nodiscard]] Status launch(const CudaFunction& function, CudaDim grid, CudaDim block, uint32_t sharedBytes,
                              void** args, const CudaStream& stream) const;
  [[nodiscard]] Status record(const CudaEvent& event, const CudaStream& stream) const;
  [[nodiscard]] Status wait(const CudaStream& stream,
                            const CudaEvent& event) const; // blocks the stream, not the caller

  [[nodiscard]] Status
  synchronize(const CudaStream& stream) const; // blocks the caller; errors of kernels are reported here
  [[nodiscard]] Result<bool> idle(const CudaStream& stream) const; // without blocking
  [[nodiscard]] Result<float> milliseconds(const CudaEvent& begin, const CudaEvent& end) const;

  // Work enqueued on `stream` (and on streams that wait for it) in between is captured into a graph instead
  // of running.
  [[nodiscard]] Status beginCapture(const CudaStream& stream) const;
  [[nodiscard]] Result<CudaCapture> endCapture(const CudaStream& stream) const;
  // Only after this thread has ended all its captures: instantiation allocates device memory.
  [[nodiscard]] Result<CudaGraph> instantiate(const CudaCapture& captured, const CudaStream& stream) const;
  [[nodiscard]] Status launch(const CudaGraph& graph, const CudaStream& stream) const;

  // Conditional nodes of a captured graph (drivers of CUDA 12.4 and later). A handle belongs to the graph
  // into which `stream` is captured; kernels set its value, which determines how often the body of its one
  // node runs: once if it is not 0, or, for a `loop`, as long as it is not. A body contains kernels of this
  // GPU, copies, fills and conditional nodes.
  [[nodiscard]] bool hasConditionals() const;
  [[nodiscard]] Result<uint64_t> conditionHandle(const CudaStream& stream) const;
  // Adds the node after all work in `stream`, and before what follows. Returns the body, which is captured
  // next.
  [[nodiscard]] Result<void*> addConditional(const CudaStream& stream, uint64_t handle, bool loop) const;
  [[nodiscard]] Status beginBody(const CudaStream& stream, void* body) const;
  [[nodiscard]] Status endBody(const CudaStream& stream) const;

  struct Impl;
  // For libraries that use the current context (cuBLASLt): makes it current on this thread.
  [[nodiscard]] Status makeCurrent() const;

private:
  explicit CudaDevice(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// The kernels that set handles of conditional nodes, as PTX for CudaDevice::load(): `dtc_set_condition` and
// `dtc_next_iteration`.
[[nodiscard]] std::string_view cudaConditionKernels();

} // namespace dtc
