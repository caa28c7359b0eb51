// Grids as a drawing: a box and a color for each shard.
#include "dtc/Report/view/View.h"
#include "view/Palette.h"
#include "view/Svg.h"

#include <algorithm>

namespace dtc {
namespace {

constexpr int64_t kMaxSegments = 32, kLeftOut = -1;
constexpr size_t kGap = 24, kCellHeight = 26;

struct Extent {
  size_t width = 0, height = 0;
};

class GridDrawing {
public:
  GridDrawing(Svg& svg, const ViewGrid& g) : svg_(svg), g_(g) {
    at_.assign(g.dims.size(), 0);
    std::vector<int64_t> last;
    for (const ViewGrid::Dim& d : g.dims) last.push_back(d.count - 1);
    size_t letters = std::max(g.cell(at_).size(), g.cell(last).size());
    if (!g.dims.empty()) letters = std::max(letters, g.dims.back().label(last.back()).size());
    cellWidth_ = (letters + 2) * kLetterWidth;
    rows_ = segments(g.dims.size() >= 2 ? g.dims[g.dims.size() - 2].count : 1);
    columns_ = segments(g.dims.empty() ? 1 : g.dims.back().count);
    scale();
  }

  // Sizes of segments are known, but some would be too small for text.
  [[nodiscard]] bool isDistorted() const { return distorted_; }

  // Draws the dims from `d` on with the upper left corner at (x, y).
  Extent blocks(size_t d, size_t x, size_t y) {
    const size_t left = g_.dims.size() - d;
    if (left <= 2) return matrix(d, x, y);
    if (g_.dims[d].count == 1) return at_[d] = 0, blocks(d + 1, x, y);
    const bool across = left % 2 == 1;
    Extent all;
    size_t along = 0;
    for (int64_t i : segments(g_.dims[d].count)) {
      const size_t bx = x + (across ? along : 0), by = y + (across ? 0 : along);
      Extent one{3 * kLetterWidth, kLineHeight};
      if (i == kLeftOut) {
        svg_.text(bx, by + kLineHeight, "...");
      } else {
        at_[d] = i;
        svg_.text(bx, by + 13, headingOf(g_.dims[d], i), "fact");
        one = blocks(d + 1, bx, by + kLineHeight);
        one.height += kLineHeight;
      }
      along += (across ? one.width : one.height) + kGap;
      all.width = std::max(all.width, across ? along : one.width);
      all.height = std::max(all.height, across ? one.height : along);
    }
    return all;
  }

private:
  // Cells are to scale if there is room for their text.
  void scale() {
    constexpr double kWide = 900, kTall = 600;
    widths_.assign(columns_.size(), cellWidth_), heights_.assign(rows_.size(), kCellHeight);
    const size_t n = g_.dims.size();
    if (n == 0 || !g_.dims.back().size || (n >= 2 && !g_.dims[n - 2].size)) return;
    const auto sizesOf = [](const ViewGrid::Dim& d, const std::vector<int64_t>& list) {
      std::vector<double> sizes;
      for (int64_t i : list) sizes.push_back(i == kLeftOut ? 0 : static_cast<double>(d.size(i)));
      return sizes;
    };
    const std::vector<double> across = sizesOf(g_.dims.back(), columns_),
                              down = n >= 2 ? sizesOf(g_.dims[n - 2], rows_) : std::vector<double>{0};
    const auto leastOf = [](const std::vector<double>& sizes) {
      double least = 1e300;
      for (double s : sizes) least = s > 0 ? std::min(least, s) : 0;
      return least;
    };
    const auto sumOf = [](const std::vector<double>& sizes) {
      double sum = 0;
      for (double s : sizes) sum += s;
      return sum;
    };
    distorted_ = true;
    if (leastOf(across) <= 0 || (n >= 2 && leastOf(down) <= 0)) return; // empty shards, or too many
    const double cell = static_cast<double>(cellWidth_), high = static_cast<double>(kCellHeight);
    const double unit = std::max(cell / leastOf(across), n >= 2 ? high / leastOf(down) : 0.0);
    if (unit * sumOf(across) > kWide || unit * sumOf(down) > kTall) return;
    distorted_ = false;
    for (size_t c = 0; c < across.size(); ++c) widths_[c] = static_cast<size_t>(across[c] * unit);
    for (size_t r = 0; r < down.size() && n >= 2; ++r) heights_[r] = static_cast<size_t>(down[r] * unit);
  }

