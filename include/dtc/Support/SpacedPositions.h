#pragma once
// Evenly spaced positions, whose spacing is a fraction in the user's mind and a double in the program.
#include <cstdint>
#include <optional>

namespace dtc {

struct Fraction {
  int64_t num = 0, den = 1;
};
// The simplest fraction near x, with a denominator of at most 2^24: 1.6666666666666667 is 5/3. Empty if there is none.
[[nodiscard]] std::optional<Fraction> fractionNear(double x, double tolerance);
// The simplest fraction that rounds to a float32, or the float32 itself.
[[nodiscard]] long double fractionOfFloat(float x);

// Position o is scale * o + offset. It is exact where both numbers are near fractions: 3 * 1.6666666666666667 is 5,
// which matters to whoever rounds it.
class SpacedPositions {
public:
  SpacedPositions(double scale, double offset);
  [[nodiscard]] long double at(int64_t o) const;

private:
  double scale_, offset_;
  int64_t perStep_ = 0, first_ = 0, den_ = 0; // of fractions; a denominator of 0 says that there are none
};

} // namespace dtc
