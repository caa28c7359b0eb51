// Gradients of scatters of any kind of indices.
#include "index/IndexParts.h"

namespace dtc {
static Expr mask(const ScatterParts& s, Expr p) { return convert(p, s.x.dtype()); }

// "set": the last update at a position gets the full cotangent. Updates are distinguished by their numbers.
static bool setGradient(const ScatterParts& s, std::vector<ValueId>& dx) {
  Builder& b = s.x.builder();
  Module& m = b.module;
  const std::vector<Dim> dims = s.updates.dims();
  std::optional<Dim> count = Dim(1);
  for (Dim d : dims)
    if (count) count = m.dims.mul(*count, d);
  if (!count) return false;
  Expr numbers = ops::iota(b, m.tensorType(DType::I32, std::array{*count}), {.dim = 0});
  if (dims.size() != 1) numbers = reshape(numbers, dims);
  const Expr none(b, b.constant(-1, m.tensorType(DType::I32, s.x.dims())));
  const Expr last = s.scattered(none, numbers, "set");
  dx[0] = select(last < 0, s.dy, 0);
  const Expr stays = eq(s.gathered(last, -2), numbers);
  dx[2] = select(stays, s.gathered(s.dy, 0), 0);
  return true;
}

// "max", "min": the cotangent is shared by all elements equal to the result.
static bool extremeGradient(const ScatterParts& s, Expr y, std::vector<ValueId>& dx) {
  const Expr kept = mask(s, eq(s.x, y)), put = mask(s, eq(s.updates, s.gathered(y, 0)));
  const Expr share = s.dy / s.scattered(kept, put, "sum");
  dx[0] = share * kept;
  dx[2] = s.gathered(share, 0) * put;
  return true;
}

// "prod": the product of the others; with one zero factor only its own derivative is nonzero, and with two
// none is.
static bool productGradient(const ScatterParts& s, std::vector<ValueId>& dx) {
  const Expr xZero = eq(s.x, 0), uZero = eq(s.updates, 0);
  const Expr x = select(xZero, 1, s.x);
  const Expr u = select(uZero, 1, s.updates);
  const Expr product = s.scattered(x, u, "prod"), xZeros = mask(s, xZero);
  const Expr zeros = s.scattered(xZeros, mask(s, uZero), "sum");
  auto others = [&](Expr all, Expr count, Expr zero, Expr own) {
    const Expr one = select(eq(count, 1), all, 0), isNone = eq(count, 0);
    const Expr none = select(isNone, all / own, 0);
    return select(zero, one, none);
  };
  dx[0] = s.dy * others(product, zeros, xZero, x);
  const Expr g = s.gathered(s.dy, 0), ownProduct = s.gathered(product, 0);
  dx[2] = g * others(ownProduct, s.gathered(zeros, 0), uZero, u);
  return true;
}

bool scatterGradient(const ScatterParts& s, Expr y, const ScatterKind& kind, std::vector<ValueId>& dx) {
  switch (kind.reduce) {
  case PendingKind::Sum:
    dx[0] = s.dy;
    dx[2] = s.gathered(s.dy, 0);
    return true;
  case PendingKind::Prod: return productGradient(s, dx);
  case PendingKind::Max:
  case PendingKind::Min: return extremeGradient(s, y, dx);
  default: return !kind.combine && setGradient(s, dx);
  }
}

} // namespace dtc
