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
  }

  // Draws the dims from `d` on with the upper left corner at (x, y).
  Extent blocks(size_t d, size_t x, size_t y) {
    const size_t left = g_.dims.size() - d;
    if (left <= 2) return matrix(d, x, y);
    if (g_.dims[d].count == 1) return at_[d] = 0, blocks(d + 1, x, y);
    const bool across = left % 2 == 1;
    Extent all;
    size_t along = 0;
    for (int64_t i : shown(g_.dims[d].count)) {
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
  static std::vector<int64_t> shown(int64_t count) {
    std::vector<int64_t> list;
    for (int64_t i = 0; i < std::min(count, kMaxSegments); ++i) list.push_back(i);
    if (count > kMaxSegments) list.insert(list.end(), {kLeftOut, count - 1});
    return list;
  }

  Extent matrix(size_t d, size_t x, size_t y) {
    const size_t left = g_.dims.size() - d;
    const std::vector<int64_t> rows = shown(left == 2 ? g_.dims[d].count : 1),
                               columns = shown(left >= 1 ? g_.dims.back().count : 1);
    size_t label = 0;
    if (left == 2)
      for (int64_t r : rows)
        if (r != kLeftOut) label = std::max(label, (g_.dims[d].label(r).size() + 1) * kLetterWidth);
    for (size_t r = 0; r < rows.size(); ++r) {
      const size_t cy = y + kLineHeight + r * kCellHeight;
      if (left == 2) svg_.text(x, cy + 17, rows[r] == kLeftOut ? "..." : g_.dims[d].label(rows[r]), "fact");
      for (size_t c = 0; c < columns.size(); ++c) {
        const size_t cx = x + label + c * cellWidth_;
        if (r == 0 && left >= 1)
          svg_.text(cx + kLetterWidth / 2, y + 13,
                    columns[c] == kLeftOut ? "..." : g_.dims.back().label(columns[c]), "fact");
        if (rows[r] != kLeftOut && columns[c] != kLeftOut) cell(left, rows[r], columns[c], cx, cy);
      }
    }
    return {label + columns.size() * cellWidth_, kLineHeight + rows.size() * kCellHeight};
  }

  void cell(size_t left, int64_t row, int64_t column, size_t x, size_t y) {
    if (left == 2) at_[at_.size() - 2] = row;
    if (left >= 1) at_.back() = column;
    const std::string holders = g_.cell(at_);
    std::string tip = holders;
    int64_t number = 0, count = 1;
    for (size_t d = 0; d < at_.size(); ++d)
      number = number * g_.dims[d].count + at_[d], count *= g_.dims[d].count;
    for (size_t d = 0; d < at_.size(); ++d) tip += "\n" + headingOf(g_.dims[d], at_[d]);
    svg_.box(x, y, cellWidth_, kCellHeight, g_.marked(at_) ? "pending" : "cell", tip,
             shardColor(number, count));
    svg_.text(x + kLetterWidth, y + 17, holders);
  }

  Svg& svg_;
  const ViewGrid& g_;
  std::vector<int64_t> at_;
  size_t cellWidth_ = 0;
};

} // namespace

std::string gridsSvg(std::span<const ViewGrid> grids) {
  Svg svg;
  size_t y = 20;
  for (const ViewGrid& g : grids) {
    svg.text(10, y, g.title, "title");
    for (const std::string& f : g.facts) svg.text(20, y += kLineHeight, f, "fact");
    y += GridDrawing(svg, g).blocks(0, 20, y + 10).height + 3 * kLineHeight;
  }
  return svg.finish();
}

} // namespace dtc
