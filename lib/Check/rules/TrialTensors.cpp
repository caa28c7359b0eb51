#include "rules/TrialTensors.h"
#include "dtc/IR/text/Text.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc {

uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

double maxFinite(DType d) {
  switch (d) {
  case DType::F64: return std::numeric_limits<double>::max();
  case DType::BF16: return 0x1.fep127;
  case DType::F16: return 65504;
  case DType::F8E4M3: return 448;
  case DType::F8E5M2: return 57344;
  default: return std::numeric_limits<float>::max();
  }
}

namespace {

// Quarters from -2 to 2 without 0.
double smallFloat(uint64_t r) {
  int64_t q = static_cast<int64_t>(r % 16) - 8;
  return static_cast<double>(q >= 0 ? q + 1 : q) / 4;
}

template <size_t N> double oneOf(const double (&list)[N], uint64_t r) { return list[r % N]; }

// A power of two, or 1.25, 1.5 times one, of a magnitude whose products do not overflow.
double wideFloat(DType d, uint64_t r) {
  int low = -30, high = 60;
  if (d == DType::F16) low = -8, high = 15;
  if (dtypeBytes(d) == 1) low = -4, high = 7;
  const auto exponent = low + static_cast<int>((r >> 8) % static_cast<uint64_t>(high - low + 1));
  constexpr double leading[] = {1, 1.5, 1.25, 1};
  return std::ldexp(oneOf(leading, r >> 32), exponent) * ((r >> 40) & 1 ? -1 : 1);
}

double largeFloat(DType d, uint64_t r) {
  constexpr double parts[] = {1, -1, 0.5, -0.5, 0.75, -0.75, 1, 0};
  const double part = oneOf(parts, r >> 8);
  return part == 0 ? smallFloat(r >> 16) : part * maxFinite(d);
}

double nearFloat(std::span<const double> near, uint64_t r) {
  const double c = near.empty() ? smallFloat(r >> 24) : near[(r >> 24) % near.size()];
  const double choices[] = {c,     c,     0,     c / 2, c / 2,   c / 4,          c * 0.75,      -c, 2 * c, 1,
                            c - 1, c + 1, c / 3, -1,    1.5 * c, c * (1 + 1e-3), c * (1 - 1e-3)};
  return oneOf(choices, r >> 8);
}

// A tensor has infinities of one sign, zeros, all of them, or NaN too: rows that hold a NaN test little else,
// and opposite infinities in two tensors combine only where either has few others.
double specialFloat(uint64_t r, uint64_t palette) {
  constexpr double all[] = {INFINITY, -INFINITY, 0.0, -0.0, NAN, INFINITY, -INFINITY, NAN};
  switch (palette % 6) {
  case 0: return -INFINITY;
  case 1: return INFINITY;
  case 2: return (r >> 8) % 2 ? 0.0 : -0.0;
  case 3: return all[(r >> 8) % 8];
  case 4: return NAN;
  default: return all[(r >> 8) % 4];
  }
}

// One value everywhere except in few elements, in one, or in none.
struct Sparse {
  uint64_t seed, base;
  bool few; // not a single one
  int64_t odd;
  Sparse(uint64_t stream, int64_t elements)
      : seed(mixed(stream ^ 0x5eedull)), base(seed >> 8), few(seed % 4 == 0) {
    odd =
        elements && seed % 4 != 1 ? static_cast<int64_t>(mixed(seed) % static_cast<uint64_t>(elements)) : -1;
  }
  [[nodiscard]] bool isOdd(int64_t i) const {
    return i == odd || (few && mixed(seed + static_cast<uint64_t>(i)) % 8 == 0);
  }
};

void fillFloat(Tensor& t, uint64_t seed, const TrialFill& fill) {
  constexpr double bases[] = {0, 1, -1, 0.5, -2, 1.5, 0, 1};
  constexpr double odds[] = {3, -3, 0, 1, -1, 0.25, 2, -0.5};
  const Sparse sparse(seed, t.numElements());
  constexpr uint64_t every[] = {2, 3, 8};
  const uint64_t palette = mixed(seed ^ 0x7a7ull);
  const uint64_t rarity = t.numElements() <= 4 ? 2 : every[mixed(seed ^ 0x0ffull) % 3];
  for (int64_t i = 0; i < t.numElements(); ++i) {
    const uint64_t r = mixed(seed + static_cast<uint64_t>(i));
    double v = smallFloat(r >> 16);
    switch (fill.values) {
    case TrialValues::Small: break;
    case TrialValues::Sparse: v = sparse.isOdd(i) ? oneOf(odds, r >> 16) : oneOf(bases, sparse.base); break;
    case TrialValues::Near: v = nearFloat(fill.near, r); break;
    case TrialValues::Wide: v = wideFloat(t.dtype(), r); break;
    case TrialValues::Large: v = largeFloat(t.dtype(), r); break;
    case TrialValues::Special: v = r % rarity == 0 ? specialFloat(r, palette) : v; break;
    }
    const double lo = static_cast<double>(fill.range.lo), hi = static_cast<double>(fill.range.hi);
    if (hi > lo && fill.values != TrialValues::Special)
      v = lo + (hi - lo) * static_cast<double>((r >> 16) % 16) / 16;
    t.setFloat(i, v);
  }
}

int64_t largeInt(DType d, uint64_t r) {
  const int64_t lo = intMin(d), hi = intMax(d);
  const int64_t choices[] = {lo, hi, static_cast<int64_t>(static_cast<uint64_t>(hi) / 2) + 1, hi - 1, lo + 1,
                             1,  0};
  return choices[(r >> 8) % 7];
}

int64_t anyInt(DType d, uint64_t r) { // small numbers remain among them: as shifts, as divisors
  const uint64_t pick = r >> 40, which = (pick >> 1) % 4;
  const int64_t small = static_cast<int64_t>(r % 11) - (isUnsignedInt(d) ? 0 : 5);
  if (pick % 2) return small;
  return which == 0 ? intMin(d) : which == 1 ? intMax(d) : wrapToInt(d, static_cast<int64_t>(r));
}

int64_t integerOf(DType d, uint64_t r, const TrialFill& fill, const Sparse& sparse, int64_t i) {
  const bool sign = !isUnsignedInt(d);
  constexpr int64_t bases[] = {0, 1, 1, 2, 5, 3, 6, 4}, odds[] = {3, 7, 0, 1, 2, 4, 1, 9};
  switch (fill.values) {
  case TrialValues::Small: break;
  case TrialValues::Sparse: {
    const int64_t v = sparse.isOdd(i) ? odds[(r >> 16) % 8] : bases[sparse.base % 8];
    return sign && (sparse.isOdd(i) ? r >> 24 : sparse.base >> 8) % 2 ? -v : v;
  }
  case TrialValues::Near: {
    const double v = nearFloat(fill.near, r);
    if (!(std::fabs(v) < 9e18)) return largeInt(d, r);
    return wrapToInt(d, static_cast<int64_t>(v));
  }
  case TrialValues::Wide: {
    const int64_t v = 2 * static_cast<int64_t>((r >> 8) % 4) + 1;
    return sign && (r >> 16) % 2 ? -v : v;
  }
  case TrialValues::Large: return largeInt(d, r);
  case TrialValues::Special: return anyInt(d, r);
  }
  return static_cast<int64_t>(r % 11) - (sign ? 5 : 0);
}

void fillInt(Tensor& t, uint64_t seed, const TrialFill& fill) {
  const DType d = t.dtype();
  const Sparse sparse(seed, t.numElements());
  const uint64_t rarity = mixed(seed) % 3; // bools: half true, few, nearly all
  for (int64_t i = 0; i < t.numElements(); ++i) {
    const uint64_t r = mixed(seed + static_cast<uint64_t>(i)), pick = r >> 40;
    if (fill.range.hi > fill.range.lo) {
      const uint64_t which = fill.values == TrialValues::Sparse && !sparse.isOdd(i) ? sparse.base : r;
      t.setInt(i, fill.range.lo +
                      static_cast<int64_t>(which % static_cast<uint64_t>(fill.range.hi - fill.range.lo)));
    } else if (isBool(d)) {
      bool v = rarity == 0 ? pick % 2 == 0 : rarity == 1 ? pick % 32 == 0 : pick % 32 != 0;
      if (fill.values != TrialValues::Small && fill.values != TrialValues::Special)
        v = (sparse.base % 2 == 0) != sparse.isOdd(i);
      t.setInt(i, v);
    } else {
      t.setInt(i, integerOf(d, r, fill, sparse, i));
    }
  }
}

} // namespace

