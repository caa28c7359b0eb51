#pragma once
// What compiled code says about the speed of one launch of a kernel, found without a GPU from PTX, the
// compiler's report and the launch's sizes; and an estimate of its speed by the machine model
// (Target/GpuModel.h).
#include "dtc/Cuda/FitKernels.h"
#include "dtc/Target/GpuModel.h"

namespace dtc {

// A launch: a kernel's schedule, with the sizes that it is called with.
struct KernelLaunch {
  int64_t blocks = 0;
  std::vector<int64_t> sizes;         // the size arguments
  std::vector<int64_t> argumentBytes; // of each buffer
  std::vector<int> elementBytes;      // the same, of an element
  uint32_t inputs = 0;                // of the buffers: the first ones
  // By buffer: the buffer in whose memory it is (an input that is updated in place).
  std::vector<uint32_t> memoryOf;
  int64_t bytes = 0, elements = 0; // each buffer read or written once; elements of the largest one
};

// How a kernel accesses one argument.
struct ArgumentFacts {
  int wanted = 16;        // bytes of an access that is as wide as the kernel's dtypes allow
  int widest = 0;         // bytes of the widest access; 0: none was seen
  int usual = 0;          // bytes of the access that moves most bytes
  int64_t run = 0;        // contiguous bytes that a block touches, usually
  bool divisible = false; // into 16 bytes: the runs' begins and lengths
  bool stored = false, ofData = false;
  double traffic = 0; // bytes of the launch, requested
  double sectors = 0; // 32-byte sectors that warps request, times 32
};

struct KernelFacts {
  std::string kernel;
  KernelUsage usage;
  int threadsPerBlock = 0;
  int64_t blocks = 0, sharedBytes = 0;  // shared: static and dynamic
  int blocksAtOnce = 0;                 // per multiprocessor
  bool traced = false;                  // the PTX was there; what follows is 0 otherwise
  int activeThreads = 0;                // of a block: those that access global memory
  int divisions = 0, loopDivisions = 0; // of 64-bit integers, in the text; in loops
  std::vector<ArgumentFacts> arguments; // by buffer: inputs first
  uint32_t inputs = 0;
  // Of an active thread.
  double loadedBytes = 0, waits = 0, cycles = 0;
  // Of the launch.
  double issue = 0, special = 0, f64 = 0, sharedTraffic = 0, tensorFlops = 0, traffic = 0, sectors = 0;
  // Loads that are under way at a time, per multiprocessor, if memory is not the limit; and how many must be.
  double bytesInFlight = 0, bytesNeeded = 0;
  bool byData = false;             // branches depend on loaded values
  bool cutOff = false;             // longer than what was traced: at least this
  int64_t bytes = 0, elements = 0; // of the launch
  [[nodiscard]] double instructionsPerElement() const;
  [[nodiscard]] double activeShare() const;
  [[nodiscard]] bool isSample() const; // the work depends on data, and little of it was seen
  // An argument with a part in the traffic whose rows divide into 16 bytes, but that is not accessed so.
  [[nodiscard]] bool isNarrow(size_t argument) const;
  [[nodiscard]] bool isStrided(size_t argument) const; // sectors of which few bytes are used
};

[[nodiscard]] KernelFacts kernelFacts(const FittedKernel&, std::string_view ptx, const KernelLaunch&,
                                      const GpuModel&);

// The roofline's share that a launch is expected to reach.
struct KernelEstimate {
  double seconds = 0, rooflineSeconds = 0;
  int percent = 0;    // 0: unknown (there was no PTX)
  bool small = false; // its time is mostly that of a launch
  std::string reason; // what it is limited by, where it is not memory at full speed
};
[[nodiscard]] KernelEstimate estimate(const KernelFacts&, const GpuModel&);

// A defect that a kernel should not have, by name ("local-memory"), and its text. What small kernels (below
// kSmallBytes) may have is not reported.
struct KernelComplaint {
  std::string kind, text;
};
inline constexpr int64_t kSmallBytes = 1 << 20;
[[nodiscard]] std::vector<KernelComplaint> complaints(const KernelFacts&, const GpuModel&);

} // namespace dtc
