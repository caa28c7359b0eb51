// grid_sample: elements of an image at positions that a tensor gives, interpolated between its own.
#include "record/RecordParts.h"
#include "record/ShapeParts.h"
#include "window/Resize.h"

#include "dtc/Ops/OpFunctions.h"

#include <algorithm>

namespace dtc {
namespace {

constexpr DiagKind kGridSample{"grid-sample", "grid_sample: {0}"};
constexpr int64_t kMaxElements = int64_t(1) << 30; // indices are i32

using Dims = std::vector<Dim>;

enum class GridPadding : uint8_t { Zeros, Border, Reflection };

struct GridSampling {
  ResizeMode mode = ResizeMode::Linear;
  GridPadding padding = GridPadding::Zeros;
  bool alignCorners = false;
  double cubic = -0.75;
  std::vector<int64_t> size; // of the spatial dims
};

bool readGridSample(const OpQuery& q, GridSampling& out) {
  const Type &x = q.type(0), &grid = q.type(1);
  const auto bad = [&](const char* why) { return q.diags->fail(kGridSample, q.loc, why); };
  if (x.rank() < 3 || grid.rank() != x.rank())
    return bad("expected an image [n, channels, sizes..] and a grid [n, places.., dims] of the same rank");
  const size_t k = x.rank() - 2;
  if (grid.dims.back() != Dim(static_cast<int64_t>(k)))
    return bad("the last dim of the grid must have an element for each spatial dim of the image");
  int64_t elements = 1;
  for (size_t d = 2; d < x.rank(); ++d) {
    if (!x.dims[d].isStatic()) return bad("expected static sizes of the spatial dims of the image");
    const int64_t n = x.dims[d].value();
    if (n < 1 || n > kMaxElements / elements) return bad("the image has no elements, or too many");
    elements *= n;
    out.size.push_back(n);
  }
  if (!textChoice(q, "mode", {"nearest", "linear", "cubic"}) ||
      !textChoice(q, "padding", {"zeros", "border", "reflection"}))
    return false;
  const std::string_view mode = q.textAttr("mode"), padding = q.textAttr("padding");
  out.mode = mode == "nearest"  ? ResizeMode::Nearest
             : mode == "linear" ? ResizeMode::Linear
                                : ResizeMode::Cubic;
  out.padding = padding == "zeros"    ? GridPadding::Zeros
                : padding == "border" ? GridPadding::Border
                                      : GridPadding::Reflection;
  out.alignCorners = q.boolAttr("align_corners"), out.cubic = q.floatAttr("cubic");
  return true;
}

// Images and places are sharded by batch, channels by channels, the grid by places.
bool gridSampleRule(const OpQuery& q, Rule& rule) {
  GridSampling s;
  if (!readGridSample(q, s)) return false;
  const Type &x = q.type(0), &grid = q.type(1);
  if (x.dims[0] != grid.dims[0])
    return q.diags->fail(kGridSample, q.loc, "the image and the grid have different batch sizes");
  const DimMap batch = plainDim(addFactor(rule, x.dims[0], "n")),
               channels = plainDim(addFactor(rule, x.dims[1], "c"));
  TensorMap image, places, out;
  image.dims = out.dims = {batch, channels};
  places.dims = {batch};
  for (size_t d = 2; d < x.rank(); ++d) {
    const std::string number = std::to_string(d - 2);
    image.dims.push_back(plainDim(addUnsharded(rule, x.dims[d], "x" + number)));
    const DimMap place = plainDim(addFactor(rule, grid.dims[d - 1], "o" + number));
    places.dims.push_back(place), out.dims.push_back(place);
  }
  places.dims.push_back(plainDim(addUnsharded(rule, grid.dims.back(), "k")));
  rule.operands = {std::move(image), std::move(places)};
  rule.results.push_back(std::move(out));
  return true;
}

// One dim of a grid: coordinates in elements.
Expr unnormalized(Expr g, int64_t size, const GridSampling& s) {
  const auto n = static_cast<double>(size);
  if (s.alignCorners) return (g + 1.0) * ((n - 1) / 2);
  return ((g + 1.0) * n - 1.0) / 2.0;
}

// The position reflected at the edges, which are at half elements unless corners are aligned.
Expr reflected(Expr x, int64_t size, bool alignCorners) {
  const double low = alignCorners ? 0 : -0.5,
               high = alignCorners ? static_cast<double>(size - 1) : static_cast<double>(size) - 0.5;
  const double span = high - low;
  if (span <= 0) return x * 0.0;
  const Expr away = ops::abs(x - low);
  const Expr flips = ops::floor(away / span), rest = away - flips * span;
  const Expr odd = ops::ne(flips - ops::floor(flips / 2.0) * 2.0, 0.0);
  return ops::select(odd, high - rest, rest + low);
}

Expr insideEdges(Expr x, int64_t size, const GridSampling& s) {
  if (s.padding == GridPadding::Reflection) x = reflected(x, size, s.alignCorners);
  if (s.padding == GridPadding::Zeros) return x;
  return ops::clamp(x, 0.0, x.literal(static_cast<double>(size - 1)));
}

// Weights and whole positions along one dim.
struct Tap {
  Expr at, weight;
};

Expr cubicWeight(Expr t, double a) { // of a distance below 2
  const Expr x = ops::abs(t);
  const Expr near = ((x * (a + 2) - (a + 3)) * x) * x + 1.0;
  const Expr far = ((x * a - 5 * a) * x + 8 * a) * x - 4 * a;
  return ops::select(x <= 1.0, near, far);
}

std::vector<Tap> taps(Expr x, const GridSampling& s) {
  if (s.mode == ResizeMode::Nearest) return {{ops::round(x), Expr()}};
  const Expr low = ops::floor(x), t = x - low;
  if (s.mode == ResizeMode::Linear) return {{low, 1.0 - t}, {low + 1.0, t}};
  std::vector<Tap> out;
  for (int k = -1; k <= 2; ++k)
    out.push_back({low + static_cast<double>(k), cubicWeight(t - static_cast<double>(k), s.cubic)});
  return out;
}

struct Sampler {
  Expr x;                    // [n, c, elements]
  std::vector<int64_t> size; // of the spatial dims
  Dims out;                  // [n, 1, positions]
  const GridSampling& how;

