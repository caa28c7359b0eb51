// Elementwise ops, and constants.
#include "import/HloRegions.h"
#include "import/HloShape.h"
#include "import/HloSmall.h"
#include "import/HloTable.h"
#include "import/IndexRanges.h"

#include <algorithm>
#include <limits>

namespace dtc {

bool convertIota(HloContext& c) {
  auto dim = c.integer("iota_dimension");
  TypeId type = c.resultType();
  if (!dim || !type.valid()) return false;
  DType d = c.resultDType(), counted = isInteger(d) || isFloat(d) ? d
                                       : dtypeBytes(d) > 8        ? DType::F64
                                                                  : DType::F32;
  ValueId y = c.emitTyped("iota", {}, {{"dim", c.intAttr(*dim)}}, c.tensorType(counted, c.resultShape()));
  return c.setResult(c.convert(y, d));
}

namespace {

// A dtc op with the same operands in the same order.
bool direct(HloContext& c, OpName name, size_t operands) {
  if (!c.expectOperands(operands)) return false;
  std::vector<ValueId> in;
  for (size_t i = 0; i < operands; ++i) in.push_back(c.operand(i));
  return c.setResult(c.emit(name, in));
}

template <size_t N> struct Name {
  char text[N];
  constexpr Name(const char (&t)[N]) { std::copy_n(t, N, text); }
};
template <Name name> bool unary(HloContext& c) { return direct(c, OpName(name.text), 1); }
template <Name name> bool binary(HloContext& c) { return direct(c, OpName(name.text), 2); }

// On i1, arithmetic is logical: add and maximum are or, multiply and minimum are and.
template <Name numbers, Name bools> bool binaryOrBits(HloContext& c) {
  return direct(c,
                isBool(c.dtypeOf(c.numOperands() ? c.operand(0) : ValueId())) ? OpName(bools.text)
                                                                              : OpName(numbers.text),
                2);
}

// --- integers divided by 0: the quotient is -1 (all bits set) and the remainder the dividend; in dtc both are 0 ---

// Where the divisor is 0; invalid where it never is.
ValueId divisorIsZero(HloContext& c, ValueId divisor) {
  const DType d = c.dtypeOf(divisor);
  if (!divisor.valid() || !isInteger(d)) return {};
  const auto range = IndexRanges(c.module)(divisor);
  if (range && (range->lo > 0 || range->hi < 0)) return {};
  return c.emit("eq", {divisor, c.literal(0, d)});
}

bool divide(HloContext& c) {
  const ValueId a = c.operand(0), b = c.operand(1), zero = divisorIsZero(c, b);
  const ValueId quotient = c.emit("div", {a, b});
  return c.setResult(zero.valid() ? c.emit("sub", {quotient, c.convert(zero, c.dtypeOf(quotient))})
                                  : quotient);
}

bool remainder(HloContext& c) {
  const ValueId a = c.operand(0), b = c.operand(1), zero = divisorIsZero(c, b);
  const ValueId rest = c.emit("rem", {a, b});
  return c.setResult(zero.valid() ? c.emit("select", {zero, a, rest}) : rest);
}

// --- shifts: dtc's shr is arithmetic on signed integers ---

ValueId asUnsigned(HloContext& c, ValueId x) {
  static constexpr DType kUnsigned[] = {DType::U8, DType::U16, DType::U32, DType::U64};
  DType d = c.dtypeOf(x);
  if (!isSignedInt(d)) return x;
  return c.emit("bitcast", {x},
                {{"dtype", c.dtypeAttr(kUnsigned[static_cast<int>(d) - static_cast<int>(DType::I8)])}});
}

ValueId asSigned(HloContext& c, ValueId x) {
  static constexpr DType kSigned[] = {DType::I8, DType::I16, DType::I32, DType::I64};
  DType d = c.dtypeOf(x);
  if (!isUnsignedInt(d)) return x;
  return c.emit("bitcast", {x},
                {{"dtype", c.dtypeAttr(kSigned[static_cast<int>(d) - static_cast<int>(DType::U8)])}});
}

ValueId backTo(HloContext& c, ValueId x, DType d) {
  return c.dtypeOf(x) == d ? x : c.emit("bitcast", {x}, {{"dtype", c.dtypeAttr(d)}});
}

// An operand's own bits, without those that sign extension added.
ValueId ownBits(HloContext& c, size_t i) {
  const ValueId x = c.operand(i);
  const HloSmall* small = i < c.numOperands() ? findHloSmall(c.value(i).type) : nullptr;
  return x.valid() && small && small->isInteger() ? lowBits(c, x, *small) : x;
}

bool shiftRightLogical(HloContext& c) {
  DType d = c.dtypeOf(c.operand(0));
  ValueId y = c.emit("shr", {asUnsigned(c, ownBits(c, 0)), asUnsigned(c, c.operand(1))});
  return c.setResult(backTo(c, y, d));
}

bool shiftRightArithmetic(HloContext& c) {
  DType d = c.dtypeOf(c.operand(0));
  ValueId y = c.emit("shr", {asSigned(c, c.operand(0)), asSigned(c, c.operand(1))});
  return c.setResult(backTo(c, y, d));
}

// --- compare ---

// All NaNs are equal and the maximum, and the zeros are equal: the remaining order is total.
ValueId weakOrderKey(HloContext& c, ValueId x) {
  const DType d = c.dtypeOf(x);
  if (!isFloat(d)) return x;
  const ValueId zeroed = c.emit("add", {x, c.literal(0, d)}); // -0 + 0 is 0
  const ValueId nan = c.literal(std::numeric_limits<double>::quiet_NaN(), d);
  return totalOrderKey(c, c.emit("select", {c.emit("is_nan", {x}), nan, zeroed}));
}

bool compare(HloContext& c) {
  struct Direction {
    std::string_view word;
    OpName op;
  };
  static constexpr Direction directions[] = {{"EQ", "eq"}, {"NE", "ne"}, {"LT", "lt"},
                                             {"LE", "le"}, {"GT", "gt"}, {"GE", "ge"}};
  if (!c.expectOperands(2)) return false;
  ValueId a = c.operand(0), b = c.operand(1);
  std::string_view how = c.word("comparison_direction"), type = c.word("compare_type");
  OpName name;
  for (const Direction& d : directions)
    if (d.word == how) name = d.op;
  if (!name) return c.fail("needs a comparison_direction: EQ, NE, LT, LE, GT or GE");
  if (type == "TOTALORDER") {
    a = totalOrderKey(c, a);
    b = totalOrderKey(c, b);
  } else if (type == "WEAKORDER") {
    a = weakOrderKey(c, a);
    b = weakOrderKey(c, b);
  } else if (!type.empty() && type != "FLOAT" && type != "SIGNED" && type != "UNSIGNED" && type != "NOTYPE") {
    return c.failAttr("compare_type", "is not FLOAT, TOTALORDER, WEAKORDER, SIGNED or UNSIGNED");
  }
  if (isBool(c.dtypeOf(a)) && how != "EQ" && how != "NE") {
    a = c.convert(a, DType::U8);
    b = c.convert(b, DType::U8);
  }
  return c.setResult(c.emit(name, {a, b}));
}

bool select(HloContext& c) { return direct(c, "select", 3); }

bool clamp(HloContext& c) { return c.setResult(c.emit("clamp", {c.operand(1), c.operand(0), c.operand(2)})); }

// --- conversions ---

// Values outside of an integer dtype saturate to its min or max.
bool convert(HloContext& c) {
  const ValueId x = c.operand(0), y = c.convert(x, c.resultDType());
  const HloSmall* small = c.op.resultTypes.empty() ? nullptr : findHloSmall(c.op.resultTypes[0]);
  if (!y.valid() || !small || !small->isInteger() || !isFloat(c.dtypeOf(x))) return c.setResult(y);
  const int64_t span = int64_t(1) << small->bits, min = small->held == DType::I8 ? -span / 2 : 0;
  return c.setResult(c.emit("clamp", {y, c.literal(static_cast<double>(min), small->held),
                                      c.literal(static_cast<double>(min + span - 1), small->held)}));
}

DType unsignedOf(int bytes) {
  return bytes == 1 ? DType::U8 : bytes == 2 ? DType::U16 : bytes == 4 ? DType::U32 : DType::U64;
}

ValueId bitcastTo(HloContext& c, ValueId x, DType d) {
  return c.dtypeOf(x) == d ? x : c.emit("bitcast", {x}, {{"dtype", c.dtypeAttr(d)}});
}

// The bits of an element: a dtype, or a small integer, which dtc stores in a byte.
struct HloBits {
  DType dtype;
  int bits;
  const HloSmall* small = nullptr;
};

HloBits bitsOf(DType d, const MlirType* declared) {
  const HloSmall* small = findHloSmall(declared);
  return {d, small ? small->bits : 8 * dtypeBytes(d), small};
}

// Along a new last dim: the bit offset of each part.
ValueId partShifts(HloContext& c, DType wide, int64_t parts, int partBits) {
  HloNumbers n{wide, false, {}};
  for (int64_t i = 0; i < parts; ++i)
    for (int b = 0; b < dtypeBytes(wide); ++b)
      n.bytes.push_back(b == 0 ? static_cast<std::byte>(i * partBits) : std::byte{0});
  int64_t shape[] = {parts};
  return c.constant(n, c.tensorType(wide, shape));
}

// The bits as an unsigned number, without those that sign extension added.
ValueId unsignedBits(HloContext& c, ValueId x, const HloBits& from) {
  return bitcastTo(c, from.small ? lowBits(c, x, *from.small) : x, unsignedOf(dtypeBytes(from.dtype)));
}

ValueId fromUnsigned(HloContext& c, ValueId bits, const HloBits& to) {
  const ValueId x = bitcastTo(c, bits, to.dtype);
  return to.small ? confined(c, x, *to.small) : x;
}

// f32[2] -> i16[2, 2]: the low half first.
ValueId splitBits(HloContext& c, ValueId x, const HloBits& from, const HloBits& to) {
  std::vector<int64_t> shape = c.shapeOf(x);
  shape.push_back(1);
  const ValueId bits = c.reshape(unsignedBits(c, x, from), shape);
  const DType wide = unsignedOf(dtypeBytes(from.dtype));
  const ValueId parts = c.emit("shr", {bits, partShifts(c, wide, from.bits / to.bits, to.bits)});
  return fromUnsigned(c, c.convert(parts, unsignedOf(dtypeBytes(to.dtype))), to);
}

ValueId joinBits(HloContext& c, ValueId x, const HloBits& from, const HloBits& to) {
  const DType wide = unsignedOf(dtypeBytes(to.dtype));
  const ValueId bits = c.convert(unsignedBits(c, x, from), wide);
  const ValueId moved = c.emit("shl", {bits, partShifts(c, wide, to.bits / from.bits, from.bits)});
  const int64_t last[] = {static_cast<int64_t>(c.rankOf(x)) - 1};
  return fromUnsigned(c, c.emit("sum", {moved}, {{"dims", c.intsAttr(last)}}), to);
}

bool population(HloContext& c) { return c.setResult(c.emit("popcnt", {ownBits(c, 0)})); }

bool leadingZeros(HloContext& c) {
  const HloSmall* small = findHloSmall(c.value(0).type);
  const ValueId zeros = c.emit("clz", {ownBits(c, 0)});
  return c.setResult(small ? c.emit("sub", {zeros, c.literal(8 - small->bits, small->held)}) : zeros);
}

bool bitcastConvert(HloContext& c) {
  const ValueId x = c.operand(0);
  if (!x.valid()) return false;
  const HloBits from = bitsOf(c.dtypeOf(x), c.value(0).type);
  const HloBits to = bitsOf(c.resultDType(), c.op.resultTypes.empty() ? nullptr : c.op.resultTypes[0]);
  for (const HloBits* b : {&from, &to})
    if (b->small && !b->small->isInteger())
      return c.fail("converts the bits of a dtype that dtc stores in a wider one; use convert instead");
  if (from.bits == to.bits)
    return c.setResult(from.small || to.small ? fromUnsigned(c, unsignedBits(c, x, from), to)
                                              : bitcastTo(c, x, to.dtype));
  if (c.lifted() || from.bits > 64 || to.bits > 64)
    return c.fail("changes the element width between dtypes where that is unsupported");
  if (from.bits < to.bits && c.rankOf(x) == 0) return c.fail("joins elements of a scalar");
  return c.setResult(from.bits > to.bits ? splitBits(c, x, from, to) : joinBits(c, x, from, to));
}

bool reducePrecision(HloContext& c) {
  auto exponent = c.integer("exponent_bits"), mantissa = c.integer("mantissa_bits");
  if (!c.expectOperands(1) || !exponent || !mantissa) return false;
  return c.setResult(
      c.emit("reduce_precision", {c.operand(0)},
             {{"exponent_bits", c.intAttr(*exponent)}, {"mantissa_bits", c.intAttr(*mantissa)}}));
}

// Rounds halves away from 0: t + sign(x) where x - t, which is exact, is at least a half.
bool roundAway(HloContext& c) {
  ValueId x = c.operand(0);
  DType d = c.dtypeOf(x);
  ValueId truncated = c.emit("trunc", {x});
  ValueId rest = c.emit("abs", {c.emit("sub", {x, truncated})});
  ValueId away = c.emit("ge", {rest, c.literal(0.5, d)});
  return c.setResult(c.emit("select", {away, c.emit("add", {truncated, c.emit("sign", {x})}), truncated}));
}

// --- constants ---

bool constant(HloContext& c) {
  const MlirAttr* value = c.attr("value");
  TypeId type = c.resultType();
  if (!type.valid()) return false;
  if (!value) return c.fail("needs its value, as in dense<0.0>");
  auto count = c.module.types[type].numElements();
  std::string why;
  auto numbers = readNumbers(c.module.source.text, c.tree(), *value, c.module.types[type].dtype, *count, why,
                             findHloSmall(c.op.resultTypes[0]));
  if (!numbers) return c.failAt(value->range, why);
  return c.setResult(c.constant(*numbers, type));
}

const HloRow kElementwiseRows[] = {
    {"stablehlo.add", binaryOrBits<"add", "or">},
    {"stablehlo.bitcast_convert", bitcastConvert, 1},
    {"stablehlo.clamp", clamp, 3},
    {"stablehlo.compare", compare},
    {"sdy.constant", constant},
    {"chlo.constant", constant},
    {"stablehlo.constant", constant},
    {"stablehlo.convert", convert, 1},
    {"stablehlo.count_leading_zeros", leadingZeros, 1},
    {"stablehlo.divide", divide, 2},
    {"stablehlo.iota", convertIota},
    {"stablehlo.is_finite", unary<"is_finite">},
    {"stablehlo.logistic", unary<"sigmoid">},
    {"stablehlo.maximum", binaryOrBits<"max", "or">},
    {"stablehlo.minimum", binaryOrBits<"min", "and">},
    {"stablehlo.multiply", binaryOrBits<"mul", "and">},
    {"stablehlo.popcnt", population, 1},
    {"stablehlo.power", binary<"pow">},
    {"stablehlo.reduce_precision", reducePrecision},
    {"stablehlo.remainder", remainder, 2},
    {"stablehlo.round_nearest_afz", roundAway, 1},
    {"stablehlo.select", select},
    {"stablehlo.shift_right_arithmetic", shiftRightArithmetic, 2},
    {"stablehlo.shift_right_logical", shiftRightLogical, 2},
};

} // namespace

std::span<const HloRow> hloElementwiseRows() { return kElementwiseRows; }

} // namespace dtc
