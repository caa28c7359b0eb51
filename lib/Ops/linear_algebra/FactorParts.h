#pragma once
// Shared by the records of factorizations.
#include "record/ShapeParts.h"

namespace dtc {

// The layout of an op's matrices: their own, or the library's (Factorization.h), where `planes` says that a
// last dim of 2 holds real and imaginary parts.
struct FactorLayout {
  bool library = false, planes = false;
  FactorLayout() = default;
  FactorLayout(bool library, bool planes) : library(library), planes(planes) {}
  explicit FactorLayout(const OpQuery&);
};

struct FactorShape {
  int64_t rows = 0, columns = 0;
  size_t batchDims = 0;
  [[nodiscard]] int64_t count() const { return std::min(rows, columns); }
};
// Nothing unless rows and columns are static.
[[nodiscard]] std::optional<FactorShape> factorShapeOf(const OpQuery&);

// Whether the last two dims of operand 0 are static; reports otherwise that the sizes must be bound first.
[[nodiscard]] bool staticMatrices(const OpQuery&);

// For the records' columns: the op over real and imaginary planes, in terms of library calls, and its
// gradient.
[[nodiscard]] bool factorPlanes(Builder&, OpId, std::span<const ValueId> planes,
                                std::vector<ValueId>& results);
[[nodiscard]] bool factorDecompose(Builder&, OpId, std::vector<ValueId>& results);
[[nodiscard]] bool factorGrad(Builder&, OpId, std::span<const ValueId> dy, std::vector<ValueId>& dx);

// y with op(a) y = b or y op(a) = b, for a triangular a.
struct TriangularSystem {
  bool left = true, lower = true, unit = false, transposed = false;
  // X op(A) = B is op(A)ᵀ Xᵀ = Bᵀ.
  [[nodiscard]] bool flipped() const { return transposed == left; }
  [[nodiscard]] bool forward() const { return lower != flipped(); }
};

void addFactorizationOps(OpRegistry&);

} // namespace dtc
