#include "view/Svg.h"

#include "dtc/Report/view/View.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dtc {

std::string escapedXml(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
    case '&': out += "&amp;"; break;
    case '<': out += "&lt;"; break;
    case '>': out += "&gt;"; break;
    case '"': out += "&quot;"; break;
    case '\'': out += "&#39;"; break;
    default: out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  }
  return out;
}

void Svg::reach(size_t x, size_t y) {
  width_ = std::max(width_, x);
  height_ = std::max(height_, y);
}

void Svg::text(size_t x, size_t y, std::string_view what, std::string_view cls) {
  body_ += "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\"";
  if (!cls.empty()) body_ += " class=\"" + std::string(cls) + "\"";
  body_ += ">" + escapedXml(what) + "</text>\n";
  const size_t width = what.size() * kLetterWidth;
  reach(x + (cls.ends_with("end") ? 0 : cls.ends_with("mid") ? width / 2 : width), y + 6);
}

void Svg::box(size_t x, size_t y, size_t width, size_t height, std::string_view cls, std::string_view tip,
              std::string_view fill) {
  body_ += "<rect x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\" width=\"" +
           std::to_string(width) + "\" height=\"" + std::to_string(height) + "\" class=\"" +
           std::string(cls) + "\"";
  if (!fill.empty()) body_ += " style=\"fill:" + std::string(fill) + "\"";
  body_ += tip.empty() ? "/>\n" : "><title>" + escapedXml(tip) + "</title></rect>\n";
  reach(x + width, y + height);
}

void Svg::line(size_t x1, size_t y1, size_t x2, size_t y2, std::string_view cls) {
  body_ += "<line x1=\"" + std::to_string(x1) + "\" y1=\"" + std::to_string(y1) + "\" x2=\"" +
           std::to_string(x2) + "\" y2=\"" + std::to_string(y2) + "\" class=\"" + std::string(cls) + "\"/>\n";
  reach(std::max(x1, x2), std::max(y1, y2));
}

static std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", v);
  return text;
}

static std::string withTip(const std::string& element, std::string_view tip) {
  if (tip.empty()) return element + "/>\n";
  return element + "><title>" + escapedXml(tip) + "</title></" + element.substr(1, element.find(' ') - 1) +
         ">\n";
}

void Svg::path(std::span<const Point> points, std::string_view cls, std::string_view tip) {
  if (points.empty()) return;
  std::string where;
  for (const Point& p : points) {
    where += (where.empty() ? "M" : "L") + number(p.x) + " " + number(p.y);
    reach(static_cast<size_t>(p.x), static_cast<size_t>(p.y));
  }
  body_ += withTip("<path d=\"" + where + "\" class=\"" + std::string(cls) + "\"", tip);
}

void Svg::curve(std::span<const Point> points, std::string_view cls) {
  if (points.size() < 2) return;
  std::string where;
  for (size_t i = 0; i < points.size(); ++i) {
    where += (i == 0              ? "M"
              : i > 1             ? " "
              : points.size() < 4 ? "L"
                                  : "C") +
             number(points[i].x) + " " + number(points[i].y);
    reach(static_cast<size_t>(std::max(points[i].x, 0.0)), static_cast<size_t>(std::max(points[i].y, 0.0)));
  }
  body_ += "<path d=\"" + where + "\" class=\"" + std::string(cls) + "\" marker-end=\"url(#tip)\"/>\n";
  hasArrows_ = true;
}

