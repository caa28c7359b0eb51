// Random numbers. They depend on the seed of the node only (or its position in the graph): every run has the same,
// and they are not those of other runtimes.
#include "import/OnnxContext.h"

#include <bit>

namespace dtc::onnx {

namespace {

// The seed of a node: its attribute, or the place of the node.
Expr seedOf(OnnxContext& c) {
  Tensor t(DType::U64, {2});
  const double own = c.real("seed", 0);
  t.setInt(0, c.has("seed") ? static_cast<int64_t>(std::bit_cast<uint64_t>(own)) : 0);
  t.setInt(1, c.has("seed") ? 0 : static_cast<int64_t>(c.node.range.begin) + 1);
  return constantOf(c.b, t);
}

DType floatType(OnnxContext& c, DType fallback) {
  const DType d = c.has("dtype") ? c.heldBy(c.integer("dtype")) : fallback;
  if (!isFloat(d)) c.fail("makes random numbers that are not floats");
  return d;
}

Expr normal(OnnxContext& c, DType d, const Dims& shape) {
  return random_normal(seedOf(c), checkedType(c.b, d, shape), {},
                       {.mean = c.real("mean", 0), .std = c.real("scale", 1)});
}

Expr uniform(OnnxContext& c, DType d, const Dims& shape, double low, double high) {
  return random_uniform(seedOf(c), checkedType(c.b, d, shape), {}, {.low = low, .high = high});
}

Dims shapeAttr(OnnxContext& c) {
  Dims out;
  for (const ImportInt& v : c.sizes("shape")) out.push_back(c.size(v));
  return out;
}

ImportResults randomNormal(OnnxContext& c) { return normal(c, floatType(c, DType::F32), shapeAttr(c)); }
ImportResults randomUniform(OnnxContext& c) {
  return uniform(c, floatType(c, DType::F32), shapeAttr(c), c.real("low", 0), c.real("high", 1));
}
ImportResults normalLike(OnnxContext& c) {
  const Expr x = c.in(0);
  return normal(c, floatType(c, isFloat(x.dtype()) ? x.dtype() : DType::F32), x.dims());
}
ImportResults uniformLike(OnnxContext& c) {
  const Expr x = c.in(0);
  return uniform(c, floatType(c, isFloat(x.dtype()) ? x.dtype() : DType::F32), x.dims(), c.real("low", 0),
                 c.real("high", 1));
}

ImportResults bernoulli(OnnxContext& c) {
  const Expr p = c.in(0);
  const DType d = c.has("dtype") ? c.heldBy(c.integer("dtype")) : p.dtype();
  return lt(uniform(c, p.dtype(), p.dims(), 0, 1), p).as(d);
}

// Gumbel's trick: the largest of log p - log(-log u).
ImportResults multinomial(OnnxContext& c) {
  const Expr x = c.in(0); // [batch, classes], logarithms
  if (x.rank() != 2) c.fail("has an operand that is not [batch, classes]");
  const int64_t samples = c.integer("sample_size", 1);
  if (samples < 1) c.fail("has no samples");
  const Expr u = uniform(c, x.dtype(), {x.dims().at(0), samples, x.dims().at(1)}, 0, 1);
  const Expr at = argmax(withDim(x, 1) - log(-log(u)), {.dim = 2});
  return at.as(c.heldBy(c.integer("dtype", 6)));
}

ImportResults dropoutRow(OnnxContext& c) {
  const Expr x = c.in(0);
  const Expr all = filled(c.b, DType::Bool, x.dims(), 1);
  if (!c.has(2)) return {x, all}; // inference; `ratio` is an attribute before opset 12
  const Tensor& training = c.known(2, "the training mode");
  const double ratio = c.has(1) ? c.knownReals(1, "the ratio").at(0) : 0.5;
  if (training.numElements() != 1 || training.getInt(0) == 0 || ratio == 0) return {x, all};
  const Expr kept = ge(uniform(c, DType::F32, x.dims(), 0, 1), ratio);
  return {select(kept, x * (1 / (1 - ratio)), 0.0), kept};
}

constexpr OnnxRow kRandomRows[] = {
    {"RandomNormal", randomNormal, 1},
    {"RandomUniform", randomUniform, 1},
    {"RandomNormalLike", normalLike, 1},
    {"RandomUniformLike", uniformLike, 1},
    {"Bernoulli", bernoulli},
    {"Multinomial", multinomial, 7},
    {"Dropout", dropoutRow, 7},
};

} // namespace

std::span<const OnnxRow> randomRows() { return kRandomRows; }

} // namespace dtc::onnx
