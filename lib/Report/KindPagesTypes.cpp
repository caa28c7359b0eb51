// Kinds of diagnostics: types, numbers, attributes.
#include "KindPagesParts.h"

namespace dtc {

namespace {

// clang-format off
constexpr KindPage kPages[] = {
    {"unknown-dtype",
     "No dtype has this name. There are bool, i8 to i64, u8 to u64, f8e4m3, f8e5m2, bf16, f16, "
     "f32, f64, c64 and c128.",
     "opt -", R"(func @main(%x: float32[4]) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "float32", "f32"},
    {"type-too-large",
     "A tensor, or all of a function's buffers together, has more bytes than 64 bits can "
     "count.",
     "opt -", R"(func @main(%x: f32[4294967296, 4294967296]) -> (%y: f32[]) {
  %y = sum %x
  return %y
}
)", "f32[4294967296, 4294967296]", "f32[4096, 4096]"},
    {"negative-size",
     "A size is 0 or more. A size that is not known before the program runs is a name: f32[B, "
     "4].",
     "opt -", R"(func @main(%x: f32[-1, 4]) -> (f32[B, 4]) {
  %y = relu %x
  return %y
}
)", "%x: f32[-1, 4]", "%x: f32[B, 4]"},
    {"literal-kind",
     "A number of the wrong kind for this operand: a float or a bool where an integer is "
     "needed, or the other way round.",
     "opt -", R"(func @main(%x: i32[4]) -> (%y: i32[4]) {
  %y = add %x, 1.5
  return %y
}
)", "1.5", "1"},
    {"literal-range",
     "The number does not fit into the dtype of the operand that it stands for.",
     "opt -", R"(func @main(%x: i8[4]) -> (%y: i8[4]) {
  %y = add %x, 200
  return %y
}
)", "200", "100"},
    {"literal-needs-type",
     "Nothing around this number says what dtype it has.",
     "opt -", R"(func @main() -> (%y: f32[]) {
  %y = add 1.0, 2.0
  return %y
}
)", "%y = add 1.0, 2.0", R"(%a = full {value = 1.0} : f32[]
  %y = add %a, 2.0)"},
    {"dtype-mismatch",
     "Operands have different dtypes, and dtc promotes none of them silently. Convert one.",
     "opt -", R"(func @main(%x: f32[4], %b: bf16[4]) -> (%y: f32[4]) {
  %y = add %x, %b
  return %y
}
)", "%y = add %x, %b", R"(%c = convert %b {dtype = f32}
  %y = add %x, %c)"},
    {"operand-dtype",
     "The op does not take operands of this dtype.",
     "opt -", R"(func @main(%x: i32[4]) -> (%y: i32[4]) {
  %y = exp %x
  return %y
}
)", "%y = exp %x", R"(%f = convert %x {dtype = f32}
  %e = exp %f
  %y = convert %e {dtype = i32})"},
    {"operand-count",
     "The op takes another number of operands.",
     "opt -", R"(func @main(%x: f32[4, 6], %w: f32[6, 2]) -> (%y: f32[4, 2]) {
  %y = matmul %x
  return %y
}
)", "matmul %x", "matmul %x, %w"},
    {"rank-mismatch",
     "An operand or result has another number of dims than the op needs.",
     "opt -", R"(func @main(%x: f32[4], %w: f32[6, 2]) -> (%y: f32[4]) {
  %y = softmax %x {dims = [0]}
  %z = cholesky %x
  return %y
}
)", R"(
  %z = cholesky %x)", ""},
    {"dim-mismatch",
     "Two dims that must be equal, or broadcast, have different sizes.",
     "opt -", R"(func @main(%x: f32[4, 6], %b: f32[5]) -> (%y: f32[4, 6]) {
  %y = add %x, %b
  return %y
}
)", "f32[5]", "f32[6]"},
    {"contract-mismatch",
     "Two dims that are contracted (multiplied and summed) have different sizes.",
     "opt -", R"(func @main(%x: f32[4, 3], %w: f32[5, 2]) -> (%y: f32[4, 2]) {
  %y = matmul %x, %w
  return %y
}
)", "f32[5, 2]", "f32[3, 2]"},
    {"shape-mismatch",
     "The shapes and attributes of the op do not fit together. The message gives the sizes.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[5, 5]) {
  %y = reshape %x {shape = [5, 5]}
  return %y
}
)", R"(f32[5, 5]) {
  %y = reshape %x {shape = [5, 5]})", R"(f32[6, 4]) {
  %y = reshape %x {shape = [6, 4]})"},
    {"dim-out-of-range",
     "A dim is counted from 0, or from the end with negative numbers: a tensor of 2 dims has "
     "the dims -2 to 1.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4]) {
  %y = sum %x {dims = [2]}
  return %y
}
)", "[2]", "[1]"},
    {"duplicate-dim",
     "A list of dims names the same dim twice.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4]) {
  %y = sum %x {dims = [1, -1]}
  return %y
}
)", "[1, -1]", "[1]"},
    {"unknown-attribute",
     "The op has no attribute of this name. `dtc help OP` lists those that it has.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y = softmax %x {axis = 1}
  return %y
}
)", "axis", "dims"},
    {"missing-attribute",
     "The op needs this attribute; it has no default.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y = softmax %x
  return %y
}
)", R"(%x
)", R"(%x {dims = [1]}
)"},
    {"attribute-type",
     "The attribute takes a value of another type.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y = gelu %x {approximate = true}
  return %y
}
)", "true", R"("tanh")"},
    {"attribute-value",
     "The attribute takes only some values of its type. The message lists them.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y = gelu %x {approximate = "tan"}
  return %y
}
)", R"("tan")", R"("tanh")"},
    {"duplicate-attribute",
     "An attribute is given twice.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y = softmax %x {dims = [1], dims = [0]}
  return %y
}
)", ", dims = [0]", ""},
    {"result-type-missing",
     "The op makes its result out of nothing, or of pieces, so that the type must be written "
     "after it.",
     "opt -", R"(func @main() -> (%y: f32[4]) {
  %y = iota {dim = 0}
  return %y
}
)", "{dim = 0}", "{dim = 0} : f32[4]"},
    {"complex-result",
     "The op does not make complex numbers.",
     "opt -", R"(func @main() -> (%y: c64[4]) {
  %y = iota {dim = 0} : c64[4]
  return %y
}
)", "%y = iota {dim = 0} : c64[4]", R"(%i = iota {dim = 0} : f32[4]
  %y = convert %i {dtype = c64})"},
    {"evaluated-types",
     "A custom evaluation gives a value of another type than the program says. This is an "
     "error of dtc; report it.",
     "", "", "", "",
     "no program of this version triggers it"},
    {"inline-text",
     "A text of dtc's own (a gradient or decomposition) does not fit an op. This is an error "
     "of dtc; report it.",
     "", "", "", "",
     "no program of this version triggers it"},
};
// clang-format on

} // namespace

std::span<const KindPage> kindPagesOfTypes() { return kPages; }

} // namespace dtc
