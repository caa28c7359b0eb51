#include "TrialTensors.h"
#include "dtc/IR/Text.h"
#include <algorithm>
#include <cmath>

namespace dtc {

uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

namespace {

// Quarters from -2 to 2 without 0: sums and products of a few are exact, ties are frequent, signs vary.
double smallFloat(uint64_t r) {
  int64_t q = static_cast<int64_t>(r % 16) - 8;
  return static_cast<double>(q >= 0 ? q + 1 : q) / 4;
}

void fillFloat(Tensor& t, uint64_t seed, bool special) {
  // 100000 is more than f16 holds: what a narrow dtype cannot keep of the parts, though the whole would fit.
  static constexpr double odd[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 100000, -100000};
  for (int64_t i = 0; i < t.numElements(); ++i) {
    uint64_t r = mixed(seed + static_cast<uint64_t>(i));
    t.setFloat(i, special && r % 4 == 0 ? odd[(r >> 8) % 7] : smallFloat(r >> 16));
  }
}

void fillInt(Tensor& t, uint64_t seed, OpSample::Range range, bool whole) {
  const DType d = t.dtype();
  const uint64_t rarity = mixed(seed) % 3; // bools: half true, few, nearly all
  for (int64_t i = 0; i < t.numElements(); ++i) {
    uint64_t r = mixed(seed + static_cast<uint64_t>(i)), pick = r >> 40;
    int64_t v = static_cast<int64_t>(r % 11) - (isUnsignedInt(d) ? 0 : 5);
    if (range.hi > range.lo) {
      v = range.lo + static_cast<int64_t>(r % static_cast<uint64_t>(range.hi - range.lo));
    } else if (isBool(d)) {
      v = rarity == 0 ? pick % 2 == 0 : rarity == 1 ? pick % 32 == 0 : pick % 32 != 0;
    } else if (whole && pick % 2 == 0) { // small numbers stay among them: as shifts, as divisors
      uint64_t which = (pick >> 1) % 4;
      v = which == 0 ? intMin(d) : which == 1 ? intMax(d) : wrapToInt(d, static_cast<int64_t>(r));
    }
    t.setInt(i, v);
  }
}

} // namespace

void fillTrialTensor(Tensor& t, uint64_t stream, bool special, OpSample::Range range) {
  if (isComplex(t.dtype())) {
    Tensor parts = t.parts();
    fillFloat(parts, stream, special);
    for (int64_t i = 1; i < parts.numElements(); i += 4)
      parts.setFloat(i, 0); // some are real: those may be equal
    t = Tensor::fromParts(parts);
  } else if (isFloat(t.dtype())) {
    fillFloat(t, stream, special);
  } else {
    fillInt(t, stream, range, special);
  }
}

double greatestFinite(const Tensor& t) {
  if (isComplex(t.dtype())) return greatestFinite(t.parts());
  double most = 0;
  for (int64_t i = 0; isFloat(t.dtype()) && i < t.numElements(); ++i)
    if (std::isfinite(t.getFloat(i))) most = std::max(most, std::fabs(t.getFloat(i)));
  return most;
}

std::string trialElementText(const Tensor& t, int64_t i) {
  if (isComplex(t.dtype())) {
    const Tensor parts = t.parts();
    return "(" + trialElementText(parts, 2 * i) + ", " + trialElementText(parts, 2 * i + 1) + ")";
  }
  if (isBool(t.dtype())) return t.getInt(i) ? "true" : "false";
  if (isFloat(t.dtype())) return printFloat(t.getFloat(i), t.dtype());
  return t.dtype() == DType::U64 ? std::to_string(static_cast<uint64_t>(t.getInt(i)))
                                 : std::to_string(t.getInt(i));
}

std::string tensorText(const Tensor& t) {
  std::string text = "[";
  for (int64_t i = 0; i < t.numElements() && i < 6; ++i) text += (i ? ", " : "") + trialElementText(t, i);
  return text + (t.numElements() > 6 ? ", …]" : "]");
}

int64_t firstDifference(const Tensor& got, const Tensor& want, double tolerance) {
  if (isComplex(want.dtype())) {
    const int64_t part = firstDifference(got.parts(), want.parts(), tolerance);
    return part < 0 ? part : part / 2;
  }
  for (int64_t i = 0; i < want.numElements(); ++i) {
    if (!isFloat(want.dtype())) {
      if (got.getInt(i) != want.getInt(i)) return i;
      continue;
    }
    double g = got.getFloat(i), w = want.getFloat(i);
    if (std::isnan(g) && std::isnan(w)) continue;
    if (g == w) continue;
    if (!std::isfinite(g) || !std::isfinite(w) || !(std::fabs(g - w) <= tolerance)) return i;
  }
  return -1;
}

Tensor literalTensor(const Module& m, const Value& v) {
  Tensor t(m.types[v.type].dtype, {});
  const Attr& a = m.attrs[v.literal];
  if (isFloat(partType(t.dtype())))
    t.setFloat(0, a.kind == Attr::Float ? a.f : static_cast<double>(a.i));
  else
    t.setInt(0, a.i);
  return t;
}

} // namespace dtc
