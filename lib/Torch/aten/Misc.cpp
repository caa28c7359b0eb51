// Random numbers, and ops of no family.
#include "aten/Aten.h"
#include "aten/Table.h"
#include "dtc/Import/rows/Fourier.h"
#include "dtc/Ops/Loop.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace dtc {
namespace aten::misc {
namespace {

// --- random numbers: those of dtc, from the argument `seed` (read/Random.h) ---

Expr uniform(ImportContext& c, DType d, const Dims& dims, double low = 0, double high = 1) {
  const DType drawn = isFloat(d) ? d : DType::F32;
  if (low == high) return filled(c.b, drawn, dims, low);
  return ops::random_uniform(seedOf(c), checkedType(c.b, drawn, dims), ops::Values({}),
                             {.low = low, .high = high});
}

// The parts of complex numbers are two draws of one array.
Expr ofParts(const Expr& drawn) {
  const Expr re = withoutDim(sliceOf(drawn, 0, 0, 1), 0);
  return ops::complex(re, withoutDim(sliceOf(drawn, 0, 1, 2), 0));
}
Dims withParts(Dims dims) {
  dims.insert(dims.begin(), Dim(2));
  return dims;
}

Expr uniformOfResult(ImportContext& c, double low, double high) {
  const DType d = c.result().dtype;
  if (!isComplex(d)) return uniform(c, d, resultDims(c), low, high);
  return ofParts(uniform(c, partType(d), withParts(resultDims(c)), low, high));
}

// Complex numbers have a variance of 1, too.
Expr normalOfResult(ImportContext& c) {
  const DType d = c.result().dtype;
  const Dims dims = isComplex(d) ? withParts(resultDims(c)) : resultDims(c);
  const Expr z = ops::random_normal(seedOf(c), checkedType(c.b, partType(d), dims), ops::Values({}));
  return isComplex(d) ? ofParts(z * (std::numbers::sqrt2 / 2)) : z;
}

ImportResults rand(ImportContext& c) { return uniformOfResult(c, 0, 1); }

ImportResults uniformBetween(ImportContext& c) {
  return uniformOfResult(c, c.real("from", 0), c.real("to", 1));
}

ImportResults randn(ImportContext& c) { return normalOfResult(c); }

ImportResults normal(ImportContext& c) {
  const Expr z = normalOfResult(c);
  const Expr scaled = c.has("std") ? z * in(c, "std", z.dtype()) : z;
  return c.has("mean") ? scaled + in(c, "mean", z.dtype()) : scaled;
}

ImportResults randint(ImportContext& c) {
  const auto low = static_cast<double>(c.integer("low", 0)), high = static_cast<double>(c.integer("high"));
  const Expr u = ops::floor(uniform(c, DType::F64, resultDims(c), low, high));
  return ops::min(u, high - 1).as(c.result().dtype);
}

ImportResults bernoulli(ImportContext& c) {
  const Expr u = uniform(c, DType::F32, resultDims(c));
  const Expr p = c.has("p") ? tensorOf(in(c, "p", DType::F32)) : c.tensor("self").as(DType::F32);
  return (u < p).as(c.result().dtype);
}

// The order of random keys.
ImportResults randperm(ImportContext& c) {
  const Expr keys = uniform(c, DType::F64, resultDims(c));
  return ops::argsort(keys, {.dim = 0, .stable = true}).as(c.result().dtype);
}

// Index i with a probability proportional to p[i]: the largest p / e of exponential numbers e. The largest of them in
// order are draws without replacement (Efraimidis and Spirakis).
ImportResults multinomial(ImportContext& c) {
  const Expr p = c.tensor("self").as(DType::F32);
  const int64_t samples = c.integer("num_samples");
  const auto last = static_cast<int64_t>(p.rank()) - 1;
  const bool again = c.flag("replacement", false) && samples > 1;
  Dims dims = p.dims();
  if (again) dims.insert(dims.end() - 1, Dim(samples));
  const Expr e = ops::max(-ops::log1p(-uniform(c, DType::F32, dims)), 1e-30);
  const Expr keys = (again ? withDim(p, last) : p) / e;
  if (again) return ops::argmax(keys, {.dim = last + 1});
  return ops::topk(keys, {.k = samples, .dim = last, .descending = true})[1];
}

ImportResults exponential(ImportContext& c) {
  const Expr u = uniform(c, c.result().dtype, resultDims(c));
  return -ops::log1p(-u) / c.real("lambd", 1);
}

ImportResults cauchy(ImportContext& c) {
  const Expr u = uniform(c, c.result().dtype, resultDims(c));
  return ops::tan((u - 0.5) * std::numbers::pi) * c.real("sigma", 1) + c.real("median", 0);
}

ImportResults logNormal(ImportContext& c) {
  const TypeId type = checkedType(c.b, c.result().dtype, resultDims(c));
  const Expr z = ops::random_normal(seedOf(c), type, ops::Values({}));
  return ops::exp(z * c.real("std", 2) + c.real("mean", 1));
}

// The number of trials up to the first success.
ImportResults geometric(ImportContext& c) {
  const DType d = c.result().dtype, drawn = isFloat(d) ? d : DType::F32;
  const double p = c.real("p");
  if (p == 1) return filled(c.b, d, resultDims(c), 1);
  const Expr trials = ops::ceil(ops::log1p(-uniform(c, drawn, resultDims(c))) / std::log1p(-p));
  return ops::max(trials, 1.0).as(d);
}

ImportResults dropout(ImportContext& c) {
  const Expr x = c.tensor(c.has("input") ? "input" : "self"); // dropout_
  const bool training = c.flag("train", false);
  if (c.node.results.size() < 2) // native_dropout also returns the mask
    return training && c.real("p") > 0 ? ops::dropout(seedOf(c), x, ops::Values({}), {.p = c.real("p")}) : x;
  const double p = c.real("p");
  if (!training || p == 0) return {x, filled(c.b, DType::Bool, x.dims(), 1)};
  const Expr mask = uniform(c, DType::F32, x.dims()) >= p;
  return {ops::select(mask, x * (p < 1 ? 1 / (1 - p) : 0), 0.0), mask};
}

// alpha_dropout, feature_dropout and feature_alpha_dropout: features are dropped as a whole, and the alpha forms keep
// mean and variance of what selu returns.
ImportResults dropoutOfKind(ImportContext& c) {
  const Expr x = c.tensor(c.has("input") ? "input" : "self");
  const double p = c.real("p", 0.5);
  if (!c.flag("train", false) || p == 0) return x;
  Dims dims = x.dims();
  if (c.node.target.find("feature_") != std::string::npos) {
    if (x.rank() < 2) c.fail("has an operand of rank " + std::to_string(x.rank()));
    std::fill(dims.begin() + 2, dims.end(), Dim(1));
  }
  const Expr drawn = uniform(c, DType::F32, dims) >= p, kept = broadcastTo(drawn, x.dims());
  if (p == 1) return x * kept.as(x.dtype()); // NaN and infinity become NaN
  if (c.node.target.find("alpha_") == std::string::npos) return x * kept.as(x.dtype()) / (1 - p);
  constexpr double kAlpha = 1.7580993408473766; // that of selu times its scale
  const double scale = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p)), offset = kAlpha * scale * p;
  const Expr dropped = filled(c.b, x.dtype(), x.dims(), offset - kAlpha * scale);
  return ops::select(kept, x * scale + offset, dropped);
}