void Svg::arrow(std::span<const Point> points, std::string_view cls, double width, std::string_view tip) {
  constexpr double kLength = 8, kHalf = 3.5;
  if (points.size() < 2) return;
  const Point end = points.back();
  Point before = points[points.size() - 2];
  for (size_t i = points.size() - 1; i-- > 0 && before.x == end.x && before.y == end.y;) before = points[i];
  const double length = std::max(std::hypot(end.x - before.x, end.y - before.y), 1e-6);
  const double dx = (end.x - before.x) / length, dy = (end.y - before.y) / length;
  const Point foot{end.x - dx * kLength, end.y - dy * kLength};
  std::string where;
  for (size_t i = 0; i < points.size(); ++i) {
    const Point& p = i + 1 == points.size() ? foot : points[i]; // a wide line would cover the tip
    where += (i == 0 ? "M" : i > 1 ? " " : points.size() < 4 ? "L" : "C") + number(p.x) + " " + number(p.y);
    reach(static_cast<size_t>(std::max(p.x, 0.0)), static_cast<size_t>(std::max(p.y, 0.0)));
  }
  const std::string own(cls.empty() ? "" : " " + std::string(cls));
  body_ += withTip("<path d=\"" + where + "\" class=\"edge" + own +
                       "\" style=\"stroke-width:" + number(width) + "\"",
                   tip);
  body_ += "<path d=\"M" + number(end.x) + " " + number(end.y) + "L" + number(foot.x - dy * kHalf) + " " +
           number(foot.y + dx * kHalf) + "L" + number(foot.x + dy * kHalf) + " " +
           number(foot.y - dx * kHalf) + "z\" class=\"head" + own + "\"/>\n";
}

void Svg::circle(Point center, std::string_view cls, std::string_view tip) {
  body_ += withTip("<circle cx=\"" + number(center.x) + "\" cy=\"" + number(center.y) +
                       "\" r=\"3\" class=\"" + std::string(cls) + "\"",
                   tip);
  reach(static_cast<size_t>(center.x) + 3, static_cast<size_t>(center.y) + 3);
}

std::string Svg::finish(std::string_view style) const {
  constexpr std::string_view kStyle =
      "text{font:13px monospace;fill:#222}.title{font-weight:bold}.fact{fill:#555}.mid{text-anchor:middle}"
      "rect{fill:#eef;stroke:#446}.pending{stroke-dasharray:4 2;stroke-width:2}.frame{fill:none;stroke:#aaa}"
      ".given{fill:#e3e3e3}.result{fill:#d5efdf}.edge{stroke:#888}.arrow{fill:none;stroke:#888}.collective{"
      "fill:#fed}.busy{fill:#cfe2f3}.busy.thin{"
      "fill:#9fc5e8}.collective.thin{fill:#f0b27a}"
      ".peak{stroke:#b3261e;stroke-dasharray:5 3}.end{text-anchor:end}.rest{fill:#"
      "eee}.exposed{fill:#b3261e;stroke:none}.waits{fill:#fff;stroke:#8250df;stroke-dasharray:2 "
      "2}.thin{stroke:none}.grid{stroke:#ddd}.page{fill:#fff;stroke:none}.on{fill:#222}"
      "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.fact{fill:#9da7b3}.page{fill:#0d1117}rect{fill:#"
      "1f2a44;"
      "stroke:#8b98ad}.frame{stroke:#555}.given,.rest{fill:#30363d}.result{fill:#12382d}.busy{fill:#1d3b57}."
      "busy.thin{"
      "fill:#35648f}.collective{fill:#5a3a1b}.waits{fill:#0d1117}.grid{stroke:#30363d}}";
  constexpr const char* kArrow = "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7.5\" refY=\"4\" "
                                 "markerWidth=\"8\" markerHeight=\"8\" "
                                 "markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" "
                                 "fill=\"#888\"/></marker></defs>\n";
  std::string size = std::to_string(width_ + 20) + "\" height=\"" + std::to_string(height_ + 20);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + size + "\">\n<style>" +
         std::string(style.empty() ? kStyle : style) + "</style>\n" + (hasArrows_ ? kArrow : "") +
         "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n" + body_ + "</svg>\n";
}

std::string htmlPage(std::string_view title, std::string_view svg) {
  return "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n<title>" + escapedXml(title) +
         "</title>\n<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
         "<style>:root{color-scheme:light "
         "dark}div{overflow-x:auto}svg{display:block}</style>\n</head>\n<body>\n<div>" +
         std::string(svg) + "</div>\n</body>\n</html>\n";
}

} // namespace dtc
