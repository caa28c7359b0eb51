#pragma once
// Convolutions on the CPU: oneDNN primitives, split into parallel parts.
#include "backend/PointerSlots.h"
#include "backend/cpu/OneDnnLibrary.h"
#include "backend/cpu/PackedOperands.h"
#include "dtc/Runtime/backend/Backend.h"
#include "dtc/Support/NonCopyable.h"
#include <array>

namespace dtc {

class CpuConvs : NonCopyable {
public:
  CpuConvs(const DtcOneDnnTable& oneDnn, PackedOperands& packed) : oneDnn_(oneDnn), packed_(packed) {}
  ~CpuConvs();

  // Empty if oneDNN does not support the convolution. Error (Machine): out of memory and similar. At most
  // `maxParts` parts.
  [[nodiscard]] Result<std::optional<Backend::Placed>> place(const PlacedConv&, int64_t maxParts);
  // Scratch bytes of one part, 64-byte aligned.
  [[nodiscard]] size_t scratchBytes() const { return scratchBytes_; }
  // Whether an infinity or NaN is multiplied with zero padding: the result must be NaN, but oneDNN skips
  // padding.
  [[nodiscard]] bool paddingMatters(uint32_t step) const;
  // The contents of the range do not change until the next call of either function, or of `rebind`: what they imply is
  // computed once.
  void keep(size_t range);
  void release(size_t range);
  // Runs one part of a step; parts may run in parallel, each with its own scratch.
  [[nodiscard]] Status run(uint32_t step, uint32_t part, void* scratch) const;
  // See RebindBackend.
  void addPointers(PointerSlots& slots);
  void rebind(const MemoryRange& from, size_t range, std::byte* to) const;

private:
  struct Part {
    std::optional<PlacedConv>
        filled;                   // set to the bias or 0 first: elements that the convolution does not write
    void* made = nullptr;         // the plugin's primitive; null if empty
    const void* window = nullptr; // its address, as placed
    bool missing = false;         // unsupported by oneDNN
  };
  struct Step {
    std::vector<Part> parts;
    // The factor multiplied with padding; null: no padding.
    const std::byte* factor = nullptr;
    size_t factorBytes = 0;
    DType dtype = DType::F32;
    std::array<const void*, 4> tensors = {}; // of the whole convolution
    bool kept = false, keptMatters = false;  // whether padding matters, if the factor is kept
  };
  [[nodiscard]] Result<Part> partOf(const PlacedConv&);
  [[nodiscard]] static bool factorIsNonFinite(const Step&);

  const DtcOneDnnTable& oneDnn_;
  PackedOperands& packed_;
  std::vector<Step> steps_;
  std::vector<std::vector<void*>> usersOf_;      // by range: the plugin's primitives that use it
  std::vector<std::vector<uint32_t>> factorsOf_; // by range: the steps whose factor is in it
  size_t scratchBytes_ = 0;
};

} // namespace dtc
