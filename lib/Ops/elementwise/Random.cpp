// Random numbers by the counter-based generator Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random
// Numbers: As Easy as 1, 2, 3", SC 2011). An element depends only on the seed and on its row-major index in
// the *global* tensor, so that it is the same on every mesh, on every backend and in every order.
//
// The key is seed[0]. The counter's upper half is seed[1], its lower half the number of a block of four
// 32-bit words. Element i of a dtype of at most 32 bits uses word i % 4 of block i / 4; a 64-bit element uses
// half i % 2 of block i / 2.
#include "dtc/Ops/record/Scalar.h"
#include "dtc/Support/Result.h"
#include "record/ShapeParts.h"
#include <cmath>
#include <numbers>

namespace dtc {

namespace {

inline constexpr DiagKind kSeedType{"random-seed", "'{0}' takes a seed of type u64[2], but {1} is {2}"};
inline constexpr DiagKind kRandomType{"result-type", "'{0}' returns {1}, but its result type is {2}"};
inline constexpr DiagKind kRandomShape{
    "shape-mismatch",
    "'{0}': `shape` is that of the global tensor: it has {1} sizes, but the result has {2} dims"};
inline constexpr DiagKind kUniformRange{"attribute-value",
                                        "'random_uniform' needs finite low < high that are distinct in {0}"};
inline constexpr DiagKind kNormalRange{"attribute-value",
                                       "'random_normal' needs a finite mean and a finite std >= 0"};
inline constexpr DiagKind kDropoutRange{"attribute-value", "'dropout' takes a p from 0 to 1"};

// --- shared by the four ops ---

size_t numValues(const OpQuery& q) { return static_cast<size_t>(q.record->offsetOperand) - 1; } // dropout's x

bool checkSeed(const OpQuery& q) {
  if (q.operandTypes.empty()) return false; // the operand count is checked elsewhere
  const Type& seed = q.type(0);
  if (seed.dtype == DType::U64 && seed.rank() == 1 && seed.dims[0] == Dim(2)) return true;
  Diagnostic& d = q.diags->error(kSeedType, q.loc, q.record->name, q.operandText(0),
                                 typeText(*q.module, q.operandTypes[0]));
  if (!q.operandLocs.empty()) d.alsoAt(q.operandLocs[0]);
  return false;
}

// All dims of the result are Place factors, in order, after the seed's, which is unsharded.
bool randomRule(const OpQuery& q, Rule& rule) {
  if (!checkSeed(q)) return false;
  const bool made = numValues(q) == 0;
  if (made && q.writtenTypes.empty()) return q.diags->fail(kNeedsType, q.loc, q.record->name);
  const Type& t = q.module->types[made ? q.writtenTypes[0] : q.operandTypes[1]];
  TensorMap map;
  for (size_t d = 0; d < t.rank(); ++d)
    map.dims.push_back(plainDim(addFactor(rule, t.dims[d], "i" + std::to_string(d), FactorKind::Place)));
  rule.operands.resize(q.operandTypes.size()); // offsets are scalars
  rule.operands[0].dims.push_back(plainDim(addUnsharded(rule, Dim(2), "seed")));
  if (!made) rule.operands[1] = map;
  rule.results.push_back(std::move(map));
  return true;
}

bool madeType(const OpQuery& q, std::vector<TypeId>& results) {
  Rule rule;
  if (!ruleOf(q, rule)) return false;
  results.assign(1, q.writtenTypes[0]);
  return true;
}

const Type& resultType(const OpQuery& q) {
  return q.module->types[numValues(q) ? q.operandTypes[1] : q.writtenTypes[0]];
}

// The sizes of the global tensor: `shape`, if partition has written it.
std::vector<Dim> globalShapeOf(const OpQuery& q) {
  if (q.has("shape"))
    if (auto sizes = sizesAttr(q, "shape")) return *sizes;
  const Type& t = resultType(q);
  return {t.dims.begin(), t.dims.end()};
}

bool checkShape(const OpQuery& q) {
  const size_t have = globalShapeOf(q).size(), rank = resultType(q).rank();
  if (have == rank) return true;
  return q.diags->fail(kRandomShape, q.loc, q.record->name, have, rank);
}

bool checkType(const OpQuery& q, bool fits, const char* what) {
  if (!fits) q.diags->error(kRandomType, q.loc, q.record->name, what, typeText(*q.module, q.writtenTypes[0]));
  return fits && checkShape(q);
}

void keepGlobalShape(const OpQuery& q, std::span<const TypeId>, std::span<const TypeId> results,
                     AttrList& attrs) {
  Module& m = *q.module;
  if (!q.has("shape") && m.types[results[0]].dims != resultType(q).dims)
    setListed(attrs, m.strings.intern("shape"), sizesAttr(m, globalShapeOf(q)));
}

// --- evaluation ---

struct Stream {
  uint64_t seed[2];
  // The word of element i, of 32 or 64 bits.
  [[nodiscard]] uint64_t word(uint64_t i, bool wide) const {
    static const Intrinsic* const narrow32 = findIntrinsic("random32");
    static const Intrinsic* const wide64 = findIntrinsic("random64");
    return static_cast<uint64_t>((wide ? wide64 : narrow32)
                                     ->onInts(DType::U64, static_cast<int64_t>(i),
                                              static_cast<int64_t>(seed[0]), static_cast<int64_t>(seed[1])));
  }
};

// fn(element, the stream of its word, its index in the global tensor) for each element of the result.
template <class Fn>
void forEachRandom(const OpQuery& q, std::span<const Tensor* const> in, const Tensor& out, Fn&& fn) {
  const Stream stream{{static_cast<uint64_t>(in[0]->getInt(0)), static_cast<uint64_t>(in[0]->getInt(1))}};
  const std::vector<Dim> global = globalShapeOf(q);
  const auto first = static_cast<size_t>(q.record->offsetOperand);
  forEachElement(out.shape(), [&](std::span<const int64_t> at, int64_t element) {
    uint64_t index = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      const int64_t offset = in.size() > first + d ? in[first + d]->getInt(0) : 0;
      index = index * static_cast<uint64_t>(global[d].value()) + static_cast<uint64_t>(at[d] + offset);
    }
    fn(element, stream, index);
  });
}

bool isWide(DType d) { return dtypeBytes(d) == 8; }

bool bitsEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const bool wide = isWide(resultType(q).dtype);
  forEachRandom(q, in, *out[0], [&](int64_t element, const Stream& s, uint64_t index) {
    out[0]->setInt(element, static_cast<int64_t>(s.word(index, wide)));
  });
  return true;
}