ImportResults dropoutBackward(ImportContext& c) {
  const Expr dy = in(c, "grad_output", c.result().dtype);
  return dy * c.tensor("mask").as(dy.dtype()) * c.real("scale");
}

// Leaky, with a random slope per element in training. The second result is the slope, 1 where x > 0.
ImportResults rrelu(ImportContext& c) {
  const Expr x = c.tensor("self");
  const double low = c.real("lower", 0.125), high = c.real("upper", 1.0 / 3);
  const bool noise = c.has("noise");
  if (!c.flag("training", false)) {
    const Expr y = ops::leaky_relu(x, {.slope = (low + high) / 2});
    return noise ? ImportResults{y, c.tensor("noise")} : y;
  }
  const Expr slope = ops::select(x <= 0.0, uniform(c, x.dtype(), x.dims(), low, high).as(x.dtype()), 1.0);
  return {x * slope, slope};
}

ImportResults rreluBackward(ImportContext& c) {
  const Expr dy = c.tensor("grad_output"), x = c.tensor("self");
  const double low = c.real("lower"), high = c.real("upper");
  if (c.flag("training", false) && high - low > 1e-6) return dy * c.tensor("noise");
  return ops::select(x > 0.0, dy, dy * ((low + high) / 2));
}

// --- comparisons ---

