// Factorisation and solution of matrices, and Fourier transforms.
#include "dtc/Import/rows/Fourier.h"
#include "import/HloFactor.h"
#include "import/HloTable.h"

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
  for (size_t i = 0; i + 1 < count; ++i)
    if ((*lengths)[i] != own[rank - count + i]) return c.failAttr("fft_length", "does not match the operand");
  return c.setResult(c.build([&](Builder& b) {
    const Expr v(b, x);
    ComplexParts z{v, Expr()};
    if (!fromReal) {
      z.re = ops::real(v);
      z.im = ops::imag(v);
    }
    for (size_t i = 0; i < count; ++i) { // for a real operand the last dim comes first
      const size_t back = fromReal ? i : count - 1 - i;
      const auto dim = static_cast<int64_t>(rank - 1 - back);
      const int64_t n = (*lengths)[count - 1 - back];
      if (toReal && back == 0) z = wholeSpectrum(z, dim, n);
      z = fourierTransform(z, dim, inverse, inverse ? 1 / static_cast<double>(n) : 1);
      if (fromReal && back == 0) {
        z.re = sliceOf(z.re, dim, 0, half);
        if (z.im.valid()) z.im = sliceOf(z.im, dim, 0, half);
      }
    }
    if (toReal) return z.re;
    return ops::complex(z.re, z.im.valid() ? z.im : filled(b, z.re.dtype(), z.re.dims(), 0));
  }));
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
