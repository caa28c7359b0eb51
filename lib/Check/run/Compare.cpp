#include "dtc/Check/run/Compare.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace dtc {
namespace {

enum class NumberKind : uint8_t { Finite, PlusInf, MinusInf, NaN };

NumberKind kindOf(double v) {
  if (std::isnan(v)) return NumberKind::NaN;
  if (std::isinf(v)) return v > 0 ? NumberKind::PlusInf : NumberKind::MinusInf;
  return NumberKind::Finite;
}

std::string numberText(double v) {
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::general, 9).ptr;
  return {buffer, end};
}

std::string shapeText(const std::vector<int64_t>& shape) { return "[" + joined(shape) + "]"; }

void fail(CompareReport& r, int64_t where, std::string reason) {
  if (!r.pass) return;
  r.pass = false;
  r.whereFailed = where;
  r.reason = std::move(reason);
}

// The accumulated errors of one tensor.
struct Sums {
  double errorSquares = 0, referenceErrorSquares = 0, valueSquares = 0;
  double maxReferenceError = 0, maxValue = 0;
  int64_t count = 0;
};

void addElement(CompareReport& r, Sums& s, int64_t i, double got, double exact, double rounded) {
  double error = std::abs(got - exact), referenceError = std::abs(rounded - exact), size = std::abs(exact);
  ++s.count;
  s.errorSquares += error * error;
  s.referenceErrorSquares += referenceError * referenceError;
  s.valueSquares += size * size;
  s.maxReferenceError = std::max(s.maxReferenceError, referenceError);
  s.maxValue = std::max(s.maxValue, size);
  if (error > r.maxAbs) r.maxAbs = error, r.whereAbs = i;
  if (size > 0 && error / size > r.maxRel) r.maxRel = error / size, r.whereRel = i;
}

void judge(CompareReport& r, const Sums& s, const Tensor& got, const Tensor& r64,
           const CompareOptions& options) {
  if (s.count == 0) return;
  auto n = static_cast<double>(s.count);
  auto slack = [&](double scale, double CommErrors::* measured) {
    const double own = ulpAt(got.dtype(), scale);
    double all = 4 * own, coarse = 0;
    for (const CommHops& w : options.commHops) {
      const double ulp = ulpAt(w.dtype, scale);
      (ulp > own ? coarse : all) += static_cast<double>(w.hops) * ulp;
    }
    if (options.measured) coarse = std::min(coarse, *options.measured.*measured);
    return options.coarseHops ? all + coarse : all;
  };
  r.rms = std::sqrt(s.errorSquares / n);
  r.allowedMax = 4 * s.maxReferenceError + slack(s.maxValue, &CommErrors::max);
  r.allowedRms =
      4 * std::sqrt(s.referenceErrorSquares / n) + slack(std::sqrt(s.valueSquares / n), &CommErrors::rms);
  if (r.maxAbs > r.allowedMax)
    fail(r, r.whereAbs,
         "element " + indexText(r.whereAbs, got.shape()) + " is " + numberText(got.getFloat(r.whereAbs)) +
             ", but the reference has " + numberText(r64.getFloat(r.whereAbs)) + ": the error is " +
             numberText(r.maxAbs) + ", the tolerance is " + numberText(r.allowedMax));
  if (r.rms > r.allowedRms)
    fail(r, r.whereAbs,
         "the root mean square of the errors is " + numberText(r.rms) + ", the tolerance is " +
             numberText(r.allowedRms));
}

void compareExact(CompareReport& r, const Tensor& got, const Tensor& r64, const Tensor& rd,
                  const Tensor* unpromised) {
  for (int64_t i = 0; i < got.numElements(); ++i) {
    int64_t g = got.getInt(i), w = r64.getInt(i);
    if (g == w || g == rd.getInt(i)) continue;
    if (unpromised && unpromised->getInt(i) != rd.getInt(i)) {
      ++r.unpromised;
      continue;
    }
    double error = std::abs(got.getFloat(i) - r64.getFloat(i));
    if (error > r.maxAbs) r.maxAbs = error, r.whereAbs = i;
    fail(r, i,
         "element " + indexText(i, got.shape()) + " is " + std::to_string(g) + ", but the reference has " +
             std::to_string(w));
  }
}

bool sameFloat(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

} // namespace

double ulpAt(DType dtype, double v) {
  if (!isFloat(dtype)) return 0;
  int exponent = 0;
  if (v != 0 && std::isfinite(v)) std::frexp(v, &exponent); // |v| in [2^(exponent-1), 2^exponent)
  int minExponent = dtype == DType::F64      ? -1074
                    : dtype == DType::F32    ? -149
                    : dtype == DType::BF16   ? -133
                    : dtype == DType::F16    ? -24
                    : dtype == DType::F8E4M3 ? -9
                                             : -16;
  if (v == 0) return std::ldexp(1.0, minExponent);
  return std::ldexp(1.0, std::max(exponent - mantissaBits(dtype), minExponent));
}

std::string indexText(int64_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 0) continue;
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return shapeText(index);
}

CompareReport compareTensors(const Tensor& got, const Tensor& r64, const Tensor& rd,
                             const CompareOptions& options) {
  CompareReport r;
  r.elements = got.numElements();
  if (got.shape() != r64.shape() || got.shape() != rd.shape()) {
    fail(r, -1,
         "the result has shape " + shapeText(got.shape()) + ", but the reference has " +
             shapeText(r64.shape()));
    return r;
  }
  if (isComplex(got.dtype())) { // the last index is then the part, 0 or 1
    CompareOptions parts = options;
    Tensor unpromised;
    if (options.unpromised) parts.unpromised = &(unpromised = options.unpromised->parts());
    return compareTensors(got.parts(), r64.parts(), rd.parts(), parts);
  }
  if (!isFloat(got.dtype())) {
    compareExact(r, got, r64, rd, options.unpromised);
    return r;
  }
  Sums sums;
  for (int64_t i = 0; i < got.numElements(); ++i) {
    double g = got.getFloat(i), exact = r64.getFloat(i), rounded = rd.getFloat(i);
    NumberKind kind = kindOf(g);
    if (options.unpromised && !sameFloat(options.unpromised->getFloat(i), rounded)) {
      const NumberKind other = kindOf(options.unpromised->getFloat(i));
      if (kind == NumberKind::NaN || kind == other || kind == kindOf(exact) || kind == kindOf(rounded)) {
        r.unpromised += !sameFloat(g, rounded);
        continue;
      }
    }
    if (kind != kindOf(exact) && kind != kindOf(rounded)) {
      fail(r, i,
           "element " + indexText(i, got.shape()) + " is " + numberText(g) + ", but the reference has " +
               numberText(exact));
      continue;
    }
    if (std::isfinite(g) && std::isfinite(exact) && std::isfinite(rounded))
      addElement(r, sums, i, g, exact, rounded);
  }
  judge(r, sums, got, r64, options);
  return r;
}

} // namespace dtc
