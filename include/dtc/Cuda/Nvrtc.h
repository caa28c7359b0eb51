#pragma once
// Compiles CUDA source text to PTX or cubin with NVRTC, which is opened (dlopen) at the first compile that is
// not in the cache. Needs neither a GPU nor a driver nor the toolkit's headers.
#include "dtc/Jit/Source.h"
#include "dtc/Support/NonCopyable.h"
#include "dtc/Support/Result.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

enum class CudaImage : uint8_t { Ptx, Cubin };

// ptxas's report on one kernel. Bytes are per thread for stack and spills, per block for shared (static
// only).
struct KernelUsage {
  std::string kernel;
  int registers = 0;
  int stackBytes = 0, spillStoreBytes = 0, spillLoadBytes = 0;
  int sharedBytes = 0, constantBytes = 0;
  int barriers = 0;
};

struct CudaBinary {
  std::string image;              // PTX text, or the cubin's bytes; it may contain other units' kernels too
  std::vector<KernelUsage> usage; // of every kernel of the unit, in order; empty for PTX
  std::string log;                // all messages for the unit and those compiled with it (warnings too)
};

// The compile target of a GPU.
struct CudaCode {
  std::string arch;
  CudaImage image = CudaImage::Cubin;
};

// Thread-safe.
class Nvrtc : NonCopyable {
public:
  explicit Nvrtc(JitConfig config = {});
  ~Nvrtc();

  // "13.0"; opens the library. The error lists the searched locations and the package to install.
  [[nodiscard]] Result<std::string> version() const;

  // One binary per unit, in order; identical units are compiled once, several at a time, up to eight as one
  // program. Units may use the names of lib/Kernel/device/cuda.h, which is prepended.
  //
  // Errors: Machine where NVRTC is missing or too old for `arch`, Bug where the source does not compile.
  [[nodiscard]] Result<std::vector<CudaBinary>> compile(std::span<const SourceUnit> units,
                                                        std::string_view arch, CudaImage image) const;
  // For a GPU of this compute capability: its own cubin if this NVRTC supports it; for a newer GPU a cubin
  // for an earlier one of its generation, which it also runs, else PTX, which the driver compiles ("CUDA
  // Compatibility"). Errors (Machine): NVRTC is missing; the GPU is older than 8.0.
  [[nodiscard]] Result<CudaCode> codeFor(int major, int minor) const;
  // Facts about kernels found by an earlier run, stored in the kernel cache: `question` contains all that the
  // answer depends on.
  [[nodiscard]] std::optional<std::string> recall(std::string_view question) const;
  void remember(std::string_view question, std::string_view answer) const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace dtc
