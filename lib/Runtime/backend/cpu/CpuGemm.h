#pragma once
// Matmuls on the CPU: oneDNN primitives, split into parts, each followed by its epilogue.
#include "backend/PointerSlots.h"
#include "backend/cpu/OneDnnLibrary.h"
#include "dtc/Runtime/backend/Backend.h"
#include "dtc/Support/NonCopyable.h"

namespace dtc {

// See KernelSource.
using CpuKernelFunction = void(void* const* buffers, const int64_t* sizes, int64_t begin, int64_t end,
                               void* scratch);

class CpuGemms : NonCopyable {
public:
  explicit CpuGemms(const JitConfig& config) : config_(config) {}
  ~CpuGemms();

  [[nodiscard]] bool isOpen() const { return oneDnn_ != nullptr; }
  // Error (Machine): the plugin is missing.
  [[nodiscard]] Status open();
  [[nodiscard]] const DtcOneDnnTable& oneDnn() const { return *oneDnn_; } // requires open()
  // `function`, `source`: of the epilogue, or null. The parts do not depend on the number of threads.
  [[nodiscard]] Result<Backend::Placed> place(const PlacedGemm&, CpuKernelFunction* function,
                                              const KernelSource* source);
  // Runs one part of a step; parts may run in parallel.
  [[nodiscard]] Status run(uint32_t step, uint32_t part, void* scratch) const;
  // See RebindBackend.
  void addPointers(PointerSlots& slots);
  void rebind(const MemoryRange& from, size_t range, std::byte* to) const;

private:
  struct Product {
    void* made = nullptr;    // the plugin's primitive
    bool transposed = false; // computes the transposed matmul, with b and a exchanged
  };
  // Matmuls that run in sequence, followed by the epilogue over their result.
  struct Block {
    std::vector<Product> products;
    std::optional<PlacedGemm> gemm; // the full matmul, if a row index is read at run time
    std::vector<int64_t> sizes;     // of the epilogue kernel
    int64_t units = 0;
  };
  struct Step {
    PlacedGemm gemm;
    bool empty = false; // no elements
    CpuKernelFunction* function = nullptr;
    std::vector<std::vector<Block>> parts;
  };
  Status products(const PlacedGemm& given, bool transposed, std::vector<Product>& out);
  Status addPart(Step& step, const KernelSource* source, const PlacedGemm& part);

  JitConfig config_;
  const DtcOneDnnTable* oneDnn_ = nullptr;
  std::vector<Step> steps_;
  std::vector<std::vector<void*>> usersOf_; // by range: the plugin's primitives that use it
};

} // namespace dtc