void fillTrialTensor(Tensor& t, uint64_t stream, const TrialFill& fill) {
  stream = mixed(stream + static_cast<uint64_t>(fill.values));
  if (isComplex(t.dtype())) {
    Tensor parts = t.parts();
    fillFloat(parts, stream, fill);
    for (int64_t i = 1; i < parts.numElements(); i += 4)
      parts.setFloat(i, 0); // some are real: those may be equal
    t = Tensor::fromParts(parts);
  } else if (isFloat(t.dtype())) {
    fillFloat(t, stream, fill);
  } else {
    fillInt(t, stream, fill);
  }
}

bool isFinite(const Tensor& t) {
  if (isComplex(t.dtype())) return isFinite(t.parts());
  for (int64_t i = 0; isFloat(t.dtype()) && i < t.numElements(); ++i)
    if (!std::isfinite(t.getFloat(i))) return false;
  return true;
}

double maxFiniteMagnitude(const Tensor& t) {
  if (isComplex(t.dtype())) return maxFiniteMagnitude(t.parts());
  double largest = 0;
  for (int64_t i = 0; isFloat(t.dtype()) && i < t.numElements(); ++i)
    if (std::isfinite(t.getFloat(i))) largest = std::max(largest, std::fabs(t.getFloat(i)));
  return largest;
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

static bool floatsAgree(double g, double w, double tolerance) {
  if (g == w || (std::isnan(g) && std::isnan(w))) return true;
  return std::isfinite(g) && std::isfinite(w) && std::fabs(g - w) <= tolerance;
}

bool agreesAt(const Tensor& got, const Tensor& want, int64_t i, double tolerance) {
  if (isComplex(want.dtype())) {
    const std::complex<double> g = got.getComplex(i), w = want.getComplex(i);
    return floatsAgree(g.real(), w.real(), tolerance) && floatsAgree(g.imag(), w.imag(), tolerance);
  }
  if (!isFloat(want.dtype())) return got.getInt(i) == want.getInt(i);
  return floatsAgree(got.getFloat(i), want.getFloat(i), tolerance);
}

int64_t firstDifference(const Tensor& got, const Tensor& want, double tolerance) {
  for (int64_t i = 0; i < want.numElements(); ++i)
    if (!agreesAt(got, want, i, tolerance)) return i;
  return -1;
}

} // namespace dtc
