#pragma once
// NVIDIA GPUs through the driver's own interface (libcuda.so.1), which is opened at run time. Every call names itself, the
// device and the driver's reason in its error (Machine). Objects give back what they hold; all of them keep the driver and
// the device's context alive.
#include "dtc/Support/Result.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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
  int sharedPerBlock = 0; // the most that a kernel can ask for, bytes
  int pciDomain = 0, pciBus = 0, pciDevice = 0;
  // The target that kernels are compiled for: "sm_90a" on 9.0, "sm_100a" on 10.0, else "sm_" and the numbers.
  [[nodiscard]] std::string arch() const;
};

// The opened driver.
class CudaDriver {
public:
  // Error: no driver on this machine (says how one gets it), or it does not start, or it has no device.
  [[nodiscard]] static Result<CudaDriver> open(const std::string& library = "libcuda.so.1");
  [[nodiscard]] const std::vector<CudaDeviceInfo>& devices() const { return devices_; }
  [[nodiscard]] int version() const { return version_; } // 13000 is 13.0
  // Can kernels on GPU `from` read and write the memory of GPU `to`?
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
struct CudaCapture : CudaHandle {}; // a graph that was captured
struct CudaGraph : CudaHandle {};   // instantiated
struct CudaFunction : CudaHandle {
  std::string name;
}; // lives as long as its module, which it holds
struct CudaMemory : CudaHandle {
  size_t bytes = 0;
}; // of the device
struct CudaHostMemory : CudaHandle {
  size_t bytes = 0;
}; // page-locked, of the host

struct CudaDim {
  uint32_t x = 1, y = 1, z = 1;
};

// One GPU: its primary context. Safe to use from several threads; each call makes the context current on its thread.
class CudaDevice {
public:
  [[nodiscard]] static Result<CudaDevice> open(const CudaDriver& driver, int ordinal);
  [[nodiscard]] const CudaDeviceInfo& info() const;

  [[nodiscard]] Result<CudaMemory> allocate(size_t bytes) const; // 256-byte aligned, not cleared
  [[nodiscard]] Result<CudaHostMemory> allocateHost(size_t bytes) const;
  // Does not wait for the default stream. `first`: blocks of its kernels go before those of other streams that wait for room.
  [[nodiscard]] Result<CudaStream> stream(bool first = false) const;
  [[nodiscard]] Result<CudaEvent> event(bool timing = false) const;
  [[nodiscard]] Result<CudaModule> load(std::string_view image) const; // a cubin, or PTX text
  // `dynamicShared`: the most that launches of it will ask for, in bytes.
  [[nodiscard]] Result<CudaFunction> function(const CudaModule& module, const std::string& name,
                                              int dynamicShared = 0) const;

  // In stream order; they return before the work is done. Host memory that is not page-locked is copied before the return.
  [[nodiscard]] Status copyIn(void* device, const void* host, size_t bytes, const CudaStream& stream) const;
  [[nodiscard]] Status copyOut(void* host, const void* device, size_t bytes, const CudaStream& stream) const;
  [[nodiscard]] Status copy(void* to, const void* from, size_t bytes, const CudaStream& stream) const;
  // Between two GPUs, one of which this is: directly where they reach each other, else by way of the host.
  [[nodiscard]] Status copyPeer(void* to, const CudaDevice& toDevice, const void* from,
                                const CudaDevice& fromDevice, size_t bytes, const CudaStream& stream) const;
  // Lets kernels of this GPU read and write the other's memory (where CudaDriver::reaches says that they can).
  [[nodiscard]] Status reach(const CudaDevice& other) const;
  [[nodiscard]] Status fill(void* device, uint8_t byte, size_t bytes, const CudaStream& stream) const;
  [[nodiscard]] Status fillWord(void* device, uint32_t word, const CudaStream& stream) const; // 4 bytes
  [[nodiscard]] Status launch(const CudaFunction& function, CudaDim grid, CudaDim block, uint32_t sharedBytes,
                              void** args, const CudaStream& stream) const;
  [[nodiscard]] Status record(const CudaEvent& event, const CudaStream& stream) const;
  [[nodiscard]] Status wait(const CudaStream& stream,
                            const CudaEvent& event) const; // the stream, not the caller

  [[nodiscard]] Status
  synchronize(const CudaStream& stream) const; // the caller waits; errors of kernels appear here
  [[nodiscard]] Status synchronize(const CudaEvent& event) const;
  [[nodiscard]] Result<bool> idle(const CudaStream& stream) const; // without waiting
  [[nodiscard]] Result<float> milliseconds(const CudaEvent& begin, const CudaEvent& end) const;

  // What is started on `stream` (and on streams that wait for it) between these two becomes a graph instead of running.
  [[nodiscard]] Status beginCapture(const CudaStream& stream) const;
  [[nodiscard]] Result<CudaCapture> endCapture(const CudaStream& stream) const;
  // Not before this thread has ended all its captures: what is made here needs memory on the device.
  [[nodiscard]] Result<CudaGraph> instantiate(const CudaCapture& captured, const CudaStream& stream) const;
  [[nodiscard]] Status launch(const CudaGraph& graph, const CudaStream& stream) const;

  // Conditional nodes of a graph that is captured (drivers of CUDA 12.4 and later). A handle belongs to the graph that `stream` is
  // captured to; kernels set its value, and so often does the body of its one node run: once if it is not 0, or, of a `loop`, as
  // long as it is not. A body has kernels of this GPU, copies, fills and conditional nodes.
  [[nodiscard]] bool hasConditionals() const;
  [[nodiscard]] Result<uint64_t> conditionHandle(const CudaStream& stream) const;
  // The node comes after all that `stream` has, and before what follows. Gives the body, which is captured next.
  [[nodiscard]] Result<void*> addConditional(const CudaStream& stream, uint64_t handle, bool loop) const;
  [[nodiscard]] Status beginBody(const CudaStream& stream, void* body) const;
  [[nodiscard]] Status endBody(const CudaStream& stream) const;
  // The kernels that set handles, as PTX for load(): `dtc_set_condition` and `dtc_next_trip` (lib/Jit/CudaConditions.cpp).
  [[nodiscard]] static std::string_view conditionKernels();

  struct Impl;
  // For libraries that work in the current context (cuBLASLt): makes it current on this thread.
  [[nodiscard]] Status makeCurrent() const;

private:
  explicit CudaDevice(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

} // namespace dtc
