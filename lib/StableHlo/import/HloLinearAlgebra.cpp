// Factorisation and solution of matrices, and Fourier transforms as products with DFT matrices.
#include "import/HloFactor.h"
#include "import/HloTable.h"

#include <cmath>
#include <numeric>

namespace dtc {

namespace {

bool cholesky(HloContext& c) {
  auto lower = c.flagOr("lower", false);
  return lower && c.setResult(c.emit("cholesky", {c.operand(0)}, {{"lower", c.boolAttr(*lower)}}));
}

bool solve(HloContext& c, bool left, bool lower, bool unit, bool transposed, bool conjugated) {
  ValueId a = c.operand(0);
  if (conjugated && isComplex(c.dtypeOf(a))) a = c.emit("conj", {a});
  return c.setResult(c.emit("triangular_solve", {a, c.operand(1)},
                            {{"left_side", c.boolAttr(left)},
                             {"lower", c.boolAttr(lower)},
                             {"unit_diagonal", c.boolAttr(unit)},
                             {"transpose_a", c.boolAttr(transposed)}}));
}

bool triangularSolve(HloContext& c) {
  auto left = c.flagOr("left_side", true), lower = c.flagOr("lower", true),
       unit = c.flagOr("unit_diagonal", false);
  const std::string_view how = c.word("transpose_a");
  if (!left || !lower || !unit) return false;
  if (!how.empty() && how != "NO_TRANSPOSE" && how != "TRANSPOSE" && how != "ADJOINT")
    return c.failAttr("transpose_a", "is not NO_TRANSPOSE, TRANSPOSE or ADJOINT");
  return solve(c, *left, *lower, *unit, how == "TRANSPOSE" || how == "ADJOINT", how == "ADJOINT");
}

// --- the LAPACK calls for these: character arguments are numbers in mhlo.backend_config ---

// The factor, and per matrix a failure flag, set if the factor contains NaN.
bool potrf(HloContext& c) {
  if (!c.expectOperands(1) || c.numResults() != 2) return c.fail("needs one operand and two results");
  auto half = letterOf(c, "uplo");
  if (!half) return false;
  const ValueId x = c.operand(0), y = c.emit("cholesky", {x}, {{"lower", c.boolAttr(*half == 'L')}});
  if (!y.valid()) return false;
  const auto rank = static_cast<int64_t>(c.rankOf(y));
  const int64_t dims[] = {rank - 2, rank - 1};
  const ValueId failed =
      c.emit("any", {c.emit("is_nan", {isComplex(c.dtypeOf(y)) ? c.emit("real", {y}) : y})},
             {{"dims", c.intsAttr(dims)}});
  // The other triangle of x stays unchanged.
  const ValueId other = c.emit(*half == 'L' ? OpName("triu") : OpName("tril"), {x},
                               {{"diagonal", c.intAttr(*half == 'L' ? 1 : -1)}});
  return c.setResult(0, c.emit("add", {y, other})) && c.setResult(1, c.convert(failed, c.resultDType(1)));
}

bool trsm(HloContext& c) {
  auto side = letterOf(c, "side"), half = letterOf(c, "uplo"), how = letterOf(c, "trans_x"),
       diagonal = letterOf(c, "diag");
  return side && half && how && diagonal &&
         solve(c, *side == 'L', *half == 'L', *diagonal == 'U', *how != 'N', *how == 'C');
}

// --- Fourier transforms ---

constexpr int64_t kDirect = 64;    // up to this length by one matrix product
constexpr int64_t kLargest = 2048; // and a length without small divisors up to this

// A pair of tensors, real and imaginary part; an invalid im is 0.
struct Planes {
  ValueId re, im;
};

class Transform {
public:
  Transform(HloContext& c, DType part, bool inverse) : c_(c), part_(part), sign_(inverse ? 1 : -1) {}