// The max value of the dtype below `high`: low + u * (high - low) may round to `high`.
double lastBelow(DType d, double high) {
  const double at = roundToFloat(d, high);
  if (at < high) return at;
  const double unit = std::ldexp(1.0, std::ilogb(at == 0 ? 1.0 : at) - mantissaBits(d) - 1);
  for (double step = at == 0 ? std::ldexp(1.0, -1074) : unit;; step *= 2)
    if (const double below = roundToFloat(d, at - step); below < at) return below;
}

// u has as many random bits as the dtype has mantissa digits, so that 0 <= u < 1 is exact.
double uniformOf(uint64_t word, DType d) {
  const int digits = mantissaBits(d);
  return std::ldexp(static_cast<double>(word >> ((isWide(d) ? 64 : 32) - digits)), -digits);
}

bool uniformEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const DType d = resultType(q).dtype;
  const double low = q.floatAttr("low"), high = q.floatAttr("high"), last = lastBelow(d, high);
  forEachRandom(q, in, *out[0], [&](int64_t element, const Stream& s, uint64_t index) {
    const double u = uniformOf(s.word(index, isWide(d)), d);
    out[0]->setFloat(element, std::min(roundToFloat(d, std::fma(u, high - low, low)), last));
  });
  return true;
}

// A Box-Muller pair from two words of `bits` bits: `odd` takes the sine. The logarithm and the angle are
// computed from the distance of the words to the nearest end or quarter, so that no backend loses digits to
// cancellation.
double normalOf(uint64_t radius, uint64_t angle, int bits, bool odd) {
  const uint64_t top = uint64_t(1) << (bits - 1), all = top - 1 + top;
  const double unit = std::ldexp(1.0, -bits);
  const double log = radius < top ? std::log((static_cast<double>(radius) + 0.5) * unit)
                                  : std::log1p(-(static_cast<double>(all - radius) + 0.5) * unit);
  uint64_t quarter = ((angle + (top >> 2)) & all) >> (bits - 2);
  const uint64_t rest = (angle - (quarter << (bits - 2))) & all;
  const double signedRest = rest < top ? static_cast<double>(rest) : -static_cast<double>(all - rest + 1);
  const double x = signedRest * std::numbers::pi * 2 * unit;
  quarter += odd ? 3 : 0;
  const double y = quarter % 2 == 0 ? std::cos(x) : std::sin(x);
  return std::sqrt(-2 * log) * (quarter % 4 == 1 || quarter % 4 == 2 ? -y : y);
}

bool normalEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const bool wide = isWide(resultType(q).dtype);
  const double mean = q.floatAttr("mean"), deviation = q.floatAttr("std");
  forEachRandom(q, in, *out[0], [&](int64_t element, const Stream& s, uint64_t index) {
    const uint64_t even = index & ~uint64_t(1);
    const double n = normalOf(s.word(even, wide), s.word(even + 1, wide), wide ? 64 : 32, index % 2 == 1);
    out[0]->setFloat(element, n * deviation + mean);
  });
  return true;
}

