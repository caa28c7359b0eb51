// Pooling and resizing.
#include "aten/Aten.h"
#include "aten/Table.h"

#include <algorithm>
#include <cmath>

namespace dtc {
namespace aten::windows {
namespace {

// Pooled tensors have a batch dim; one is added where PyTorch allows to leave it out.
struct Pooled {
  Expr x;
  size_t spatial = 0;
  bool single = false;
};

size_t spatialDims(const std::string& target) {
  for (size_t k : {1u, 2u, 3u})
    if (target.find(std::to_string(k) + "d") != target.npos) return k;
  return 2;
}

Pooled pooled(ImportContext& c) {
  const Expr x = c.tensor("self");
  const size_t k = spatialDims(c.node.target);
  if (x.rank() != k + 1 && x.rank() != k + 2) c.fail("has an operand of rank " + std::to_string(x.rank()));
  return x.rank() == k + 1 ? Pooled{withDim(x, 0), k, true} : Pooled{x, k, false};
}

Expr unpooled(const Pooled& p, Expr y) { return p.single ? withoutDim(y, 0) : y; }

ImportResults maxPool(ImportContext& c) {
  const Pooled p = pooled(c);
  const std::vector<int64_t> window = perDim(c, "kernel_size", p.spatial);
  const std::vector<int64_t> stride = c.ints("stride", {}).empty() ? window : perDim(c, "stride", p.spatial);
  const std::vector<int64_t> padding = perDim(c, "padding", p.spatial, 0),
                             dilation = perDim(c, "dilation", p.spatial, 1);
  ops::MaxPoolArgs args{.window = window,
                        .stride = stride,
                        .padding = paddingAttr(c.module, padding, padding),
                        .dilation = dilation};
  if (c.flag("ceil_mode", false)) args.ceil = true;
  const bool indices = c.node.results.size() > 1;
  if (indices) args.indices = true;
  const auto [y, at] = ops::max_pool(p.x, args);
  if (!indices) return unpooled(p, y);
  return {unpooled(p, y), unpooled(p, at)};
}

ImportResults avgPool(ImportContext& c) {
  const Pooled p = pooled(c);
  const std::vector<int64_t> window = perDim(c, "kernel_size", p.spatial);
  const std::vector<int64_t> stride = c.ints("stride", {}).empty() ? window : perDim(c, "stride", p.spatial);
  const std::vector<int64_t> padding = perDim(c, "padding", p.spatial, 0);
  ops::AvgPoolArgs args{
      .window = window, .stride = stride, .padding = paddingAttr(c.module, padding, padding)};
  if (c.flag("ceil_mode", false)) args.ceil = true;
  args.count_include_pad = c.flag("count_include_pad", true);
  if (!c.has("divisor_override")) return unpooled(p, ops::avg_pool(p.x, args));
  // Sums, divided by another number: averages of the operand with its padding, times the window's elements.
  const Dims out = resultDims(c);
  std::vector<int64_t> low(p.x.rank(), 0), high(p.x.rank(), 0);
  double elements = 1;
  for (size_t i = 0; i < p.spatial; ++i) {
    const int64_t n = staticDims(c.b, {p.x.dims().at(i + 2)})[0],
                  o = staticDims(c.b, {out.at(out.size() - p.spatial + i)})[0];
    low[i + 2] = padding[i], high[i + 2] = (o - 1) * stride[i] + window[i] - n - padding[i];
    elements *= static_cast<double>(window[i]);
  }
  const bool real = isFloat(p.x.dtype()); // the sums of integers are divided once, too
  const Expr x = real ? p.x : p.x.as(DType::F64);
  const Expr wide = ops::pad(x, {.value = c.literal(0.0, x.dtype()), .low = low, .high = high});
  const Expr mean = ops::avg_pool(wide, {.window = window, .stride = stride});
  if (real) return unpooled(p, mean * (elements / c.real("divisor_override")));
  const Expr sum = ops::round(mean * elements);
  return unpooled(p, ops::trunc(sum / c.real("divisor_override")).as(p.x.dtype()));
}

ImportResults lpPool(ImportContext& c) {
  const Pooled p = pooled(c);
  const double power = c.real("norm_type");
  const std::vector<int64_t> window = perDim(c, "kernel_size", p.spatial);
  const std::vector<int64_t> stride = c.ints("stride", {}).empty() ? window : perDim(c, "stride", p.spatial);
  double elements = 1;
  for (int64_t n : window) elements *= static_cast<double>(n);
  ops::AvgPoolArgs args{.window = window, .stride = stride};
  const Expr total = ops::avg_pool(ops::pow(p.x, p.x.literal(power)), args) * elements;
  return unpooled(p, ops::pow(total, total.literal(1 / power)));
}

ImportResults adaptiveAvgPool(ImportContext& c) {
  const Pooled p = pooled(c);
  const Dims out = resultDims(c);
  const std::vector<int64_t> size =
      staticDims(c.b, Dims(out.end() - static_cast<std::ptrdiff_t>(p.spatial), out.end()));
  return unpooled(p, ops::adaptive_avg_pool(p.x, size));
}

// Windows of unequal sizes: along each dim, the window's positions are gathered (the last one repeats).
ImportResults adaptiveMaxPool(ImportContext& c) {
  const Pooled p = pooled(c);
  const Dims out = resultDims(c);
  Expr y = p.x;
  const size_t lead = y.rank() - p.spatial;
  const std::vector<int64_t> in =
      staticDims(c.b, Dims(y.dims().end() - static_cast<std::ptrdiff_t>(p.spatial), y.dims().end()));
  const std::vector<int64_t> size =
      staticDims(c.b, Dims(out.end() - static_cast<std::ptrdiff_t>(p.spatial), out.end()));
  // All windows: [.., o1, k1, o2, k2]
  Expr at; // the position in the operand's plane
  int64_t below = 1;
  for (int64_t n : in) below *= n;
  std::vector<int64_t> widths;
  std::vector<Tensor> lookups;
  for (size_t i = 0; i < p.spatial; ++i) {
    const int64_t o = size[i], n = in[i];
    int64_t width = 1;
    const auto first = [&](int64_t k) { return k * n / o; };
    const auto last = [&](int64_t k) { return ((k + 1) * n + o - 1) / o; };
    for (int64_t k = 0; k < o; ++k) width = std::max(width, last(k) - first(k));
    constexpr int64_t kMost = 1 << 22;
    if (n == 0 || o > kMost / width) c.fail("pools an empty dim, or has too many windows");
    Tensor t(DType::I32, {o * width});
    for (int64_t k = 0; k < o; ++k)
      for (int64_t w = 0; w < width; ++w) t.setInt(k * width + w, std::min(first(k) + w, last(k) - 1));
    widths.push_back(width);
    lookups.push_back(std::move(t));
  }
  for (size_t i = 0; i < p.spatial; ++i)
    y = ops::index_select(y, constantOf(c.b, lookups[i]), {.dim = static_cast<int64_t>(lead + i)});
  Dims split(y.dims().begin(), y.dims().begin() + static_cast<std::ptrdiff_t>(lead));
  std::vector<int64_t> perm = allDims(lead);
  int64_t elements = 1;
  for (size_t i = 0; i < p.spatial; ++i) {
    split.emplace_back(size[i]), split.emplace_back(widths[i]);
    perm.push_back(static_cast<int64_t>(lead + 2 * i));
    elements *= widths[i];
  }
  for (size_t i = 0; i < p.spatial; ++i) perm.push_back(static_cast<int64_t>(lead + 2 * i + 1));
  Dims flat(y.dims().begin(), y.dims().begin() + static_cast<std::ptrdiff_t>(lead));
  for (int64_t n : size) flat.emplace_back(n);
  flat.emplace_back(elements);
  const auto windows = [&](Expr e, const Dims& s) {
    return reshapeTo(permuted(reshapeTo(e, s), perm), flat);
  };
  const Expr all = windows(y, split);
  const auto d = static_cast<int64_t>(flat.size()) - 1;
  const std::vector<int64_t> over{d};
  const Expr best = ops::max(all, ops::MaxArgs{.dims = over});
  if (c.node.results.size() < 2) return unpooled(p, best);
  // The index of the element in the operand's plane.
  for (size_t i = 0; i < p.spatial; ++i) {
    below /= in[i];
    Dims dims(p.spatial, Dim(1));
    dims[i] = size[i] * widths[i];
    const Expr one = reshapeTo(constantOf(c.b, lookups[i]), dims) * below;
    at = at.valid() ? at + one : one;
  }
  Dims wide(y.dims());
  const Expr positions = windows(broadcastTo(withRank(at, y.rank()), wide), split);
  const Expr which = ops::argmax(all, {.dim = d, .keepdim = true});
  return {unpooled(p, best), unpooled(p, withoutDim(ops::gather(positions, which, {.dim = d}), d))};
}

// --- resizing: along each dim, a product with a constant matrix, or a selection ---

struct Resized {
  Expr x;
  std::vector<int64_t> in, out;
  size_t lead = 2;
};

Resized resized(ImportContext& c) {
  const Expr x = c.has("self") ? c.tensor("self") : c.tensor("input");
  const Dims out = resultDims(c);
  if (x.rank() < 3) c.fail("has an operand of rank " + std::to_string(x.rank()));
  return {x, staticDims(c.b, Dims(x.dims().begin() + 2, x.dims().end())),
          staticDims(c.b, Dims(out.begin() + 2, out.end())), 2};
}

// The scale of one dim: in / out, or what the caller gives.
double scaleOf(ImportContext& c, size_t i, int64_t in, int64_t out, bool corners) {
  if (corners) return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  if (c.has("scale_factors")) return 1 / c.reals("scale_factors").at(i);
  const char* names[] = {"scales_d", "scales_h", "scales_w"};
  const size_t k = spatialDims(c.node.target);
  const char* name = k == 1 ? "scales" : names[3 - k + i];
  if (c.has(name) && c.real(name) > 0) return 1 / c.real(name);
  return static_cast<double>(in) / static_cast<double>(out);
}

ImportResults nearest(ImportContext& c) {
  const Resized r = resized(c);
  const bool exact = c.node.target.find("exact") != std::string::npos;
  Expr y = r.x;
  for (size_t i = 0; i < r.in.size(); ++i) {
    if (r.in[i] == r.out[i]) continue;
    const auto scale = static_cast<float>(scaleOf(c, i, r.in[i], r.out[i], false));
    Tensor at(DType::I32, {r.out[i]});
    for (int64_t o = 0; o < r.out[i]; ++o) {
      const float source = (static_cast<float>(o) + (exact ? 0.5f : 0.0f)) * scale;
      at.setInt(o, std::min<int64_t>(static_cast<int64_t>(std::floor(source)), r.in[i] - 1));
    }
    y = ops::index_select(y, constantOf(c.b, at), {.dim = static_cast<int64_t>(r.lead + i)});
  }
  return y;
}

double cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

// Element [i, o]: the weight of input i in output o.
Tensor weights(int64_t in, int64_t out, double scale, bool corners, bool isCubic, bool antialias) {
  Tensor w(DType::F64, {in, out});
  for (int64_t o = 0; o < out; ++o) {
    // PyTorch's antialiased filters ignore align_corners here.
    double center =
        corners && !antialias ? scale * static_cast<double>(o) : scale * (static_cast<double>(o) + 0.5) - 0.5;
    if (antialias) {
      const double width = std::max(scale, 1.0), support = (isCubic ? 2.0 : 1.0) * width;
      double total = 0;
      const auto first = static_cast<int64_t>(std::max(0.0, std::floor(center + 0.5 - support + 0.5)));
      const auto last = std::min(in, static_cast<int64_t>(std::floor(center + 0.5 + support + 0.5)));
      for (int pass = 0; pass < 2; ++pass)
        for (int64_t i = first; i < last; ++i) {
          const double x = (static_cast<double>(i) - center) / width,
                       v = isCubic ? cubic(x, -0.5) : triangle(x);
          if (pass == 0)
            total += v;
          else
            w.setFloat(i * out + o, v / total);
        }
      continue;
    }
    if (!isCubic && !corners) center = std::max(center, 0.0);
    const double low = std::floor(center), t = center - low;
    for (int k = isCubic ? -1 : 0; k <= (isCubic ? 2 : 1); ++k) {
      const int64_t i = std::clamp<int64_t>(static_cast<int64_t>(low) + k, 0, in - 1);
      const double v = isCubic ? cubic(t - k, -0.75) : k == 0 ? 1 - t : t;
      w.setFloat(i * out + o, w.getFloat(i * out + o) + v);
    }
  }
  return w;
}

ImportResults interpolated(ImportContext& c) {
  const Resized r = resized(c);
  const std::string& t = c.node.target;
  const bool corners = c.flag("align_corners", false), isCubic = t.find("cubic") != t.npos,
             antialias = t.find("_aa") != t.npos;
  Expr y = r.x;
  for (size_t i = 0; i < r.in.size(); ++i) {
    constexpr int64_t kMost = 1 << 24;
    if (r.in[i] < 1 || r.out[i] < 1 || r.in[i] > kMost / r.out[i])
      c.fail("resizes to or from an unsupported size");
    if (r.in[i] == r.out[i] && !c.has("scale_factors")) continue;
    const double scale = scaleOf(c, i, r.in[i], r.out[i], corners);
    const Expr w =
        constantOf(c.b, weights(r.in[i], r.out[i], scale, corners, isCubic, antialias)).as(y.dtype());
    const auto d = static_cast<int64_t>(r.lead + i), last = static_cast<int64_t>(y.rank()) - 1;
    y = moved(ops::matmul(moved(y, d, last), w), last, d);
  }
  return y;
}

// Windows at random places, which a tensor of samples in [0, 1) decides: [n, c, dims], the last dim first in 2d.
ImportResults fractionalMaxPool(ImportContext& c) {
  const Pooled p = pooled(c);
  const Dims lead{p.x.dims().at(0), p.x.dims().at(1)};
  const std::vector<int64_t> in = staticDims(c.b, Dims(p.x.dims().begin() + 2, p.x.dims().end()));
  const std::vector<int64_t> window = perDim(c, "kernel_size", p.spatial),
                             out = perDim(c, "output_size", p.spatial);
  const Dim planes = elementsOf(c.b, lead);
  const Expr samples = reshapeTo(c.tensor("random_samples"), {planes, static_cast<int64_t>(p.spatial)});
  Expr place; // [planes, o1, k1, o2, k2, …], then the position in the plane
  Dims all{planes};
  for (size_t i = 0; i < p.spatial; ++i) {
    const int64_t n = in[i], k = window[i], o = out[i];
    constexpr int64_t kMost = 1 << 22;
    if (k < 1 || o < 1 || k > n || o > n - k + 1 || o > kMost / k)
      c.fail("has windows that do not fit its operand");
    const auto column = static_cast<int64_t>(p.spatial == 2 ? 1 - i : i);
    const Expr u = sliceOf(samples, 1, column, column + 1), step = counted(c.b, o).as(u.dtype());
    Expr start = filled(c.b, DType::I32, {planes, o}, static_cast<double>(n - k));
    if (o > 1) {
      // PyTorch computes the ratio in the dtype of the operand.
      const Expr ratio = filled(c.b, u.dtype(), {}, static_cast<double>(n - k)) / static_cast<double>(o - 1);
      const Expr moving = ops::floor((step + u) * ratio) - ops::floor(u * ratio);
      start = ops::select(counted(c.b, o) < o - 1, moving.as(DType::I32), start);
    }
    const Expr at = withDim(start, 2) + counted(c.b, k); // [planes, o, k]
    Dims own{planes}, now = all;
    for (size_t j = 1; j < all.size(); ++j) own.emplace_back(1);
    own.emplace_back(o), own.emplace_back(k), now.emplace_back(o), now.emplace_back(k);
    Dims before = all;
    before.emplace_back(1), before.emplace_back(1);
    const Expr here = broadcastTo(reshapeTo(at, own), now);
    place = place.valid() ? broadcastTo(reshapeTo(place, before), now) * n + here : here;
    all = now;
  }
  std::vector<int64_t> order{0};
  for (size_t i = 0; i < p.spatial; ++i) order.push_back(static_cast<int64_t>(2 * i + 1));
  for (size_t i = 0; i < p.spatial; ++i) order.push_back(static_cast<int64_t>(2 * i + 2));
  const Dim windows = elementsOf(c.b, Dims(out.begin(), out.end())),
            size = elementsOf(c.b, Dims(window.begin(), window.end()));
  const Expr index = reshapeTo(permuted(place, order), {planes, elementsOf(c.b, {windows, size})});
  const Expr flat = reshapeTo(p.x, {planes, elementsOf(c.b, Dims(in.begin(), in.end()))});
  const Expr taken = reshapeTo(ops::gather(flat, index, {.dim = 1}), {planes, windows, size});
  const Expr best = withDim(ops::argmax(taken, {.dim = 2}), 2);
  const Expr y = ops::gather(taken, best, {.dim = 2});
  const Expr where = ops::gather(reshapeTo(index, {planes, windows, size}), best, {.dim = 2});
  return {reshapeTo(y, resultDims(c)), reshapeTo(where, resultDims(c, 1))};
}

ImportResults fractionalMaxPoolBackward(ImportContext& c) {
  const Pooled p = pooled(c);
  const Dim planes = elementsOf(c.b, {p.x.dims().at(0), p.x.dims().at(1)});
  const Dim size = elementsOf(c.b, Dims(p.x.dims().begin() + 2, p.x.dims().end()));
  const Expr g = c.tensor("grad_output"), at = c.tensor("indices").as(DType::I32);
  if (g.rank() != c.tensor("self").rank()) c.fail("has a gradient of another rank than its operand");
  const Dim per =
      elementsOf(c.b, Dims(g.dims().end() - static_cast<std::ptrdiff_t>(p.spatial), g.dims().end()));
  const Expr zero = filled(c.b, g.dtype(), {planes, size}, 0);
  return reshapeTo(ops::scatter(zero, reshapeTo(at, {planes, per}), reshapeTo(g, {planes, per}),
                                {.dim = 1, .reduce = "sum"}),
                   resultDims(c));
}

const ImportRow kRows[] = {
    {"aten.fractional_max_pool2d", fractionalMaxPool},
    {"aten.fractional_max_pool3d", fractionalMaxPool},
    {"aten.fractional_max_pool2d_backward", fractionalMaxPoolBackward},
    {"aten.fractional_max_pool3d_backward", fractionalMaxPoolBackward},
    {"aten.max_pool1d", maxPool},
    {"aten.max_pool2d", maxPool},
    {"aten.max_pool3d", maxPool},
    {"aten.max_pool1d_with_indices", maxPool},
    {"aten.max_pool2d_with_indices", maxPool},
    {"aten.max_pool3d_with_indices", maxPool},
    {"aten.mkldnn_max_pool2d", maxPool},
    {"aten._low_memory_max_pool_with_offsets", maxPool},
    {"aten.avg_pool1d", avgPool},
    {"aten.avg_pool2d", avgPool},
    {"aten.avg_pool3d", avgPool},
    {"aten.lp_pool1d", lpPool},
    {"aten.lp_pool2d", lpPool},
    {"aten.lp_pool3d", lpPool},
    {"aten.adaptive_avg_pool1d", adaptiveAvgPool},
    {"aten.adaptive_avg_pool2d", adaptiveAvgPool},
    {"aten.adaptive_avg_pool3d", adaptiveAvgPool},
    {"aten._adaptive_avg_pool2d", adaptiveAvgPool},
    {"aten._adaptive_avg_pool3d", adaptiveAvgPool},
    {"aten.adaptive_max_pool1d", adaptiveMaxPool},
    {"aten.adaptive_max_pool2d", adaptiveMaxPool},
    {"aten.adaptive_max_pool3d", adaptiveMaxPool},
    {"aten.upsample_nearest1d", nearest},
    {"aten.upsample_nearest2d", nearest},
    {"aten.upsample_nearest3d", nearest},
    {"aten._upsample_nearest_exact1d", nearest},
    {"aten._upsample_nearest_exact2d", nearest},
    {"aten._upsample_nearest_exact3d", nearest},
    {"aten.upsample_linear1d", interpolated},
    {"aten.upsample_bilinear2d", interpolated},
    {"aten.upsample_trilinear3d", interpolated},
    {"aten.upsample_bicubic2d", interpolated},
    {"aten._upsample_bilinear2d_aa", interpolated},
    {"aten._upsample_bicubic2d_aa", interpolated},
};

} // namespace
} // namespace aten::windows

ImportRows torchWindowRows() { return aten::windows::kRows; }

} // namespace dtc
