#include "dtc/Files/OnnxTypes.h"
#include "dtc/Support/Checked.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace dtc::onnx {

namespace {

using E = ElementInfo;
constexpr ElementInfo kElements[] = {
    {kFloat, "float", DType::F32, 32},
    {kUint8, "uint8", DType::U8, 8},
    {kInt8, "int8", DType::I8, 8},
    {kUint16, "uint16", DType::U16, 16},
    {kInt16, "int16", DType::I16, 16},
    {kInt32, "int32", DType::I32, 32},
    {kInt64, "int64", DType::I64, 64},
    {kString, "string", {}},
    {kBool, "bool", DType::Bool, 8},
    {kFloat16, "float16", DType::F16, 16},
    {kDouble, "double", DType::F64, 64},
    {kUint32, "uint32", DType::U32, 32},
    {kUint64, "uint64", DType::U64, 64},
    {kComplex64, "complex64", DType::C64, 64},
    {kComplex128, "complex128", DType::C128, 128},
    {kBfloat16, "bfloat16", DType::BF16, 16},
    {kFloat8E4M3FN, "float8e4m3fn", DType::F8E4M3, 8},
    {kFloat8E4M3FNUZ, "float8e4m3fnuz", DType::F32, 8, true, 4, 3, 8, E::NaN},
    {kFloat8E5M2, "float8e5m2", DType::F8E5M2, 8},
    {kFloat8E5M2FNUZ, "float8e5m2fnuz", DType::F32, 8, true, 5, 2, 16, E::NaN},
    {kUint4, "uint4", DType::U8, 4, true},
    {kInt4, "int4", DType::I8, 4, true},
    {kFloat4E2M1, "float4e2m1", DType::F32, 4, true, 2, 1, 1, E::Max},
    {kFloat8E8M0, "float8e8m0", DType::F32, 8, true, 8, 0, 127, E::Max, true},
    {kUint2, "uint2", DType::U8, 2, true},
    {kInt2, "int2", DType::I8, 2, true},
    {kFloat6E2M3, "float6e2m3", DType::F32, 6, true, 2, 3, 1, E::Max},
    {kFloat6E3M2, "float6e3m2", DType::F32, 6, true, 3, 2, 3, E::Max},
};

} // namespace

double ElementInfo::largest() const {
  if (exponentOnly) return std::ldexp(1.0, 127);
  return std::ldexp(2 - std::ldexp(1.0, -mantissa), (1 << exponent) - 1 - bias);
}

int64_t ElementInfo::lowest() const { return held && isSignedInt(*held) ? -(int64_t(1) << (bits - 1)) : 0; }

int64_t ElementInfo::highest() const {
  const bool isSigned = held && isSignedInt(*held);
  if (bits == 64) return std::numeric_limits<int64_t>::max();
  return (int64_t(1) << (isSigned ? bits - 1 : bits)) - 1;
}

double ElementInfo::decode(uint8_t pattern) const {
  if (exponentOnly)
    return pattern == 0xff ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, pattern - bias);
  const int fraction = pattern & ((1 << mantissa) - 1), e = (pattern >> mantissa) & ((1 << exponent) - 1);
  const bool negative = (pattern >> (mantissa + exponent)) & 1;
  if (beyond == NaN && negative && e == 0 && fraction == 0) return std::numeric_limits<double>::quiet_NaN();
  const double size = std::ldexp(fraction + (e ? 1 << mantissa : 0), std::max(e, 1) - bias - mantissa);
  return negative ? -size : size;
}

const ElementInfo* findElement(int32_t type) {
  const auto* found = std::ranges::find(kElements, type, &ElementInfo::type);
  return found == std::end(kElements) ? nullptr : found;
}

std::string elementName(int32_t type) {
  const ElementInfo* e = findElement(type);
  return e ? e->name : "element type " + std::to_string(type);
}

int32_t elementOf(DType d) {
  const auto* found = std::ranges::find_if(kElements, [&](const E& e) { return e.held == d && !e.narrow; });
  return found == std::end(kElements) ? int32_t(kUndefined) : found->type;
}

std::optional<int64_t> packedBytes(const ElementInfo& e, int64_t count) {
  const auto bits = checkedMul(count, e.bits);
  return bits ? std::optional((*bits + 7) / 8) : std::nullopt;
}

void unpack(const ElementInfo& e, std::string_view bytes, Tensor& out) {
  if (!e.narrow) {
    std::memcpy(out.bytes().data(), bytes.data(), std::min(bytes.size(), out.bytes().size()));
    if (out.dtype() == DType::Bool)
      for (std::byte& b : out.bytes()) b = std::byte(b != std::byte(0));
    return;
  }
  for (int64_t i = 0; i < out.numElements(); ++i) {
    const int64_t bit = i * e.bits;
    const auto at = static_cast<size_t>(bit / 8);
    unsigned word = static_cast<uint8_t>(bytes[at]);
    if (at + 1 < bytes.size()) word |= static_cast<unsigned>(static_cast<uint8_t>(bytes[at + 1])) << 8;
    const auto pattern = static_cast<uint8_t>((word >> (bit % 8)) & ((1u << e.bits) - 1));
    if (e.exponent)
      out.setFloat(i, e.decode(pattern));
    else
      out.setInt(i, pattern > e.highest() ? pattern - (int64_t(1) << e.bits) : pattern);
  }
}

} // namespace dtc::onnx
