// rope. Its angles depend on positions and pairs alone: `split` makes tables of their cosines and sines,
// which all heads, layers and gradients share.
#include "attention/AttentionKeyParts.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Support/Tensor.h"
#include "record/RecordParts.h"
#include <cmath>

namespace dtc {
namespace {

bool ropeRule(const OpQuery& q, Rule& rule) {
  if (!ruleFromText(q, "[.. s d], [.. s] -> [.. s d]; d: whole", rule)) return false;
  Dim d = q.type(0).dims.back();
  if (d.isStatic() && d.value() % 2 == 0) return true;
  return reportShape(q, "rotates pairs of the last dim, which must be even, but it is " + dimText(q, d));
}

// Element j of a row is rotated with its partner: (i, i + d/2), or (2i, 2i + 1) if interleaved. The angle is
// position * base^(-2i/d).
template <class T>
bool ropeIn(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const Tensor &x = *in[0], &positions = *in[1];
  int64_t d = x.shape().back(), half = d / 2;
  bool interleaved = q.boolAttr("interleaved");
  const T base = q.floatAttr("base"), direction = q.boolAttr("inverse") ? -1 : 1;
  std::vector<int64_t> rows(x.shape().begin(), x.shape().end() - 1), strides = positions.strides();
  size_t lead = rows.size() - positions.rank();
  forEachElement(rows, [&](std::span<const int64_t> at, int64_t r) {
    int64_t p = 0;
    for (size_t k = 0; k < positions.rank(); ++k)
      if (positions.shape()[k] != 1) p += strides[k] * at[lead + k];
    const T position = positions.getFloat(p);
    for (int64_t i = 0; i < half; ++i) {
      int64_t a = r * d + (interleaved ? 2 * i : i), b = interleaved ? a + 1 : a + half;
      const T angle = position * std::pow(base, T(-2) * static_cast<T>(i) / static_cast<T>(d));
      const T u = x.getFloat(a), v = x.getFloat(b), c = std::cos(angle), s = direction * std::sin(angle);
      out[0]->setFloat(a, static_cast<double>(u * c - v * s));
      out[0]->setFloat(b, static_cast<double>(v * c + u * s));
    }
  });
  return true;
}

bool ropeEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  return isExtended(q) ? ropeIn<long double>(q, in, out) : ropeIn<double>(q, in, out);
}

// The angle is computed in f64: for a large position, f32 would lose the digits that the sine needs.
bool ropeDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Module& m = b.module;
  const OpQuery q = queryOf(m, op, b.diags);
  const Expr x(b, m.operand(op, 0)), positions(b, m.operand(op, 1));
  const int64_t d = x.dims().back().value(), half = d / 2;
  const bool interleaved = q.boolAttr("interleaved");
  const Dim pairs[] = {Dim(half)}, sides[] = {Dim(2)};
  const Expr pair = ops::iota(b, m.tensorType(DType::F64, pairs));
  const Expr exponent = pair * (-2.0 / static_cast<double>(d));
  const Expr rate = exp(exponent * std::log(q.floatAttr("base")));
  const Expr angle = expand_dims(positions.as(DType::F64), std::vector<int64_t>{-1}) * rate;
  const Expr cosines = cos(angle).as(x.dtype()), sines = sin(angle).as(x.dtype());

  // The sides of a pair are a dim of their own: the last one, or the one before.
  const auto last = static_cast<int64_t>(x.rank());
  const std::vector<int64_t> side = {interleaved ? last : last - 1};
  const std::vector<int64_t> tableSide = {interleaved ? -1 : -2};
  std::vector<Dim> shape = x.dims();
  shape.back() = Dim(half);
  shape.insert(shape.begin() + side[0], Dim(2));
  const Expr sided = reshape(x, shape), other = flip(sided, side);
  const Expr kept = sided * expand_dims(cosines, tableSide);
  const Expr moved = other * expand_dims(sines, tableSide);
  const Expr number = ops::iota(b, m.tensorType(DType::I32, sides));
  const Expr negated =
      eq(interleaved ? number : expand_dims(number, std::vector<int64_t>{-1}), q.boolAttr("inverse") ? 1 : 0);
  const Expr minus = -moved;
  results.push_back(reshape(kept + select(negated, minus, moved), x.dims()));
  return true;
}

// The inverse rotation.
bool ropeGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  const OpQuery q = queryOf(b.module, op, none);
  dx.resize(2);
  dx[0] = rope(Expr(b, dy[0]), b.module.operand(op, 1),
               {.base = q.floatAttr("base"),
                .interleaved = q.boolAttr("interleaved"),
                .inverse = !q.boolAttr("inverse")});
  return true;
}

} // namespace

void addRopeOp(OpRegistry& ops) {
  OpRecord& rope = ops.add(
      {.name = "rope",
       .family = "attention",
       .summary = "rotary position embedding: rotates pairs of the last dim by position * base^(-2i/dim)"});
  rope.operands = "x, positions";
  rope.operandTypes = "T, int";
  rope.operandClasses = kFloats;
  rope.attrs = {{"base", AttrType::Float, "10000.0"},
                {"interleaved", AttrType::Bool, "false", "pairs (2i, 2i+1) instead of (i, i + dim/2)"},
                {"inverse", AttrType::Bool, "false", "rotates by the negative angles"}};
  rope.rule = ropeRule;
  rope.eval = ropeEval;
  rope.decompose = ropeDecompose;
  rope.gradFn = ropeGrad;
  rope.through = {linear()};
  rope.flopsPerPoint = 8;
  rope.samples = "T[2, 5, 4], i32[5] in 0..9\nT[5, 6], i32[5] in 0..9 {interleaved = true, base = 100.0}\n"
                 "T[2, 3, 5, 2], i32[3, 5] in 0..9\nT[2, 5, 4], i32[1, 5] in 0..9 {inverse = true}";
}

} // namespace dtc
