// Kinds of diagnostics: functions, calls, blocks, gradients.
#include "KindPagesParts.h"

namespace dtc {

namespace {

// clang-format off
constexpr KindPage kPages[] = {
    {"return-count",
     "A function returns another number of values than its head lists results.",
     "opt -", R"(func @main(%x: f32[4]) -> (%y: f32[4], %z: f32[4]) {
  %y = relu %x
  return %y
}
)", "return %y", "return %y, %y"},
    {"return-type",
     "The value that is returned does not have the type that the function's head gives the "
     "result.",
     "opt -", R"(func @main(%x: f32[4]) -> (%y: f32[5]) {
  %y = relu %x
  return %y
}
)", "(%y: f32[5])", "(%y: f32[4])"},
    {"duplicate-result-name",
     "Two results of a function have the same name.",
     "opt -", R"(func @main(%x: f32[4]) -> (%y: f32[4], %y: f32[4]) {
  %y = relu %x
  return %y, %y
}
)", "%y: f32[4], %y", "%y: f32[4], %z"},
    {"carry-mismatch",
     "A result with {carry = true} becomes the argument of the same name in the next step, so "
     "that argument must exist with the same type and sharding.",
     "opt -", R"(func @main(%x: f32[4]) -> (%w: f32[4] {carry = true}) {
  %y = relu %x
  return %y
}
)", "(%w: f32[4] {", "(%x: f32[4] {"},
    {"recursion",
     "A function calls itself, directly or through others. Loops are written with 'for' and "
     "'while'.",
     "opt -", R"(func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = call @main(%x)
  return %y
}
)", "call @main(%x)", "relu %x"},
    {"inlined-ops",
     "Calls are written out before a program is compiled. Functions that each call the next several times become more ops than "
     "dtc takes (4,194,304). Call the function in a 'for' loop instead.",
     "", "", "", "",
     "the text would have to have twenty functions"},
    {"argument-count",
     "A call passes another number of arguments than the function takes.",
     "opt -", R"(func @f(%a: f32[4], %b: f32[4]) -> (f32[4]) {
  %c = add %a, %b
  return %c
}

func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = call @f(%x)
  return %y
}
)", "@f(%x)", "@f(%x, %x)"},
    {"argument-type",
     "A call passes a value of another type than the function takes. The names in a "
     "function's argument types are bound by each call; numbers must be the same.",
     "opt -", R"(func @f(%a: f32[4]) -> (f32[4]) {
  return %a
}

func @main(%x: f32[5]) -> (%y: f32[4]) {
  %y = call @f(%x)
  return %y
}
)", "%x: f32[5]", "%x: f32[4]"},
    {"call-kind",
     "Global functions call global functions, spmd functions call spmd functions.",
     "opt -", R"(mesh @m = [a=2]

spmd func @f(%x: f32[]) -> (f32[]) {
  return %x
}

func @main(%x: f32[]) -> (%y: f32[]) {
  %y = call @f(%x)
  return %y
}
)", "spmd func @f", "func @f"},
    {"value-not-visible",
     "An op uses a value that is defined after it or in another block. Only IR that a pass has "
     "made wrong shows this; report it.",
     "", "", "", "",
     "the parser reports unknown-value first"},
    {"predicate-type",
     "The predicate of 'cond' is one bool, bool[].",
     "opt -", R"(func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = cond %x { yield %x } { yield %x }
  return %y
}
)", "%y = cond %x {", R"(%s = sum %x
  %p = gt %s, 0.0
  %y = cond %p {)"},
    {"block-arguments",
     "A block has another number of arguments than it is given. Only IR that a pass has made "
     "wrong shows this; report it.",
     "", "", "", "",
     "the text gives a block its arguments"},
    {"block-argument-type",
     "A block's argument has another type than the value that it starts from. Only IR that a "
     "pass has made wrong shows this; report it.",
     "", "", "", "",
     "the parser reports bind-type first"},
    {"bind-type",
     "The type that is written for a block's argument is not that of the value that it starts "
     "from.",
     "opt -", R"(func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = recompute (%i = %x : f32[5]) { yield %i }
  return %y
}
)", "f32[5]", "f32[4]"},
    {"yield-count",
     "A block yields another number of values than its op needs.",
     "opt -", R"(func @main(%x: f32[4], %p: bool[]) -> (%y: f32[4]) {
  %y = cond %p { yield %x } { yield %x, %x }
  return %y
}
)", "yield %x, %x", "yield %x"},
    {"yield-type",
     "A block yields a value of another type than its op needs: what a loop carries keeps its "
     "type, and both blocks of 'cond' yield the same types.",
     "opt -", R"(func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = for %i in 0..10 (%v = %x) {
    %t = concat %v, %x {dim = 0}
    yield %t
  }
  return %y
}
)", "concat %v, %x {dim = 0}", "add %v, %x"},
    {"bound-type",
     "The bounds of 'for' are one i32 each.",
     "opt -", R"(func @main(%x: f32[4], %n: f32[]) -> (%y: f32[4]) {
  %y = for %i in 0..%n (%v = %x) {
    yield %v
  }
  return %y
}
)", "%n: f32[]", "%n: i32[]"},
    {"stacked-bound",
     "What a 'for' yields beyond what it carries is stacked, one row for each iteration, so "
     "the number of iterations must be known.",
     "opt -", R"(func @main(%x: f32[4], %n: i32[]) -> () {
  %y = for %i in 0..%n { yield %x }
  return
}
)", "0..%n", "0..8"},
    {"gradient-signature",
     "A function that is given as another's gradient takes its arguments, its results if it "
     "wants them, and the gradients of the results, and gives the gradients of the arguments.",
     "opt -", R"(func @f(%x: f32[4]) -> (f32[4]) {grad = @f_grad} {
  return %x
}

