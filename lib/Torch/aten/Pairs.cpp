// Distances of pairs of rows.
#include "aten/Aten.h"
#include "aten/Table.h"

#include <cmath>

namespace dtc {
namespace aten::pairs {
namespace {

// cdist(x1, x2): distances of all pairs of rows
ImportResults cdist(ImportContext& c) {
  const Expr a = withDim(c.tensor("x1"), static_cast<int64_t>(c.tensor("x1").rank()) - 1);
  const Expr b = withDim(c.tensor("x2"), static_cast<int64_t>(c.tensor("x2").rank()) - 2);
  const double p = c.real("p", 2);
  const Expr away = ops::abs(a - b);
  const std::vector<int64_t> last{static_cast<int64_t>(away.rank()) - 1};
  if (p == 0) return ops::sum(ops::ne(away, 0.0).as(away.dtype()), {.dims = last});
  if (std::isinf(p)) return ops::max(away, ops::MaxArgs{.dims = last});
  if (p == 1) return ops::sum(away, {.dims = last});
  if (p == 2) return ops::sqrt(ops::sum(ops::square(away), {.dims = last}));
  return ops::pow(ops::sum(ops::pow(away, p), {.dims = last}), 1 / p);
}

// The gradient of |away| in the p-norm with respect to away. It is 0 at 0, where the norm has no derivative.
Expr normGradient(Expr away, Expr norm, double p) {
  if (p == 0) return away * 0.0;
  if (p == 1) return ops::sign(away);
  const Expr size = ops::abs(away);
  if (std::isinf(p)) return ops::select(ops::eq(size, norm), ops::sign(away), 0.0);
  const Dims dims = away.dims();
  const Expr none = broadcastTo(ops::eq(norm, 0.0), dims);
  if (p == 2) return ops::select(none, 0.0, away / norm);
  const Expr slope =
      ops::sign(away) * ops::pow(size, size.literal(p - 1)) / ops::pow(norm, norm.literal(p - 1));
  return ops::select(p < 1 ? none | ops::eq(away, 0.0) : none, 0.0, slope);
}

ImportResults cdistBackward(ImportContext& c) {
  const Expr x1 = c.tensor("x1"), x2 = c.tensor("x2");
  const auto last = static_cast<int64_t>(x1.rank()) - 1;
  const Expr a = withDim(x1, last), b = withDim(x2, last - 1);
  const Expr away = a - b;
  const Expr slope = normGradient(away, withDim(c.tensor("cdist"), last + 1), c.real("p"));
  return ops::sum(withDim(c.tensor(c.has("grad_output") ? "grad_output" : "grad"), last + 1) * slope,
                  {.dims = std::vector<int64_t>{last}});
}

// The rows of all pairs, the first below the second.
struct Pairs {
  Expr first, second;
};

Pairs pairsOf(ImportContext& c, Expr x) {
  const int64_t n = staticDims(c.b, {x.dims().at(0)})[0];
  constexpr int64_t kMost = 1 << 22;
  if (n > kMost || n * (n - 1) / 2 > kMost) c.fail("has more than 4 million pairs");
  Tensor first(DType::I32, {n * (n - 1) / 2}), second(DType::I32, {n * (n - 1) / 2});
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = i + 1; k < n; ++k) first.setInt(at, i), second.setInt(at++, k);
  return {constantOf(c.b, first), constantOf(c.b, second)};
}

ImportResults pdist(ImportContext& c) {
  const Expr x = c.tensor("self");
  const Pairs at = pairsOf(c, x);
  const Expr away = ops::index_select(x, at.first, {.dim = 0}) - ops::index_select(x, at.second, {.dim = 0});
  const std::vector<int64_t> one{1};
  const double p = c.real("p", 2);
  if (std::isinf(p)) return ops::max(ops::abs(away), ops::MaxArgs{.dims = one});
  if (p == 0) return ops::sum(ops::ne(away, 0.0).as(away.dtype()), {.dims = one});
  return ops::norm(away, {.dims = one, .p = p});
}

ImportResults pdistBackward(ImportContext& c) {
  const Expr x = c.tensor("self");
  const Pairs at = pairsOf(c, x);
  const Expr away = ops::index_select(x, at.first, {.dim = 0}) - ops::index_select(x, at.second, {.dim = 0});
  const Expr slope = normGradient(away, withDim(c.tensor("pdist"), 1), c.real("p"));
  const Expr g = withDim(c.tensor(c.has("grad_output") ? "grad_output" : "grad"), 1) * slope;
  const auto added = [&](Expr to, Expr index, Expr u) {
    return ops::scatter(to, broadcastTo(withDim(index, 1), u.dims()), u, {.dim = 0, .reduce = "sum"});
  };
  return added(added(filled(c.b, x.dtype(), x.dims(), 0), at.first, g), at.second, -g);
}

const ImportRow kRows[] = {
    {"aten.cdist", cdist},
    {"aten._cdist_forward", cdist},
    {"aten._euclidean_dist", cdist},
    {"aten._cdist_backward", cdistBackward},
    {"aten.pdist", pdist},
    {"aten._pdist_forward", pdist},
    {"aten._pdist_backward", pdistBackward},
};

} // namespace
} // namespace aten::pairs

ImportRows torchPairRows() { return aten::pairs::kRows; }

} // namespace dtc
