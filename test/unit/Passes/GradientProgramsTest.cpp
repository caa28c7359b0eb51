// Gradients of programs with loops, branches and recomputed blocks against central differences in f64.
#include "dtc/Eval/Eval.h"
#include "dtc/Eval/RandomInputs.h"
#include "dtc/IR/Text.h"
#include "dtc/Ops/Ops.h"
#include "dtc/Passes/Pass.h"
#include <cmath>
#include <gtest/gtest.h>

namespace dtc::test {
namespace {

// The program's @f and a @main that gives its value and the gradients of all its float arguments.
std::string withMain(const std::string& source) {
  Diagnostics diags;
  Module m(standardOps());
  EXPECT_TRUE(parseModule({"t", source}, standardOps(), m, diags))
      << renderDiagnostics(diags, m.source, false);
  const Function& f = m[m.findFunction("f")];
  std::string args, names, results, types;
  for (size_t i = 0; i < f.args.size(); ++i) {
    const std::string name = "%a" + std::to_string(i), type = printType(m, m[f.args[i].value].type);
    args += (i ? ", " : "") + name + ": " + type;
    names += (i ? ", " : "") + name;
    if (!isFloat(m.typeOf(f.args[i].value).dtype)) continue;
    results += ", %g" + std::to_string(i);
    types += ", " + type;
  }
  return source + "func @main(" + args + ") -> (f64[]" + types + ") {\n  %l" + results +
         " = value_and_grad @f(" + names + ")\n  return %l" + results + "\n}\n";
}

double lossAt(Module& m, std::span<const Tensor> args) {
  auto r = evaluate(m, m.findFunction("f"), args, {});
  EXPECT_TRUE(r.ok()) << (r.ok() ? "" : r.error().message);
  return r.ok() ? (*r)[0].getFloat(0) : NAN;
}

std::vector<Tensor> inputsOf(const Module& m, FuncId f) {
  std::vector<Tensor> args;
  for (size_t i = 0; i < m[f].args.size(); ++i) {
    const Type& t = m.typeOf(m[f].args[i].value);
    const InputSpec spec{isFloat(t.dtype) ? InputSpec::Uniform : InputSpec::Randint, 7 + i,
                         isFloat(t.dtype) ? -1.1 : 0, isFloat(t.dtype) ? 1.3 : 3};
    args.push_back(makeInput(spec, t.dtype, t.staticShape(), i));
  }
  return args;
}

// Gradients of @f by autodiff against differences; the program must verify before and after.
void expectGradients(const std::string& text) {
  SCOPED_TRACE(text);
  const std::string source = withMain(text);
  Diagnostics diags;
  Module m(standardOps());
  ASSERT_TRUE(parseModule({"t", source}, standardOps(), m, diags))
      << renderDiagnostics(diags, m.source, false);
  ASSERT_TRUE(verifyModule(m, diags)) << renderDiagnostics(diags, m.source, false);
  Module plain(standardOps());
  ASSERT_TRUE(parseModule({"t", text}, standardOps(), plain, diags));
  ASSERT_TRUE(findPass("autodiff")->run(plain, {}, diags)); // @f may take gradients itself
  ASSERT_TRUE(findPass("autodiff")->run(m, {}, diags)) << renderDiagnostics(diags, m.source, false);
  ASSERT_TRUE(verifyModule(m, diags)) << renderDiagnostics(diags, m.source, false) << printModule(m);
  Module again(standardOps());
  ASSERT_TRUE(parseModule({"t", printModule(m)}, standardOps(), again, diags))
      << renderDiagnostics(diags, again.source, false) << printModule(m);
  std::vector<Tensor> args = inputsOf(m, m.findFunction("main"));
  auto got = evaluate(m, m.findFunction("main"), args, {});
  ASSERT_TRUE(got.ok()) << got.error().message << "\n" << printModule(m);
  EXPECT_NEAR((*got)[0].getFloat(0), lossAt(plain, args), 1e-12);
  size_t g = 1;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!isFloat(args[i].dtype())) continue;
    const Tensor& gradient = (*got)[g++];
    for (int64_t e = 0; e < args[i].numElements(); ++e) {
      const double at = args[i].getFloat(e), h = 1e-6;
      args[i].setFloat(e, at + h);
      const double up = lossAt(plain, args);
      args[i].setFloat(e, at - h);
      const double down = lossAt(plain, args);
      args[i].setFloat(e, at);
      const double want = (up - down) / (2 * h);
      ASSERT_NEAR(gradient.getFloat(e), want, 1e-6 * (1 + std::fabs(want)))
          << "argument " << i << ", element " << e << "\n"
          << printModule(m);
    }
  }
}

TEST(GradientPrograms, LoopWithSlicesAndStackedResults) {
  expectGradients(R"(func @f(%x: f64[4], %ws: f64[5, 4, 4], %b: f64[4], %t: f64[7, 4]) -> (f64[]) {
  %y, %hs = for %i in 0..5 (%h = %x) {
    %w = transpose %ws[%i] {perm = [1, 0]}
    %r = reshape %h {shape = [1, 4]}
    %m = matmul %r, %w
    %m1 = reshape %m {shape = [4]}
    %s = add %m1, %b
    %k = add %i, 2
    %s2 = add %s, %t[%k]
    %n = tanh %s2
    yield %n, %s2
  }
  %q = square %hs
  %z = sum %q
  %z2 = sum %y
  %l = add %z, %z2
  return %l
}
)");
}

