#pragma once
#include <array>
#include <string>
#include <vector>

namespace dtc {

// A stream over time as a row of letters. A letter says what takes most of its cell's time, and whether that is half of
// it: a stream that is busy for a tenth of the time does not look busy.
class Strip {
public:
  enum Kind : uint8_t { Computes, Message, Waits, Repeats };
  Strip(double seconds, size_t cells) : perCell_(seconds / static_cast<double>(cells)), cells_(cells) {}
  void add(Kind, double begin, double end);
  [[nodiscard]] std::string text() const;
  // What the letters mean; `repeats`: some stand for further iterations.
  [[nodiscard]] static std::string legend(bool repeats);

private:
  double perCell_;
  std::vector<std::array<double, 4>> cells_; // seconds by kind
};

} // namespace dtc
