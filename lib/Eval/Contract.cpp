// Contractions as matrix products: operands packed to f64, loops blocked for the cache, each sum in term
// order, so that the optimization does not change the results.
#include "Contract.h"

#include "Columns.h"

namespace dtc {
namespace {

#define DTC_CLONES
#if defined(__x86_64__) && defined(__clang__)
#if !__has_feature(thread_sanitizer) // the loader chooses a clone before that sanitizer is ready
#undef DTC_CLONES
#define DTC_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#endif
#endif

constexpr int64_t kBlockN = 512, kRows = 4;

// c[rows][n] += a[rows][k] b[k][n], `rows` at most kRows; lda, ldb, ldc are row strides.
template <class T>
inline __attribute__((always_inline)) void multiply(const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
                                                    int64_t ldc, int64_t rows, int64_t k, int64_t n) {
  if (rows < kRows) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t l = 0; l < k; ++l) {
        T x = a[r * lda + l];
        for (int64_t j = 0; j < n; ++j) c[r * ldc + j] += x * b[l * ldb + j];
      }
    return;
  }
  T *c0 = c, *c1 = c + ldc, *c2 = c + 2 * ldc, *c3 = c + 3 * ldc;
  for (int64_t l = 0; l < k; ++l) {
    const T* row = b + l * ldb;
    T x0 = a[l], x1 = a[lda + l], x2 = a[2 * lda + l], x3 = a[3 * lda + l];
    for (int64_t j = 0; j < n; ++j) {
      T y = row[j];
      c0[j] += x0 * y;
      c1[j] += x1 * y;
      c2[j] += x2 * y;
      c3[j] += x3 * y;
    }
  }
}

DTC_CLONES void multiplyRows(const double* a, int64_t lda, const double* b, int64_t ldb, double* c,
                             int64_t ldc, int64_t rows, int64_t k, int64_t n) {
  multiply(a, lda, b, ldb, c, ldc, rows, k, n);
}
DTC_CLONES void multiplyRows(const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc,
                             int64_t rows, int64_t k, int64_t n) {
  multiply(a, lda, b, ldb, c, ldc, rows, k, n);
}
void multiplyRows(const long double* a, int64_t lda, const long double* b, int64_t ldb, long double* c,
                  int64_t ldc, int64_t rows, int64_t k, int64_t n) {
  multiply(a, lda, b, ldb, c, ldc, rows, k, n);
}

// An operand's elements in the order of `loops`, as doubles.
std::vector<double> pack(const Tensor& t, const LinearForm& form, const Nest& nest,
                         std::span<const size_t> loops) {
  std::vector<double> out;
  LinearForm walk{form.base, {}};
  std::vector<int64_t> sizes;
  for (size_t l : loops) {
    sizes.push_back(nest.sizes[l]);
    walk.coefficients.push_back(form.coefficients[l]);
  }
  int64_t inner = sizes.empty() ? 1 : sizes.back(), stride = sizes.empty() ? 1 : walk.coefficients.back();
  if (!sizes.empty()) {
    sizes.pop_back();
    walk.coefficients.pop_back();
  }
  const LinearForm* forms[] = {&walk};
  forEachPoint(sizes, forms, [&](const std::vector<int64_t>& at) {
    size_t begin = out.size();
    out.resize(begin + static_cast<size_t>(inner));
    loadColumn(t, at[0], stride, inner, out.data() + begin, nullptr);
  });
  return out;
}

// All of a[batch][m][k] b[batch][k][n], products and sums in T.
template <class T>
std::vector<double> multiplyAll(const std::vector<double>& a64, const std::vector<double>& b64,
                                int64_t numBatch, int64_t m, int64_t n, int64_t k) {
  std::vector<T> a(a64.begin(), a64.end()), b(b64.begin(), b64.end()),
      c(static_cast<size_t>(numBatch * m * n), T(0));
  for (int64_t s = 0; s < numBatch; ++s)
    for (int64_t j = 0; j < n; j += kBlockN)
      for (int64_t i = 0; i < m; i += kRows)
        multiplyRows(a.data() + (s * m + i) * k, k, b.data() + s * k * n + j, n,
                     c.data() + (s * m + i) * n + j, n, std::min(kRows, m - i), k, std::min(kBlockN, n - j));
  return std::vector<double>(c.begin(), c.end());
}

} // namespace

bool isContraction(const Nest& nest, const ScalarExpr& scalar) {
  if (nest.operands.size() < 2 || nest.reduce != PendingKind::Sum || nest.sizes.size() == nest.numOuter)
    return false;
  const auto& nodes = scalar.nodes;
  bool product = nodes.size() == 3 && nodes[0].kind == ScalarNode::Operand &&
                 nodes[1].kind == ScalarNode::Operand && nodes[0].position == 0 && nodes[1].position == 1 &&
                 nodes[2].kind == ScalarNode::Call && nodes[2].fn->infix && *nodes[2].fn->infix == '*' &&
                 isFloat(nodes[0].dtype) && isFloat(nodes[1].dtype);
  if (!product) return false;
  for (size_t l = 0; l < nest.sizes.size(); ++l) {
    bool inA = nest.operands[0].coefficients[l] != 0, inB = nest.operands[1].coefficients[l] != 0;
    if (l >= nest.numOuter && !(inA && inB) && nest.sizes[l] != 1) return false;
    if (l < nest.numOuter && !inA && !inB && nest.sizes[l] != 1) return false;
  }
  return true;
}

std::vector<double> contract(const Nest& nest, std::span<const Tensor* const> operands, Accumulate accumulate,
                             std::vector<size_t>& order) {
  std::vector<size_t> batch, rows, columns, summed;
  for (size_t l = 0; l < nest.numOuter; ++l) {
    bool inA = nest.operands[0].coefficients[l] != 0, inB = nest.operands[1].coefficients[l] != 0;
    (inA && inB ? batch : inA ? rows : columns).push_back(l);
  }
  for (size_t l = nest.numOuter; l < nest.sizes.size(); ++l) summed.push_back(l);
  auto product = [&](const std::vector<size_t>& loops) {
    int64_t n = 1;
    for (size_t l : loops) n *= nest.sizes[l];
    return n;
  };
  auto joined = [](std::vector<size_t> a, const std::vector<size_t>& b, const std::vector<size_t>& c) {
    a.insert(a.end(), b.begin(), b.end());
    a.insert(a.end(), c.begin(), c.end());
    return a;
  };
  int64_t numBatch = product(batch), m = product(rows), n = product(columns), k = product(summed);
  std::vector<double> a = pack(*operands[0], nest.operands[0], nest, joined(batch, rows, summed));
  std::vector<double> b = pack(*operands[1], nest.operands[1], nest, joined(batch, summed, columns));
  order = joined(batch, rows, columns);
  switch (accumulate) {
  case Accumulate::Single: return multiplyAll<float>(a, b, numBatch, m, n, k);
  case Accumulate::Extended: return multiplyAll<long double>(a, b, numBatch, m, n, k);
  case Accumulate::Double: break;
  }
  return multiplyAll<double>(a, b, numBatch, m, n, k);
}

} // namespace dtc
