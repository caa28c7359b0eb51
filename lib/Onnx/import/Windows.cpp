// Convolution and pooling.
#include "import/Windows.h"

#include <algorithm>

namespace dtc::onnx {

namespace {

constexpr int64_t kLargest = int64_t(1) << 31; // of window attributes, so that sums do not overflow

void bounded(OnnxContext& c, std::span<const int64_t> list, int64_t least, const char* what) {
  for (int64_t v : list)
    if (v < least || v > kLargest) c.fail(std::string("has ") + what + " out of range: " + std::to_string(v));
}

// auto_pad: the result has ceil(size / stride) windows.
void padSame(OnnxContext& c, Expr x, bool lower, WindowAttributes& w) {
  for (size_t i = 0; i < w.rank(); ++i) {
    const Dim size = x.dims().at(i + 2);
    if (!size.isStatic()) {
      if (w.strides[i] != 1)
        c.fail("has auto_pad for a symbolic size and a stride; bind the size with --dim");
    }
    const int64_t in = size.isStatic() ? size.value() : kLargest;
    const int64_t out = (in + w.strides[i] - 1) / w.strides[i];
    const int64_t total = std::max<int64_t>(0, (out - 1) * w.strides[i] + w.extent(i) - in);
    w.low[i] = lower ? total - total / 2 : total / 2;
    w.high[i] = total - w.low[i];
  }
}

std::vector<int64_t> weightKernel(OnnxContext& c, Expr w) {
  if (w.rank() < 3) c.fail("has weights that are not [out, in, …]");
  std::vector<int64_t> kernel;
  for (size_t i = 2; i < w.rank(); ++i) {
    if (!w.dims().at(i).isStatic()) c.fail("has a kernel of symbolic size");
    kernel.push_back(w.dims().at(i).value());
  }
  return kernel;
}

std::vector<int64_t> pooledKernel(OnnxContext& c) { return c.ints("kernel_shape"); }

} // namespace

AttrId paddingAttr(Module& m, std::span<const int64_t> low, std::span<const int64_t> high) {
  std::vector<AttrId> pairs;
  for (size_t i = 0; i < low.size(); ++i) {
    const int64_t pair[] = {low[i], high[i]};
    pairs.push_back(m.attrs.integers(pair));
  }
  return m.attrs.list(std::move(pairs));
}

WindowAttributes windowOf(OnnxContext& c, Expr x, std::vector<int64_t> kernel) {
  WindowAttributes w;
  const size_t rank = kernel.size();
  if (x.rank() != rank + 2)
    c.fail("has an operand of rank " + std::to_string(x.rank()) + " for windows of rank " +
           std::to_string(rank));
  w.kernel = std::move(kernel);
  w.strides = c.ints("strides", std::vector<int64_t>(rank, 1));
  w.dilations = c.ints("dilations", std::vector<int64_t>(rank, 1));
  const std::vector<int64_t> pads = c.ints("pads", std::vector<int64_t>(2 * rank, 0));
  if (w.strides.size() != rank || w.dilations.size() != rank || pads.size() != 2 * rank)
    c.fail("has strides, dilations or pads of another rank than its window");
  bounded(c, w.kernel, 1, "a kernel size");
  bounded(c, w.strides, 1, "a stride");
  bounded(c, w.dilations, 1, "a dilation");
  bounded(c, pads, -kLargest, "padding");
  w.low.assign(pads.begin(), pads.begin() + static_cast<int64_t>(rank));
  w.high.assign(pads.begin() + static_cast<int64_t>(rank), pads.end());
  w.ceil = c.integer("ceil_mode", 0) != 0;
  const std::string automatic = c.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER")
    padSame(c, x, automatic == "SAME_LOWER", w);
  else if (automatic == "VALID")
    w.low.assign(rank, 0), w.high.assign(rank, 0);
  else if (automatic != "NOTSET" && !automatic.empty())
    c.fail("has the unsupported auto_pad '" + automatic + "'");
  return w;
}

Expr convolved(OnnxContext& c, Expr x, Expr w, Expr bias) {
  const WindowAttributes a = windowOf(c, x, weightKernel(c, w));
  return conv(x, w,
              {.b = bias.valid() ? Arg(bias) : Arg(),
               .stride = a.strides,
               .padding = paddingAttr(c.module, a.low, a.high),
               .dilation = a.dilations,
               .groups = c.integer("group", 1)});
}

namespace {

ImportResults convRow(OnnxContext& c) { return convolved(c, c.in(0), c.in(1), c.optional(2)); }

ImportResults convTranspose(OnnxContext& c) {
  const Expr x = c.in(0), w = c.in(1);
  WindowAttributes a = windowOf(c, x, weightKernel(c, w));
  std::vector<int64_t> extra = c.ints("output_padding", std::vector<int64_t>(a.rank(), 0));
  std::vector<int64_t> wanted;
  const std::string automatic = c.text("auto_pad", "NOTSET");
  const bool same = automatic.starts_with("SAME");
  if (c.has("output_shape"))
    wanted = c.ints("output_shape");
  else if (same)
    for (size_t i = 0; i < a.rank(); ++i) wanted.push_back(c.shapeOf(x).at(i + 2) * a.strides[i]);
  if (extra.size() != a.rank() || (!wanted.empty() && wanted.size() != a.rank()))
    c.fail("has an output_padding or output_shape of another rank than its window");
  bounded(c, extra, 0, "output_padding");
  bounded(c, wanted, 0, "an output size");
  for (size_t i = 0; i < wanted.size(); ++i) {
    const int64_t full = a.strides[i] * (c.shapeOf(x).at(i + 2) - 1) + extra[i] + a.extent(i),
                  total = full - wanted.at(i);
    if (total < 0) extra[i] -= total; // more than the windows cover
    const int64_t cropped = std::max<int64_t>(total, 0);
    a.low[i] = automatic == "SAME_UPPER" ? cropped / 2 : cropped - cropped / 2;
    a.high[i] = cropped - a.low[i];
  }
  return conv(x, w,
              {.b = c.has(2) ? Arg(c.in(2)) : Arg(),
               .stride = a.strides,
               .padding = paddingAttr(c.module, a.low, a.high),
               .dilation = a.dilations,
               .groups = c.integer("group", 1),
               .transposed = true,
               .output_padding = extra});
}

ImportResults averagePool(OnnxContext& c) {
  const Expr x = c.in(0);
  const WindowAttributes a = windowOf(c, x, pooledKernel(c));
  return avg_pool(x, {.window = a.kernel,
                      .stride = a.strides,
                      .padding = paddingAttr(c.module, a.low, a.high),
                      .dilation = a.dilations,
                      .ceil = a.ceil,
                      .count_include_pad = c.integer("count_include_pad", 0) != 0});
}

// Indices are over the whole tensor; with storage_order 1 the spatial dims are column-major.
Expr wholeIndices(OnnxContext& c, Expr indices, Expr x, bool columnMajor) {
  const auto shape = c.shapeOf(x);
  Expr at = indices.as(DType::I64);
  int64_t plane = 1;
  for (size_t i = 2; i < shape.size(); ++i) plane *= shape.at(i);
  if (columnMajor) {
    Expr rest = at, out = filledInt(c.b, DType::I64, {}, 0);
    std::vector<int64_t> stride(shape.size(), 1);
    for (size_t i = 3; i < shape.size(); ++i) stride[i] = stride[i - 1] * shape.at(i - 1);
    for (size_t i = shape.size(); i-- > 2;) {
      out = out + rem(rest, std::max<int64_t>(shape.at(i), 1)) * stride[i];
      rest = div(rest, std::max<int64_t>(shape.at(i), 1));
    }
    at = out;
  }
  const Expr planes =
      iota(c.b, checkedType(c.b, DType::I64, {shape.at(0), shape.at(1)}), {.dim = 0}) * shape.at(1) +
      iota(c.b, checkedType(c.b, DType::I64, {shape.at(0), shape.at(1)}), {.dim = 1});
  Dims dims(shape.size(), Dim(1));
  dims[0] = shape.at(0), dims[1] = shape.at(1);
  return at + reshapeTo(planes * plane, dims);
}

ImportResults maxPool(OnnxContext& c) {
  const Expr x = c.in(0);
  const WindowAttributes a = windowOf(c, x, pooledKernel(c));
  const bool indices = c.wants(1);
  const auto [y, at] = max_pool(x, {.window = a.kernel,
                                    .stride = a.strides,
                                    .padding = paddingAttr(c.module, a.low, a.high),
                                    .dilation = a.dilations,
                                    .ceil = a.ceil,
                                    .indices = indices});
  if (!indices) return y;
  return {y, wholeIndices(c, at, x, c.integer("storage_order", 0) != 0)};
}

// (sum of |x|^p)^(1/p): padding is 0, so that the sum is the mean of the padded windows times their size.
ImportResults lpPool(OnnxContext& c) {
  const Expr x = c.in(0);
  const WindowAttributes a = windowOf(c, x, pooledKernel(c));
  const auto p = static_cast<double>(c.integer("p", 2));
  std::vector<int64_t> low(x.rank()), high(x.rank());
  double count = 1;
  for (size_t i = 0; i < a.rank(); ++i) {
    low[i + 2] = a.low[i], high[i + 2] = a.high[i];
    count *= static_cast<double>(a.kernel[i]);
    if (!a.ceil) continue;
    const int64_t free = c.shapeOf(x).at(i + 2) + a.low[i] + a.high[i] - a.extent(i);
    if (const int64_t over = free % a.strides[i]; over > 0) high[i + 2] += a.strides[i] - over;
  }
  const Expr powers = p == 2 ? square(x) : p == 1 ? ops::abs(x) : pow(ops::abs(x), p);
  const Expr padded = pad(powers, {.value = filled(c.b, x.dtype(), {}, 0), .low = low, .high = high});
  const Expr sums =
      avg_pool(padded, {.window = a.kernel, .stride = a.strides, .dilation = a.dilations}) * count;
  return p == 2 ? sqrt(sums) : p == 1 ? sums : pow(sums, 1 / p);
}

std::vector<int64_t> spatial(OnnxContext& c, Expr x) {
  if (x.rank() < 3) c.fail("has an operand that is not [n, channels, …]");
  return allDims(x.rank(), 2);
}

ImportResults globalAverage(OnnxContext& c) {
  const Expr x = c.in(0);
  return mean(x, {.dims = spatial(c, x), .keepdim = true});
}
ImportResults globalMax(OnnxContext& c) {
  const Expr x = c.in(0);
  return ops::max(x, {.dims = spatial(c, x), .keepdim = true});
}
ImportResults globalLp(OnnxContext& c) {
  const Expr x = c.in(0);
  return norm(x, {.dims = spatial(c, x), .keepdim = true, .p = static_cast<double>(c.integer("p", 2))});
}

// Elements at indices over the whole result; what output_shape adds is 0.
ImportResults maxUnpool(OnnxContext& c) {
  const Expr x = c.in(0);
  const WindowAttributes a = windowOf(c, x, pooledKernel(c));
  auto shape = c.shapeOf(x);
  for (size_t i = 0; i < a.rank(); ++i)
    shape.at(i + 2) =
        std::max<int64_t>(0, (shape.at(i + 2) - 1) * a.strides[i] + a.kernel[i] - a.low[i] - a.high[i]);
  const Dims inferred(shape.begin(), shape.end());
  const Dim count = elementsOf(c.b, x.dims());
  const Expr flat = scatter(filled(c.b, x.dtype(), {elementsOf(c.b, inferred)}, 0),
                            reshapeTo(c.in(1), {count}), reshapeTo(x, {count}), {.dim = 0});
  const Expr y = reshapeTo(flat, inferred);
  if (!c.has(2)) return y;
  const auto wanted = c.knownInts(2, "the output shape");
  if (wanted.size() != shape.size()) c.fail("has an output shape of another rank");
  std::vector<int64_t> low(shape.size()), high(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) high[i] = wanted.at(i) - shape.at(i);
  return pad(y, {.value = filled(c.b, x.dtype(), {}, 0), .low = low, .high = high});
}

// The sum of blocks [n, channels * block, windows] at their places in an image: a transposed convolution whose
// kernels are 1 at one element of the block each.
ImportResults col2Im(OnnxContext& c) {
  const Expr x = c.in(0);
  const auto image = c.knownInts(1, "the image shape"), block = c.knownInts(2, "the block shape");
  if (x.rank() != 3 || image.size() != block.size() || image.empty())
    c.fail("has an operand that is not [n, channels * block, windows], or shapes of different ranks");
  const size_t rank = block.size();
  bounded(c, block, 1, "a block size");
  bounded(c, image, 1, "an image size");
  const auto strides = c.ints("strides", std::vector<int64_t>(rank, 1)),
             dilations = c.ints("dilations", std::vector<int64_t>(rank, 1)),
             pads = c.ints("pads", std::vector<int64_t>(2 * rank, 0));
  if (strides.size() != rank || dilations.size() != rank || pads.size() != 2 * rank)
    c.fail("has attributes of another rank");
  bounded(c, strides, 1, "a stride");
  bounded(c, dilations, 1, "a dilation");
  bounded(c, pads, 0, "padding");
  Dim elements = 1;
  Dims windows, kernel;
  std::vector<int64_t> low, high, extra;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t extent = dilations.at(i) * (block.at(i) - 1) + 1,
                  free = image.at(i) + pads.at(i) + pads.at(i + rank) - extent;
    if (free < 0) c.fail("has a block that is larger than the image");
    windows.emplace_back(free / strides.at(i) + 1);
    low.push_back(pads.at(i)), high.push_back(pads.at(i + rank)), extra.push_back(free % strides.at(i));
    kernel.emplace_back(block.at(i));
  }
  elements = elementsOf(c.b, kernel);
  const auto channels = c.module.dims.divExact(x.dims().at(1), elements);
  const auto planes = channels ? c.module.dims.mul(x.dims().at(0), *channels) : std::nullopt;
  if (!planes) c.fail("has channels that the block size does not divide");
  Dims blocks{*planes, elements}, weights{elements, 1}, out{x.dims().at(0), *channels};
  blocks.insert(blocks.end(), windows.begin(), windows.end());
  weights.insert(weights.end(), kernel.begin(), kernel.end());
  for (int64_t v : image) out.emplace_back(v);
  const Expr w = reshapeTo(eye(c.b, checkedType(c.b, x.dtype(), {elements, elements})), weights);
  return reshapeTo(conv(reshapeTo(x, blocks), w,
                        {.stride = strides,
                         .padding = paddingAttr(c.module, low, high),
                         .dilation = dilations,
                         .transposed = true,
                         .output_padding = extra}),
                   out);
}

// A causal convolution along the last dim: the last kernel - 1 elements are carried from call to call.
ImportResults causalConv(OnnxContext& c) {
  const Expr x = c.in(0), w = c.in(1);
  if (x.rank() != 3 || w.rank() != 3) c.fail("has operands that are not [n, channels, length]");
  const int64_t kept = weightKernel(c, w)[0] - 1;
  const Expr past = c.has(3) ? c.in(3) : filled(c.b, x.dtype(), {x.dims().at(0), x.dims().at(1), kept}, 0);
  const Expr whole = concatOf(c.b, {past, x}, 2);
  Expr y = conv(whole, w,
                {.b = c.has(2) ? Arg(c.in(2)) : Arg(),
                 .groups = x.dims().at(1).isStatic() ? x.dims().at(1).value() : 1});
  const std::string activation = c.text("activation", "none");
  if (activation == "silu" || activation == "swish")
    y = silu(y);
  else if (activation != "none")
    c.fail("has the unsupported activation '" + activation + "'");
  const Expr state = flip(sliceOf(flip(whole, {2}), 2, 0, kept), {2});
  return {y, state};
}

constexpr OnnxRow kWindowsRows[] = {
    {"Conv", convRow, 1},
    {"ConvTranspose", convTranspose, 1},
    {"AveragePool", averagePool, 1},
    {"MaxPool", maxPool, 1},
    {"LpPool", lpPool, 2},
    {"GlobalAveragePool", globalAverage, 1},
    {"GlobalMaxPool", globalMax, 1},
    {"GlobalLpPool", globalLp, 2},
    {"MaxUnpool", maxUnpool, 11},
    {"Col2Im", col2Im},
    {"CausalConvWithState", causalConv},
};

} // namespace

std::span<const OnnxRow> windowRows() { return kWindowsRows; }

} // namespace dtc::onnx
