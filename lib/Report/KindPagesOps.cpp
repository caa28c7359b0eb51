// Kinds of diagnostics: what single ops ask for.
#include "KindPagesParts.h"

namespace dtc {

namespace {

// clang-format off
constexpr KindPage kPages[] = {
    {"pow-dtypes",
     "'pow' takes an exponent of the base's dtype, or an integer.",
     "opt -", R"(func @main(%x: f32[4], %e: f64[4]) -> (%y: f32[4]) {
  %y = pow %x, %e
  return %y
}
)", "%e: f64[4]", "%e: f32[4]"},
    {"pow-negative",
     "An integer to a negative power is not an integer.",
     "opt -", R"(func @main(%x: i32[4]) -> (%y: i32[4]) {
  %y = pow %x, -1
  return %y
}
)", "pow %x, -1", "pow %x, 2"},
    {"expected-value",
     "expect_eq or expect_close finds another value while the program runs.",
     "", "", "", "",
     "it is shown as run-time, with the op's place"},
    {"collective-mesh",
     "No mesh has all the axes that the collective names.",
     "opt -", R"(mesh @m = [a=2]
mesh @n = [b=2]

spmd func @main(%x: f32[4]) -> () {
  %y = all_reduce %x {axes = [c]}
  return
}
)", "axes = [c]", "axes = [a]"},
    {"collective-op-dtype",
     "The reduction is not defined on this dtype: sum, avg and prod take numbers, any and all "
     "take bool.",
     "opt -", R"(mesh @m = [a=2]

spmd func @main(%x: f32[4] of f32[8] @m{a}, %i: i32[4] of i32[8] @m{a}) -> () {
  %y = all_reduce %x {axes = [a], op = "any"}
  return
}
)", R"("any")", R"("max")"},
    {"collective-sharding",
     "The dim is not sharded in a way that the collective could gather or split: a gather "
     "takes away the last axes of a dim.",
     "opt -", R"(mesh @m = [a=2, b=3]

spmd func @main(%x: f32[11/b] of f32[11] @m{b}) -> () {
  %y = all_gather %x {axes = [a], dim = 0}
  return
}
)", "axes = [a]", "axes = [b]"},
    {"collective-pairs",
     "The pairs of 'permute' or 'p2p' name devices that do not exist, or one receives twice.",
     "opt -", R"(mesh @m = [a=2]

spmd func @main(%x: f32[4] of f32[8] @m{a}, %i: i32[4] of i32[8] @m{a}) -> () {
  %y = permute %x {axes = [a], pairs = [[0, 1], [1, 1]]}
  return
}
)", "[1, 1]]", "[1, 0]]"},
    {"communication-dtype",
     "Only floats can be sent as a float of another dtype; everything else travels as it is.",
     "opt -", R"(mesh @m = [a=2]

spmd func @main(%x: f32[4] of f32[8] @m{a}, %i: i32[4] of i32[8] @m{a}) -> () {
  %y = all_reduce %i {axes = [a], wire = bf16}
  return
}
)", ", wire = bf16", ""},
    {"complex-parts",
     "A complex number is made of two f32 or two f64.",
     "opt -", R"(func @main(%x: bf16[4]) -> () {
  %y = complex %x, %x
  return
}
)", "%x: bf16[4]", "%x: f32[4]"},
    {"einsum-equation",
     "The equation of 'einsum' does not fit its operands: as in \"ij,jk->ik\", one letter for "
     "each dim of each operand, then those of the result.",
     "opt -", R"(func @main(%x: f32[4, 6], %w: f32[6, 2]) -> (%y: f32[4, 2]) {
  %y = einsum %x, %w {equation = "ij,jk->il"}
  return %y
}
)", "il", "ik"},
    {"opaque-call",
     "An imported custom_call without a meaning in dtc cannot be computed. The program can "
     "still be read, propagated and partitioned.",
     "", "", "", "",
     "it is shown as run-time, with the op's place"},
    {"window-too-long",
     "A slice takes more elements of a dim than it has.",
     "opt -", R"(func @main(%x: f32[4, 6], %i: i32[]) -> () {
  %y = dynamic_slice %x, %i, %i {sizes = [2, 7]}
  return
}
)", "[2, 7]", "[2, 6]"},
    {"index-out-of-range",
     "An index that is a number in the text is not within its dim.",
     "", "", "", "",
     "indices are known only when the program runs"},
    {"label-out-of-range",
     "A label that is a number in the text is not one of the classes.",
     "", "", "", "",
     "labels are known only when the program runs"},
    {"constant-element",
     "The dtype of a constant cannot hold one of its elements.",
     "", "", "", "",
     "the parser reports literal-range first"},
    {"constant-bytes",
     "A constant in hexadecimal has two digits for each byte of its elements, or of one "
     "element that is repeated.",
     "opt -", R"(func @main() -> (%y: f32[2]) {
  %y = constant {value = "0x0000803f00"} : f32[2]
  return %y
}
)", "0x0000803f00", "0x0000803f"},
    {"random-seed",
     "Random ops take a seed of type u64[2].",
     "opt -", R"(func @main(%s: u64[1]) -> (%y: f32[4]) {
  %y = random_uniform %s : f32[4]
  return %y
}
)", "u64[1]", "u64[2]"},
    {"prod-complex-size",
     "The product of complex numbers is unrolled, so the number of factors must be known.",
     "opt - -p split-complex", R"(func @main(%x: c64[B]) -> (%y: c64[]) {
  %y = prod %x
  return %y
}
)", "c64[B]", "c64[4]"},
    {"empty-arg-reduction",
     "argmax and argmin choose one element, and there is none.",
     "opt -", R"(func @main(%x: f32[4, 0]) -> (%y: i32[4]) {
  %y = argmax %x {dim = 1}
  return %y
}
)", "f32[4, 0]", "f32[4, 2]"},
    {"barrier-rule",
     "A barrier with several operands needs a sharding rule that says how they correspond.",
     "opt -", R"(func @main(%x: f32[4], %z: f32[4]) -> () {
  %u = barrier %x, %z
  return
}
)", "barrier %x, %z", "barrier %x"},
    {"custom-rule",
     "The sharding rule of a custom call does not fit its operands and results.",
     "opt -", R"(func @main(%x: f32[4]) -> () {
  %v = barrier %x, %x {rule = "([i])->([i]) {i=4}"}
  return
}
)", R"(%v = barrier %x, %x {rule = "([i])->([i]) {i=4}"})", "%v = barrier %x"},
    {"bitcast-size",
     "'bitcast' keeps the bits, so both types have the same number of bytes.",
     "opt -", R"(func @main(%x: f32[4]) -> () {
  %y = bitcast %x {dtype = i64}
  return
}
)", "i64", "i32"},
};
// clang-format on

} // namespace

std::span<const KindPage> kindPagesOfOps() { return kPages; }

} // namespace dtc