ImportResults isclose(ImportContext& c) {
  const DType d = promoted(c, {"self", "other"});
  const Expr a = in(c, "self", d), b = in(c, "other", d);
  Expr same = ops::eq(a, b);
  if (!isFloat(d) && !isComplex(d)) {
    const Expr x = a.as(DType::F64), y = b.as(DType::F64);
    const Expr limit = ops::abs(y) * c.real("rtol", 1e-5) + c.real("atol", 1e-8);
    return isBool(d) ? same : same | (ops::abs(x - y) <= limit);
  }
  if (c.flag("equal_nan", false) && isFloat(d)) same = same | (ops::is_nan(a) & ops::is_nan(b));
  const Expr limit = ops::abs(b) * c.real("rtol", 1e-5) + c.real("atol", 1e-8), away = ops::abs(a - b);
  return same | (ops::is_finite(limit) & (away <= limit));
}

ImportResults isin(ImportContext& c) {
  const DType d = promoted(c, {c.has("elements") ? "elements" : "element",
                               c.has("test_elements") ? "test_elements" : "test_element"});
  const Expr x = tensorOf(in(c, c.has("elements") ? "elements" : "element", d));
  const Expr set = tensorOf(in(c, c.has("test_elements") ? "test_elements" : "test_element", d));
  const Expr flat = reshapeTo(set, {elementsOf(c.b, set.dims())});
  const Expr same = ops::eq(withDim(x, static_cast<int64_t>(x.rank())), flat);
  const std::vector<int64_t> over{static_cast<int64_t>(x.rank())};
  const Expr found = ops::any(same, {.dims = over});
  return c.flag("invert", false) ? ops::not_(found) : found;
}

ImportResults isreal(ImportContext& c) {
  const Expr x = c.tensor("self");
  return isComplex(x.dtype()) ? ops::eq(ops::imag(x), 0.0) : filled(c.b, DType::Bool, x.dims(), 1);
}

// --- shapes ---

ImportResults sumToSize(ImportContext& c) {
  const Expr x = in(c, "self"); // i64 of booleans
  const Dims out = resultDims(c);
  std::vector<int64_t> over;
  for (size_t i = 0; i < x.rank(); ++i) {
    const bool added = i + out.size() < x.rank();
    if (added || (out[i + out.size() - x.rank()] == Dim(1) && x.dims().at(i) != Dim(1)))
      over.push_back(static_cast<int64_t>(i));
  }
  return over.empty() ? x : reshapeTo(ops::sum(x, {.dims = over}), out);
}

ImportResults blockDiag(ImportContext& c) {
  const std::vector<int64_t> whole = staticDims(c.b, resultDims(c));
  std::vector<Expr> parts;
  int64_t row = 0, column = 0;
  Expr total;
  for (const Expr& given : c.tensors("tensors")) {
    const Expr x = withRank(given.as(c.result().dtype), 2);
    const std::vector<int64_t> n = staticDims(c.b, x.dims());
    const std::vector<int64_t> low{row, column}, high{whole.at(0) - row - n[0], whole.at(1) - column - n[1]};
    const Expr wide = ops::pad(x, {.value = c.literal(0.0, x.dtype()), .low = low, .high = high});
    total = !total.valid() ? wide : isBool(x.dtype()) ? total | wide : total + wide;
    row += n[0], column += n[1];
  }
  if (!total.valid()) c.fail("joins no tensors");
  return total;
}