  // The elements at whole positions, 0 beyond the edges.
  Expr at(const std::vector<Expr>& places) const {
    Expr index, inside;
    for (size_t d = 0; d < size.size(); ++d) {
      const auto last = static_cast<double>(size[d] - 1);
      Expr p = places[d];
      const bool kept = how.padding != GridPadding::Zeros;
      if (kept) {
        p = insideEdges(p, size[d], how);
      } else {
        const Expr here = (p >= 0.0) & (p <= p.literal(last));
        inside = inside.valid() ? inside & here : here;
      }
      const Expr i = ops::clamp(p, 0.0, p.literal(last)).as(DType::I32);
      index = index.valid() ? index * size[d] + i : i;
    }
    Dims wide = out;
    wide[1] = x.dims().at(1);
    const Expr y = ops::gather(x, ops::broadcast(ops::reshape(index, out), wide), {.dim = 2});
    return inside.valid() ? ops::select(ops::broadcast(ops::reshape(inside, out), wide), y, 0.0) : y;
  }
};

// The sum over the taps of dim d and the following ones.
Expr sampled(const Sampler& s, const std::vector<std::vector<Tap>>& all, std::vector<Expr>& places,
             Expr weight) {
  const size_t d = places.size();
  if (d == all.size()) {
    const Expr y = s.at(places);
    return weight.valid() ? y * ops::reshape(weight, s.out) : y;
  }
  Expr total;
  for (const Tap& tap : all[d]) {
    places.push_back(tap.at);
    const Expr w = !tap.weight.valid() ? weight : weight.valid() ? weight * tap.weight : tap.weight;
    const Expr part = sampled(s, all, places, w);
    total = total.valid() ? total + part : part;
    places.pop_back();
  }
  return total;
}

// One element of the last dim of the grid.
Expr columnOf(Expr grid, size_t column) {
  const auto last = static_cast<int64_t>(grid.rank()) - 1;
  std::vector<int64_t> start(grid.rank(), 0);
  Dims limit = grid.dims();
  start.back() = static_cast<int64_t>(column), limit.back() = start.back() + 1;
  return ops::squeeze(ops::slice(grid, {.start = start, .limit = limit}), std::vector<int64_t>{last});
}

bool gridSampleDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  const OpQuery q = queryOf(b.module, op, b.diags);
  GridSampling s;
  if (!readGridSample(q, s)) return false;
  const Expr given(b, b.module.operand(op, 0)), where(b, b.module.operand(op, 1));
  const DType d = accumulationType(given.dtype());
  const Expr x = given.as(d), grid = where.as(d);
  Dims places(grid.dims().begin() + 1, grid.dims().end() - 1);
  Dim positions = 1;
  for (const Dim& p : places) {
    const auto product = b.module.dims.mul(positions, p);
    if (!product) return b.diags.fail(kGridSample, q.loc, "the grid has too many places");
    positions = *product;
  }
  int64_t elements = 1;
  for (int64_t n : s.size) elements *= n;
  std::vector<std::vector<Tap>> all;
  for (size_t i = 0; i < s.size.size(); ++i) { // the grid has the last dim first
    Expr p = unnormalized(columnOf(grid, s.size.size() - 1 - i), s.size[i], s);
    if (s.mode != ResizeMode::Cubic) p = insideEdges(p, s.size[i], s);
    all.push_back(taps(p, s));
  }
  const Dim n = x.dims().at(0), channels = x.dims().at(1);
  const Sampler sampler{ops::reshape(x, Dims{n, channels, elements}), s.size, {n, 1, positions}, s};
  std::vector<Expr> chosen;
  const Expr y = sampled(sampler, all, chosen, Expr());
  places.insert(places.begin(), {n, channels});
  results.push_back(ops::reshape(y, places).as(given.dtype()));
  return true;
}

} // namespace