// An element is kept if its word is at least p * 2^32.
int64_t dropBelow(double p) { return static_cast<int64_t>(std::nearbyint(std::ldexp(p, 32))); }
double dropoutScale(double p) { return p < 1 ? 1 / (1 - p) : 0; }

bool dropoutEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const double p = q.floatAttr("p"), scale = dropoutScale(p);
  const auto below = static_cast<uint64_t>(dropBelow(p));
  forEachRandom(q, in, *out[0], [&](int64_t element, const Stream& s, uint64_t index) {
    const bool stays = s.word(index, false) >= below;
    out[0]->setFloat(element, stays ? in[1]->getFloat(element) * scale : 0.0);
  });
  return true;
}

// --- kernels ---

struct RandomNodes {
  ElementNode index, low, high; // u64: of the element in the global tensor, and the two of the seed
};

RandomNodes randomNodes(const OpQuery& q, ElementBuilder& b) {
  const std::vector<Dim> global = globalShapeOf(q);
  const auto first = static_cast<size_t>(q.record->offsetOperand);
  ElementNode index = b.index(0);
  for (size_t d = 0; d < global.size(); ++d) {
    ElementNode at = b.at(d);
    if (q.operandTypes.size() > first + d) at = b.add(at, b.convert(b.load(first + d, {}, true), DType::I64));
    index = b.add(b.mul(index, global[d]), at);
  }
  const ElementNode zero = b.index(0), one = b.index(1);
  return {b.convert(index, DType::U64), b.load(0, std::span(&zero, 1), true),
          b.load(0, std::span(&one, 1), true)};
}

ElementNode integerOf(ElementBuilder& b, int64_t v, DType d) { return b.convert(b.index(v), d); }

uint32_t bitsElement(const OpQuery& q, ElementBuilder& b, size_t) {
  const DType d = resultType(q).dtype;
  const RandomNodes r = randomNodes(q, b);
  return b.convert(b.call(isWide(d) ? "random64" : "random32", {r.index, r.low, r.high}), d);
}

uint32_t uniformElement(const OpQuery& q, ElementBuilder& b, size_t) {
  const DType d = resultType(q).dtype, in = accumulationType(d), word = isWide(d) ? DType::U64 : DType::U32;
  const int digits = mantissaBits(d);
  const RandomNodes r = randomNodes(q, b);
  ElementNode bits = b.convert(b.call(isWide(d) ? "random64" : "random32", {r.index, r.low, r.high}), word);
  bits = b.call("shr", {bits, integerOf(b, (isWide(d) ? 64 : 32) - digits, word)});
  ElementNode u = b.convert(b.convert(bits, isWide(d) ? DType::I64 : DType::I32), in);
  u = b.call("mul", {u, b.number(std::ldexp(1.0, -digits), in)});
  const double low = q.floatAttr("low"), high = q.floatAttr("high");
  if (low == 0 && high == 1) return u; // every value is representable already
  // In f64 with fma, so that all backends round alike.
  const ElementNode wide =
      b.call("fma", {b.convert(u, DType::F64), b.number(high - low, DType::F64), b.number(low, DType::F64)});
  return b.call("min", {b.convert(wide, d), b.number(lastBelow(d, high), in)});
}

uint32_t normalElement(const OpQuery& q, ElementBuilder& b, size_t) {
  const DType in = accumulationType(resultType(q).dtype);
  const RandomNodes r = randomNodes(q, b);
  const ElementNode n = b.call("random_normal", {b.number(q.floatAttr("std"), in), r.index, r.low, r.high});
  const double mean = q.floatAttr("mean");
  return mean == 0 ? n : b.call("add", {n, b.number(mean, in)});
}

uint32_t dropoutElement(const OpQuery& q, ElementBuilder& b, size_t) {
  const DType in = accumulationType(q.type(1).dtype);
  const double p = q.floatAttr("p");
  const std::vector<ElementNode> at = ownCoordinates(b, q.type(1).rank());
  if (p == 0) return b.load(1, at, true);
  if (p == 1) return b.number(0, in);
  const RandomNodes r = randomNodes(q, b);
  const ElementNode word = b.convert(b.call("random32", {r.index, r.low, r.high}), DType::U32);
  const ElementNode below = integerOf(b, std::min<int64_t>(dropBelow(p), 0xffffffff), DType::U32);
  const ElementNode kept = b.call("mul", {b.load(1, at, true), b.number(dropoutScale(p), in)});
  return b.call("select", {b.call("ge", {word, below}), kept, b.number(0, in)});
}

// --- attributes ---

bool bitsVerify(const OpQuery& q) { return checkType(q, isInteger(resultType(q).dtype), "integers"); }