ImportResults cartesianProduct(ImportContext& c) {
  const std::vector<Expr> xs = c.tensors("tensors");
  if (xs.size() == 1) return xs[0];
  Dims grid;
  for (const Expr& x : xs) grid.push_back(elementsOf(c.b, x.dims()));
  std::vector<Expr> columns;
  for (size_t i = 0; i < xs.size(); ++i) {
    Dims own(xs.size(), Dim(1));
    own[i] = grid[i];
    columns.push_back(reshapeTo(broadcastTo(reshapeTo(xs[i], own), grid), {elementsOf(c.b, grid)}));
  }
  return ops::stack(c.b, columns, int64_t(1));
}

ImportResults diagflat(ImportContext& c) {
  const Expr x = c.tensor("self");
  const int64_t offset = c.integer("offset", 0), n = staticDims(c.b, {elementsOf(c.b, x.dims())})[0];
  const Expr wide = reshapeTo(x, {n, 1}), on = ops::eye(c.b, checkedType(c.b, DType::F32, {n, n})) > 0;
  const Expr square = ops::select(on, broadcastTo(wide, {n, n}), c.literal(0.0, x.dtype()));
  const int64_t row = std::max<int64_t>(-offset, 0), column = std::max<int64_t>(offset, 0),
                k = std::abs(offset);
  const std::vector<int64_t> low{row, column}, high{k - row, k - column};
  return ops::pad(square, {.value = c.literal(0.0, x.dtype()), .low = low, .high = high});
}

// --- windows ---

// im2col: all windows as columns. Positions of the padded image, along both dims.
Tensor positions(int64_t out, int64_t window, int64_t stride, int64_t dilation) {
  Tensor at(DType::I32, {window * out});
  for (int64_t k = 0; k < window; ++k)
    for (int64_t o = 0; o < out; ++o) at.setInt(k * out + o, o * stride + k * dilation);
  return at;
}

struct Columns {
  std::vector<int64_t> kernel, dilation, padding, stride, out;
};

Columns columnsOf(ImportContext& c, const std::vector<int64_t>& image) {
  Columns v{perDim(c, "kernel_size", 2),
            perDim(c, "dilation", 2),
            perDim(c, "padding", 2),
            perDim(c, "stride", 2),
            {}};
  for (size_t i = 0; i < 2; ++i) {
    if (v.stride[i] < 1 || v.dilation[i] < 1 || v.kernel[i] < 1) c.fail("has a window without elements");
    v.out.push_back((image[i] + 2 * v.padding[i] - v.dilation[i] * (v.kernel[i] - 1) - 1) / v.stride[i] + 1);
    constexpr int64_t kMost = 1 << 22;
    if (v.out[i] < 1 || v.out[i] > kMost / v.kernel[i]) c.fail("has no windows, or too many");
  }
  return v;
}

ImportResults im2col(ImportContext& c) {
  const Expr given = c.tensor("self"), x = given.rank() == 3 ? withDim(given, 0) : given;
  const std::vector<int64_t> image = staticDims(c.b, {x.dims().at(2), x.dims().at(3)});
  const Columns v = columnsOf(c, image);
  const std::vector<int64_t> edge{0, 0, v.padding[0], v.padding[1]};
  Expr y = ops::pad(x, {.value = c.literal(0.0, x.dtype()), .low = edge, .high = edge});
  for (size_t i = 0; i < 2; ++i)
    y = ops::index_select(y, constantOf(c.b, positions(v.out[i], v.kernel[i], v.stride[i], v.dilation[i])),
                          {.dim = static_cast<int64_t>(i + 2)});
  y = reshapeTo(y, {x.dims().at(0), x.dims().at(1), v.kernel[0], v.out[0], v.kernel[1], v.out[1]});
  return reshapeTo(swapped(y, 3, 4), resultDims(c));
}