void addGridSampleOps(OpRegistry& ops) {
  OpRecord& sample = ops.add(
      {.name = "grid_sample",
       .family = "window",
       .summary =
           "x at the places of a grid, interpolated: grid[n, .., d] is a position along spatial dim d, "
           "counted from the last, where -1 and 1 are the edges"});
  sample.operands = "x, grid";
  sample.operandClasses = kFloats;
  sample.attrs = {{"mode", AttrType::String, "linear",
                   "\"nearest\", \"linear\" (two elements per dim) or \"cubic\" (four)"},
                  {"padding", AttrType::String, "zeros",
                   "beyond the edges: \"zeros\", \"border\" (the nearest element) or \"reflection\""},
                  {"align_corners", AttrType::Bool, "false",
                   "-1 and 1 are the centers of the first and last elements, not their outer edges"},
                  {"cubic", AttrType::Float, "-0.75", "the coefficient of the cubic filter"}};
  sample.rule = gridSampleRule;
  sample.through = {linear(1, kFloats)};
  sample.checks = discontinuous({{"P(max), R -> P(max)", "holds for the nearest element only"},
                                 {"P(min), R -> P(min)", "holds for the nearest element only"},
                                 {"P(prod), R -> P(prod)", "holds for the nearest element only"}});
  sample.decompose = gridSampleDecompose;
  sample.samples = "T[2, 3, 4, 5], T[2, 3, 2, 2]\n"
                   "T[1, 2, 7], T[1, 4, 1] {mode = \"nearest\", padding = \"border\"}\n"
                   "T[1, 2, 4, 5], T[1, 2, 3, 2] {mode = \"cubic\", padding = \"reflection\"}\n"
                   "T[1, 2, 3, 2, 4], T[1, 2, 1, 3, 3] {padding = \"reflection\", align_corners = true}";
}

} // namespace dtc
