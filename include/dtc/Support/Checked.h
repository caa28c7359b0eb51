#pragma once
// Checked 64-bit arithmetic. All products of sizes use it (architecture.md, "Errors").
#include <cstdint>
#include <optional>
#include <span>

namespace dtc {

[[nodiscard]] inline std::optional<int64_t> checkedMul(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
}
[[nodiscard]] inline std::optional<int64_t> checkedAdd(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
}
[[nodiscard]] inline std::optional<int64_t> checkedSub(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_sub_overflow(a, b, &r) ? std::nullopt : std::optional(r);
}
// The product of `values` (1 for none), or empty if it exceeds 2^63-1.
[[nodiscard]] inline std::optional<int64_t> checkedProduct(std::span<const int64_t> values) {
  int64_t r = 1;
  for (int64_t v : values)
    if (__builtin_mul_overflow(r, v, &r)) return std::nullopt;
  return r;
}
// a*b/c in 128 bits; the quotient must fit (it does if b <= c).
[[nodiscard]] inline int64_t mulDiv(int64_t a, int64_t b, int64_t c) {
  return static_cast<int64_t>(static_cast<__int128>(a) * b / c);
}

} // namespace dtc
