// Batch normalization, decomposed into basic ops.
#include "import/HloTable.h"

namespace dtc {

namespace {

// The operands common to all three: x, the feature dim, and the broadcast of a vector over it.
struct Batch {
  HloContext& c;
  ValueId x;
  int64_t feature = 0;
  double epsilon = 0;
  std::vector<int64_t> others, spread; // the averaged dims; the vector's shape among x's dims
  double count = 1;                    // elements per feature
  bool ok = false;

  explicit Batch(HloContext& c) : c(c), x(c.operand(0)) {
    auto index = c.integer("feature_index");
    auto eps = c.real("epsilon");
    std::vector<int64_t> shape = c.shapeOf(x);
    if (!index || !eps || !x.valid()) return;
    feature = *index;
    epsilon = *eps;
    if (feature < 0 || feature >= static_cast<int64_t>(shape.size())) {
      c.failAttr("feature_index", "is not a dim of the operand");
      return;
    }
    spread.assign(shape.size(), 1);
    spread[static_cast<size_t>(feature)] = shape[static_cast<size_t>(feature)];
    for (size_t d = 0; d < shape.size(); ++d) {
      if (static_cast<int64_t>(d) == feature) continue;
      others.push_back(static_cast<int64_t>(d));
      count *= static_cast<double>(shape[d]);
    }
    ok = true;
  }

  ValueId wide(ValueId vector) { return c.reshape(vector, spread); }
  ValueId mean(ValueId t) { return c.emit("mean", {t}, {{"dims", c.intsAttr(others)}}); }
  ValueId sum(ValueId t) { return c.emit("sum", {t}, {{"dims", c.intsAttr(others)}}); }
  ValueId number(double v) { return c.literal(v, c.dtypeOf(x)); }
  ValueId inverseDeviation(ValueId variance) {
    return c.emit("rsqrt", {c.emit("add", {variance, number(epsilon)})});
  }
  ValueId normalized(ValueId scale, ValueId offset, ValueId mean, ValueId variance) {
    ValueId centred = c.emit("sub", {x, wide(mean)});
    ValueId unit = c.emit("mul", {centred, wide(inverseDeviation(variance))});
    return c.emit("add", {c.emit("mul", {unit, wide(scale)}), wide(offset)});
  }
};

bool inference(HloContext& c) {
  Batch b(c);
  return b.ok && c.setResult(b.normalized(c.operand(1), c.operand(2), c.operand(3), c.operand(4)));
}

bool training(HloContext& c) {
  Batch b(c);
  if (!b.ok) return false;
  ValueId mean = b.mean(b.x);
  ValueId centred = c.emit("sub", {b.x, b.wide(mean)});
  ValueId variance = b.mean(c.emit("mul", {centred, centred}));
  ValueId out[] = {b.normalized(c.operand(1), c.operand(2), mean, variance), mean, variance};
  return c.setResults(out);
}

// x, scale, mean, variance, dy -> dx, dscale, doffset
bool gradient(HloContext& c) {
  Batch b(c);
  if (!b.ok) return false;
  ValueId scale = c.operand(1), dy = c.operand(4);
  ValueId inverse = b.inverseDeviation(c.operand(3));
  ValueId unit = c.emit("mul", {c.emit("sub", {b.x, b.wide(c.operand(2))}), b.wide(inverse)});
  ValueId dOffset = b.sum(dy), dScale = b.sum(c.emit("mul", {dy, unit}));
  ValueId meanOffset = c.emit("div", {dOffset, b.number(b.count)}),
          meanScale = c.emit("div", {dScale, b.number(b.count)});
  ValueId inner =
      c.emit("sub", {c.emit("sub", {dy, b.wide(meanOffset)}), c.emit("mul", {unit, b.wide(meanScale)})});
  ValueId dx = c.emit("mul", {inner, b.wide(c.emit("mul", {scale, inverse}))});
  ValueId out[] = {dx, dScale, dOffset};
  return c.setResults(out);
}

const HloRow kNormalizeRows[] = {
    {"stablehlo.batch_norm_grad", gradient, 5},
    {"stablehlo.batch_norm_inference", inference, 5},
    {"stablehlo.batch_norm_training", training, 3},
};

} // namespace

std::span<const HloRow> hloNormalizeRows() { return kNormalizeRows; }

} // namespace dtc