// The sum of all windows at their places.
ImportResults col2im(ImportContext& c) {
  const Expr given = c.tensor("self"), x = given.rank() == 2 ? withDim(given, 0) : given;
  const std::vector<int64_t> image = perDim(c, "output_size", 2);
  const Columns v = columnsOf(c, image);
  const int64_t h = image[0] + 2 * v.padding[0], w = image[1] + 2 * v.padding[1];
  const auto channels = c.module.dims.divExact(x.dims().at(1), Dim(v.kernel[0] * v.kernel[1]));
  if (!channels || h < 1 || w < 1) c.fail("has columns of another size than its windows");
  Expr y = reshapeTo(x, {x.dims().at(0), *channels, v.kernel[0], v.kernel[1], v.out[0], v.out[1]});
  y = swapped(y, 3, 4); // kernel, out, kernel, out
  const std::vector<int64_t> n{v.kernel[0] * v.out[0], v.kernel[1] * v.out[1]};
  const Expr rows =
      reshapeTo(constantOf(c.b, positions(v.out[0], v.kernel[0], v.stride[0], v.dilation[0])), {n[0], 1});
  const Expr columns = constantOf(c.b, positions(v.out[1], v.kernel[1], v.stride[1], v.dilation[1]));
  const Expr place = reshapeTo(rows * w + columns, {1, 1, n[0] * n[1]});
  const Dims flat{x.dims().at(0), *channels, n[0] * n[1]};
  const Expr zero = filled(c.b, x.dtype(), {x.dims().at(0), *channels, h * w}, 0);
  const Expr sums =
      ops::scatter(zero, broadcastTo(place, flat), reshapeTo(y, flat), {.dim = 2, .reduce = "sum"});
  const Expr whole = reshapeTo(sums, {x.dims().at(0), *channels, h, w});
  return reshapeTo(sliceOf(sliceOf(whole, 2, v.padding[0], v.padding[0] + image[0]), 3, v.padding[1],
                           v.padding[1] + image[1]),
                   resultDims(c));
}

// max_unpool: each value at its index in the plane.
ImportResults maxUnpool(ImportContext& c) {
  const Expr x = c.tensor("self");
  const Dims out = resultDims(c);
  const size_t k = c.node.target.find("3d") != std::string::npos ? 3 : 2;
  if (x.rank() < k) c.fail("has an operand of rank " + std::to_string(x.rank()));
  const Dims batch(x.dims().begin(), x.dims().end() - static_cast<std::ptrdiff_t>(k));
  const Dim rows = elementsOf(c.b, batch),
            from = elementsOf(c.b, Dims(x.dims().end() - static_cast<std::ptrdiff_t>(k), x.dims().end()));
  const Dim to = elementsOf(c.b, Dims(out.end() - static_cast<std::ptrdiff_t>(k), out.end()));
  const Expr zero = filled(c.b, x.dtype(), {rows, to}, 0);
  const Expr at = reshapeTo(c.tensor("indices").as(DType::I32), {rows, from});
  return reshapeTo(ops::scatter(zero, at, reshapeTo(x, {rows, from}), {.dim = 1, .reduce = "set"}), out);
}

ImportResults gridSampler(ImportContext& c) {
  constexpr const char* kModes[] = {"linear", "nearest", "cubic"};
  constexpr const char* kPaddings[] = {"zeros", "border", "reflection"};
  const int64_t mode = c.integer("interpolation_mode"), padding = c.integer("padding_mode");
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2) c.fail("has an unknown mode");
  const bool corners = c.flag("align_corners", false);
  return ops::grid_sample(c.tensor("input"), c.tensor("grid"),
                          {.mode = kModes[mode], .padding = kPaddings[padding], .align_corners = corners});
}

