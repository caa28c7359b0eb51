#pragma once
// Matrix products on the CPU: oneDNN's, cut into pieces of work, each followed by what stands behind the product (private to
// lib/Runtime).
#include "OneDnnLibrary.h"
#include "dtc/Runtime/Backend.h"

namespace dtc {

// KernelSource says what it does.
using CpuKernelFunction = void(void* const* buffers, const int64_t* sizes, int64_t begin, int64_t end,
                               void* scratch);

class CpuGemms {
public:
  explicit CpuGemms(const JitConfig& config) : config_(config) {}
  ~CpuGemms();
  CpuGemms(const CpuGemms&) = delete;
  CpuGemms& operator=(const CpuGemms&) = delete;

  [[nodiscard]] bool isOpen() const { return oneDnn_ != nullptr; }
  // Error (Machine): the plugin is not there.
  [[nodiscard]] Status open();
  [[nodiscard]] const DtcOneDnnTable& oneDnn() const { return *oneDnn_; } // once open
  // `function`, `source`: of the epilogue, null where there is none. Cut into at most `maxParts` parts.
  [[nodiscard]] Result<Backend::Placed> place(const PlacedGemm&, CpuKernelFunction* function,
                                              const KernelSource* source, int64_t maxParts);
  // Does one part of a step; parts may run at the same time.
  [[nodiscard]] Status run(uint32_t step, uint32_t part, void* scratch) const;

private:
  struct Product {
    void* made = nullptr;    // by the plugin
    bool transposed = false; // of b and a, not a and b
  };
  // Products that run one after the other, then the epilogue over what they wrote.
  struct Block {
    std::vector<Product> products;
    std::optional<PlacedGemm> gemm; // the whole, where an operand is looked up
    std::vector<int64_t> sizes;     // of the epilogue
    int64_t units = 0;
  };
  struct Step {
    PlacedGemm gemm;
    bool empty = false; // a product over no elements
    CpuKernelFunction* function = nullptr;
    std::vector<std::vector<Block>> parts;
  };
  Status products(const PlacedGemm& given, bool transposed, std::vector<Product>& out);
  Status addPart(Step& step, const KernelSource* source, size_t axis, int64_t begin, int64_t count);

  JitConfig config_;
  const DtcOneDnnTable* oneDnn_ = nullptr;
  std::vector<Step> steps_;
};

} // namespace dtc
