// Gradients of scatters, whichever way their updates find their places.
#include "IndexParts.h"

namespace dtc {
namespace {

ValueId number(const ScatterParts& s, double v) { return s.b.literal(v, s.b.module.typeOf(s.x).dtype); }
ValueId mask(const ScatterParts& s, ValueId p) {
  return s.b.value("convert", {p}, {{"dtype", s.b.word(dtypeName(s.b.module.typeOf(s.x).dtype))}});
}

// "set": the last update at a place has all of its cotangent. Updates are told apart by their numbers.
bool setGradient(const ScatterParts& s, std::vector<ValueId>& dx) {
  Builder& b = s.b;
  Module& m = b.module;
  auto typed = [&](ValueId like) { return m.tensorType(DType::I32, m.typeOf(like).dims); };
  const std::vector<Dim> dims = m.typeOf(s.updates).dims;
  std::optional<Dim> count = Dim(1);
  for (Dim d : dims)
    if (count) count = m.dims.mul(*count, d);
  if (!count) return false;
  const TypeId flat[] = {m.tensorType(DType::I32, std::array{*count})};
  ValueId numbers = m.result(b.op("iota", {}, {{"dim", b.integer(0)}}, flat));
  if (dims.size() != 1) numbers = b.value("reshape", {numbers}, {{"shape", sizesToAttr(m, dims)}});
  const ValueId none = b.constant(-1, typed(s.x)), last = s.scattered(none, numbers, "set");
  dx[0] = b.value("select", {b.value("lt", {last, b.literal(0, DType::I32)}), s.dy, number(s, 0)});
  dx[2] =
      b.value("select", {b.value("eq", {s.gathered(last, -2), numbers}), s.gathered(s.dy, 0), number(s, 0)});
  return true;
}

// "max", "min": all that reach the result share its cotangent.
bool extremeGradient(const ScatterParts& s, ValueId y, std::vector<ValueId>& dx) {
  Builder& b = s.b;
  const ValueId kept = mask(s, b.value("eq", {s.x, y})),
                put = mask(s, b.value("eq", {s.updates, s.gathered(y, 0)}));
  const ValueId share = b.value("div", {s.dy, s.scattered(kept, put, "sum")});
  dx[0] = b.value("mul", {share, kept});
  dx[2] = b.value("mul", {s.gathered(share, 0), put});
  return true;
}

// "prod": the product of the others; where one factor is 0, only its own slope is left, and where two are, none.
bool productGradient(const ScatterParts& s, std::vector<ValueId>& dx) {
  Builder& b = s.b;
  auto isZero = [&](ValueId v) { return b.value("eq", {v, number(s, 0)}); };
  const ValueId xZero = isZero(s.x), uZero = isZero(s.updates);
  const ValueId x = b.value("select", {xZero, number(s, 1), s.x});
  const ValueId u = b.value("select", {uZero, number(s, 1), s.updates});
  const ValueId product = s.scattered(x, u, "prod"),
                zeros = s.scattered(mask(s, xZero), mask(s, uZero), "sum");
  auto others = [&](ValueId all, ValueId count, ValueId zero, ValueId own) {
    ValueId one = b.value("select", {b.value("eq", {count, number(s, 1)}), all, number(s, 0)});
    ValueId none =
        b.value("select", {b.value("eq", {count, number(s, 0)}), b.value("div", {all, own}), number(s, 0)});
    return b.value("select", {zero, one, none});
  };
  dx[0] = b.value("mul", {s.dy, others(product, zeros, xZero, x)});
  dx[2] =
      b.value("mul", {s.gathered(s.dy, 0), others(s.gathered(product, 0), s.gathered(zeros, 0), uZero, u)});
  return true;
}

} // namespace

bool scatterGradient(const ScatterParts& s, ValueId y, const ScatterKind& kind, std::vector<ValueId>& dx) {
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
