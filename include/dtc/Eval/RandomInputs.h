#pragma once
// Inputs made by rule: what `--input x=randn(7)` and the random equivalence tests bind (cli.md). Counter-based: element i
// of stream s under a seed is one number on every platform, mesh and sharding.
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
  std::optional<int64_t> whole =
      {};                 // of Const: the integer that is written, exactly (of u64 the same bits) …
  bool beyondI64 = false; // … and whether it is more than i64 has
};

// Is `text` one of the forms below (a word of that name, then "(" or the end)? Else it is a file's name.
[[nodiscard]] bool isInputSpec(std::string_view text);
// "randn(seed[,std])", "uniform(seed,lo,hi)", "randint(seed,lo,hi)" (hi excluded), "zeros", "iota", "const(v)". The error
// says which form was expected.
[[nodiscard]] Result<InputSpec> parseInputSpec(std::string_view text);

// Does the dtype have the numbers that the spec makes for `elements` elements? Rounding is allowed, another number is not: an
// integer argument takes integers within its range, and no finite number becomes infinity or NaN. A bool takes any number.
[[nodiscard]] Status checkInputRange(const InputSpec&, DType, int64_t elements);

// A tensor of the dtype and shape (whose size the caller has checked). `stream` tells arguments that share a spec apart: an
// argument's position. randn gives integers 0 … 7 and bools 0 or 1; otherwise a bool is "value != 0"; iota counts row-major.
[[nodiscard]] Tensor makeInput(const InputSpec&, DType, std::vector<int64_t> shape, uint64_t stream);

} // namespace dtc
