#pragma once
// The definitions of the factorizations, on host matrices, in the arithmetic of T: float, double, long double
// or std::complex of one of these.
#include "dtc/Support/Tensor.h"
#include <complex>

namespace dtc {

template <class T> struct PartTypeOf {
  using Type = T;
};
template <class T> struct PartTypeOf<std::complex<T>> {
  using Type = T;
};
template <class T> using PartOfElement = PartTypeOf<T>::Type;

// Column-major.
template <class T> struct HostMatrix {
  int64_t rows = 0, columns = 0;
  std::vector<T> elements;
  HostMatrix(int64_t m, int64_t n) : rows(m), columns(n), elements(static_cast<size_t>(m * n)) {}
  T& operator()(int64_t i, int64_t j) { return elements[static_cast<size_t>(j * rows + i)]; }
  const T& operator()(int64_t i, int64_t j) const { return elements[static_cast<size_t>(j * rows + i)]; }
  T* column(int64_t j) { return elements.data() + j * rows; }
};

template <class T> struct HostLu {
  std::vector<int64_t> pivots, permutation;
  int64_t info = 0;
};
// Gaussian elimination with the first of the largest pivots, in place.
template <class T> HostLu<T> luOf(HostMatrix<T>& a);

// A. Householder's reflections (1958) with LAPACK's signs and storage, in place; returns their factors.
template <class T> std::vector<T> reflect(HostMatrix<T>& a);
// The first `columns` columns of the product of the reflections in a's first taus.size() columns.
template <class T>
HostMatrix<T> reflectorProduct(const HostMatrix<T>& a, const std::vector<T>& taus, int64_t columns);

template <class T> struct HostSpectrum {
  std::vector<PartOfElement<T>> values;
  HostMatrix<T> left, right; // vectors; of singular values: U and V, not its adjoint
};
// C. Jacobi's rotations (1846) of a Hermitian matrix; values ascend. `right` is empty.
template <class T> HostSpectrum<T> eigenOf(HostMatrix<T> a);
// M. Hestenes's rotations of the columns (1958), rows >= columns; values descend.
template <class T> HostSpectrum<T> singularOf(HostMatrix<T> a);

// The convention of dtc: the first component of a vector that is at least half as large as its largest one is
// real and positive. Multiplies the columns of `left`, and those of `right` with them.
template <class T> void fixPhases(HostMatrix<T>& left, HostMatrix<T>* right);

} // namespace dtc
