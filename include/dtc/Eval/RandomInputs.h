#pragma once
// Generated inputs: `--input x=randn(7)`, and those of the random equivalence tests (cli.md). Counter-based:
// element i of stream s under a seed is the same on every platform, mesh and sharding.
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"
#include <optional>
#include <string>
#include <string_view>

namespace dtc {

struct InputSpec {
  enum Kind : uint8_t { Randn, Uniform, Randint, Zeros, Iota, Const } kind = Zeros;
  uint64_t seed = 0;
  double a = 0, b = 0;   // Randn: a is the standard deviation; Uniform, Randint: [a, b); Const: a
  std::string text = {}; // as written, for messages
  std::optional<int64_t> integer = {}; // of Const: the exact integer as written (for u64 the same bits) …
  bool beyondI64 = false;              // … and whether it exceeds i64
};

// Whether `text` is one of the forms below (one of these words, then "(" or the end). Otherwise it is a file
// name.
[[nodiscard]] bool isInputSpec(std::string_view text);
// "randn(seed[,std])", "uniform(seed,lo,hi)", "randint(seed,lo,hi)" (hi excluded), "zeros", "iota",
// "const(v)". The error states the expected form.
[[nodiscard]] Result<InputSpec> parseInputSpec(std::string_view text);

// Whether the dtype can represent the values of the spec for `elements` elements, except for rounding: an
// integer argument takes integers in its range, and no finite value becomes infinity or NaN. A bool takes any
// number.
[[nodiscard]] Status checkInputRange(const InputSpec&, DType, int64_t elements);

// 64 bits of Philox4x32-10: number `i` of a stream under a seed.
[[nodiscard]] uint64_t randomBits(uint64_t seed, uint64_t stream, uint64_t i);

// A tensor of the dtype and shape (whose size the caller has checked). `stream` distinguishes arguments with
// the same spec: the position of the argument. randn gives integers 0 … 7 and bools 0 or 1; otherwise a bool
// is "value != 0"; iota counts in row-major order. `first`: the number of its first element, in a larger tensor.
[[nodiscard]] Tensor makeInput(const InputSpec&, DType, std::vector<int64_t> shape, uint64_t stream,
                               int64_t first = 0);

} // namespace dtc
