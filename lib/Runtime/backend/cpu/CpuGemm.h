#pragma once
// Matmuls on the CPU: oneDNN primitives, split into parts, each followed by its epilogue.
#include "backend/PointerSlots.h"
#include "backend/cpu/ByteGemm.h"
#include "backend/cpu/OneDnnLibrary.h"
#include "backend/cpu/PackedOperands.h"
#include "dtc/Runtime/backend/Backend.h"
#include "dtc/Support/NonCopyable.h"

namespace dtc {

// See KernelSource.
using CpuKernelFunction = void(void* const* buffers, const int64_t* sizes, int64_t begin, int64_t end,
                               void* scratch);

class CpuGemms : NonCopyable {
public:
  // `asConvs`: f32 products may run as convolutions with windows of one point, for which oneDNN has kernels that read b
  // packed.
  // `ownBytes`: products of bytes are ByteGemm's, not oneDNN's.
  CpuGemms(const JitConfig& config, PackedOperands& packed, bool asConvs, bool ownBytes)
      : config_(config), packed_(packed), asConvs_(asConvs), ownBytes_(ownBytes) {}
  ~CpuGemms();

  [[nodiscard]] bool isOpen() const { return oneDnn_ != nullptr; }
  // Error (Machine): the plugin is missing.
  [[nodiscard]] Status open();
  [[nodiscard]] const DtcOneDnnTable& oneDnn() const { return *oneDnn_; } // requires open()
  // `function`, `source`: of the epilogue, or null. The parts do not depend on the number of threads.
  [[nodiscard]] Result<Backend::Placed> place(const PlacedGemm&, CpuKernelFunction* function,
                                              const KernelSource* source);
  // Scratch bytes of one part, besides those of its epilogue; 64-byte aligned.
  [[nodiscard]] size_t scratchBytes() const { return scratchBytes_; }
  // Runs one part of a step; parts may run in parallel, each with its own scratch.
  [[nodiscard]] Status run(uint32_t step, uint32_t part, void* scratch) const;
  // See RebindBackend.
  void addPointers(PointerSlots& slots);
  void rebind(const MemoryRange& from, size_t range, std::byte* to);
  // See RebindBackend; between them, the ranges of `packed` are kept and released.
  void beforeKeeping(size_t range);
  void chooseKernels(size_t range);

private:
  struct Product {
    void* made = nullptr;                    // the plugin's matmul; null: always a convolution, or of bytes
    const void* b = nullptr;                 // of it, as created
    std::shared_ptr<ByteGemm> bytes;         // null: not of bytes
    bool transposed = false;                 // computes the transposed matmul, with b and a exchanged
    std::unique_ptr<DtcConv> asConv;         // null: cannot be a convolution
    void* conv = nullptr;                    // the plugin's convolution, if it is made
    std::shared_ptr<PackableOperand> window; // of it, or b of the matmul
    bool runsConv = false;
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
  // A product that uses a range.
  struct User {
    Product* product;
    bool asWindow; // b is in it
  };
  Status products(const PlacedGemm& given, bool transposed, std::vector<Product>& out);
  [[nodiscard]] void* makeConv(const DtcConv& conv);
  void addWindow(Product& p, size_t range); // of its convolution
  Status addPart(Step& step, const KernelSource* source, const PlacedGemm& part);

  JitConfig config_;
  PackedOperands& packed_;
  bool asConvs_, ownBytes_;
  const DtcOneDnnTable* oneDnn_ = nullptr;
  std::vector<Step> steps_;
  std::vector<std::vector<User>> usersOf_; // by range
  struct Bound {
    MemoryRange from;
    std::byte* to = nullptr; // null: as placed
  };
  std::vector<Bound> bound_; // by range
  size_t scratchBytes_ = 0;
};

} // namespace dtc
