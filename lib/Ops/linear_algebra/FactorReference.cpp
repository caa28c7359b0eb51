#include "linear_algebra/FactorReference.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace dtc {
namespace {

constexpr int kSweeps = 60; // convergence is quadratic: some 6 to 10 for hundreds of columns

template <class T> constexpr PartOfElement<T> kEpsilon = std::numeric_limits<PartOfElement<T>>::epsilon();

template <class T> T conjugate(T v) { return v; }
template <class T> std::complex<T> conjugate(std::complex<T> v) { return std::conj(v); }
// |re| + |im|, as LAPACK compares pivots.
template <class T> T pivotSize(T v) { return std::abs(v); }
template <class T> T pivotSize(std::complex<T> v) { return std::abs(v.real()) + std::abs(v.imag()); }

template <class T> T dot(const T* x, const T* y, int64_t n) { // xᴴ y
  T sum{};
  for (int64_t i = 0; i < n; ++i) sum += conjugate(x[i]) * y[i];
  return sum;
}

// The rotation that makes r 0, where [p r; rᴴ q] are a pair's entries of a Hermitian matrix.
template <class T> struct Rotation {
  using Part = PartOfElement<T>;
  Part c = 1, s = 0;
  T phase = 1; // of r, conjugated
  Rotation(Part p, Part q, T r) {
    const Part size = std::abs(r);
    if (size == 0) return;
    phase = conjugate(r / size);
    const Part theta = (q - p) / (2 * size), length = std::hypot(theta, Part(1));
    const Part t = theta >= 0 ? 1 / (theta + length) : 1 / (theta - length);
    c = 1 / std::sqrt(t * t + 1), s = t * c;
  }
  void columns(T* x, T* y, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) {
      const T left = x[i], right = y[i] * phase;
      x[i] = left * c - right * s;
      y[i] = left * s + right * c;
    }
  }
};

template <class T> HostMatrix<T> identityMatrix(int64_t m, int64_t n) {
  HostMatrix<T> out(m, n);
  for (int64_t i = 0; i < std::min(m, n); ++i) out(i, i) = 1;
  return out;
}

template <class T> HostMatrix<T> columnsInOrder(const HostMatrix<T>& a, const std::vector<int64_t>& order) {
  HostMatrix<T> out(a.rows, static_cast<int64_t>(order.size()));
  for (int64_t j = 0; j < out.columns; ++j)
    for (int64_t i = 0; i < a.rows; ++i) out(i, j) = a(i, order[static_cast<size_t>(j)]);
  return out;
}

template <class T> bool allFinite(const HostMatrix<T>& a) {
  return std::ranges::all_of(a.elements, [](T v) { return std::isfinite(pivotSize(v)); });
}

template <class T> HostSpectrum<T> spectrumOfNaN(int64_t n, HostMatrix<T> left, HostMatrix<T> right) {
  const PartOfElement<T> nan = std::numeric_limits<PartOfElement<T>>::quiet_NaN();
  std::ranges::fill(left.elements, T(nan)), std::ranges::fill(right.elements, T(nan));
  return {std::vector<PartOfElement<T>>(static_cast<size_t>(n), nan), std::move(left), std::move(right)};
}

template <class P> std::vector<int64_t> sortedOrder(const std::vector<P>& values, bool descending) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](int64_t i, int64_t j) {
    const P a = values[static_cast<size_t>(i)], b = values[static_cast<size_t>(j)];
    return a == b ? i < j : descending ? a > b : a < b;
  });
  return order;
}

// Orthonormal columns for singular values that are 0 but for rounding, from the reflections of the others.
template <class T> void completeLeft(HostMatrix<T>& left, const std::vector<PartOfElement<T>>& values) {
  int64_t rank = 0;
  while (rank < left.columns && values[static_cast<size_t>(rank)] >
                                    4 * kEpsilon<T> * static_cast<PartOfElement<T>>(left.rows) * values[0])
    ++rank;
  if (rank == left.columns) return;
  HostMatrix<T> own(left.rows, rank);
  std::copy_n(left.elements.begin(), own.elements.size(), own.elements.begin());
  const std::vector<T> taus = reflect(own);
  const HostMatrix<T> q = reflectorProduct(own, taus, left.columns);
  std::copy(q.elements.begin() + rank * left.rows, q.elements.end(),
            left.elements.begin() + rank * left.rows);
}

} // namespace