bool uniformVerify(const OpQuery& q) {
  const DType d = resultType(q).dtype;
  if (!checkType(q, isFloat(d), "floats")) return false;
  const double low = q.floatAttr("low"), high = q.floatAttr("high");
  if (std::isfinite(high - low) && std::isfinite(roundToFloat(d, high)) &&
      roundToFloat(d, low) <= lastBelow(d, high))
    return true;
  return q.diags->fail(kUniformRange, q.loc, dtypeName(d));
}

bool normalVerify(const OpQuery& q) {
  if (!checkType(q, isFloat(resultType(q).dtype), "floats")) return false;
  const double deviation = q.floatAttr("std");
  if (std::isfinite(q.floatAttr("mean")) && std::isfinite(deviation) && deviation >= 0) return true;
  return q.diags->fail(kNormalRange, q.loc);
}

bool dropoutVerify(const OpQuery& q) {
  const double p = q.floatAttr("p");
  if (p >= 0 && p <= 1) return checkShape(q);
  return q.diags->fail(kDropoutRange, q.loc);
}

bool dropoutGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  const std::vector<ValueId> operands(m.operands(op).begin(), m.operands(op).end());
  dx.resize(operands.size());
  dx[1] = dropout(Expr(b, operands[0]), dy[0], std::span(operands).subspan(2),
                  {.p = m.attr(op, "p"), .shape = m.attr(op, "shape")});
  return true;
}

OpRecord randomOp(const char* name, const char* summary, double flops) {
  OpRecord r{.name = name, .family = "random", .summary = summary};
  r.operands = "seed, offsets...";
  r.operandTypes = "int, i32";
  r.rule = randomRule;
  r.resultType = OpRecord::ResultType::Custom;
  r.infer = madeType;
  r.typeWritten = true;
  r.offsetOperand = 1;
  r.localize = keepGlobalShape;
  r.gradNone = true;
  r.flopsPerPoint = flops;
  return r;
}

AttrSpec shapeSpec() {
  return {"shape", AttrType::Sizes, "", "set by partition: the sizes of the global tensor"};
}

} // namespace

void addRandomOps(OpRegistry& ops) {
  OpRecord& bits = ops.add(randomOp("random_bits", "uniform random bits: integers of any width", 10));
  bits.attrs = {shapeSpec()};
  bits.operandClasses = kInts;
  bits.verify = bitsVerify;
  bits.eval = bitsEval;
  bits.element = bitsElement;
  bits.samples = "u64[2] : T[5, 3]\nu64[2] : T[7]";

  OpRecord& uniform = ops.add(randomOp("random_uniform", "uniform random numbers in [low, high)", 12));
  uniform.attrs = {{"low", AttrType::Float, "0.0", "lower bound, included"},
                   {"high", AttrType::Float, "1.0", "upper bound, excluded"},
                   shapeSpec()};
  uniform.operandClasses = kFloats;
  uniform.verify = uniformVerify;
  uniform.eval = uniformEval;
  uniform.element = uniformElement;
  uniform.samples = "u64[2] : T[5, 3]\nu64[2] {low = -1.5, high = 2.25} : T[2, 3, 4]";

  OpRecord& normal = ops.add(randomOp("random_normal", "normally distributed random numbers", 40));
  normal.attrs = {{"mean", AttrType::Float, "0.0", "mean of the distribution"},
                  {"std", AttrType::Float, "1.0", "its standard deviation, at least 0"},
                  shapeSpec()};
  normal.operandClasses = kFloats;
  normal.verify = normalVerify;
  normal.eval = normalEval;
  normal.element = normalElement;
  normal.samples = "u64[2] : T[5, 3]\nu64[2] {mean = 2.0, std = 0.5} : T[7]";

  OpRecord& dropout = ops.add(
      randomOp("dropout", "0 with probability p, else x / (1 - p); the mask depends only on the seed", 12));
  dropout.operands = "seed, x, offsets...";
  dropout.operandTypes = "int, T, i32";
  dropout.attrs = {{"p", AttrType::Float, nullptr, "probability of dropping an element, 0 to 1"},
                   shapeSpec()};
  dropout.operandClasses = kFloats;
  dropout.resultType = OpRecord::ResultType::Same;
  dropout.infer = nullptr;
  dropout.typeWritten = false;
  dropout.offsetOperand = 2;
  dropout.verify = dropoutVerify;
  dropout.through = {linear(0b10), monotone(kFloats, false, 0b10)};
  dropout.eval = dropoutEval;
  dropout.element = dropoutElement;
  dropout.gradNone = false;
  dropout.gradFn = dropoutGrad;
  dropout.samples = "u64[2], T[5, 3] {p = 0.5}\nu64[2], T[7] {p = 0.1}";
}

} // namespace dtc
