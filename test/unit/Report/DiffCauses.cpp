// diff: each change of a statement is a cause, whatever else changes with it.
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Report/diff/ProgramDiff.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace dtc {
namespace {

ProgramSnapshot written(const std::string& text) {
  Module m(standardOps());
  Diagnostics diags;
  EXPECT_TRUE(loadText({"p.dt", text}, {}, m, diags).ok()) << text;
  auto entry = entryOf(m, "");
  EXPECT_TRUE(entry.ok());
  return takeSnapshot(m, *entry, {}, "cpu", ProgramSnapshot::Written, diags);
}

using Facts = std::vector<std::string>;

// "attributes %y: {dims = [1]} -> {dims = [0]}" of each cause.
Facts causes(const std::string& a, const std::string& b) {
  const char* kinds[] = {"setting", "annotation", "attributes", "op", "operands", "type", "added", "removed"};
  Facts out;
  for (const DiffCause& c : diffPrograms(written(a), written(b)).causes)
    out.push_back(std::string(kinds[c.kind]) + " " + c.what + ": " + c.before + " -> " + c.after);
  std::ranges::sort(out);
  return out;
}

// `%y = OP %x ATTRIBUTES`, and what is a cause of the attributes.
struct AttributeCase {
  const char *op, *a, *b;
  const char* cause; // "" if none is
};
constexpr AttributeCase kAttributes[] = {
    {"softmax", "{dims = [1]}", "{dims = [0]}", "{dims = [1]} -> {dims = [0]}"},
    {"softmax", "{dims = [1]}", "{dims = [1]}", ""},
    {"softmax", "{dims = [1], stage = 0}", "{dims = [1], stage = 1}", "{stage = 0} -> {stage = 1}"},
    {"gelu", "{approximate = \"tanh\"}", "", "{approximate = \"tanh\"} -> none"},
    {"gelu", "", "{approximate = \"tanh\"}", "none -> {approximate = \"tanh\"}"},
    {"roll", "{shifts = [2], dims = [0]}", "{shifts = [1], dims = [0]}", "{shifts = [2]} -> {shifts = [1]}"},
    {"tile", "{repeats = [2, 1]}", "{repeats = [2, 3]}", "{repeats = [2, 1]} -> {repeats = [2, 3]}"},
    {"reshape", "{shape = [64, 8, 8]}", "{shape = [8, 8, 64]}",
     "{shape = [64, 8, 8]} -> {shape = [8, 8, 64]}"},
    {"maximum", "0.5", "1.5", "(_, 0.5) -> (_, 1.5)"},
};

TEST(DiffCauses, TypesAttributesAndOperandsAreCausesOfTheirOwn) {
  const char* types[] = {"f32[64, 64]", "f32[32, 128]", "f32[128, 32]", "bf16[64, 64]", "bf16[32, 128]"};
  for (const AttributeCase& attribute : kAttributes)
    for (const char* type : types)
      for (const bool otherOperand : {false, true})
        for (const bool named : {false, true}) {
          const std::string y = named ? "%y" : "%0";
          const auto program = [&](std::string t, const char* operand, std::string attributes) {
            std::string op = attribute.op;
            if (op == "maximum") op = "max", attributes = ", " + attributes;
            return "func @main(%x: " + t + ", %v: " + t + ") -> (%r: f32[2]) {\n  " + y + " = " + op + " " +
                   operand + " " + attributes + "\n  %z = sum " + y + "\n  %c = convert %z {dtype = f32}\n" +
                   "  %r = broadcast %c {shape = [2]}\n  return %r\n}\n";
          };
          const std::string a = program(types[0], "%x", attribute.a);
          const std::string b = program(type, otherOperand ? "%v" : "%x", attribute.b);
          Facts expected;
          if (*attribute.cause) expected.push_back("attributes " + y + ": " + attribute.cause);
          if (otherOperand) expected.push_back("operands " + y + ": %x -> %v");
          if (type != types[0])
            expected.push_back("type " + std::string("%x, %v") + ": " + types[0] + " -> " + type);
          std::ranges::sort(expected);
          EXPECT_EQ(causes(a, b), expected) << a << b;
        }
}

// `%y = OP %x ATTRIBUTES` of an %x of another type: sizes that the user has to change with it follow from it.
TEST(DiffCauses, SizesThatFollowFromOperandsAreNoCauses) {
  struct Case {
    const char *typeA, *callA, *typeB, *callB, *cause;
  };
  const Case cases[] = {
      {"f32[4, 16]", "reshape %x {shape = [4, 4, 4]}", "f32[8, 16]", "reshape %x {shape = [8, 4, 4]}", ""},
      {"f32[4, 16]", "reshape %x {shape = [64]}", "f32[8, 32]", "reshape %x {shape = [256]}", ""},
      {"f32[4, 16]", "reshape %x {shape = [64]}", "f32[8, 32]", "reshape %x {shape = [16, 16]}",
       "{shape = [64]} -> {shape = [16, 16]}"},
      {"f32[4, 16]", "reshape %x {shape = [8, 8]}", "bf16[4, 16]", "reshape %x {shape = [4, 16]}",
       "{shape = [8, 8]} -> {shape = [4, 16]}"},
      {"f32[1, 2]", "softmax %x {dims = [0]}", "f32[2, 2]", "softmax %x {dims = [1]}",
       "{dims = [0]} -> {dims = [1]}"},
      {"f32[4, 16]", "slice %x {start = [0, 0], limit = [4, 8]}", "f32[8, 16]",
       "slice %x {start = [0, 0], limit = [8, 8]}", ""},
      {"f32[4, 16]", "slice %x {start = [0, 0], limit = [4, 8]}", "f32[8, 16]",
       "slice %x {start = [1, 0], limit = [8, 8]}", "{start = [0, 0]} -> {start = [1, 0]}"},
      {"f32[4, 16]", "slice %x {start = [0, 0], limit = [4, 8]}", "f32[8, 16]",
       "slice %x {start = [0, 0], limit = [8, 4]}", "{limit = [4, 8]} -> {limit = [8, 4]}"},
      {"f32[N, 16]", "broadcast %x {shape = [2, N, 16]}", "f32[M, 16]", "broadcast %x {shape = [2, M, 16]}",
       ""},
  };
  for (const Case& c : cases) {
    const auto program = [](const char* type, const char* call) {
      return "func @main(%x: " + std::string(type) + ") -> (%r: f32[]) {\n  %y = " + call +
             "\n  %z = sum %y\n  %r = convert %z {dtype = f32}\n  return %r\n}\n";
    };
    Facts expected = {"type %x: " + std::string(c.typeA) + " -> " + c.typeB};
    if (*c.cause) expected.push_back("attributes %y: " + std::string(c.cause));
    std::ranges::sort(expected);
    EXPECT_EQ(causes(program(c.typeA, c.callA), program(c.typeB, c.callB)), expected) << c.callA << c.callB;
  }
}

// Another op in place of one: the attributes that both have are compared.
TEST(DiffCauses, AttributesOfAnotherOp) {
  const auto program = [](const char* call) {
    return "func @main(%x: f32[4, 16]) -> (%r: f32[]) {\n  %y = " + std::string(call) +
           "\n  %r = sum %y\n  return %r\n}\n";
  };
  EXPECT_EQ(causes(program("max %x {dims = [1]}"), program("min %x {dims = [0]}")),
            (Facts{"attributes %y: {dims = [1]} -> {dims = [0]}", "op %y: max -> min"}));
  EXPECT_EQ(causes(program("max %x {dims = [1]}"), program("gelu %x")), (Facts{"op %y: max -> gelu"}));
  EXPECT_EQ(causes(program("gelu %x {approximate = \"tanh\"}"), program("max %x, 0.5")),
            (Facts{"op %y: gelu -> max"}));
}

} // namespace
} // namespace dtc