template <class T> HostLu<T> luOf(HostMatrix<T>& a) {
  HostLu<T> out;
  out.permutation.resize(static_cast<size_t>(a.rows));
  std::iota(out.permutation.begin(), out.permutation.end(), 0);
  for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k) {
    int64_t at = k;
    for (int64_t i = k + 1; i < a.rows; ++i)
      if (pivotSize(a(i, k)) > pivotSize(a(at, k))) at = i;
    out.pivots.push_back(at);
    std::swap(out.permutation[static_cast<size_t>(k)], out.permutation[static_cast<size_t>(at)]);
    for (int64_t j = 0; j < a.columns && at != k; ++j) std::swap(a(k, j), a(at, j));
    if (a(k, k) == T(0)) {
      if (out.info == 0) out.info = k + 1;
      continue;
    }
    for (int64_t i = k + 1; i < a.rows; ++i) {
      a(i, k) /= a(k, k);
      for (int64_t j = k + 1; j < a.columns; ++j) a(i, j) -= a(i, k) * a(k, j);
    }
  }
  return out;
}

// H = 1 - tau v vᴴ with v_k = 1; Hᴴ maps column k to beta times the unit vector.
template <class T> std::vector<T> reflect(HostMatrix<T>& a) {
  std::vector<T> taus;
  for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k) {
    const T alpha = a(k, k);
    T* below = a.column(k) + k + 1;
    const int64_t rest = a.rows - k - 1;
    const PartOfElement<T> others = std::real(dot(below, below, rest)), imaginary = std::imag(alpha);
    if (others == 0 && imaginary == 0) {
      taus.emplace_back(0);
      continue;
    }
    const PartOfElement<T> real = std::real(alpha),
                           norm = std::sqrt(real * real + imaginary * imaginary + others);
    const PartOfElement<T> beta = real >= 0 ? -norm : norm;
    const T tau = (T(beta) - alpha) / beta;
    taus.push_back(tau);
    for (int64_t i = 0; i < rest; ++i) below[i] /= alpha - T(beta);
    a(k, k) = beta;
    for (int64_t j = k + 1; j < a.columns; ++j) {
      T* to = a.column(j) + k + 1;
      const T w = (a(k, j) + dot(below, to, rest)) * conjugate(tau);
      a(k, j) -= w;
      for (int64_t i = 0; i < rest; ++i) to[i] -= below[i] * w;
    }
  }
  return taus;
}

template <class T>
HostMatrix<T> reflectorProduct(const HostMatrix<T>& a, const std::vector<T>& taus, int64_t columns) {
  HostMatrix<T> q = identityMatrix<T>(a.rows, columns);
  for (int64_t k = static_cast<int64_t>(taus.size()); k-- > 0;) {
    const T* below = a.elements.data() + k * a.rows + k + 1;
    const int64_t rest = a.rows - k - 1;
    for (int64_t j = 0; j < columns; ++j) {
      T* to = q.column(j) + k + 1;
      const T w = (q(k, j) + dot(below, to, rest)) * taus[static_cast<size_t>(k)];
      q(k, j) -= w;
      for (int64_t i = 0; i < rest; ++i) to[i] -= below[i] * w;
    }
  }
  return q;
}

