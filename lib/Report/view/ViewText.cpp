// Grids as text: ASCII, as wide as the terminal.
#include "dtc/Report/view/View.h"

#include <algorithm>

namespace dtc {
namespace {

using Lines = std::vector<std::string>;
constexpr int64_t kMaxRows = 16, kMaxBlocks = 8, kLeftOutRow = -1;

size_t widthOf(const Lines& lines) {
  size_t width = 0;
  for (const std::string& l : lines) width = std::max(width, l.size());
  return width;
}

// Abbreviates `count` items to `maxShown`: the first ones, a gap, the last one.
std::vector<int64_t> shown(int64_t count, int64_t maxShown) {
  std::vector<int64_t> list;
  if (count <= maxShown) {
    for (int64_t i = 0; i < count; ++i) list.push_back(i);
    return list;
  }
  for (int64_t i = 0; i < std::max<int64_t>(maxShown - 2, 1); ++i) list.push_back(i);
  list.push_back(kLeftOutRow);
  list.push_back(count - 1);
  return list;
}

std::string padded(const std::string& text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

class GridText {
public:
  GridText(const ViewGrid& g, size_t columns) : g_(g), columns_(std::max<size_t>(columns, 20)) {
    at_.assign(g.dims.size(), 0);
  }

  Lines all() { return blocks(0); }

private:
  // The dims from `d` on; those before are fixed in at_.
  Lines blocks(size_t d) {
    const size_t left = g_.dims.size() - d;
    if (left <= 2) return matrix(d);
    const ViewGrid::Dim& dim = g_.dims[d];
    if (dim.count == 1) return at_[d] = 0, blocks(d + 1);
    const bool across = left % 2 == 1;
    const size_t first = widthOf(block(d, 0));
    const auto fit = static_cast<int64_t>((columns_ + kGap) / (first + kGap));
    if (across && fit >= std::min<int64_t>(dim.count, 3)) return beside(d, shown(dim.count, fit));
    return below(d, shown(dim.count, kMaxBlocks));
  }

  Lines block(size_t d, int64_t i) {
    at_[d] = i;
    Lines lines = blocks(d + 1);
    lines.insert(lines.begin(), headingOf(g_.dims[d], i));
    return lines;
  }

  Lines beside(size_t d, const std::vector<int64_t>& list) {
    Lines out;
    for (int64_t i : list) {
      Lines next = i == kLeftOutRow ? Lines{"..."} : block(d, i);
      const size_t offset = out.empty() ? 0 : widthOf(out) + kGap;
      out.resize(std::max(out.size(), next.size()));
      for (size_t l = 0; l < next.size(); ++l) {
        if (out[l].size() < offset) out[l].append(offset - out[l].size(), ' ');
        out[l] += next[l];
      }
    }
    return out;
  }

  Lines below(size_t d, const std::vector<int64_t>& list) {
    Lines out;
    for (int64_t i : list) {
      if (!out.empty()) out.emplace_back();
      for (std::string& l : i == kLeftOutRow ? Lines{"..."} : block(d, i)) out.push_back(std::move(l));
    }
    return out;
  }

  // Rows are dim d and columns dim d + 1, or columns alone where one dim is left.
  Lines matrix(size_t d) {
    const size_t left = g_.dims.size() - d;
    const ViewGrid::Dim* down = left == 2 ? &g_.dims[d] : nullptr;
    const ViewGrid::Dim* across = left >= 1 ? &g_.dims.back() : nullptr;
    std::vector<int64_t> rows = shown(down ? down->count : 1, kMaxRows);
    size_t rowLabel = 0, cell = across ? across->label(across->count - 1).size() : 0;
    for (int64_t r : rows)
      if (down && r != kLeftOutRow) rowLabel = std::max(rowLabel, down->label(r).size());
    for (int64_t r : rows)
      for (int64_t c : {int64_t{0}, across ? across->count - 1 : 0})
        if (r != kLeftOutRow) cell = std::max(cell, cellAt(d, left, r, c).size());
    const auto fit = static_cast<int64_t>((columns_ - std::min(columns_ - 1, rowLabel)) / (cell + 2));
    std::vector<int64_t> columns = shown(across ? across->count : 1, std::max<int64_t>(fit, 3));
    Lines out;
    if (across) {
      std::string head(rowLabel, ' ');
      for (int64_t c : columns) head += "  " + (c == kLeftOutRow ? "..." : padded(across->label(c), cell));
      out.push_back(std::move(head));
    }
    for (int64_t r : rows) {
      std::string line = padded(r == kLeftOutRow ? "..." : down ? down->label(r) : "", rowLabel);
      if (r != kLeftOutRow)
        for (int64_t c : columns)
          line += "  " + (c == kLeftOutRow ? "..." : padded(cellAt(d, left, r, c), cell));
      out.push_back(std::move(line));
    }
    return out;
  }

  std::string cellAt(size_t d, size_t left, int64_t row, int64_t column) {
    if (left == 2) at_[d] = row;
    if (left >= 1) at_.back() = column;
    return g_.cell(at_);
  }

  static constexpr size_t kGap = 4;
  const ViewGrid& g_;
  size_t columns_;
  std::vector<int64_t> at_;
};

} // namespace

std::string gridText(const ViewGrid& g, size_t columns) {
  std::string text = g.title + "\n";
  for (const std::string& f : g.facts) text += "  " + f + "\n";
  text += "\n";
  for (std::string& line : GridText(g, columns > 4 ? columns - 4 : columns).all()) {
    line.erase(line.find_last_not_of(' ') + 1);
    text += (line.empty() ? "" : "    " + line) + "\n";
  }
  return text;
}

} // namespace dtc
