#include "view/Svg.h"

#include "dtc/Report/view/View.h"

#include <algorithm>

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

std::string shortened(const std::string& text, size_t maxLength) {
  return text.size() <= maxLength ? text : text.substr(0, maxLength - 3) + "...";
}

void Svg::reach(size_t x, size_t y) {
  width_ = std::max(width_, x);
  height_ = std::max(height_, y);
}

void Svg::text(size_t x, size_t y, std::string_view what, std::string_view cls) {
  body_ += "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\"";
  if (!cls.empty()) body_ += " class=\"" + std::string(cls) + "\"";
  body_ += ">" + escapedXml(what) + "</text>\n";
  reach(x + what.size() * kLetterWidth, y + 6);
}

void Svg::box(size_t x, size_t y, size_t width, size_t height, std::string_view cls, std::string_view tip,
              int hue) {
  body_ += "<rect x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\" width=\"" +
           std::to_string(width) + "\" height=\"" + std::to_string(height) + "\" class=\"" +
           std::string(cls) + "\"";
  if (hue >= 0) body_ += " style=\"fill:hsl(" + std::to_string(hue) + ",60%,85%)\"";
  body_ += tip.empty() ? "/>\n" : "><title>" + escapedXml(tip) + "</title></rect>\n";
  reach(x + width, y + height);
}

void Svg::line(size_t x1, size_t y1, size_t x2, size_t y2, std::string_view cls) {
  body_ += "<line x1=\"" + std::to_string(x1) + "\" y1=\"" + std::to_string(y1) + "\" x2=\"" +
           std::to_string(x2) + "\" y2=\"" + std::to_string(y2) + "\" class=\"" + std::string(cls) + "\"/>\n";
  reach(std::max(x1, x2), std::max(y1, y2));
}

std::string Svg::finish() const {
  std::string size = std::to_string(width_ + 20) + "\" height=\"" + std::to_string(height_ + 20);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + size +
         "\">\n"
         "<style>text{font:13px "
         "monospace;fill:#222}.title{font-weight:bold}.fact{fill:#555}.mid{text-anchor:middle}"
         "rect{fill:#eef;stroke:#446}.pending{stroke-dasharray:4 "
         "2;stroke-width:2}.frame{fill:none;stroke:#aaa}"
         ".edge{stroke:#888}.collective{fill:#fed}.page{fill:#fff;stroke:none}</style>\n"
         "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n" +
         body_ + "</svg>\n";
}

std::string htmlPage(std::string_view title, std::string_view svg) {
  return "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n<title>" + escapedXml(title) +
         "</title>\n</head>\n<body>\n" + std::string(svg) + "</body>\n</html>\n";
}

} // namespace dtc