TEST(GradientPrograms, LoopThatBeginsLateAndSkipsRows) {
  expectGradients(R"(func @f(%x: f64[3], %ws: f64[6, 3]) -> (f64[]) {
  %y, %all = for %i in 2..5 (%h = %x) {
    %a = mul %h, %ws[%i]
    %b = mul %a, %ws[%i]
    %c = sin %b
    yield %c, %a
  }
  %s = exp %all
  %t = sum %s
  %u = sum %y
  %l = add %t, %u
  return %l
}
)");
}

TEST(GradientPrograms, LoopsInLoops) {
  expectGradients(R"(func @f(%x: f64[3], %ws: f64[2, 4, 3], %v: f64[3]) -> (f64[]) {
  %y, %outs = for %i in 0..2 (%h = %x) {
    %rows = sin %ws[%i]
    %g, %parts = for %j in 0..4 (%p = %h) {
      %a = mul %p, %rows[%j]
      %b = mul %ws[%i][%j], %v
      %c = add %a, %b
      %d = tanh %c
      yield %d, %a
    }
    %s = sum %parts {dims = [0]}
    %e = add %g, %s
    yield %e, %g
  }
  %q = square %outs
  %z = sum %q
  %z2 = sum %y
  %l = add %z, %z2
  return %l
}
)");
}

TEST(GradientPrograms, LoopThatSwapsAndCountsAndForgets) {
  expectGradients(R"(func @f(%x: f64[3], %y: f64[3], %n: i32[]) -> (f64[]) {
  %a, %b, %k, %u = for %i in 0..3 (%p = %x, %q = %y, %c = %n, %w = %x) {
    %r = mul %p, %q
    %c2 = add %c, 1
    %f = convert %c {dtype = f64}
    %s = mul %r, %f
    yield %q, %s, %c2, %y
  }
  %t = mul %a, %b
  %t2 = add %t, %u
  %l = sum %t2
  return %l
}
)");
}

TEST(GradientPrograms, LoopOfNoTrips) {
  expectGradients(R"(func @f(%x: f64[3], %ws: f64[4, 3]) -> (f64[]) {
  %y = for %i in 2..2 (%h = %x) {
    %a = mul %h, %ws[%i]
    yield %a
  }
  %s = square %y
  %l = sum %s
  return %l
}
)");
}

TEST(GradientPrograms, LoopBetweenValues) {
  expectGradients(R"(func @f(%x: f64[3], %v: f64[3], %lo: i32[]) -> (f64[]) {
  %hi = add %lo, 3
  %y = for %i in %lo..%hi (%h = %x) {
    %k = convert %i {dtype = f64}
    %a = mul %v, %k
    %b = mul %a, 0.5
    %c = add %h, %b
    yield %c
  }
  %s = square %y
  %l = sum %s
  return %l
}
)");
}

TEST(GradientPrograms, BranchesOfDifferentLengths) {
  for (const char* sign : {"gt", "lt"})
    expectGradients(std::string(R"(func @f(%x: f64[3], %y: f64[3], %w: f64[2, 3]) -> (f64[]) {
  %s = sum %x
  %p = )") + sign + R"( %s, 0.01
  %a, %b = cond %p {
    %e = exp %x
    %t = mul %e, %y
    %u = sin %t
    yield %u, %e
  } {
    %r = mul %x, %w[1]
    yield %r, %x
  }
  %c = mul %a, %b
  %d = mul %c, %x
  %l = sum %d
  return %l
}
)");
}

TEST(GradientPrograms, BranchesInLoops) {
  expectGradients(R"(func @f(%x: f64[3], %ws: f64[4, 3], %v: f64[3]) -> (f64[]) {
  %y = for %i in 0..4 (%h = %x) {
    %even = rem %i, 2
    %p = eq %even, 0
    %n = cond %p {
      %a = mul %h, %ws[%i]
      %s = sin %a
      yield %s
    } {
      %b = mul %h, %v
      %t = exp %b
      yield %t
    }
    yield %n
  }
  %l = sum %y
  return %l
}
)");
}

TEST(GradientPrograms, RecomputedBlockInLoop) {
  expectGradients(R"(func @f(%x: f64[3], %ws: f64[4, 3], %v: f64[3]) -> (f64[]) {
  %y = for %i in 0..4 (%h = %x) {
    %w = neg %ws[%i]
    %n, %m = recompute (%a = %h, %b = %h) {
      %c = mul %a, %w
      %d = sin %c
      %e = mul %d, %b
      %g = for %j in 0..2 (%k = %e) {
        %o = mul %k, %v
        %q = tanh %o
        yield %q
      }
      yield %g, %d
    }
    %z = add %n, %m
    yield %z
  }
  %l = sum %y
  return %l
}
)");
}

TEST(GradientPrograms, OneValueInSeveralPlaces) {
  const std::string text = R"(func @g(%x: f64[3], %y: f64[3]) -> (f64[]) {
  %s = sin %x
  %p = mul %s, %y
  %l = sum %p
  return %l
}
func @f(%x: f64[3]) -> (f64[]) {
  %l, %dx = value_and_grad @g(%x, %x) {wrt = [0]}
  %q = mul %dx, %dx
  %m = sum %q
  return %m
}
)";
  expectGradients(text);
}

TEST(GradientPrograms, GradientOfGradientOfLoop) {
  expectGradients(R"(func @f(%x: f64[3], %v: f64[3]) -> (f64[]) {
  %l, %dv = value_and_grad @g(%x, %v) {wrt = [1]}
  %q = square %dv
  %m = sum %q
  return %m
}
func @g(%x: f64[3], %v: f64[3]) -> (f64[]) {
  %y = for %i in 0..3 (%h = %x) {
    %a = mul %h, %v
    %b = sin %a
    yield %b
  }
  %l = sum %y
  return %l
}
)");
}

} // namespace
} // namespace dtc::test