  // The transform along dim `dim`. Nothing and an error where its length has too large a prime factor.
  std::optional<Planes> along(Planes z, int64_t dim) {
    z = each(z, [&](ValueId v) { return swapped(v, dim); });
    auto y = last(z);
    if (y) *y = each(*y, [&](ValueId v) { return swapped(v, dim); });
    return y;
  }
  Planes scaled(Planes z, double by) {
    return each(z, [&](ValueId v) { return c_.emit("mul", {v, c_.literal(by, part_)}); });
  }
  // The real inverse along the last dim, given half of a spectrum of length n.
  ValueId realFromHalf(Planes z, int64_t n) {
    const int64_t half = n / 2 + 1;
    auto weight = [&](int64_t k) { return (k == 0 || 2 * k == n ? 1.0 : 2.0) / static_cast<double>(n); };
    ValueId cosine = matrix(half, n, [&](int64_t k, int64_t j) { return weight(k) * root(j * k, n).re; });
    ValueId sine = matrix(half, n, [&](int64_t k, int64_t j) { return weight(k) * root(j * k, n).im; });
    ValueId y = product(z.re, cosine);
    return z.im.valid() ? c_.emit("sub", {y, product(z.im, sine)}) : y;
  }

private:
  struct Root {
    double re, im;
  };
  template <class F> Planes each(Planes z, F&& f) { return {f(z.re), z.im.valid() ? f(z.im) : ValueId()}; }
  // exp(± 2πi k / n)
  Root root(int64_t k, int64_t n) const {
    const double angle = 2 * M_PI * static_cast<double>(k % n) / static_cast<double>(n);
    return {std::cos(angle), sign_ * std::sin(angle)};
  }
  template <class F> ValueId matrix(int64_t rows, int64_t columns, F&& element) {
    HloNumbers n{part_, false, {}};
    auto put = [&](auto v) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&v);
      n.bytes.insert(n.bytes.end(), bytes, bytes + sizeof v);
    };
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        part_ == DType::F64 ? put(element(i, j)) : put(static_cast<float>(element(i, j)));
    const int64_t shape[] = {rows, columns};
    return c_.constant(n, c_.tensorType(part_, shape));
  }
  ValueId product(ValueId x, ValueId matrix) { return c_.emit("matmul", {x, matrix}); }
  ValueId swapped(ValueId v, int64_t dim) { return permuted(v, dim, static_cast<int64_t>(c_.rankOf(v)) - 1); }
  ValueId permuted(ValueId v, int64_t a, int64_t b) {
    std::vector<int64_t> perm(c_.rankOf(v));
    std::iota(perm.begin(), perm.end(), 0);
    if (v.valid()) std::swap(perm[static_cast<size_t>(a)], perm[static_cast<size_t>(b)]);
    return c_.transpose(v, perm);
  }
  // (a + ib)(p + iq), elementwise or as matrix products.
  template <class Mul> Planes times(Planes z, ValueId p, ValueId q, Mul&& mul) {
    if (!z.im.valid()) return {mul(z.re, p), mul(z.re, q)};
    return {c_.emit("sub", {mul(z.re, p), mul(z.im, q)}), c_.emit("add", {mul(z.re, q), mul(z.im, p)})};
  }

  std::optional<Planes> last(Planes z) {
    const std::vector<int64_t> shape = c_.shapeOf(z.re);
    const int64_t n = shape.empty() ? 1 : shape.back();
    if (n <= 1) return z;
    int64_t outer = std::min(kDirect, n - 1);
    while (n % outer != 0) --outer;
    if (n <= kDirect || outer == 1) {
      if (n > kLargest) {
        c_.fail("is of length " + std::to_string(n) + ", which has a prime factor above " +
                std::to_string(kLargest));
        return std::nullopt;
      }
      return times(z, matrix(n, n, [&](int64_t j, int64_t k) { return root(j * k, n).re; }),
                   matrix(n, n, [&](int64_t j, int64_t k) { return root(j * k, n).im; }),
                   [&](ValueId x, ValueId m) { return product(x, m); });
    }
    return mixed(z, shape, outer, n / outer);
  }

