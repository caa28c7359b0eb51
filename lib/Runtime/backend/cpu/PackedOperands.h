#pragma once
// Operands of library calls (windows of convolutions, b of a matmul), in the layout that the library's kernel reads,
// packed once as long as the argument that they are part of does not change.
#include "backend/cpu/OneDnnLibrary.h"
#include "dtc/Runtime/backend/Backend.h"
#include "dtc/Support/NonCopyable.h"
#include <memory>

namespace dtc {

// A call's operand that can be read packed.
class PackableOperand {
public:
  virtual ~PackableOperand() = default;
  [[nodiscard]] virtual size_t packedBytes() const = 0; // 0: the call reads the operand as it is
  // Whether both read the same packed bytes, given the same operand.
  [[nodiscard]] virtual bool packsLike(const PackableOperand&) const = 0;
  [[nodiscard]] virtual bool pack(std::byte* to) const = 0; // 64-byte aligned; false: failed
  // Later runs read it from `packed`; null: they pack it themselves.
  virtual void usePacked(std::byte* packed) = 0;
};

// The window of a convolution of the plugin.
class ConvWindow final : public PackableOperand {
public:
  ConvWindow(const DtcOneDnnTable& oneDnn, void* conv) : oneDnn_(oneDnn), conv_(conv) {}
  [[nodiscard]] size_t packedBytes() const override { return oneDnn_.packedBytes(conv_); }
  [[nodiscard]] bool packsLike(const PackableOperand& other) const override {
    const auto* window = dynamic_cast<const ConvWindow*>(&other);
    return window && oneDnn_.packAlike(conv_, window->conv_);
  }
  [[nodiscard]] bool pack(std::byte* to) const override { return oneDnn_.packWindow(conv_, to) == 0; }
  void usePacked(std::byte* packed) override { oneDnn_.usePacked(conv_, packed); }

private:
  const DtcOneDnnTable& oneDnn_;
  void* conv_;
};

// b of a matmul of the plugin.
class GemmOperand final : public PackableOperand {
public:
  GemmOperand(const DtcOneDnnTable& oneDnn, void* gemm) : oneDnn_(oneDnn), gemm_(gemm) {}
  [[nodiscard]] size_t packedBytes() const override { return oneDnn_.packedGemmBytes(gemm_); }
  [[nodiscard]] bool packsLike(const PackableOperand& other) const override {
    const auto* b = dynamic_cast<const GemmOperand*>(&other);
    return b && oneDnn_.packGemmAlike(gemm_, b->gemm_);
  }
  [[nodiscard]] bool pack(std::byte* to) const override { return oneDnn_.packGemm(gemm_, to) == 0; }
  void usePacked(std::byte* packed) override { oneDnn_.usePackedGemm(gemm_, packed); }

private:
  const DtcOneDnnTable& oneDnn_;
  void* gemm_;
};

class PackedOperands : NonCopyable {
public:
  // At most `limit` bytes in all.
  explicit PackedOperands(int64_t limit) : left_(limit) {}

  // The operand is at `at`, an address of a range. Its call must outlive this.
  void add(std::shared_ptr<PackableOperand>, const void* at, size_t range);
  // The contents of the range have changed, and do not change until the next call of either function: its operands are
  // packed, as far as the memory allows.
  void keep(size_t range);
  // The contents of the range may change at any time.
  void release(size_t range);
  [[nodiscard]] bool isPacked(const PackableOperand*, size_t range) const;

private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  struct Packed {
    const void* at = nullptr;
    size_t bytes = 0;
    std::vector<std::shared_ptr<PackableOperand>> users; // that read it in the same layout
    std::unique_ptr<std::byte, Free> memory;
  };
  [[nodiscard]] bool pack(Packed& p);
  void unpack(Packed& p);

  std::vector<std::vector<Packed>> packedOf_; // by range
  int64_t left_;                              // of the limit, in bytes
};

} // namespace dtc
