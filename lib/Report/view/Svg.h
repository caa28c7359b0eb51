#pragma once
// The primitives of drawings. All text is escaped here, and nothing is loaded from elsewhere: a file is
// self-contained.
#include "explain/ShortNames.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace dtc {

[[nodiscard]] std::string escapedXml(std::string_view text);

class Svg {
public:
  void text(size_t x, size_t y, std::string_view what, std::string_view cls = {}); // y: the base line
  // A box with a tooltip. `fill`: a color, if it is not that of the class.
  void box(size_t x, size_t y, size_t width, size_t height, std::string_view cls, std::string_view tip = {},
           std::string_view fill = {});
  void line(size_t x1, size_t y1, size_t x2, size_t y2, std::string_view cls = "edge");
  // A line through points, of which the ends may have a fraction, and a point.
  struct Point {
    double x = 0, y = 0;
  };
  void path(std::span<const Point> points, std::string_view cls, std::string_view tip = {});
  // A line of cubic Bezier curves, the first point and three for each, with an arrow at its end.
  void curve(std::span<const Point> points, std::string_view cls);
  // The same, `width` pixels wide, whose arrow is a shape of its own, with the class "head": in the color of `cls`.
  void arrow(std::span<const Point> points, std::string_view cls, double width, std::string_view tip = {});
  void circle(Point center, std::string_view cls, std::string_view tip = {});
  // The complete file, with the style sheet of drawings, or another one.
  [[nodiscard]] std::string finish(std::string_view style = {}) const;

private:
  void reach(size_t x, size_t y);
  std::string body_;
  size_t width_ = 0, height_ = 0;
  bool hasArrows_ = false;
};

// The width of a letter in the drawings' fixed-width font.
inline constexpr size_t kLetterWidth = 8, kLineHeight = 18;

} // namespace dtc
