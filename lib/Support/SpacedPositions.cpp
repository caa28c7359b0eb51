#include "dtc/Support/SpacedPositions.h"

#include "dtc/Support/Checked.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace dtc {

namespace {

constexpr int64_t kMaxDenominator = int64_t(1) << 24;

} // namespace

// The convergents of the continued fraction, from the simplest.
std::optional<Fraction> fractionNear(double x, double tolerance) {
  if (!(std::abs(x) < 0x1p38)) return std::nullopt;
  Fraction before{0, 1}, now{1, 0};
  long double rest = x;
  while (true) {
    const auto whole = static_cast<int64_t>(std::floor(rest));
    const auto scaled = checkedMul(whole, now.den), den = scaled ? checkedAdd(*scaled, before.den) : scaled;
    if (!den || *den > kMaxDenominator) return std::nullopt;
    const Fraction next{whole * now.num + before.num, *den};
    const long double error = static_cast<long double>(next.num) / static_cast<long double>(next.den) - x;
    if (std::abs(error) <= tolerance) return next;
    rest -= static_cast<long double>(whole);
    if (!(rest > 0x1p-60L)) return std::nullopt;
    rest = 1 / rest;
    if (!(rest < 0x1p60L)) return std::nullopt;
    before = now, now = next;
  }
}

long double fractionOfFloat(float x) {
  const float next = std::nextafter(x, std::numeric_limits<float>::infinity());
  const auto found = fractionNear(x, (static_cast<double>(next) - x) / 2);
  return found ? static_cast<long double>(found->num) / static_cast<long double>(found->den) : x;
}

SpacedPositions::SpacedPositions(double scale, double offset) : scale_(scale), offset_(offset) {
  // A few roundings of doubles.
  const auto near = [](double x) { return fractionNear(x, 0x1p-50 * std::max(1.0, std::abs(x))); };
  const auto step = near(scale), first = near(offset);
  if (!step || !first) return;
  const int64_t den = std::lcm(step->den, first->den);
  const auto a = checkedMul(step->num, den / step->den), b = checkedMul(first->num, den / first->den);
  if (!a || !b) return;
  perStep_ = *a, first_ = *b, den_ = den;
}

long double SpacedPositions::at(int64_t o) const {
  if (den_ == 0) return static_cast<long double>(scale_) * static_cast<long double>(o) + offset_;
  const __int128 num = static_cast<__int128>(perStep_) * o + first_;
  return static_cast<long double>(num) / static_cast<long double>(den_);
}

} // namespace dtc
