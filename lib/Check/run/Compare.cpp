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

// The largest of some numbers, and their root mean square.
struct Magnitude {
  double max = 0, squares = 0;
  int64_t count = 0;

  void add(double v) {
    v = std::abs(v);
    max = std::max(max, v), squares += v * v, ++count;
  }
  [[nodiscard]] double rms() const { return count ? std::sqrt(squares / static_cast<double>(count)) : 0; }
};

// One tensor beside its references. `finite`: the elements that are finite in all.
struct Compared {
  const Tensor &got, &r64, &rd;
  const CompareOptions& options;
  std::vector<int64_t> finite;

  [[nodiscard]] double error(const Tensor& t, int64_t i) const {
    return std::abs(t.getFloat(i) - r64.getFloat(i));
  }
  [[nodiscard]] double spread(int64_t i) const {
    double most = 0;
    for (const Tensor* t : options.perturbed)
      if (const double e = error(*t, i); std::isfinite(e)) most = std::max(most, e);
    return most;
  }
  [[nodiscard]] double slack(double scale, double CommErrors::* measured) const;
  void allow(CompareReport&) const;
  void measure(CompareReport&) const;
  void passSensitive(CompareReport&);
};

double Compared::slack(double scale, double CommErrors::* measured) const {
  const double own = ulpAt(got.dtype(), scale);
  double all = 4 * own, coarse = 0;
  for (const CommHops& w : options.commHops) {
    const double ulp = ulpAt(w.dtype, scale);
    (ulp > own ? coarse : all) += static_cast<double>(w.hops) * ulp;
  }
  if (options.measured) coarse = std::min(coarse, *options.measured.*measured);
  return options.coarseHops ? all + coarse : all;
}

void Compared::allow(CompareReport& r) const {
  Magnitude values, rounding;
  for (int64_t i : finite) values.add(r64.getFloat(i)), rounding.add(error(rd, i));
  r.allowedMax = 4 * rounding.max + slack(values.max, &CommErrors::max);
  r.allowedRms = 4 * rounding.rms() + slack(values.rms(), &CommErrors::rms);
}

void Compared::measure(CompareReport& r) const {
  Magnitude errors;
  for (int64_t i : finite) {
    const double e = error(got, i), size = std::abs(r64.getFloat(i));
    errors.add(e);
    if (e > r.maxAbs) r.maxAbs = e, r.whereAbs = i;
    if (size > 0 && e / size > r.maxRel) r.maxRel = e / size, r.whereRel = i;
  }
  r.rms = errors.rms();
}

void Compared::passSensitive(CompareReport& r) {
  r.sensitive = static_cast<int64_t>(std::erase_if(finite, [&](int64_t i) {
    const double e = error(got, i);
    return e > r.allowedMax && e <= 4 * spread(i);
  }));
  r.maxAbs = r.maxRel = 0, r.whereAbs = r.whereRel = -1;
  measure(r);
  for (const Tensor* t : options.perturbed) {
    Magnitude own;
    for (int64_t i : finite)
      if (const double e = error(*t, i); std::isfinite(e)) own.add(e);
    r.allowedRms = std::max(r.allowedRms, 4 * own.rms());
  }
}

void judge(CompareReport& r, Compared& c) {
  if (c.finite.empty()) return;
  const Tensor &got = c.got, &r64 = c.r64;
  c.allow(r);
  c.measure(r);
  if (!c.options.perturbed.empty()) c.passSensitive(r);
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
    std::vector<Tensor> perturbed;
    for (const Tensor* t : options.perturbed) perturbed.push_back(t->parts());
    for (size_t k = 0; k < perturbed.size(); ++k) parts.perturbed[k] = &perturbed[k];
    return compareTensors(got.parts(), r64.parts(), rd.parts(), parts);
  }
  if (!isFloat(got.dtype())) {
    compareExact(r, got, r64, rd, options.unpromised);
    return r;
  }
  Compared compared{got, r64, rd, options, {}};
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
    if (std::isfinite(g) && std::isfinite(exact) && std::isfinite(rounded)) compared.finite.push_back(i);
  }
  judge(r, compared);
  return r;
}

} // namespace dtc
