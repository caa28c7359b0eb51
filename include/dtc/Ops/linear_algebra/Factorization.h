#pragma once
// Matrix factorizations as a library computes them: the one description that kernels, backends and libraries
// share, and its definition on the host.
#include "dtc/IR/OpRecord.h"

namespace dtc {

enum class FactorizationKind : uint8_t { Lu, Qr, Reflectors, Eigen, Singular };

// One call of LAPACK or cuSOLVER per matrix. All buffers are contiguous, batch dims first; matrices are
// column-major and complex numbers interleaved, so that they are the library's own. m x n is the operand's
// shape, k = min(m, n).
//
//   kind        LAPACK          operands           results
//   Lu          getrf           a m x n            lu m x n, pivots i32 [k], permutation i32 [m], info i32 []
//   Qr          geqrf           a m x n            packed m x n, taus [k]
//   Reflectors  orgqr, ungqr    a m x n, taus [t]  q m x n
//   Eigen       syevd, heevd    a n x n            values [n], vectors n x n (if `vectors`)
//   Singular    gesdd           a m x n, m >= n    s [n], u m x n, vh n x n (both if `vectors`)
//
// Pivots and the permutation count from 0; info is 0, or 1 + the first column without a pivot. Eigenvalues
// ascend, singular values descend; both are real. They and the vectors are NaN where the iteration does not
// converge or the matrix is not finite.
struct Factorization {
  FactorizationKind kind = FactorizationKind::Lu;
  DType dtype = DType::F32;                // f32 f64 c64 c128
  int64_t rows = 0, columns = 0, taus = 0; // m, n; t of Reflectors
  bool lower = true;                       // Eigen: the triangle that is read
  bool vectors = true;                     // Eigen, Singular
  [[nodiscard]] int64_t count() const { return std::min(rows, columns); }
  [[nodiscard]] bool complex() const { return isComplex(dtype); }
  // The bytes of one matrix's part of operand i, or of result i.
  [[nodiscard]] int64_t operandBytes(size_t i) const;
  [[nodiscard]] int64_t resultBytes(size_t i) const;
  [[nodiscard]] int64_t bytes() const; // of all of them
  [[nodiscard]] size_t numOperands() const { return kind == FactorizationKind::Reflectors ? 2 : 1; }
  [[nodiscard]] size_t numResults() const;
  [[nodiscard]] int64_t
  flops() const; // of one matrix (LAPACK Users' Guide, appendix C; estimates for the last two)
  [[nodiscard]] const char* name() const; // of the op: "lu"
};

// The call that an op is; nothing unless the op is in the library's layout (the attribute `lapack`).
[[nodiscard]] std::optional<Factorization> factorizationOf(const OpQuery&);

// The definition, in 80-bit arithmetic, of `batch` matrices in the library's layout. Buffers: operands, then
// results.
void computeFactorization(const Factorization&, int64_t batch, std::span<std::byte* const> buffers);

} // namespace dtc
