#include "dtc/Import/rows/Composites.h"

#include <algorithm>
#include <numbers>

namespace dtc {
namespace {

using namespace ops;

constexpr int64_t kMaxTransform = 32768; // products of two indices are i32

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
  if (s.padding == GridSampling::Reflection) x = reflected(x, size, s.alignCorners);
  if (s.padding == GridSampling::Zeros) return x;
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
  if (s.mode == GridSampling::Nearest) return {{ops::round(x), Expr()}};
  const Expr low = ops::floor(x), t = x - low;
  if (s.mode == GridSampling::Linear) return {{low, 1.0 - t}, {low + 1.0, t}};
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
      const bool kept = how.padding != GridSampling::Zeros;
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
    const Expr y = ops::gather(x, broadcastTo(reshapeTo(index, out), wide), {.dim = 2});
    return inside.valid() ? ops::select(broadcastTo(reshapeTo(inside, out), wide), y, 0.0) : y;
  }
};

// The sum over the taps of dim d and the following ones.
Expr sampled(const Sampler& s, const std::vector<std::vector<Tap>>& all, std::vector<Expr>& places,
             Expr weight) {
  const size_t d = places.size();
  if (d == all.size()) {
    const Expr y = s.at(places);
    return weight.valid() ? y * reshapeTo(weight, s.out) : y;
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

} // namespace

Expr fourierTransform(Expr z, int64_t dim, bool inverse, double scale) {
  Builder& b = z.builder();
  const int64_t n = staticDims(b, {z.dims().at(static_cast<size_t>(dim))})[0];
  if (n > kMaxTransform) b.mismatch("a Fourier transform of more than 32768 elements");
  const Expr i = counted(b, n), rowsOf = reshapeTo(i, {n, 1});
  const Expr turns = (rowsOf * i) % n;
  const Expr angle = turns.as(DType::F64) * ((inverse ? 2 : -2) * std::numbers::pi / static_cast<double>(n));
  const DType part = partType(z.dtype());
  const Expr re = (ops::cos(angle) * scale).as(part), im = (ops::sin(angle) * scale).as(part);
  const auto last = static_cast<int64_t>(z.rank()) - 1;
  const Expr y = moved(z, dim, last);
  const Expr matrix = ops::complex(re, im);
  const Expr flat = reshapeTo(y, {elementsOf(b, Dims(y.dims().begin(), y.dims().end() - 1)), n});
  return moved(reshapeTo(ops::matmul(flat, matrix), y.dims()), last, dim);
}

Expr gridSample(Expr x, Expr grid, const GridSampling& how) {
  Builder& b = x.builder();
  const size_t k = x.rank() - 2;
  if (x.rank() < 3 || grid.rank() != x.rank() || grid.dims().back() != Dim(static_cast<int64_t>(k)))
    b.mismatch("a grid whose last dim is not the number of spatial dims");
  const std::vector<int64_t> size = staticDims(b, Dims(x.dims().begin() + 2, x.dims().end()));
  if (std::ranges::find(size, 0) != size.end()) b.mismatch("an image without elements");
  const auto last = static_cast<int64_t>(grid.rank()) - 1;
  Dims places(grid.dims().begin() + 1, grid.dims().end() - 1);
  const Dim n = x.dims().at(0), positions = elementsOf(b, places);
  std::vector<std::vector<Tap>> all;
  for (size_t d = 0; d < k; ++d) { // the grid has the last dim first
    const auto column = static_cast<int64_t>(k - 1 - d);
    const Expr g = withoutDim(sliceOf(grid, last, column, column + 1), last);
    Expr p = unnormalized(g, size[d], how);
    if (how.mode != GridSampling::Cubic) p = insideEdges(p, size[d], how);
    all.push_back(taps(p, how));
  }
  Dims whole{n, x.dims().at(1), elementsOf(b, Dims(x.dims().begin() + 2, x.dims().end()))};
  const Sampler sampler{reshapeTo(x, whole), size, {n, 1, positions}, how};
  std::vector<Expr> chosen;
  const Expr y = sampled(sampler, all, chosen, Expr());
  places.insert(places.begin(), {n, x.dims().at(1)});
  return reshapeTo(y, places);
}

} // namespace dtc