template <class T> HostSpectrum<T> eigenOf(HostMatrix<T> a) {
  const int64_t n = a.rows;
  HostMatrix<T> v = identityMatrix<T>(n, n);
  if (!allFinite(a)) return spectrumOfNaN<T>(n, std::move(v), HostMatrix<T>(0, 0));
  PartOfElement<T> norm = 0;
  for (T x : a.elements) norm = std::max(norm, pivotSize(x));
  bool rotated = true;
  for (int sweep = 0; sweep < kSweeps && rotated; ++sweep) {
    rotated = false;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        if (std::abs(a(p, q)) <= kEpsilon<T> * kEpsilon<T> * norm) continue;
        rotated = true;
        const Rotation<T> r(std::real(a(p, p)), std::real(a(q, q)), a(p, q));
        r.columns(a.column(p), a.column(q), n);
        for (int64_t j = 0; j < n; ++j) { // rows, by the adjoint
          const T upper = a(p, j), lower = a(q, j) * conjugate(r.phase);
          a(p, j) = upper * r.c - lower * r.s;
          a(q, j) = upper * r.s + lower * r.c;
        }
        a(p, q) = a(q, p) = 0;
        r.columns(v.column(p), v.column(q), n);
      }
  }
  std::vector<PartOfElement<T>> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(std::real(a(i, i)));
  const std::vector<int64_t> order = sortedOrder(values, false);
  std::ranges::sort(values);
  return {std::move(values), columnsInOrder(v, order), HostMatrix<T>(0, 0)};
}

template <class T> HostSpectrum<T> singularOf(HostMatrix<T> a) {
  const int64_t m = a.rows, n = a.columns;
  HostMatrix<T> v = identityMatrix<T>(n, n);
  if (!allFinite(a)) return spectrumOfNaN(n, std::move(a), std::move(v));
  bool rotated = true;
  for (int sweep = 0; sweep < kSweeps && rotated; ++sweep) {
    rotated = false;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        T *x = a.column(p), *y = a.column(q);
        const PartOfElement<T> xx = std::real(dot(x, x, m)), yy = std::real(dot(y, y, m));
        const T xy = dot(x, y, m);
        if (std::abs(xy) <= 4 * kEpsilon<T> * std::max(std::sqrt(xx * yy), kEpsilon<T> * std::max(xx, yy)))
          continue;
        rotated = true;
        const Rotation<T> r(xx, yy, xy);
        r.columns(x, y, m);
        r.columns(v.column(p), v.column(q), n);
      }
  }
  std::vector<PartOfElement<T>> values;
  for (int64_t j = 0; j < n; ++j) {
    values.push_back(std::sqrt(std::real(dot(a.column(j), a.column(j), m))));
    for (int64_t i = 0; i < m && values.back() > 0; ++i) a(i, j) /= values.back();
  }
  const std::vector<int64_t> order = sortedOrder(values, true);
  std::ranges::sort(values, std::greater());
  HostSpectrum<T> out{std::move(values), columnsInOrder(a, order), columnsInOrder(v, order)};
  if (n > 0) completeLeft(out.left, out.values);
  return out;
}

template <class T> void fixPhases(HostMatrix<T>& left, HostMatrix<T>* right) {
  for (int64_t j = 0; j < left.columns; ++j) {
    T *x = left.column(j), *end = x + left.rows;
    PartOfElement<T> largest = 0;
    for (T* i = x; i != end; ++i) largest = std::max(largest, std::abs(*i));
    const T* first = std::find_if(x, end, [&](T v) { return std::abs(v) >= largest / 2; });
    if (first == end || largest == 0) continue;
    const T phase = conjugate(*first / std::abs(*first));
    for (T* i = x; i != end; ++i) *i *= phase;
    for (int64_t i = 0; right && i < right->rows; ++i) (*right)(i, j) *= phase;
  }
}

#define DTC_HOST_FACTORIZATIONS(T)                                                                           \
  template HostLu<T> luOf(HostMatrix<T>&);                                                                   \
  template std::vector<T> reflect(HostMatrix<T>&);                                                           \
  template HostMatrix<T> reflectorProduct(const HostMatrix<T>&, const std::vector<T>&, int64_t);             \
  template HostSpectrum<T> eigenOf(HostMatrix<T>);                                                           \
  template HostSpectrum<T> singularOf(HostMatrix<T>);                                                        \
  template void fixPhases(HostMatrix<T>&, HostMatrix<T>*);
DTC_HOST_FACTORIZATIONS(float)
DTC_HOST_FACTORIZATIONS(double)
DTC_HOST_FACTORIZATIONS(long double)
DTC_HOST_FACTORIZATIONS(std::complex<float>)
DTC_HOST_FACTORIZATIONS(std::complex<double>)
DTC_HOST_FACTORIZATIONS(std::complex<long double>)
#undef DTC_HOST_FACTORIZATIONS

} // namespace dtc