  // J. Cooley and J. Tukey, 1965: with j = j1 b + j2 and k = k1 + a k2, transforms of length a, then factors
  // exp(2πi j2 k1 / n), then transforms of length b.
  std::optional<Planes> mixed(Planes z, const std::vector<int64_t>& shape, int64_t a, int64_t b) {
    std::vector<int64_t> parts(shape.begin(), shape.end() - 1);
    parts.push_back(a);
    parts.push_back(b);
    const auto rank = static_cast<int64_t>(parts.size());
    auto transposed = [&](ValueId v) { return permuted(v, rank - 2, rank - 1); };
    z = each(z, [&](ValueId v) { return transposed(c_.reshape(v, parts)); }); // [.., j2, j1]
    auto y = last(z);                                                         // [.., j2, k1]
    if (!y) return y;
    *y = times(*y, matrix(b, a, [&](int64_t j, int64_t k) { return root(j * k, a * b).re; }),
               matrix(b, a, [&](int64_t j, int64_t k) { return root(j * k, a * b).im; }),
               [&](ValueId x, ValueId m) { return c_.emit("mul", {x, m}); });
    *y = each(*y, transposed);
    y = last(*y); // [.., k1, k2]
    if (!y) return y;
    return each(*y, [&](ValueId v) { return c_.reshape(transposed(v), shape); });
  }

  HloContext& c_;
  DType part_;
  double sign_;
};

ValueId truncatedTo(HloContext& c, ValueId x, int64_t length) {
  std::vector<int64_t> limit = c.shapeOf(x), start(limit.size(), 0);
  if (limit.empty() || limit.back() == length) return x;
  limit.back() = length;
  return c.emit("slice", {x}, {{"start", c.intsAttr(start)}, {"limit", c.intsAttr(limit)}});
}

bool fft(HloContext& c) {
  const std::string_view type = c.word("fft_type");
  auto lengths = c.ints("fft_length");
  ValueId x = c.operand(0);
  if (!lengths || !x.valid() || !c.resultType().valid()) return false;
  const bool fromReal = type == "RFFT", toReal = type == "IRFFT", inverse = toReal || type == "IFFT";
  if (!fromReal && !inverse && type != "FFT")
    return c.failAttr("fft_type", "is not FFT, IFFT, RFFT or IRFFT");
  const std::vector<int64_t> shape = c.resultShape(), own = c.shapeOf(x);
  const size_t rank = own.size(), count = lengths->size();
  if (count == 0 || count > rank || count > 3)
    return c.failAttr("fft_length", "needs a length for each of the last 1 to 3 dims");
  if (std::accumulate(own.begin(), own.end(), int64_t{1}, std::multiplies<>()) == 0)
    return c.setResult(
        c.convert(c.splat(0, fromReal ? c.dtypeOf(x) : c.resultDType(), shape), c.resultDType()));
  const int64_t half = lengths->back() / 2 + 1;
  if (lengths->back() < 1 || own.back() != (toReal ? half : lengths->back()))
    return c.failAttr("fft_length", "does not match the operand");
  // Adds a leading dim of 1: operands of a matrix product have rank 2 or more.
  std::vector<int64_t> framed = own;
  framed.insert(framed.begin(), 1);
  x = c.reshape(x, framed);
  Planes z{fromReal ? x : c.emit("real", {x}), fromReal ? ValueId() : c.emit("imag", {x})};
  Transform transform(c, c.dtypeOf(z.re), inverse);
  double scale = 1;
  for (size_t i = 0; i < count; ++i) { // for a real operand the last dim comes first
    const size_t back = fromReal ? i : count - 1 - i;
    const int64_t dim = static_cast<int64_t>(rank - back);
    if (toReal && back == 0) break;
    auto y = transform.along(z, dim);
    if (!y) return false;
    z = *y;
    if (fromReal && back == 0)
      z = {truncatedTo(c, z.re, half), z.im.valid() ? truncatedTo(c, z.im, half) : ValueId()};
    if (inverse) scale /= static_cast<double>(framed[static_cast<size_t>(dim)]);
  }
  if (scale != 1) z = transform.scaled(z, scale);
  if (toReal) return c.setResult(c.reshape(transform.realFromHalf(z, lengths->back()), shape));
  if (!z.im.valid()) z.im = c.emit("mul", {z.re, c.literal(0, c.dtypeOf(z.re))});
  return c.setResult(c.reshape(c.emit("complex", {z.re, z.im}), shape));
}

const HloRow kLinearAlgebraRows[] = {
    {"stablehlo.cholesky", cholesky, 1},
    {"stablehlo.fft", fft, 1},
    {"stablehlo.triangular_solve", triangularSolve, 2},
    {"custom_call @lapack_?potrf_ffi", potrf},
    {"custom_call @lapack_?trsm_ffi", trsm, 2},
};

} // namespace

std::span<const HloRow> hloLinearAlgebraRows() { return kLinearAlgebraRows; }

} // namespace dtc
