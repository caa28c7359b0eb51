// Gradients of programs with loops, branches, recomputed blocks and functions with gradients of their own.
#include "GradientFixture.h"

namespace dtc::test {
namespace {

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

TEST(GradientPrograms, LoopOfNoIterations) {
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

TEST(GradientPrograms, LoopBetweenValuesThatKeepsWhatItComputed) {
  expectGradients(R"(func @f(%x: f64[3, 2], %v: f64[2], %lo: i32[]) -> (f64[]) {
  %hi = add %lo, 3
  %y, %z = for %i in %lo..%hi (%h = %x, %g = %v) {max_trips = 4} {
    %k = convert %i {dtype = f64}
    %a = mul %h, %g
    %s = sin %a
    %b = mul %s, %k
    %c = add %h, %b
    %e = cos %g
    yield %c, %e
  }
  %q = square %y
  %t = sum %q
  %u = sum %z
  %l = add %t, %u
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

TEST(GradientPrograms, WhileWithBuffers) {
  expectGradients(R"(func @f(%x: f64[3], %v: f64[3], %n: i32[]) -> (f64[]) {
  %m = add %n, 2
  %k, %y = while (%i = 0 : i32[], %h = %x) {max_trips = 6} {
    %go = lt %i, %m
    yield %go
  } {
    %j = add %i, 1
    %a = mul %h, %v
    %p = gt %a, 0.0
    %s = sin %a
    %e = exp %a
    %t = select %p, %s, %e
    yield %j, %t
  }
  %s = square %y
  %l = sum %s
  return %l
}
)");
}

TEST(GradientPrograms, WhileInLoop) {
  expectGradients(R"(func @f(%x: f64[3], %ws: f64[2, 3]) -> (f64[]) {
  %y = for %i in 0..2 (%h = %x) {
    %w = sin %ws[%i]
    %k, %g = while (%c = %i, %q = %h) {max_trips = 4} {
      %go = lt %c, 3
      yield %go
    } {
      %d = add %c, 1
      %a = mul %q, %w
      %b = tanh %a
      yield %d, %b
    }
    yield %g
  }
  %l = sum %y
  return %l
}
)");
}

TEST(GradientPrograms, CustomGradientsReplaceDerivedOnes) {
  const std::string own = R"(func @half(%x: f64[3], %i: i32[]) -> (f64[3], i32[]) {grad = @half_grad} {
  %y = exp %x
  return %y, %i
}
func @half_grad(%x: f64[3], %i: i32[], RESULTS %d: f64[3]) -> (f64[3]) {
  %e = exp %x
  %g = mul %e, %d
  return %g
}
func @f(%x: f64[3], %v: f64[3]) -> (f64[]) {
  %y = for %i in 0..3 (%h = %x) {
    %a = mul %h, %v
    %b, %j = call @half(%a, %i)
    yield %b
  }
  %l = sum %y
  return %l
}
)";
  for (const char* results : {"", "%y: f64[3], %j: i32[],"}) {
    std::string text = own;
    text.replace(text.find("RESULTS"), 7, results);
    expectGradients(text);
  }
}

TEST(GradientPrograms, OneValueWithSeveralUses) {
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
