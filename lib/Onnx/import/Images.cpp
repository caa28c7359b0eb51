// Sampling of images at positions that are computed.
#include "dtc/Import/rows/Fourier.h"
#include "import/Windows.h"

#include <cmath>

namespace dtc::onnx {

namespace {

// Elements of x [a, b, h * w] at rows and columns [a, points]: [a, b, points]; 0 outside of the image.
struct Plane {
  OnnxContext& c;
  Expr flat; // [a, b, h * w]
  int64_t height, width;

  [[nodiscard]] Expr at(Expr row, Expr column) const { // floats that are integers
    const Expr inside =
        ge(row, 0.0) & le(row, double(height - 1)) & ge(column, 0.0) & le(column, double(width - 1));
    const Expr index =
        (clamp(row, 0.0, double(height - 1)) * double(width) + clamp(column, 0.0, double(width - 1)))
            .as(DType::I32);
    Dims shape = flat.dims();
    shape.at(2) = index.dims().at(1);
    const Expr values = gather(flat, broadcastTo(withDim(index, 1), shape), {.dim = 2});
    return select(withDim(inside, 1), values, 0.0);
  }
};

Plane planeOf(OnnxContext& c, Expr x) { // [a, b, h, w]
  const auto shape = c.shapeOf(x);
  return {c,
          reshapeTo(x, {x.dims().at(0), x.dims().at(1), elementsOf(c.b, {x.dims().at(2), x.dims().at(3)})}),
          shape.at(2), shape.at(3)};
}

// The four neighbors of a point and their weights.
struct Corners {
  Expr top, left, bottom, right; // positions
  Expr down, across;             // fractions
  Corners(Expr y, Expr x) : top(ops::floor(y)), left(ops::floor(x)) {
    down = y - top, across = x - left;
    bottom = top + 1.0, right = left + 1.0;
  }
};

Expr bilinear(const Plane& p, Expr y, Expr x) {
  const Corners k(y, x);
  const auto wide = [](Expr v) { return withDim(v, 1); };
  const Expr upper = p.at(k.top, k.left) * wide(1.0 - k.across) + p.at(k.top, k.right) * wide(k.across);
  const Expr lower = p.at(k.bottom, k.left) * wide(1.0 - k.across) + p.at(k.bottom, k.right) * wide(k.across);
  return upper * wide(1.0 - k.down) + lower * wide(k.down);
}

// Positions from -1 to 1 of `size` elements; of their centers, or with the first and last at the ends.
Expr evenly(OnnxContext& c, int64_t size, bool corners, DType d) {
  const Expr i = counted(c.b, size, d);
  if (corners) return size > 1 ? i * (2.0 / static_cast<double>(size - 1)) - 1.0 : i;
  return (i * 2.0 + 1.0) / static_cast<double>(size) - 1.0;
}

ImportResults affineGrid(OnnxContext& c) {
  const Expr theta = c.in(0);
  const auto size = c.knownInts(1, "the size");
  const bool corners = c.integer("align_corners", 0);
  const size_t rank = size.size() - 2;
  if (size.size() < 4 || size.size() > 5 || theta.rank() != 3)
    c.fail("has a size that is not that of images of 2 or 3 dims");
  Dims grid;
  for (size_t i = 2; i < size.size(); ++i) grid.emplace_back(size[i]);
  std::vector<Expr> coordinates; // x (the last dim) first
  for (size_t i = rank; i-- > 0;) {
    Dims along(rank, Dim(1));
    along[i] = grid[i];
    coordinates.push_back(
        broadcastTo(reshapeTo(evenly(c, size[i + 2], corners, theta.dtype()), along), grid));
  }
  coordinates.push_back(filled(c.b, theta.dtype(), grid, 1));
  const Dim points = elementsOf(c.b, grid);
  const Expr base = reshapeTo(stack(c.b, coordinates, static_cast<int64_t>(rank)),
                              {points, Dim(static_cast<int64_t>(rank + 1))});
  Dims out{theta.dims().at(0)};
  out.insert(out.end(), grid.begin(), grid.end());
  out.emplace_back(static_cast<int64_t>(rank));
  return reshapeTo(matmul(base, theta, {.transpose_b = true}), out);
}

// --- regions of interest ---

struct Regions {
  Expr startY, startX, binY, binX; // [rois]
};

// The sampling points of each bin along one axis, [rois, bins, points]: start + bin * size + (point + 1/2) * size / count.
Expr samples(OnnxContext& c, Expr start, Expr bin, Expr count, int64_t bins, int64_t points) {
  const auto wide = [](Expr v) { return withDim(withDim(v, 1), 2); };
  const Expr i = reshapeTo(counted(c.b, bins, DType::F32), {1, bins, 1});
  const Expr k = reshapeTo(counted(c.b, points, DType::F32), {1, 1, points});
  return wide(start) + i * wide(bin) + (k + 0.5) * (wide(bin) / wide(count));
}

// RoiAlign's interpolation: 0 beyond one element outside, else clamped to the image.
struct Clamped {
  Expr value, outside;
  Clamped(Expr v, int64_t size) : outside(lt(v, -1.0) | gt(v, static_cast<double>(size))) {
    value = clamp(v, 0.0, static_cast<double>(size - 1));
  }
};

ImportResults roiAlign(OnnxContext& c) {
  const Expr x = c.in(0).as(DType::F32), rois = c.in(1).as(DType::F32), images = c.in(2);
  const int64_t height = c.integer("output_height", 1), width = c.integer("output_width", 1),
                ratio = c.integer("sampling_ratio", 0);
  const double scale = c.real("spatial_scale", 1);
  const bool half = c.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const std::string mode = c.text("mode", "avg");
  if (height < 1 || width < 1 || height > 1 << 12 || width > 1 << 12 || ratio < 0 || ratio > 1 << 12)
    c.fail("has an output size that is out of range");
  const Dim count = rois.dims().at(0);
  const auto column = [&](int64_t i) {
    return reshapeTo(sliceOf(rois, 1, i, i + 1), {count}) * scale - (half ? 0.5 : 0.0);
  };
  const Expr x0 = column(0), y0 = column(1);
  Expr wide = column(2) - x0, high = column(3) - y0;
  if (!half) wide = max(wide, 1.0), high = max(high, 1.0);
  const Expr binX = wide / static_cast<double>(width), binY = high / static_cast<double>(height);
  Expr countX = filled(c.b, DType::F32, {count}, static_cast<double>(ratio)), countY = countX;
  int64_t pointsX = ratio, pointsY = ratio;
  if (ratio == 0) { // as many points as elements: they depend on the regions
    (void)c.known(1, "the regions (with a sampling_ratio of 0)");
    countX = ops::ceil(binX), countY = ops::ceil(binY);
    const auto most = [&](Expr v) { // the constants fold
      const Tensor* t = c.state.constants.of(ops::max(v));
      return t ? std::clamp<int64_t>(static_cast<int64_t>(t->getFloat(0)), 1, 1 << 12) : 1;
    };
    pointsX = most(countX), pointsY = most(countY);
  }
  const auto shape = c.shapeOf(x);
  const Expr y = samples(c, y0, binY, countY, height, pointsY),
             xs = samples(c, x0, binX, countX, width, pointsX);
  // [rois, height, points, width, points]
  const Dims grid{count, height, pointsY, width, pointsX};
  const Dim all = elementsOf(c.b, {grid.begin() + 1, grid.end()});
  const auto flat = [&](Expr v) { return reshapeTo(broadcastTo(v, grid), {count, all}); };
  const Expr gridY = flat(withDim(withDim(y, 3), 4)), gridX = flat(withDim(withDim(xs, 1), 2));
  const Clamped cy(gridY, shape.at(2)), cx(gridX, shape.at(3));
  const Plane plane = planeOf(c, index_select(x, images, {.dim = 0}));
  const Expr outside = withDim(cy.outside | cx.outside, 1);
  // Points that a region with fewer points than others does not have.
  const auto points = [&](int64_t n, const Dims& d) { return reshapeTo(counted(c.b, n, DType::F32), d); };
  const auto per = [&](Expr v) { return reshapeTo(v, {count, 1, 1, 1, 1}); };
  const Expr used = flat(lt(points(pointsY, {1, 1, pointsY, 1, 1}), per(countY)) &
                         lt(points(pointsX, {1, 1, 1, 1, pointsX}), per(countX)));
  const Dims out{count, x.dims().at(1), height, pointsY, width, pointsX};
  const auto shaped = [&](Expr v) { return reshapeTo(v, out); };
  if (mode == "max") { // of the weighted neighbors, not of their sums
    const Corners k(cy.value, cx.value);
    const auto part = [&](Expr row, Expr col, Expr weight) {
      return plane.at(min(row, double(shape.at(2) - 1)), min(col, double(shape.at(3) - 1))) *
             withDim(weight, 1);
    };
    Expr best = max(
        max(part(k.top, k.left, (1.0 - k.down) * (1.0 - k.across)),
            part(k.top, k.right, (1.0 - k.down) * k.across)),
        max(part(k.bottom, k.left, k.down * (1.0 - k.across)), part(k.bottom, k.right, k.down * k.across)));
    best = select(withDim(used, 1), select(outside, 0.0, best), -INFINITY);
    return ops::max(shaped(best), {.dims = {3, 5}}).as(c.in(0).dtype());
  }
  const Expr values = select(outside | withDim(not_(used), 1), 0.0, bilinear(plane, cy.value, cx.value));
  const Expr sums = sum(shaped(values), {.dims = {3, 5}});
  return (sums / reshapeTo(max(countX * countY, 1.0), {count, 1, 1, 1})).as(c.in(0).dtype());
}

// The maximum of each bin: all elements of the image, masked by the bin.
ImportResults maxRoiPool(OnnxContext& c) {
  const Expr x = c.in(0), rois = c.in(1);
  const auto pooled = c.ints("pooled_shape");
  if (pooled.size() != 2 || x.rank() != 4 || rois.rank() != 2)
    c.fail("has operands that are not images and regions");
  const double scale = c.real("spatial_scale", 1);
  const Dim count = rois.dims().at(0);
  const auto column = [&](int64_t i) { return reshapeTo(sliceOf(rois, 1, i, i + 1), {count}); };
  const auto corner = [&](int64_t i) { return ops::floor(column(i) * scale + 0.5); };
  const auto shape = c.shapeOf(x);
  // [rois, bins, elements]: whether an element is in a bin
  const auto inBin = [&](Expr first, Expr last, int64_t bins, int64_t size) {
    const Expr bin = withDim(max(last - first + 1.0, 1.0) / static_cast<double>(bins), 1);
    const Expr i = counted(c.b, bins, rois.dtype()), start = withDim(first, 1);
    const Expr from = clamp(ops::floor(i * bin) + start, 0.0, double(size)),
               to = clamp(ops::ceil((i + 1.0) * bin) + start, 0.0, double(size));
    const Expr at = counted(c.b, size, rois.dtype());
    return ge(at, withDim(from, 2)) & lt(at, withDim(to, 2));
  };
  const Expr rows = inBin(corner(2), corner(4), pooled.at(0), shape.at(2)),
             columns = inBin(corner(1), corner(3), pooled.at(1), shape.at(3));
  const Expr images = index_select(x, column(0).as(DType::I64), {.dim = 0});
  const Dims wide{count, x.dims().at(1), pooled.at(0), x.dims().at(2), x.dims().at(3)};
  const Expr high = ops::max(select(reshapeTo(rows, {count, 1, pooled.at(0), x.dims().at(2), 1}),
                                    broadcastTo(withDim(images, 2), wide), -INFINITY),
                             {.dims = {3}});
  const Dims grid{count, x.dims().at(1), pooled.at(0), pooled.at(1), x.dims().at(3)};
  const Expr y = ops::max(select(reshapeTo(columns, {count, 1, 1, pooled.at(1), x.dims().at(3)}),
                                 broadcastTo(withDim(high, 3), grid), -INFINITY),
                          {.dims = {4}});
  return select(eq(y, -INFINITY), 0.0, y); // an empty bin
}

// The image at the positions of each kernel element, moved by the offsets; then a matrix product.
ImportResults deformConv(OnnxContext& c) {
  const Expr x = c.in(0), w = c.in(1), offset = c.in(2);
  if (x.rank() != 4 || w.rank() != 4 || offset.rank() != 4)
    c.fail("is supported for images of two dims only");
  const auto shape = c.shapeOf(x), kernel = c.shapeOf(w), moves = c.shapeOf(offset);
  const WindowAttributes a = windowOf(c, x, {kernel.at(2), kernel.at(3)});
  const int64_t groups = c.integer("group", 1), offsets = c.integer("offset_group", 1),
                taps = kernel.at(2) * kernel.at(3);
  const int64_t n = shape.at(0), channels = shape.at(1), rows = moves.at(2), columns = moves.at(3);
  if (groups < 1 || offsets < 1 || channels % groups || channels % offsets || kernel.at(0) % groups ||
      moves.at(1) != offsets * taps * 2)
    c.fail("has channels, groups and offsets that do not match");
  const Expr shifts = reshapeTo(offset, {n, offsets, taps, 2, rows, columns});
  const auto position = [&](size_t axis,
                            int64_t outputs) { // of each tap and output along an axis, [taps, outputs]
    const Expr tap = counted(c.b, taps, DType::I32);
    const Expr k = axis == 0 ? div(tap, kernel.at(3)) : rem(tap, kernel.at(3));
    return (withDim(k * a.dilations[axis], 1) + counted(c.b, outputs, DType::I32) * a.strides[axis] -
            a.low[axis])
        .as(x.dtype());
  };
  const auto shifted = [&](size_t axis, Expr base) {
    const auto i = static_cast<int64_t>(axis);
    return reshapeTo(withoutDim(sliceOf(shifts, 3, i, i + 1), 3) + base,
                     {n * offsets, taps * rows * columns});
  };
  const Expr y = shifted(0, reshapeTo(position(0, rows), {1, 1, taps, rows, 1}));
  const Expr xs = shifted(1, reshapeTo(position(1, columns), {1, 1, taps, 1, columns}));
  const Plane plane = planeOf(c, reshapeTo(x, {n * offsets, channels / offsets, shape.at(2), shape.at(3)}));
  Expr values = bilinear(plane, y, xs);
  if (c.has(4)) values = values * reshapeTo(c.in(4), {n * offsets, 1, taps * rows * columns});
  const int64_t depth = channels / groups * taps;
  const Expr columnsOf = reshapeTo(values, {n, groups, depth, rows * columns});
  const Expr weights = reshapeTo(w, {groups, kernel.at(0) / groups, depth});
  Expr out = reshapeTo(matmul(weights, columnsOf), {n, kernel.at(0), rows, columns});
  if (c.has(3)) out = out + reshapeTo(c.in(3), {kernel.at(0), 1, 1});
  return out;
}

ImportResults gridSampleRow(OnnxContext& c) {
  const std::string given = c.text("mode", "linear"), padding = c.text("padding_mode", "zeros");
  const std::string mode = given == "bilinear" ? "linear" : given == "bicubic" ? "cubic" : given;
  if (mode != "nearest" && mode != "linear" && mode != "cubic")
    c.fail("has the unsupported mode '" + mode + "'");
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    c.fail("has the unsupported padding_mode '" + padding + "'");
  const bool corners = c.integer("align_corners", 0) != 0;
  const Expr x = c.in(0);
  return ops::grid_sample(x, c.in(1).as(x.dtype()),
                          {.mode = mode, .padding = padding, .align_corners = corners});
}

constexpr OnnxRow kImageRows[] = {
    {"GridSample", gridSampleRow}, {"AffineGrid", affineGrid}, {"RoiAlign", roiAlign, 10},
    {"MaxRoiPool", maxRoiPool, 1}, {"DeformConv", deformConv},
};

} // namespace

std::span<const OnnxRow> imageRows() { return kImageRows; }

} // namespace dtc::onnx
