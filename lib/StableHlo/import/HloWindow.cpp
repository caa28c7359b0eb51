// reduce_window: regions over windows.
#include "dtc/Support/Checked.h"
#include "import/HloRegions.h"
#include "import/HloTable.h"

#include <algorithm>

namespace dtc {

namespace {

struct WindowDim {
  int64_t size = 1, stride = 1, dilation = 1, base = 1, low = 0, high = 0;
  [[nodiscard]] bool trivial() const {
    return size == 1 && stride == 1 && base == 1 && low == 0 && high == 0;
  }
  [[nodiscard]] int64_t extent() const { return (size - 1) * dilation + 1; }
};

bool readWindow(HloContext& c, size_t rank, std::vector<WindowDim>& out) {
  const auto n = static_cast<int64_t>(rank);
  const std::vector<int64_t> ones(rank, 1);
  auto size = c.ints("window_dimensions", n), stride = c.intsOr("window_strides", ones, n),
       dilation = c.intsOr("window_dilations", ones, n), base = c.intsOr("base_dilations", ones, n),
       padding = c.intsOr("padding", std::vector<int64_t>(2 * rank, 0), 2 * n);
  if (!size || !stride || !dilation || !base || !padding) return false;
  constexpr int64_t limit = int64_t(1) << 31;
  for (size_t d = 0; d < rank; ++d) {
    WindowDim w{(*size)[d], (*stride)[d],      (*dilation)[d],
                (*base)[d], (*padding)[2 * d], (*padding)[2 * d + 1]};
    if (std::min({w.size, w.stride, w.dilation, w.base}) < 1 ||
        std::max({w.size, w.stride, w.dilation, w.base, w.low, -w.low, w.high, -w.high}) >= limit)
      return c.fail("has a window, stride or dilation below 1 or above 2^31");
    if (!checkedMul(w.size, w.dilation) || w.size * w.dilation >= limit)
      return c.fail("has a window of more than 2^31 elements");
    out.push_back(w);
  }
  return true;
}

// A window over all elements so far: a scan.
bool cumulative(HloContext& c, const HloFolded& f, const std::vector<WindowDim>& window, bool& matched) {
  matched = false;
  if (!f.fold || !f.fold->scan || !isNeutral(c, f.inits[0], *f.fold)) return true;
  int at = -1;
  for (size_t d = 0; d < window.size(); ++d) {
    if (window[d].trivial()) continue;
    if (at >= 0) return true;
    at = static_cast<int>(d);
  }
  if (at < 0) return true;
  const WindowDim& w = window[static_cast<size_t>(at)];
  const int64_t n = f.shape[static_cast<size_t>(at)];
  const bool forward = w.low == n - 1 && w.high == 0, backward = w.high == n - 1 && w.low == 0;
  if (w.size != n || n < 2 || w.stride != 1 || w.dilation != 1 || w.base != 1 || (!forward && !backward))
    return true;
  matched = true;
  return c.setResult(
      c.emit(f.fold->scan, {f.inputs[0]}, {{"dim", c.intAttr(at)}, {"reverse", c.boolAttr(backward)}}));
}

// Windows along one dim, in order: runs of 1, 2, 4, … elements are combined to the window's length.
std::vector<ValueId> windowsAlong(HloContext& c, const HloFolded& f, std::vector<ValueId> run, size_t dim,
                                  const WindowDim& w) {
  std::vector<int64_t> shape = c.shapeOf(run[0]);
  const int64_t count = (shape[dim] - w.extent()) / w.stride + 1;
  std::vector<ValueId> window;
  int64_t from = 0;
  for (int64_t length = 1; length <= w.size; length *= 2) {
    if (w.size & length) { // the shorter runs come first
      std::vector<ValueId> part;
      std::vector<int64_t> wanted = shape;
      wanted[dim] = count;
      for (ValueId v : run) part.push_back(sliceAlong(c, v, dim, from * w.dilation, count, w.stride));
      window = window.empty() ? part : foldRegion(c, *f.region, window, part, wanted);
      if (window.empty()) return {};
      from += length;
    }
    if (2 * length > w.size) break;
    std::vector<ValueId> a, b;
    const int64_t distance = length * w.dilation;
    shape[dim] -= distance;
    for (ValueId v : run) {
      a.push_back(sliceAlong(c, v, dim, 0, shape[dim]));
      b.push_back(sliceAlong(c, v, dim, distance, shape[dim]));
    }
    run = foldRegion(c, *f.region, a, b, shape);
    if (run.empty()) return {};
  }
  return window;
}

bool reduceWindow(HloContext& c) {
  HloFolded f;
  std::vector<WindowDim> window;
  if (!readFolded(c, f) || !readWindow(c, f.shape.size(), window)) return false;
  bool matched = false;
  if (!cumulative(c, f, window, matched)) return false;
  if (matched) return true;
  std::vector<int64_t> low, high, interior, out;
  for (size_t d = 0; d < window.size(); ++d) {
    const WindowDim& w = window[d];
    low.push_back(w.low);
    high.push_back(w.high);
    interior.push_back(f.shape[d] > 0 ? w.base - 1 : 0);
    const int64_t length = (f.shape[d] > 0 ? (f.shape[d] - 1) * w.base + 1 : 0) + w.low + w.high;
    out.push_back(length < w.extent() ? 0 : (length - w.extent()) / w.stride + 1);
  }
  std::vector<ValueId> x;
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    if (elementsOf(out) == 0)
      x.push_back(c.broadcastTo(f.inits[i], out));
    else
      x.push_back(padWith(c, f.inputs[i], f.inits[i], low, high, interior));
    if (!x.back().valid()) return false;
  }
  if (elementsOf(out) == 0) return c.setResults(x);
  for (size_t d = window.size(); d-- > 0;) {
    x = windowsAlong(c, f, std::move(x), d, window[d]);
    if (x.empty()) return false;
  }
  if (!f.fold || !isNeutral(c, f.inits[0], *f.fold)) x = foldRegion(c, *f.region, f.inits, x, out);
  return !x.empty() && c.setResults(x);
}

const HloRow kWindowRows[] = {
    {"stablehlo.reduce_window", reduceWindow},
};

} // namespace

std::span<const HloRow> hloWindowRows() { return kWindowRows; }

} // namespace dtc
