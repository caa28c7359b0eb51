// Random bits with XLA's algorithms, from integer ops: ThreeFry2x32 and Philox4x32 (J. Salmon, M. Moraes, R.
// Dror and D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011). stablehlo.rng, whose algorithm is
// unspecified, uses dtc's.
#include "import/HloTable.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace dtc {

namespace {

int64_t elementsOf(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

using Words2 = std::array<ValueId, 2>;
using Words4 = std::array<ValueId, 4>;

// Arithmetic on u32 and u64 tensors.
struct Bits {
  HloContext& c;
  ValueId number(uint64_t v, DType d) { return c.literal(static_cast<double>(v), d); } // below 2^53
  ValueId op(OpName name, ValueId a, ValueId b) { return c.emit(name, {a, b}); }
  ValueId op(OpName name, ValueId a, uint64_t v) { return op(name, a, number(v, c.dtypeOf(a))); }
  Words2 split(ValueId wide) {
    return {c.convert(wide, DType::U32), c.convert(op("shr", wide, 32), DType::U32)};
  }
  ValueId join(ValueId low, ValueId high) {
    return op("or", c.convert(low, DType::U64), op("shl", c.convert(high, DType::U64), 32));
  }
  // 0, 1, … row-major.
  ValueId count(const std::vector<int64_t>& shape) {
    const int64_t flat[] = {elementsOf(shape)};
    return c.reshape(c.emitTyped("iota", {}, {{"dim", c.intAttr(0)}}, c.tensorType(DType::U64, flat)), shape);
  }
  ValueId element(ValueId vector, int64_t i) {
    const int64_t start[] = {i}, limit[] = {i + 1};
    return c.reshape(c.emit("slice", {vector}, {{"start", c.intsAttr(start)}, {"limit", c.intsAttr(limit)}}),
                     {});
  }
  ValueId vector(std::initializer_list<ValueId> elements) {
    std::vector<ValueId> parts;
    const int64_t one[] = {1};
    for (ValueId v : elements) parts.push_back(c.reshape(v, one));
    return c.emit("concat", parts, {{"dim", c.intAttr(0)}});
  }
};

struct Drawn {
  ValueId bits, state; // u32 or u64; what follows the key
};

// --- ThreeFry ---

Words2 threeFry(Bits& b, Words2 x, const Words2& key) {
  constexpr int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const ValueId keys[3] = {key[0], key[1], b.op("xor", b.op("xor", key[0], key[1]), 0x1BD11BDA)};
  for (size_t i = 0; i < 2; ++i) x[i] = b.op("add", x[i], keys[i]);
  for (size_t group = 0; group < 5; ++group) {
    for (int by : rotations[group % 2]) {
      x[0] = b.op("add", x[0], x[1]);
      const ValueId rotated = b.op("or", b.op("shl", x[1], static_cast<uint64_t>(by)),
                                   b.op("shr", x[1], static_cast<uint64_t>(32 - by)));
      x[1] = b.op("xor", x[0], rotated);
    }
    x[0] = b.op("add", x[0], keys[(group + 1) % 3]);
    x[1] = b.op("add", b.op("add", x[1], keys[(group + 2) % 3]), group + 1);
  }
  return x;
}

// Each counter generates two words: the first even dim, else the longest one, holds pairs of them.
Drawn threeFryWords(Bits& b, ValueId state, const std::vector<int64_t>& shape, bool wide) {
  HloContext& c = b.c;
  const Words2 key = b.split(b.element(state, 0));
  const ValueId first = b.element(state, 1);
  auto draw = [&](const std::vector<int64_t>& counters) {
    return threeFry(b, b.split(b.op("add", b.count(counters), first)), key);
  };
  auto after = [&](const std::vector<int64_t>& counters) {
    return b.op("add", first, static_cast<uint64_t>(elementsOf(counters)));
  };
  if (wide) {
    const Words2 w = draw(shape);
    return {b.join(w[0], w[1]), after(shape)};
  }
  if (shape.empty()) return {c.reshape(draw({1})[0], {}), after({1})};
  auto even = std::find_if(shape.begin(), shape.end(), [](int64_t n) { return n % 2 == 0; });
  const auto at = static_cast<size_t>(
      (even != shape.end() ? even : std::max_element(shape.begin(), shape.end())) - shape.begin());
  std::vector<int64_t> half = shape, full = shape;
  half[at] = (shape[at] + 1) / 2;
  full[at] = 2 * half[at];
  half.insert(half.begin() + static_cast<std::ptrdiff_t>(at) + 1, 1);
  const Words2 w = draw(half);
  ValueId y = c.emit("concat", {w[0], w[1]}, {{"dim", c.intAttr(static_cast<int64_t>(at) + 1)}});
  y = c.reshape(y, full);
  if (full[at] != shape[at]) {
    const std::vector<int64_t> start(shape.size(), 0);
    y = c.emit("slice", {y}, {{"start", c.intsAttr(start)}, {"limit", c.intsAttr(shape)}});
  }
  return {y, after(half)};
}

// --- Philox ---

Words4 philox(Bits& b, Words4 x, Words2 key) {
  auto product = [&](ValueId v, uint64_t by) { return b.split(b.op("mul", b.c.convert(v, DType::U64), by)); };
  for (int round = 0; round < 10; ++round) {
    const Words2 p = product(x[0], 0xD2511F53), q = product(x[2], 0xCD9E8D57);
    x = {b.op("xor", b.op("xor", q[1], x[1]), key[0]), q[0], b.op("xor", b.op("xor", p[1], x[3]), key[1]),
         p[0]};
    key = {b.op("add", key[0], 0x9E3779B9), b.op("add", key[1], 0xBB67AE85)};
  }
  return x;
}

// A 128-bit counter, low and high half, plus v.
Words2 plus(Bits& b, const Words2& counter, ValueId v) {
  const ValueId low = b.op("add", counter[0], v);
  return {low, b.c.emit("select", {b.op("lt", low, counter[0]), b.op("add", counter[1], 1), counter[1]})};
}

// Each counter generates four consecutive words. A state of two numbers holds the counter's low half only.
Drawn philoxWords(Bits& b, ValueId state, const std::vector<int64_t>& shape, bool wide) {
  HloContext& c = b.c;
  const bool hasCounter = c.shapeOf(state)[0] >= 3;
  const ValueId key = b.element(state, 0);
  const Words2 counter = {b.element(state, 1), hasCounter ? b.element(state, 2) : key};
  const int64_t count = elementsOf(shape), per = wide ? 2 : 4, blocks = (count + per - 1) / per;
  const int64_t column[] = {blocks, 1}, flat[] = {blocks * per}, start[] = {0}, limit[] = {count};
  const Words2 here = plus(b, counter, b.count({blocks}));
  const Words2 low = b.split(here[0]), high = b.split(c.broadcastTo(here[1], std::array{blocks}));
  const Words4 w = philox(b, {low[0], low[1], high[0], high[1]}, b.split(key));
  std::vector<ValueId> parts(w.begin(), w.end());
  if (wide) parts = {b.join(w[0], w[1]), b.join(w[2], w[3])};
  for (ValueId& v : parts) v = c.reshape(v, column);
  ValueId y = c.reshape(c.emit("concat", parts, {{"dim", c.intAttr(1)}}), flat);
  if (blocks * per != count)
    y = c.emit("slice", {y}, {{"start", c.intsAttr(start)}, {"limit", c.intsAttr(limit)}});
  const Words2 next = plus(b, counter, b.number(static_cast<uint64_t>(blocks), DType::U64));
  return {c.reshape(y, shape), hasCounter ? b.vector({next[0], next[1]}) : next[0]};
}

bool rngBitGenerator(HloContext& c) {
  if (!c.expectOperands(1) || c.numResults() != 2)
    return c.fail("needs a state as its operand, and two results");
  const ValueId state = c.operand(0);
  const std::string_view algorithm = c.word("rng_algorithm");
  const std::vector<int64_t> own = c.shapeOf(state), shape = c.resultShape(1);
  if (!state.valid() || !c.resultType(1).valid()) return false;
  const bool fry = algorithm == "THREE_FRY";
  if (!fry && algorithm != "PHILOX" && algorithm != "DEFAULT")
    return c.failAttr("rng_algorithm", "is not DEFAULT, THREE_FRY or PHILOX");
  if (c.dtypeOf(state) != DType::U64 || own.size() != 1 || own[0] < 2 || own[0] > 3 || (fry && own[0] != 2))
    return c.fail("needs a state of ui64[2], or with PHILOX of ui64[3]");
  const DType to = c.resultDType(1);
  if (isBool(to)) return c.fail("cannot generate i1");
  Bits b{c};
  const bool wide = dtypeBytes(to) == 8;
  const Drawn drawn = fry ? threeFryWords(b, state, shape, wide) : philoxWords(b, state, shape, wide);
  const ValueId next = b.vector({b.element(state, 0)});
  const int64_t rest[] = {own[0] - 1};
  ValueId nextState = c.emit("concat", {next, c.reshape(drawn.state, rest)}, {{"dim", c.intAttr(0)}});
  ValueId bits = drawn.bits;
  if (dtypeBytes(to) < 4) bits = c.convert(bits, dtypeBytes(to) == 1 ? DType::U8 : DType::U16);
  if (c.dtypeOf(bits) != to) bits = c.emit("bitcast", {bits}, {{"dtype", c.dtypeAttr(to)}});
  return c.setResult(0, nextState) && c.setResult(1, bits);
}

// --- stablehlo.rng ---

// Each op of the text has a seed of its own.
ValueId seedOf(HloContext& c) {
  HloNumbers n{DType::U64, false, {}};
  const uint64_t words[] = {0x64746373656564ull, c.op.nameRange.begin};
  for (uint64_t w : words)
    for (int i = 0; i < 8; ++i) n.bytes.push_back(static_cast<std::byte>(w >> (8 * i) & 0xff));
  const int64_t shape[] = {2};
  return c.constant(n, c.tensorType(DType::U64, shape));
}

bool rng(HloContext& c) {
  const ValueId a = c.operand(0), b = c.operand(1);
  const std::string_view how = c.word("rng_distribution");
  const TypeId type = c.resultType();
  if (!a.valid() || !b.valid() || !type.valid()) return false;
  const DType d = c.resultDType();
  if (how != "UNIFORM" && how != "NORMAL") return c.failAttr("rng_distribution", "is not UNIFORM or NORMAL");
  if (isFloat(d)) {
    const ValueId x = c.emitTyped(how == "NORMAL" ? OpName("random_normal") : OpName("random_uniform"),
                                  {seedOf(c)}, {}, type);
    const ValueId width = how == "NORMAL" ? b : c.emit("sub", {b, a}); // NORMAL: mean and deviation
    return c.setResult(c.emit("add", {c.emit("mul", {x, width}), a}));
  }
  if (how == "NORMAL") return c.fail("needs a float dtype for NORMAL");
  const DType wide = dtypeBytes(d) == 8 ? DType::U64 : DType::U32;
  const ValueId x = c.emitTyped("random_bits", {seedOf(c)}, {}, c.tensorType(wide, c.resultShape()));
  if (isBool(d))
    return c.setResult(c.emit("ne", {c.emit("and", {x, c.literal(1, wide)}), c.literal(0, wide)}));
  const ValueId range = c.emit("sub", {c.convert(b, wide), c.convert(a, wide)});
  return c.setResult(c.convert(c.emit("add", {c.emit("rem", {x, range}), c.convert(a, wide)}), d));
}

const HloRow kRandomRows[] = {
    {"stablehlo.rng", rng, 3},
    {"stablehlo.rng_bit_generator", rngBitGenerator},
};

} // namespace

std::span<const HloRow> hloRandomRows() { return kRandomRows; }

} // namespace dtc
