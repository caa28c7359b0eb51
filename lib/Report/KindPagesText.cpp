// Kinds of diagnostics: characters, words, statements, names.
#include "KindPagesParts.h"

namespace dtc {

namespace {

// clang-format off
constexpr KindPage kPages[] = {
    {"text-too-long",
     "The text is longer than dtc reads: 256 MiB, or 64 million words of .dt text. Put large "
     "constants into a file and pass them as inputs.",
     "", "", "", "",
     "the text would have to be of 256 MiB"},
    {"too-deep",
     "Brackets, regions or computations nest deeper than 256 levels. Generated text usually "
     "means a list instead of a nest.",
     "", "", "", "",
     "the text would have to be 256 brackets deep"},
    {"encoding",
     "The text is not UTF-8, or begins with a byte-order mark. Save it as UTF-8 without one.",
     "", "", "", "",
     "the bytes that trigger it cannot be shown as text"},
    {"bad-character",
     "A character that the language does not use. There are no infix operators, no semicolons, "
     "and comments begin with '//'.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y = add %x, %x; // twice
  return %y
}
)", "%x; //", "%x //"},
    {"unclosed-string",
     "A string must end on the line that it begins on.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y = gelu %x {approximate = "tanh}
  return %y
}
)", R"("tanh})", R"("tanh"})"},
    {"bad-escape",
     "A backslash in a string begins one of \\\" \\\\ \\n \\t and \\xHH.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y = relu %x {name = "C:\data"}
  return %y
}
)", R"(C:\data)", R"(C:\\data)"},
    {"unclosed-bracket",
     "A bracket is opened and another kind of bracket, or the end of the function, comes "
     "before it is closed.",
     "opt -", R"(func @main(%x: f32[4, 6) -> (%y: f32[4, 6]) {
  %y = relu %x
  return %y
}
)", "f32[4, 6)", "f32[4, 6])"},
    {"unopened-bracket",
     "A closing bracket without the one that opens it.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y = relu %x)
  return %y
}
)", "%x)", "%x"},
    {"letter-after-number",
     "A letter follows a number without a space. Sizes are separated by commas: f32[4, 6].",
     "opt -", R"(func @main(%x: f32[4x6]) -> (%y: f32[4, 6]) {
  %y = relu %x
  return %y
}
)", "4x6", "4, 6"},
    {"int-range",
     "An integer that neither i64 nor u64 can hold.",
     "opt -", R"(func @main(%x: i64[4]) -> (%y: i64[4]) {
  %y = add %x, 99999999999999999999
  return %y
}
)", "99999999999999999999", "9999"},
    {"digit-after-point",
     "A float has digits on both sides of its point.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y = mul %x, 2.
  return %y
}
)", "2.", "2.0"},
    {"float-form",
     "Digits that do not form a number. Hexadecimal floats need an exponent: 0x1.8p3.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y = mul %x, 0x1.8
  return %y
}
)", "0x1.8", "0x1.8p0"},
    {"empty-name",
     "'%' begins the name of a value, '@' that of a function or mesh; no name follows here.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y = relu % x
  return %y
}
)", "% x", "%x"},
    {"digit-after-at",
     "The name of a mesh or function begins with a letter or '_'.",
     "opt -", R"(mesh @2d = [dp=2]

func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y = relu %x
  return %y
}
)", "@2d", "@m"},
    {"mlir-type",
     "MLIR's form of a type. dtc writes the dtype first, then the sizes in brackets.",
     "opt -", R"(func @main(%x: tensor<4x6xf32>) -> (%y: f32[4, 6]) {
  %y = relu %x
  return %y
}
)", "tensor<4x6xf32>", "f32[4, 6]"},
    {"unknown-keyword",
     "There is another word where a keyword is expected: mesh, func or spmd func at the top, return or "
     "yield at the end of a block.",
     "opt -", R"(fun @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y = relu %x
  return %y
}
)", "fun @", "func @"},
    {"syntax",
     "Something else is expected at this place of the text. The message names what, and what "
     "was found.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y relu %x
  return %y
}
)", "%y relu", "%y = relu"},
    {"value-name",
     "Names of values begin with '%', so that they cannot be confused with ops and symbolic "
     "sizes.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  y = relu %x
  return %y
}
)", "  y = ", "  %y = "},
    {"operand-parentheses",
     "Operands follow the op, separated by commas, without parentheses. Only a call has them: "
     "call @f(%x).",
     "opt -", R"(func @main(%x: f32[4, 6], %w: f32[6, 2]) -> (%y: f32[4, 2]) {
  %y = matmul(%x, %w)
  return %y
}
)", "matmul(%x, %w)", "matmul %x, %w"},
    {"missing-comma",
     "Two operands stand side by side; a comma belongs between them.",
     "opt -", R"(func @main(%x: f32[4, 6], %w: f32[6, 2]) -> (%y: f32[4, 2]) {
  %y = matmul %x %w
  return %y
}
)", "%x %w", "%x, %w"},
    {"unknown-op",
     "No op has this name. Names of torch, jnp and StableHLO are translated in the message; "
     "`dtc help ops` lists all ops.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y = multiply %x, %x
  return %y
}
)", "multiply", "mul"},
    {"unknown-value",
     "No value of this name is visible here: it is not defined before this line, or it belongs "
     "to another block.",
     "opt -", R"(func @main(%input: f32[4]) -> (%y: f32[4]) {
  %y = relu %inptu
  return %y
}
)", "%inptu", "%input"},
    {"no-index-op",
     "%x[%i] needs the op index_select, which this build of dtc lacks.",
     "", "", "", "",
     "every build of dtc has the op"},
    {"unknown-function",
     "The function that is called, or named as a gradient, does not exist.",
     "opt -", R"(func @f(%x: f32[4]) -> (f32[4]) {
  return %x
}

