// Slices and padding, whose positions are known at import.
#include "import/OnnxContext.h"

#include <algorithm>

namespace dtc::onnx {

namespace {

struct Range {
  int64_t start = 0, end = 0, step = 1;
};

// Elements start, start + step, … before `end` of a dim, as Python's slices.
Expr sliced(OnnxContext& c, Expr x, int64_t axis, Range r) {
  const Dim size = x.dims().at(static_cast<size_t>(axis));
  if (r.step == 0) c.fail("has a step of 0");
  if (!size.isStatic()) {
    // Its last elements are the first ones in reverse; its size minus a number is not a size.
    if (r.step == 1 && r.start < 0 && r.end >= INT32_MAX)
      return flip(sliced(c, flip(x, {axis}), axis, {0, -r.start, 1}), {axis});
    if (r.step == -1 && (r.start == -1 || r.start >= INT32_MAX) && r.end <= -INT32_MAX)
      return flip(x, {axis});
    if (r.start < 0 || r.end < 0 || r.step < 1)
      c.fail("slices a symbolic size from its end; bind the size with --dim");
    const bool whole = r.end >= INT32_MAX;
    if (whole && r.start == 0 && r.step == 1) return x;
    if (whole) c.fail("slices a part of a symbolic size up to its end; bind the size with --dim");
    return sliceOf(x, axis, r.start, r.end, r.step);
  }
  const int64_t d = size.value();
  const auto counted = [&](int64_t v) { return v < 0 ? std::max<int64_t>(v, -d - 1) + d : v; };
  if (r.step > 0) {
    const int64_t start = std::clamp<int64_t>(counted(r.start), 0, d),
                  end = std::clamp<int64_t>(counted(r.end), 0, d);
    return sliceOf(x, axis, start, std::max(start, end), std::min<int64_t>(r.step, std::max<int64_t>(d, 1)));
  }
  const int64_t start = std::clamp<int64_t>(counted(r.start), -1, d - 1);
  const int64_t end = r.end < -d ? -1 : std::clamp<int64_t>(counted(r.end), -1, d - 1);
  if (start <= end) return sliceOf(x, axis, 0, 0);
  const int64_t step = r.step < -d ? d : -r.step; // not more than the size
  const int64_t first = start - (start - end - 1) / step * step;
  return flip(sliceOf(x, axis, first, start + 1, step), {axis});
}

// The ends may be symbolic sizes: those of the dims that are sliced.
ImportResults sliceRow(OnnxContext& c) {
  Expr x = c.in(0);
  const bool old = c.opset() < 10; // attributes instead of operands
  const auto starts = old ? c.ints("starts") : c.knownInts(1, "the starts");
  std::vector<ImportInt> ends;
  if (old)
    for (int64_t v : c.ints("ends")) ends.emplace_back(v);
  else if (auto sizes = c.sizesIf(2))
    ends = *sizes;
  else
    for (int64_t v : c.knownInts(2, "the ends")) ends.emplace_back(v);
  std::vector<int64_t> axes = allDims(starts.size());
  if (c.has("axes")) axes = c.ints("axes");
  if (c.has(3)) axes = c.knownInts(3, "the axes");
  std::vector<int64_t> steps(starts.size(), 1);
  if (c.has(4)) steps = c.knownInts(4, "the steps");
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    c.fail("has different numbers of starts, ends, axes and steps");
  const auto sizes = c.sizesIf(0);
  const auto constant = c.knownIf(0);
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = c.dim(axes[i], x.rank());
    int64_t end = ends[i].number;
    if (ends[i].size) {
      if (*ends[i].size != x.dims().at(static_cast<size_t>(axis)))
        c.fail("slices up to a symbolic size that is not that of the dim; bind it with --dim");
      end = INT64_MAX;
    }
    x = sliced(c, x, axis, {starts.at(i), end, steps[i]});
  }
  if (sizes && !constant && !sizes->empty() && starts.size() == 1 && steps[0] == 1 && !ends[0].size) {
    const auto n = static_cast<int64_t>(sizes->size());
    const auto at = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + n : v, 0, n); };
    const int64_t from = at(starts.at(0)), to = std::max(from, at(ends[0].number));
    c.setSizes({sizes->begin() + from, sizes->begin() + to});
  }
  if (isNarrow(c.element(0))) c.setElement(0, c.element(0));
  return x;
}

