// Calls of many functions: chains of any length, and functions that would be written out too often.
#include "dtc/Passes/simplify/Inline.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/Pass.h"

#include <gtest/gtest.h>

namespace dtc {
namespace {

// @f0 calls @f1 `calls` times, @f1 calls @f2, ...; the last one returns its argument.
std::string chain(int functions, int calls) {
  std::string text;
  for (int i = 0; i < functions; ++i) {
    text += "func @f" + std::to_string(i) + "(%x: f32[]) -> (f32[]) {\n";
    for (int c = 0; c < calls; ++c)
      text += "  %v" + std::to_string(c) + " = call @f" + std::to_string(i + 1) + "(%" +
              (c ? "v" + std::to_string(c - 1) : "x") + ")\n";
    text += "  return %v" + std::to_string(calls - 1) + "\n}\n";
  }
  return text + "func @f" + std::to_string(functions) + "(%x: f32[]) -> (f32[]) {\n  return %x\n}\n";
}

struct Inlined {
  explicit Inlined(std::string written) : source{"chain.dt", std::move(written)}, module(standardOps()) {
    parsed = parseModule(source, standardOps(), module, diagnostics);
    done = parsed && inlinePass(module, {}, diagnostics);
  }
  SourceText source;
  Module module;
  Diagnostics diagnostics;
  bool parsed = false, done = false;
};

TEST(Inline, AChainOfCallsMayBeOfAnyLength) {
  const Inlined inlined(chain(20000, 1));
  ASSERT_TRUE(inlined.done) << renderDiagnostics(inlined.diagnostics, inlined.source, false);
  EXPECT_EQ(printModule(inlined.module), "func @f0(%x: f32[]) -> (f32[]) {\n  return %x\n}\n");
}

TEST(Inline, FunctionsThatDoubleAreRefusedInTime) {
  const Inlined inlined(chain(60, 2));
  ASSERT_TRUE(inlined.parsed);
  EXPECT_FALSE(inlined.done);
  EXPECT_NE(renderDiagnostics(inlined.diagnostics, inlined.source, false).find("[inlined-ops]"),
            std::string::npos);
}

} // namespace
} // namespace dtc
