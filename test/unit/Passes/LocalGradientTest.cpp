// Gradients through `local` regions and their collectives, against central differences of the whole program.
#include "GradientFixture.h"

namespace dtc::test {
namespace {

// @f: a local region over x [6, 6] sharded by `x`, w [6] the same on all devices, which yields %y of this type and sharding.
std::string region(const std::string& x, const std::string& body, const std::string& result) {
  return "mesh @m = [a=2, b=3]\n"
         "func @f(%x: f64[6, 6], %w: f64[6], %c: f64[6, 6]) -> (f64[]) {\n"
         "  %y = local (%p = %x @m" +
         x + ", %q = %w) {\n" + body + "    yield %y\n  } : " + result +
         "\n"
         "  %s = square %y\n  %l = sum %s\n  %v = mul %c, %x\n  %u = sum %v\n  %z = add %l, %u\n  return "
         "%z\n}\n";
}

TEST(LocalGradient, ReductionOfAProductWithWhatAllShare) {
  expectGradients(region("{_, b}", R"(    %t = sin %p
    %s = sum %t {dims = [1]}
    %r = all_reduce %s {axes = [b]}
    %y = mul %r, %q
)",
                         "f64[6] @m{_}"));
}

TEST(LocalGradient, MeanMaxMinAndProduct) {
  for (const char* op : {"avg", "max", "min", "prod"})
    expectGradients(region("{_, b}",
                           R"(    %t = sin %p
    %s = sum %t {dims = [1]}
    %r = all_reduce %s {axes = [b], op = ")" +
                               std::string(op) + R"("}
    %y = mul %r, %q
)",
                           "f64[6] @m{_}"));
}

TEST(LocalGradient, ReduceScatters) {
  for (const char* op : {"sum", "avg", "max", "min", "prod"})
    expectGradients(region("{_, b}",
                           R"(    %t = sin %p
    %s = sum %t {dims = [1]}
    %r = reduce_scatter %s {axes = [b], dim = 0, op = ")" +
                               std::string(op) + R"("}
    %k = axis_index {axes = [b]}
    %e = convert %k {dtype = f64}
    %g = add %e, 1.5
    %y = mul %r, %g
)",
                           "f64[6] @m{b}"));
}

// What the devices share is used by each in its own way after the reduction.
TEST(LocalGradient, ReducedAndUsedDifferently) {
  expectGradients(region("{_, b}", R"(    %t = sin %p
    %s = sum %t {dims = [1], keepdim = true}
    %r = all_reduce %s {axes = [b]}
    %y0 = mul %r, %p
    %e = expand_dims %q {dims = [1]}
    %y = mul %y0, %e
)",
                         "f64[6, 6] @m{_, b}"));
}

TEST(LocalGradient, GatheredForAllAndForEach) {
  expectGradients(region("{_, b}", R"(    %g = all_gather %p {axes = [b], dim = 1}
    %y = mul %g, %q
)",
                         "f64[6, 6] @m{_, _}"));
  expectGradients(region("{_, b}", R"(    %g = all_gather %p {axes = [b], dim = 1}
    %s = sum %g {dims = [1], keepdim = true}
    %y = mul %p, %s
)",
                         "f64[6, 6] @m{_, b}"));
}

TEST(LocalGradient, SlicedOfWhatAllShare) {
  expectGradients(region("{_, b}", R"(    %k = all_slice %q {axes = [b], dim = 0}
    %y = mul %p, %k
)",
                         "f64[6, 6] @m{_, b}"));
}

TEST(LocalGradient, ReducedAndScattered) {
  for (const char* op : {"sum", "avg"})
    expectGradients(region("{b, _}",
                           R"(    %t = sum %p {dims = [0]}
    %u = mul %t, %q
    %k = reduce_scatter %u {axes = [b], dim = 0, op = ")" +
                               std::string(op) + R"("}
    %y = sin %k
)",
                           "f64[6] @m{b}"));
}