  static std::vector<int64_t> segments(int64_t count) {
    std::vector<int64_t> list;
    for (int64_t i = 0; i < std::min(count, kMaxSegments); ++i) list.push_back(i);
    if (count > kMaxSegments) list.insert(list.end(), {kLeftOut, count - 1});
    return list;
  }

  Extent matrix(size_t d, size_t x, size_t y) {
    const size_t left = g_.dims.size() - d;
    size_t label = 0;
    if (left == 2)
      for (int64_t r : rows_)
        if (r != kLeftOut) label = std::max(label, (g_.dims[d].label(r).size() + 1) * kLetterWidth);
    size_t cy = y + kLineHeight, width = label;
    for (size_t r = 0; r < rows_.size(); cy += heights_[r++]) {
      if (left == 2) svg_.text(x, cy + 17, rows_[r] == kLeftOut ? "..." : g_.dims[d].label(rows_[r]), "fact");
      size_t cx = x + label;
      for (size_t c = 0; c < columns_.size(); cx += widths_[c++]) {
        if (r == 0 && left >= 1)
          svg_.text(cx + kLetterWidth / 2, y + 13,
                    columns_[c] == kLeftOut ? "..." : g_.dims.back().label(columns_[c]), "fact");
        if (rows_[r] != kLeftOut && columns_[c] != kLeftOut)
          cell(left, rows_[r], columns_[c], {cx, cy, widths_[c], heights_[r]});
      }
      width = cx - x;
    }
    return {width, cy - y};
  }

  struct Box {
    size_t x = 0, y = 0, width = 0, height = 0;
  };
  void cell(size_t left, int64_t row, int64_t column, const Box& at) {
    if (left == 2) at_[at_.size() - 2] = row;
    if (left >= 1) at_.back() = column;
    const std::string holders = g_.cell(at_);
    std::string tip = holders;
    int64_t number = 0, count = 1;
    for (size_t d = 0; d < at_.size(); ++d)
      number = number * g_.dims[d].count + at_[d], count *= g_.dims[d].count;
    for (size_t d = 0; d < at_.size(); ++d) tip += "\n" + headingOf(g_.dims[d], at_[d]);
    svg_.box(at.x, at.y, at.width, at.height, g_.marked(at_) ? "pending" : "cell", tip,
             shardColor(number, count));
    svg_.text(at.x + kLetterWidth, at.y + 17, holders, shardColor(number, count).empty() ? "" : "on");
  }

  Svg& svg_;
  const ViewGrid& g_;
  std::vector<int64_t> at_;
  size_t cellWidth_ = 0;
  std::vector<int64_t> rows_, columns_; // segments of the last two dims, and their sizes in the drawing
  std::vector<size_t> widths_, heights_;
  bool distorted_ = false;
};

} // namespace

std::string gridsSvg(std::span<const ViewGrid> grids) {
  Svg svg;
  size_t y = 20;
  for (const ViewGrid& g : grids) {
    svg.text(10, y, g.title, "title");
    for (const std::string& f : g.facts) svg.text(20, y += kLineHeight, f, "fact");
    GridDrawing drawing(svg, g);
    if (drawing.isDistorted()) svg.text(20, y += kLineHeight, "not to scale", "fact");
    y += drawing.blocks(0, 20, y + 10).height + 3 * kLineHeight;
  }
  return svg.finish();
}

} // namespace dtc