std::string padMode(OnnxContext& c) {
  std::string mode = c.text("mode", "constant");
  if (mode == "constant" || mode == "reflect") return mode;
  if (mode == "edge") return "replicate";
  if (mode == "wrap") return "circular";
  c.fail("has the unsupported mode '" + mode + "'");
}

// Along dims whose pads are longer than the rules of `pad` allow, the elements repeat, as in NumPy: forward with
// "circular", forward and backward with "reflect". What is left are the pads of the other dims.
Expr padByRepeating(OnnxContext& c, Expr x, const std::string& mode, std::vector<int64_t>& low,
                    std::vector<int64_t>& high) {
  for (size_t d = 0; d < x.rank(); ++d) {
    const int64_t size = x.dims()[d].isStatic() ? x.dims()[d].value() : 0,
                  longest = std::max(low[d], high[d]);
    const bool forward = mode == "circular";
    if (size < 1 || low[d] < 0 || high[d] < 0 || longest < size + (forward ? 1 : 0)) continue;
    if (longest > 1 << 24) c.fail("has pads that are out of range");
    const int64_t period = forward ? size : std::max<int64_t>(2 * (size - 1), 1);
    Tensor index(DType::I32, {low[d] + size + high[d]});
    for (int64_t o = 0; o < index.numElements(); ++o) {
      const int64_t at = ((o - low[d]) % period + period) % period;
      index.setInt(o, at < size ? at : period - at);
    }
    x = index_select(x, constantOf(c.b, index), {.dim = static_cast<int64_t>(d)});
    low[d] = high[d] = 0;
  }
  return x;
}

ImportResults padRow(OnnxContext& c) {
  Expr x = c.in(0);
  const auto pads = c.has("pads") ? c.ints("pads") : c.knownInts(1, "the pads"); // before opset 11
  std::vector<int64_t> axes = allDims(x.rank());
  if (c.has(3)) axes = dimsOf(c.b, c.knownInts(3, "the axes"), x.rank());
  if (pads.size() != 2 * axes.size())
    c.fail("has " + std::to_string(pads.size()) + " pads for " + std::to_string(axes.size()) + " axes");
  std::vector<int64_t> low(x.rank()), high(x.rank());
  for (size_t i = 0; i < axes.size(); ++i) {
    low[static_cast<size_t>(axes[i])] = pads.at(i);
    high[static_cast<size_t>(axes[i])] = pads.at(i + axes.size());
  }
  const std::string mode = padMode(c);
  if (mode == "circular" || mode == "reflect") x = padByRepeating(c, x, mode, low, high);
  PadArgs args{.low = low, .high = high, .mode = mode};
  if (mode == "constant")
    args.value =
        c.has(2) ? reshapeTo(c.in(2), {}).as(x.dtype()) : filled(c.b, x.dtype(), {}, c.real("value", 0));
  return pad(x, args);
}

ImportResults centerCropPad(OnnxContext& c) {
  Expr x = c.in(0);
  const auto sizes = c.knownInts(1, "the shape");
  const auto axes = dimsOf(c.b, c.ints("axes", allDims(x.rank())), x.rank());
  if (axes.size() != sizes.size()) c.fail("has different numbers of sizes and axes");
  const auto shape = c.shapeOf(x);
  std::vector<int64_t> low(x.rank()), high(x.rank());
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    if (sizes.at(i) < 0) c.fail("has a negative size");
    if (sizes.at(i) < shape.at(axis)) {
      const int64_t start = (shape.at(axis) - sizes.at(i)) / 2;
      x = sliceOf(x, axes[i], start, start + sizes.at(i));
    } else {
      low[axis] = (sizes.at(i) - shape.at(axis)) / 2;
      high[axis] = sizes.at(i) - shape.at(axis) - low[axis];
    }
  }
  return pad(x, {.value = filled(c.b, x.dtype(), {}, 0), .low = low, .high = high});
}

constexpr OnnxRow kSlicesRows[] = {
    {"Slice", sliceRow, 1}, {"Pad", padRow, 2}, {"CenterCropPad", centerCropPad}};

} // namespace

std::span<const OnnxRow> sliceRows() { return kSlicesRows; }

} // namespace dtc::onnx