ImportResults affineGrid(ImportContext& c) {
  const Expr theta = c.tensor("theta");
  const std::vector<int64_t> size = c.ints("size");
  const bool corners = c.flag("align_corners", false);
  const size_t k = size.size() - 2;
  if (size.size() < 4 || size.size() > 5) c.fail("has a size of " + std::to_string(size.size()) + " dims");
  Dims grid;
  for (size_t i = 0; i < k; ++i) grid.emplace_back(size[i + 2]);
  std::vector<Expr> coordinates; // the last dim first, then 1
  for (size_t i = k; i-- > 0;) {
    const auto n = static_cast<double>(size[i + 2]);
    const Expr at = counted(c.b, size[i + 2]).as(theta.dtype());
    const Expr x = corners ? (n > 1 ? at * (2 / (n - 1)) - 1.0 : at * 0.0) : (at * 2.0 + 1.0) / n - 1.0;
    Dims own(k, Dim(1));
    own[i] = size[i + 2];
    coordinates.push_back(broadcastTo(reshapeTo(x, own), grid));
  }
  coordinates.push_back(filled(c.b, theta.dtype(), grid, 1));
  const Expr points = reshapeTo(ops::stack(c.b, coordinates, static_cast<int64_t>(k)),
                                {elementsOf(c.b, grid), static_cast<int64_t>(k + 1)});
  return reshapeTo(ops::matmul(points, swapped(theta, 1, 2)), resultDims(c));
}

// --- tables ---

// index_reduce: prod, mean, amax, amin of slices along a dim.
ImportResults indexReduce(ImportContext& c) {
  const Expr given = c.tensor("self");
  const bool truth = isBool(given.dtype());
  const Expr x = withRank(truth ? given.as(DType::U8) : given, 1);
  const int64_t d = dimOf(c.b, c.integer("dim"), x.rank());
  const std::string how = c.text("reduce", "");
  if (truth && (how == "mean" || !c.flag("include_self", true)))
    c.fail("reduces booleans to a mean, or without those of the operand");
  const Expr u = withRank(c.tensor("source").as(x.dtype()), 1);
  const Expr index = c.tensor("index"), flat = reshapeTo(index, {elementsOf(c.b, index.dims())});
  Dims own(x.rank(), Dim(1)), wide = x.dims();
  own[static_cast<size_t>(d)] = flat.dims().at(0), wide[static_cast<size_t>(d)] = flat.dims().at(0);
  const Expr at = broadcastTo(reshapeTo(indices(flat, x.dims().at(static_cast<size_t>(d))), own), wide);
  const bool self = c.flag("include_self", true);
  const Expr touched = ops::scatter(filled(c.b, DType::I32, x.dims(), 0), at,
                                    filled(c.b, DType::I32, wide, 1), {.dim = d, .reduce = "sum"});
  const char* reduce = how == "prod" ? "prod" : how == "amax" ? "max" : how == "amin" ? "min" : "sum";
  const Expr start = self ? x : ops::select(touched > 0, neutralOf(c, how, x.dtype()), x);
  Expr y = ops::scatter(start, at, broadcastTo(u, wide), {.dim = d, .reduce = reduce});
  if (how == "mean") {
    const Expr n = ops::max(self ? touched + 1 : touched, 1).as(x.dtype());
    y = isInteger(x.dtype()) ? ops::floor_div(y, n) : y / n;
  }
  return reshapeTo(y, given.dims()).as(given.dtype());
}

// Elements at indices where the mask is set, else a number.
ImportResults maskedIndex(ImportContext& c) {
  const Expr x = c.tensor("self"), mask = c.tensor("mask");
  Expr flatIndex;
  const std::vector<Expr> given = c.tensors("indices");
  if (given.size() != x.rank()) c.fail("has no index for each dim");
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].valid()) c.fail("has no index for each dim");
    const int64_t n = staticDims(c.b, {x.dims().at(i)})[0];
    const Expr at = ops::clamp(given[i].as(DType::I32), 0, std::max<int64_t>(n - 1, 0));
    flatIndex = flatIndex.valid() ? flatIndex * n + at : at;
  }
  const Expr at = broadcastTo(flatIndex, resultDims(c));
  const Expr flat = reshapeTo(x, {elementsOf(c.b, x.dims())});
  const Expr taken = ops::index_select(flat, reshapeTo(at, {elementsOf(c.b, at.dims())}), {.dim = 0});
  return ops::select(broadcastTo(mask, resultDims(c)), reshapeTo(taken, resultDims(c)),
                     in(c, "fill", x.dtype()));
}