func @f_grad(%d: f32[4]) -> (f32[4]) {
  return %d
}
)", "@f_grad(%d", "@f_grad(%x: f32[4], %d"},
    {"local-gradient",
     "Gradients are made of global text, so neither a function nor its own gradient may be an "
     "spmd function.",
     "opt -", R"(mesh @m = [a=2]

spmd func @g(%x: f32[4]) -> (f32[4]) {grad = @g_grad} {
  return %x
}

spmd func @g_grad(%x: f32[4], %d: f32[4]) -> (f32[4]) {
  return %d
}
)", " {grad = @g_grad}", ""},
    {"not-a-loss",
     "value_and_grad differentiates a function whose first result is one float, f32[].",
     "opt -", R"(func @f(%x: f32[4]) -> (f32[4]) {
  %y = exp %x
  return %y
}

func @main(%x: f32[4]) -> (f32[4]) {
  %l, %d = value_and_grad @f(%x)
  return %d
}
)", R"((f32[4]) {
  %y = exp %x
)", R"((f32[]) {
  %e = exp %x
  %y = sum %e
)"},
    {"wrt-range",
     "'wrt' counts the arguments of the function from 0.",
     "opt -", R"(func @loss(%x: f32[4], %i: i32[4]) -> (f32[]) {
  %s = sum %x
  return %s
}

func @main(%x: f32[4], %i: i32[4]) -> (f32[], f32[4]) {
  %l, %d = value_and_grad @loss(%x, %i) {wrt = [2]}
  return %l, %d
}
)", "[2]", "[0]"},
    {"duplicate-wrt",
     "'wrt' names an argument twice.",
     "opt -", R"(func @loss(%x: f32[4], %i: i32[4]) -> (f32[]) {
  %s = sum %x
  return %s
}

func @main(%x: f32[4], %i: i32[4]) -> (f32[], f32[4]) {
  %l, %d = value_and_grad @loss(%x, %i) {wrt = [0, 0]}
  return %l, %d
}
)", "[0, 0]", "[0]"},
    {"wrt-float",
     "Only float arguments have gradients.",
     "opt -", R"(func @loss(%x: f32[4], %i: i32[4]) -> (f32[]) {
  %s = sum %x
  return %s
}

func @main(%x: f32[4], %i: i32[4]) -> (f32[], f32[4]) {
  %l, %d = value_and_grad @loss(%x, %i) {wrt = [1]}
  return %l, %d
}
)", "[1]", "[0]"},
    {"gradient-in-local",
     "Gradients are made of global text, before the program is partitioned.",
     "opt -", R"(mesh @m = [a=2]

spmd func @loss(%x: f32[]) -> (f32[]) {
  return %x
}

spmd func @main(%x: f32[]) -> () {
  %l, %d = value_and_grad @loss(%x)
  return
}
)", "  %l, %d = value_and_grad @loss(%x)", "  %l = call @loss(%x)"},
    {"call-size",
     "A call does not fit the symbolic sizes of the function: one symbol would have two sizes, "
     "or none. Each call binds the symbols of the function that it calls.",
     "", "", "", "",
     "docs/ir.md shows functions with symbolic sizes"},
};
// clang-format on

} // namespace

std::span<const KindPage> kindPagesOfRegions() { return kPages; }

} // namespace dtc
