#pragma once
// Convolutions on the CPU: oneDNN's, split into parts that run at the same time.
#include "OneDnnLibrary.h"
#include "dtc/Runtime/Backend.h"

namespace dtc {

class CpuConvs {
public:
  explicit CpuConvs(const DtcOneDnnTable& oneDnn) : oneDnn_(oneDnn) {}
  ~CpuConvs();
  CpuConvs(const CpuConvs&) = delete;
  CpuConvs& operator=(const CpuConvs&) = delete;

  // Nothing where oneDNN has no such convolution. Error (Machine): out of memory and the like. At most `maxParts` parts.
  [[nodiscard]] Result<std::optional<Backend::Placed>> place(const PlacedConv&, int64_t maxParts);
  // Of one part, with 64-byte alignment.
  [[nodiscard]] size_t scratchBytes() const { return scratchBytes_; }
  // Whether an infinity or NaN is multiplied with the padding's zeros, which oneDNN leaves out: the sum is NaN, but not oneDNN's.
  [[nodiscard]] bool paddingMatters(uint32_t step) const;
  // Does one part of a step; parts may run at the same time, each with a scratch of its own.
  [[nodiscard]] Status run(uint32_t step, uint32_t part, void* scratch) const;

private:
  struct Part {
    std::optional<PlacedConv>
        filled;           // first set to the bias or 0: what the convolution itself does not write
    void* made = nullptr; // by the plugin; null over no elements
    bool missing = false; // oneDNN has none
  };
  struct Step {
    std::vector<Part> parts;
    std::span<const std::byte> factor; // what padding is multiplied with; empty: there is no padding
    DType dtype = DType::F32;
  };
  [[nodiscard]] Result<Part> partOf(const PlacedConv&);

  const DtcOneDnnTable& oneDnn_;
  std::vector<Step> steps_;
  size_t scratchBytes_ = 0;
};

} // namespace dtc