TEST(LocalGradient, ExchangedAndPermuted) {
  expectGradients(region("{b, _}", R"(    %t = sin %p
    %k = all_to_all %t {axes = [b], split_dim = 1, concat_dim = 0}
    %e = expand_dims %q {dims = [1]}
    %y = mul %k, %e
)",
                         "f64[6, 6] @m{_, b}"));
  expectGradients(region("{b, _}", R"(    %t = sin %p
    %k = permute %t {axes = [b], pairs = [[0, 1], [1, 2], [1, 0]]}
    %y = mul %k, %p
)",
                         "f64[6, 6] @m{b, _}"));
}

TEST(LocalGradient, SentInOneBatchInSeveralShapes) {
  expectGradients(region("{b, _}", R"(    %t = sin %p
    %s = sum %t {dims = [0, 1], keepdim = true}
    %o = constant {value = 1} : i32[3]
    %k, %j, %n = p2p %t, %s, %o {sends = [[1, 0, 0], [0, 0, 1], [1, 0, 2], [0, 1, 2], [2, 2, 1]], axes = [b]}
    %m = mul %k, %j
    %y = mul %m, %p
)",
                         "f64[6, 6] @m{b, _}"));
}

TEST(LocalGradient, SentAndBroadcast) {
  expectGradients(region("{b, _}", R"(    %t = sin %p
    %k, %j = p2p %t, %p {sends = [[0, 0, 1], [0, 0, 2], [1, 2, 0]], axes = [b]}
    %s = add %k, %j
    %y = mul %s, %p
)",
                         "f64[6, 6] @m{b, _}"));
  expectGradients(region("{b, _}", R"(    %t = sin %p
    %k = broadcast_from %t {axes = [b], root = 1}
    %y = mul %k, %p
)",
                         "f64[6, 6] @m{b, _}"));
  expectGradients(region("{b, _}", R"(    %t = sin %p
    %k = broadcast_from %t {axes = [b], root = 2}
    %s = sum %k {dims = [0]}
    %y = mul %s, %q
)",
                         "f64[6] @m{_}"));
}

TEST(LocalGradient, PendingResultsAndArguments) {
  expectGradients(region("{_, b}", R"(    %t = sin %p
    %s = sum %t {dims = [1]}
    %y = mul %s, %q
)",
                         "f64[6] @m{_ | sum(b)}"));
  expectGradients(region("{a, b}", R"(    %t = sin %p
    %y = sum %t {dims = [1]}
)",
                         "f64[6] @m{a | avg(b)}"));
}

TEST(LocalGradient, IndicesOfDevices) {
  expectGradients(region("{_, b}", R"(    %i = axis_index {axes = [b]}
    %f = convert %i {dtype = f64}
    %t = mul %p, %f
    %e = exp %t
    %s = sum %e {dims = [1]}
    %r = all_reduce %s {axes = [b]}
    %y = mul %r, %q
)",
                         "f64[6] @m{_}"));
}

TEST(LocalGradient, LoopsAndBranchesInside) {
  expectGradients(region("{_, b}", R"(    %i = axis_index {axes = [b]}
    %first = eq %i, 0
    %h = for %k in 0..3 (%c0 = %p) {
      %t = sin %c0
      %s = sum %t {dims = [1]}
      %r = all_reduce %s {axes = [b]}
      %m = mul %r, %q
      %e = expand_dims %m {dims = [1]}
      %n = mul %c0, %e
      %o = cond %first {
        %z = tanh %n
        yield %z
      } {
        yield %n
      }
      yield %o
    }
    %y = recompute (%d = %h) {
      %x2 = exp %d
      yield %x2
    }
)",
                         "f64[6, 6] @m{_, b}"));
}

TEST(LocalGradient, UnevenShards) {
  expectGradients(R"(mesh @m = [b=3]
func @f(%x: f64[7, 2], %w: f64[2]) -> (f64[]) {
  %y = local (%p = %x @m{b, _}, %q = %w) {
    %t = sin %p
    %u = mul %t, %q
    %f = fill_piece %u {dim = 0}
    %k = permute %f {axes = [b], pairs = [[0, 1], [1, 2], [2, 0]]}
    %g = trim_piece %k {dim = 0, size = 7, axes = [b]}
    %e = exp %g
    %y = mul %e, %p
    yield %y
  } : f64[7, 2] @m{b, _}
  %l = sum %y
  return %l
}
)");
}

} // namespace
} // namespace dtc::test