// Adds values at indices where the mask is set.
ImportResults maskedPut(ImportContext& c) {
  const Expr own = c.tensor("self"), mask = c.tensor("mask");
  const bool truth = isBool(own.dtype());
  const Expr x = truth ? own.as(DType::U8) : own, values = c.tensor("values").as(x.dtype());
  const std::vector<Expr> given = c.tensors("indices");
  Expr at;
  Dims dims = broadcastDims(c.b, mask.dims(), values.dims());
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].valid() || given.size() != x.rank()) c.fail("has no index for each dim");
    const int64_t n = staticDims(c.b, {x.dims().at(i)})[0];
    const Expr one = ops::clamp(given[i].as(DType::I32), 0, std::max<int64_t>(n - 1, 0));
    at = at.valid() ? at * n + one : one;
  }
  if (!at.valid()) c.fail("has no index for each dim");
  dims = broadcastDims(c.b, dims, at.dims());
  const Dims flat{elementsOf(c.b, dims)};
  const Expr u = ops::select(broadcastTo(mask, dims), broadcastTo(values, dims), 0.0);
  const Expr start = reshapeTo(x, {elementsOf(c.b, x.dims())});
  const Expr y = ops::scatter(start, reshapeTo(broadcastTo(at, dims), flat), reshapeTo(u, flat),
                              {.dim = 0, .reduce = truth ? "max" : "sum"});
  return reshapeTo(y, x.dims()).as(own.dtype());
}

// Pairs, triples, … of elements, in order.
ImportResults combinations(ImportContext& c) {
  const Expr x = c.tensor("self");
  const std::vector<int64_t> shape = staticDims(c.b, resultDims(c));
  if (shape.size() != 2) return filled(c.b, x.dtype(), resultDims(c), 0);
  const int64_t n = staticDims(c.b, {x.dims().at(0)})[0], r = shape[1];
  const bool repeats = c.flag("with_replacement", false);
  constexpr int64_t kMost = 1 << 22;
  if (shape[0] > kMost || r > 16 || shape[0] * r > kMost) c.fail("has more than 4 million elements");
  Tensor at(DType::I32, {shape[0] * r});
  std::vector<int64_t> now(static_cast<size_t>(r));
  for (size_t i = 0; i < now.size(); ++i) now[i] = repeats ? 0 : static_cast<int64_t>(i);
  for (int64_t row = 0; row < shape[0]; ++row) {
    for (int64_t i = 0; i < r; ++i) at.setInt(row * r + i, now[static_cast<size_t>(i)]);
    int64_t k = r - 1; // the last that can grow
    while (k > 0 && now[static_cast<size_t>(k)] >= (repeats ? n - 1 : n - r + k)) --k;
    if (r > 0) ++now[static_cast<size_t>(k)];
    for (int64_t i = k + 1; i < r; ++i)
      now[static_cast<size_t>(i)] = now[static_cast<size_t>(i - 1)] + (repeats ? 0 : 1);
  }
  return reshapeTo(ops::index_select(x, constantOf(c.b, at), {.dim = 0}), resultDims(c));
}

ImportResults multilabelMargin(ImportContext& c) {
  const Expr given = c.tensor("self"), x = withRank(given, 2);
  const Expr target = withRank(c.tensor("target").as(DType::I32), 2);
  const auto classes = static_cast<double>(staticDims(c.b, {x.dims().at(1)})[0]);
  // Labels up to the first -1.
  const Expr ended = ops::cummax((target < 0).as(DType::I32), {.dim = 1})[0];
  const Expr counted = ops::eq(ended, 0), label = ops::select(counted, target, 0);
  const Expr own = ops::gather(x, label, {.dim = 1}); // [n, labels]
  const Expr zero = filled(c.b, DType::I32, x.dims(), 0);
  const Expr isLabel = ops::scatter(zero, label, counted.as(DType::I32), {.dim = 1, .reduce = "max"});
  // Element [n, label, class].
  const Expr margin = ops::relu(1.0 - (withDim(own, 2) - withDim(x, 1)));
  const Expr used = withDim(counted, 2) & withDim(ops::eq(isLabel, 0), 1);
  const std::vector<int64_t> over{1, 2};
  const Expr each = ops::sum(ops::select(used, margin, 0.0), {.dims = over}) / classes;
  const int64_t reduction = c.integer("reduction", 1);
  if (reduction == 0) return reshapeTo(each, resultDims(c));
  return reduction == 1 ? ops::mean(each) : ops::sum(each);
}

