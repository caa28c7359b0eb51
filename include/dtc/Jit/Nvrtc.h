#pragma once
// CUDA source text -> PTX or cubin by NVRTC, which is opened (dlopen) at the first compile that the cache cannot answer.
// Needs neither a GPU nor a driver nor the toolkit's headers.
#include "dtc/Jit/Source.h"
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

// What ptxas says of one kernel. Bytes are per thread for stack and spills, per block for shared (static only).
struct KernelUsage {
  std::string kernel;
  int registers = 0;
  int stackBytes = 0, spillStoreBytes = 0, spillLoadBytes = 0;
  int sharedBytes = 0, constantBytes = 0;
  int barriers = 0;
};

struct CudaBinary {
  std::string image;              // PTX text, or the cubin's bytes; it may hold other units' kernels too
  std::vector<KernelUsage> usage; // of every kernel of the unit, in its order; empty for PTX
  std::string log; // all that NVRTC said of the unit and of those compiled with it (warnings too)
};

// Is `arch` a target that dtc compiles for: sm_80 and later numbers, from sm_90 on also with an "a" (instructions of that GPU alone).
// Whether the installed NVRTC knows it, is another question.
[[nodiscard]] bool isCudaArch(std::string_view arch);
[[nodiscard]] std::string cudaArchList(); // "sm_80, sm_86, …"

// What the kernels of a GPU are compiled to.
struct CudaCode {
  std::string arch;
  CudaImage image = CudaImage::Cubin;
};

// Safe to use from several threads.
class Nvrtc {
public:
  explicit Nvrtc(JitConfig config = {});
  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

  // "13.0", opening the library; the error says where it was looked for and what to install.
  [[nodiscard]] Result<std::string> version() const;

  // One binary per unit, in order; identical units are compiled once, several at a time, up to eight as one program. Units may
  // use the names of lib/Jit/Device/cuda.h, which is put before them.
  // Errors: Machine where NVRTC is missing or too old for `arch`, Bug where the source does not compile.
  [[nodiscard]] Result<std::vector<CudaBinary>> compile(std::span<const SourceUnit> units,
                                                        std::string_view arch, CudaImage image) const;
  // For a GPU of this compute capability: a cubin for itself where this NVRTC knows it; where the GPU is newer, a cubin for an
  // earlier one of its generation, which it runs as well, else PTX, which the driver compiles ("CUDA Compatibility").
  // Errors (Machine): NVRTC is missing; the GPU is older than 8.0.
  [[nodiscard]] Result<CudaCode> codeFor(int major, int minor) const;
  // What an earlier run found out about kernels, kept where they are kept: `question` says all that the answer depends on.
  [[nodiscard]] std::optional<std::string> recall(std::string_view question) const;
  void remember(std::string_view question, std::string_view answer) const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace dtc