func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = call @ff(%x)
  return %y
}
)", "@ff", "@f"},
    {"unknown-mesh",
     "No mesh of this name is declared in the file.",
     "opt -", R"(mesh @pod = [dp=2]

func @main(%x: f32[4] @pods{dp}) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "@pods", "@pod"},
    {"unknown-axis",
     "The mesh has no axis of this name. Axes are declared with the mesh: mesh @m = [dp=2, "
     "tp=4].",
     "opt -", R"(mesh @m = [modl=2]

func @main(%x: f32[4] @m{model}) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "modl=2", "model=2"},
    {"redefined-value",
     "Each value is defined once. Give the new one another name.",
     "opt -", R"(func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = relu %x
  %y = exp %y
  return %y
}
)", R"(%y = exp %y
  return %y)", R"(%z = exp %y
  return %z)"},
    {"redefined-mesh",
     "Two meshes have the same name.",
     "opt -", R"(mesh @m = [a=2]
mesh @m = [b=2]

func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "@m = [b=2]", "@n = [b=2]"},
    {"redefined-axis",
     "A mesh has two axes of the same name.",
     "opt -", R"(mesh @m = [a=2, a=4]

func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = relu %x
  return %y
}
)", "a=4", "b=4"},
    {"redefined-function",
     "Two functions have the same name.",
     "opt -", R"(func @main(%x: f32[4]) -> (f32[4]) {
  return %x
}

func @main(%x: f32[4]) -> (f32[4]) {
  return %x
}
)", R"(@main(%x: f32[4]) -> (f32[4]) {
  return %x
}

)", R"(@first(%x: f32[4]) -> (f32[4]) {
  return %x
}

)"},
    {"wrong-terminator",
     "A function ends with 'return', a block within an op with 'yield'.",
     "opt -", R"(func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y = relu %x
  yield %y
}
)", "yield", "return"},
    {"result-count",
     "The op, or the function that is called, gives another number of results than there are "
     "names before it or types after it.",
     "opt -", R"(func @main(%x: f32[4]) -> (%y: f32[4]) {
  %y, %z = relu %x
  return %y
}
)", "%y, %z", "%y"},
    {"result-needs-name",
     "An op that gives a result needs a name for it.",
     "opt -", R"(func @main(%x: f32[4]) -> (%y: f32[4]) {
  relu %x
  %y = exp %x
  return %y
}
)", "  relu %x", "  %r = relu %x"},
    {"result-type",
     "The type after the op is not the one that the op gives. It may be left out: dtc infers "
     "it.",
     "opt -", R"(func @main(%x: f32[4, 6], %w: f32[6, 2]) -> (%y: f32[4, 2]) {
  %y = matmul %x, %w : f32[4, 3]
  return %y
}
)", "f32[4, 3]", "f32[4, 2]"},
    {"attribute-braces",
     "Attributes follow the operands in braces, each as name = value.",
     "opt -", R"(func @main(%x: f32[4, 6]) -> (%y: f32[4, 6]) {
  %y = softmax %x, dims = [1]
  return %y
}
)", "%x, dims = [1]", "%x {dims = [1]}"},
};
// clang-format on

} // namespace

std::span<const KindPage> kindPagesOfText() { return kPages; }

} // namespace dtc