ImportResults squareBessel(ImportContext& c) { // spherical_bessel_j0: sin(x) / x
  const Expr x = tensorOf(in(c, "x"));
  return ops::select(ops::eq(x, 0.0), 1.0, ops::select(ops::is_inf(x), 0.0, ops::sin(x) / x));
}

template <Expr (*f)(Expr)> ImportResults modifiedBessel(ImportContext& c) {
  const Expr x = tensorOf(in(c, "self"));
  return f(x) * ops::exp(ops::abs(x));
}

ImportResults asSelf(ImportContext& c) { return c.tensor("self"); }
ImportResults scalarOf(ImportContext& c) { return reshapeTo(c.tensor("self"), {}); }

const ImportRow kRows[] = {
    {"aten.rand", rand},
    {"aten.rand_like", rand},
    {"aten.uniform", uniformBetween},
    {"aten.randn", randn},
    {"aten.randn_like", randn},
    {"aten.normal", normal},
    {"aten.normal_functional", normal},
    {"aten.randint", randint},
    {"aten.randint_like", randint},
    {"aten.bernoulli", bernoulli},
    {"aten.randperm", randperm},
    {"aten.multinomial", multinomial},
    {"aten.exponential", exponential},
    {"aten.cauchy", cauchy},
    {"aten.log_normal", logNormal},
    {"aten.geometric", geometric},
    {"aten.dropout", dropout},
    {"aten.native_dropout", dropout},
    {"aten.native_dropout_backward", dropoutBackward},
    {"aten.alpha_dropout", dropoutOfKind},
    {"aten.feature_dropout", dropoutOfKind},
    {"aten.feature_alpha_dropout", dropoutOfKind},
    {"aten.rrelu", rrelu},
    {"aten.rrelu_with_noise", rrelu},
    {"aten.rrelu_with_noise_functional", rrelu},
    {"aten.rrelu_with_noise_backward", rreluBackward},
    {"aten.isclose", isclose},
    {"aten.isin", isin},
    {"aten.isreal", isreal},
    {"aten.sum_to_size", sumToSize},
    {"aten.block_diag", blockDiag},
    {"aten.cartesian_prod", cartesianProduct},
    {"aten.diagflat", diagflat},
    {"aten.im2col", im2col},
    {"aten.col2im", col2im},
    {"aten.max_unpool2d", maxUnpool},
    {"aten.max_unpool3d", maxUnpool},
    {"aten.grid_sampler", gridSampler},
    {"aten.grid_sampler_2d", gridSampler},
    {"aten.grid_sampler_3d", gridSampler},
    {"aten.affine_grid_generator", affineGrid},
    {"aten.index_reduce", indexReduce},
    {"aten._unsafe_masked_index", maskedIndex},
    {"aten._unsafe_masked_index_put_accumulate", maskedPut},
    {"aten.combinations", combinations},
    {"aten.multilabel_margin_loss", multilabelMargin},
    {"aten.special_spherical_bessel_j0", squareBessel},
    {"aten.special_modified_bessel_i0", modifiedBessel<ops::bessel_i0e>},
    {"aten.special_modified_bessel_i1", modifiedBessel<ops::bessel_i1e>},
    {"aten.alias_copy", asSelf},
    {"aten.item", scalarOf},
    {"aten._local_scalar_dense", scalarOf},
};

} // namespace
} // namespace aten::misc

ImportRows torchMiscRows() { return aten::misc::kRows; }

} // namespace dtc
