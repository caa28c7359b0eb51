#pragma once
// Products of 8-bit integers with sums in i32, for processors with AVX2 but without VNNI: oneDNN adds pairs of
// products in i16 there, which saturates. Exact: bytes are widened to i16, of which vpmaddwd adds two products in i32.
// Blocks as in Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
#include "backend/cpu/PackedOperands.h"

namespace dtc {

class ByteGemm final : public PackableOperand {
public:
  // Whether the operands are i8 or u8 and the result is i32.
  [[nodiscard]] static bool fits(const DtcGemm&);
  // Requires fits(). Matmuls of one batch or several, any strides.
  explicit ByteGemm(const DtcGemm&);

  [[nodiscard]] size_t scratchBytes() const; // of a run
  // y = a b + bias, with operands at these byte offsets from their addresses. `scratch`: exclusive to this run, 64-byte
  // aligned.
  void run(int64_t aOffset, int64_t bOffset, void* scratch) const;
  // Tensors that were created in [from, from + bytes) are at the same offsets from `to` in later runs.
  void rebind(const void* from, size_t bytes, void* to);

  [[nodiscard]] const void* b() const { return made_.b; } // at creation
  // Of b.
  [[nodiscard]] size_t packedBytes() const override;
  [[nodiscard]] bool packsLike(const PackableOperand&) const override;
  [[nodiscard]] bool pack(std::byte* to) const override;
  void usePacked(std::byte* packed) override { packed_ = packed; }

private:
  struct Range {
    int64_t begin = 0, size = 0;
  };
  void packRows(const std::byte* a, Range rows, Range k, int32_t* to) const;
  void packColumns(const std::byte* b, Range k, Range columns, std::byte* to) const;
  void multiply(int64_t batch, Range rows, Range columns, Range k, const int32_t* a,
                const std::byte* b) const;

  DtcGemm made_; // with the addresses at creation
  DtcGemm now_;
  const std::byte* packed_ = nullptr;
};

} // namespace dtc
