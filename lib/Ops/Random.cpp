// Random numbers by the counter-based generator Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy
// as 1, 2, 3", SC 2011). An element's number depends on the seed and on the element's row-major index in the *whole* tensor
// alone, so it is the same on every mesh, on every backend and in every order.
//
// The key is seed[0]; the counter's upper half is seed[1], its lower half the number of a block of four words of 32 bits.
// Element i of a dtype of at most 32 bits takes word i % 4 of block i / 4; of 64 bits, half i % 2 of block i / 2.
#include "ShapeParts.h"
#include "dtc/Ops/Scalar.h"
#include "dtc/Support/Result.h"
#include <cmath>
#include <numbers>

namespace dtc {

namespace {

inline constexpr DiagKind kSeedType{"random-seed", "'{0}' takes a seed of type u64[2], but {1} is {2}"};
inline constexpr DiagKind kRandomType{"result-type", "'{0}' gives {1}, but its result type is {2}"};
inline constexpr DiagKind kRandomShape{
    "shape-mismatch", "'{0}': `shape` is the whole tensor's: {1} sizes, but the result has {2} dims"};
inline constexpr DiagKind kUniformRange{
    "attribute-value", "'random_uniform' needs finite low < high that are different numbers in {0}"};
inline constexpr DiagKind kNormalRange{"attribute-value",
                                       "'random_normal' needs a finite mean and a finite std >= 0"};
inline constexpr DiagKind kDropoutRange{"attribute-value", "'dropout' takes a p from 0 to 1"};

// --- what the four ops share ---

size_t numValues(const OpQuery& q) { return static_cast<size_t>(q.record->offsetOperand) - 1; } // dropout's x

bool checkSeed(const OpQuery& q) {
  if (q.operandTypes.empty()) return false; // the number of operands is reported elsewhere
  const Type& seed = q.type(0);
  if (seed.dtype == DType::U64 && seed.rank() == 1 && seed.dims[0] == Dim(2)) return true;
  Diagnostic& d = q.diags->error(kSeedType, q.loc, q.record->name, q.operandText(0),
                                 typeText(*q.module, q.operandTypes[0]));
  if (!q.operandLocs.empty()) d.alsoAt(q.operandLocs[0]);
  return false;
}

// All of the result's dims are counted along: their factors are placed in order, after that of the seed, which is whole.
bool randomRule(const OpQuery& q, Rule& rule) {
  if (!checkSeed(q)) return false;
  const bool made = numValues(q) == 0;
  if (made && q.writtenTypes.empty()) {
    q.diags->error(kNeedsType, q.loc, q.record->name);
    return false;
  }
  const Type& t = q.module->types[made ? q.writtenTypes[0] : q.operandTypes[1]];
  TensorMap map;
  for (size_t d = 0; d < t.rank(); ++d)
    map.dims.push_back(plainDim(addFactor(rule, t.dims[d], "i" + std::to_string(d), FactorKind::Place)));
  rule.operands.resize(q.operandTypes.size()); // offsets are scalars
  rule.operands[0].dims.push_back(plainDim(addWhole(rule, Dim(2), "seed")));
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

// The sizes of the whole tensor: `shape` where partition has written it.
std::vector<Dim> wholeShape(const OpQuery& q) {
  if (q.has("shape"))
    if (auto sizes = sizesAttr(q, "shape")) return *sizes;
  const Type& t = resultType(q);
  return {t.dims.begin(), t.dims.end()};
}

bool checkShape(const OpQuery& q) {
  const size_t have = wholeShape(q).size(), rank = resultType(q).rank();
  if (have == rank) return true;
  q.diags->error(kRandomShape, q.loc, q.record->name, have, rank);
  return false;
}

bool checkType(const OpQuery& q, bool fits, const char* what) {
  if (!fits) q.diags->error(kRandomType, q.loc, q.record->name, what, typeText(*q.module, q.writtenTypes[0]));
  return fits && checkShape(q);
}

void keepWholeShape(const OpQuery& q, std::span<const TypeId>, std::span<const TypeId> results,
                    AttrList& attrs) {
  Module& m = *q.module;
  if (!q.has("shape") && m.types[results[0]].dims != resultType(q).dims)
    setListed(attrs, m.strings.intern("shape"), sizesToAttr(m, wholeShape(q)));
}

// --- evaluation ---

struct Stream {
  uint64_t seed[2];
  // The word of element i: of 32 bits, or of 64.
  [[nodiscard]] uint64_t word(uint64_t i, bool wide) const {
    static const Intrinsic* const narrow32 = findIntrinsic("random32");
    static const Intrinsic* const wide64 = findIntrinsic("random64");
    return static_cast<uint64_t>((wide ? wide64 : narrow32)
                                     ->onInts(DType::U64, static_cast<int64_t>(i),
                                              static_cast<int64_t>(seed[0]), static_cast<int64_t>(seed[1])));
  }
};

// fn(element, its word's stream, its index in the whole tensor) for each element of the result.
template <class Fn>
void forEachRandom(const OpQuery& q, std::span<const Tensor* const> in, const Tensor& out, Fn&& fn) {
  const Stream stream{{static_cast<uint64_t>(in[0]->getInt(0)), static_cast<uint64_t>(in[0]->getInt(1))}};
  const std::vector<Dim> whole = wholeShape(q);
  const auto first = static_cast<size_t>(q.record->offsetOperand);
  forEachElement(out.shape(), [&](std::span<const int64_t> at, int64_t element) {
    uint64_t index = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      const int64_t offset = in.size() > first + d ? in[first + d]->getInt(0) : 0;
      index = index * static_cast<uint64_t>(whole[d].value()) + static_cast<uint64_t>(at[d] + offset);
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

// The greatest number of the dtype below `high`: rounding low + u * (high - low) may reach `high`.
double lastBelow(DType d, double high) {
  const double at = roundToFloat(d, high);
  if (at < high) return at;
  const double unit = std::ldexp(1.0, std::ilogb(at == 0 ? 1.0 : at) - mantissaBits(d) - 1);
  for (double step = at == 0 ? std::ldexp(1.0, -1074) : unit;; step *= 2)
    if (const double below = roundToFloat(d, at - step); below < at) return below;
}

// u has as many random bits as the dtype has digits, so that 0 <= u < 1 holds exactly.
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

// Box and Muller's pair from two words of `bits` bits: `odd` takes the sine. The logarithm and the angle are taken from
// the words' distance to the nearest end or quarter, so that no backend loses digits to a subtraction.
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

// An element stays where its word is at least p * 2^32.
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
  ElementNode index, low, high; // u64: the element's in the whole tensor, the seed's two
};

RandomNodes randomNodes(const OpQuery& q, ElementBuilder& b) {
  const std::vector<Dim> whole = wholeShape(q);
  const auto first = static_cast<size_t>(q.record->offsetOperand);
  ElementNode index = b.index(0);
  for (size_t d = 0; d < whole.size(); ++d) {
    ElementNode at = b.at(d);
    if (q.operandTypes.size() > first + d) at = b.add(at, b.convert(b.load(first + d, {}, true), DType::I64));
    index = b.add(b.mul(index, whole[d]), at);
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
  if (low == 0 && high == 1) return u; // every value is one of the dtype already
  // In f64 and fused, so that all backends round alike.
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
  q.diags->error(kUniformRange, q.loc, dtypeName(d));
  return false;
}

bool normalVerify(const OpQuery& q) {
  if (!checkType(q, isFloat(resultType(q).dtype), "floats")) return false;
  const double deviation = q.floatAttr("std");
  if (std::isfinite(q.floatAttr("mean")) && std::isfinite(deviation) && deviation >= 0) return true;
  q.diags->error(kNormalRange, q.loc);
  return false;
}

bool dropoutVerify(const OpQuery& q) {
  const double p = q.floatAttr("p");
  if (p >= 0 && p <= 1) return checkShape(q);
  q.diags->error(kDropoutRange, q.loc);
  return false;
}

bool dropoutGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  std::vector<ValueId> operands(b.module.operands(op).begin(), b.module.operands(op).end());
  operands[1] = dy[0];
  const AttrId p = b.module.attr(op, "p"), shape = b.module.attr(op, "shape");
  const OpId again = shape.valid() ? b.op("dropout", operands, {{"p", p}, {"shape", shape}})
                                   : b.op("dropout", operands, {{"p", p}});
  dx.resize(b.module[op].numOperands);
  dx[1] = b.module.result(again);
  return true;
}

OpRecord randomOp(const char* name, const char* summary, double flops) {
  OpRecord r{.name = name, .family = "random", .summary = summary};
  r.operands = "seed, offsets...";
  r.operandTypes = "int, i32";
  r.rule = randomRule;
  r.resultType = OpRecord::ResultType::Custom;
  r.infer = madeType;
  r.offsetOperand = 1;
  r.localise = keepWholeShape;
  r.throughNone = true;
  r.gradNone = true;
  r.flopsPerPoint = flops;
  return r;
}

AttrSpec shapeSpec() {
  return {"shape", AttrType::Sizes, "",
          "the whole tensor's sizes, where this is a piece of it (partition writes it)"};
}

} // namespace

void addRandomOps(OpRegistry& ops) {
  OpRecord bits = randomOp("random_bits", "random bits, all equally likely: integers of any width", 10);
  bits.attrs = {shapeSpec()};
  bits.operandClasses = kInts;
  bits.verify = bitsVerify;
  bits.eval = bitsEval;
  bits.element = bitsElement;
  bits.samples = "u64[2] : T[5, 3]\nu64[2] : T[7]";
  ops.add(std::move(bits));

  OpRecord uniform = randomOp("random_uniform", "random numbers in [low, high), evenly spread", 12);
  uniform.attrs = {{"low", AttrType::Float, "0.0", "the least"},
                   {"high", AttrType::Float, "1.0", "above the largest"},
                   shapeSpec()};
  uniform.operandClasses = kFloats;
  uniform.verify = uniformVerify;
  uniform.eval = uniformEval;
  uniform.element = uniformElement;
  uniform.samples = "u64[2] : T[5, 3]\nu64[2] {low = -1.5, high = 2.25} : T[2, 3, 4]";
  ops.add(std::move(uniform));

  OpRecord normal = randomOp("random_normal", "random numbers of a normal distribution", 40);
  normal.attrs = {{"mean", AttrType::Float, "0.0", "of the distribution"},
                  {"std", AttrType::Float, "1.0", "its standard deviation, at least 0"},
                  shapeSpec()};
  normal.operandClasses = kFloats;
  normal.verify = normalVerify;
  normal.eval = normalEval;
  normal.element = normalElement;
  normal.samples = "u64[2] : T[5, 3]\nu64[2] {mean = 2.0, std = 0.5} : T[7]";
  ops.add(std::move(normal));

  OpRecord dropout = randomOp(
      "dropout", "0 with probability p, else x / (1 - p); which is dropped depends on the seed alone", 12);
  dropout.operands = "seed, x, offsets...";
  dropout.operandTypes = "int, T, i32";
  dropout.attrs = {{"p", AttrType::Float, nullptr, "how likely an element is dropped, 0 to 1"}, shapeSpec()};
  dropout.operandClasses = kFloats;
  dropout.resultType = OpRecord::ResultType::Same;
  dropout.infer = nullptr;
  dropout.offsetOperand = 2;
  dropout.verify = dropoutVerify;
  dropout.through = {linear(0b10), monotone(kFloats, false, 0b10)};
  dropout.throughNone = false;
  dropout.eval = dropoutEval;
  dropout.element = dropoutElement;
  dropout.gradNone = false;
  dropout.gradFn = dropoutGrad;
  dropout.samples = "u64[2], T[5, 3] {p = 0.5}\nu64[2], T[7] {p = 0.1}";
  ops.add(std::move(dropout));
}

} // namespace dtc
