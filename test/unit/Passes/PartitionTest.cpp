// partition and optimize-collectives keep the meaning: programs on one device and on all, element by element, on meshes whose sizes divide nothing.
#include "dtc/Passes/partition/Partition.h"
#include "dtc/Eval/Eval.h"
#include "dtc/Eval/RandomInputs.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/collectives/OptimizeCollectives.h"
#include "dtc/Passes/propagate/Propagate.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace dtc;

namespace {

std::string render(const Diagnostics& d, const Module& m) { return renderDiagnostics(d, m.source, false); }

std::string valueText(const Tensor& t) {
  std::string s;
  for (int64_t i = 0; i < std::min<int64_t>(t.numElements(), 40); ++i)
    s += std::to_string(t.getFloat(i)) + " ";
  return s;
}

bool close(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::fabs(a - b) <= 1e-12 * std::max({1.0, std::fabs(a), std::fabs(b)});
}

const EvalOptions kExact = {.precision = Precision::R64, .symbols = {}};

class Equivalence {
public:
  Equivalence(std::string_view body, std::string_view mesh) : m_(standardOps()) {
    text_ = "mesh @m = [" + std::string(mesh) + "]\n" + std::string(body);
  }

  void check() {
    Diagnostics d;
    ASSERT_TRUE(parseModule({"test", text_}, standardOps(), m_, d)) << render(d, m_);
    const FuncId f = m_.findFunction("main");
    std::vector<Tensor> args;
    for (size_t i = 0; i < m_[f].args.size(); ++i) {
      const Type& t = m_.typeOf(m_[f].args[i].value);
      args.push_back(makeInput({InputSpec::Randn, 3, 1.0, 0}, t.dtype, t.staticShape(), i));
    }
    Module global = m_;
    auto want = evaluate(global, f, args, kExact);
    ASSERT_TRUE(want.ok()) << want.error().message;
    ASSERT_TRUE(verifyModule(m_, d) && propagate(m_, d) && verifyModule(m_, d))
        << render(d, m_) << printModule(m_);
    const std::string propagated = printModule(m_);
    ASSERT_TRUE(partition(m_, d)) << render(d, m_) << propagated;
    const std::string local = printModule(m_);
    ASSERT_TRUE(verifyModule(m_, d)) << render(d, m_) << propagated << local;
    roundTrip(local);
    compare(f, args, *want, propagated + local);
    ASSERT_TRUE(optimizeCollectives(m_, d) && verifyModule(m_, d))
        << render(d, m_) << local << printModule(m_);
    compare(f, args, *want, local + printModule(m_));
  }

private:
  void roundTrip(const std::string& local) {
    Module again(standardOps());
    Diagnostics d;
    ASSERT_TRUE(parseModule({"local", local}, standardOps(), again, d))
        << renderDiagnostics(d, {"local", local}, false) << local;
    EXPECT_EQ(printModule(again), local);
  }

  void compare(FuncId f, const std::vector<Tensor>& args, const std::vector<Tensor>& want,
               const std::string& what) {
    const Mesh mesh = meshValueOf(m_, f);
    std::vector<std::vector<Tensor>> shards(static_cast<size_t>(mesh.numDevices()));
    for (size_t p = 0; p < shards.size(); ++p)
      for (size_t i = 0; i < args.size(); ++i) {
        const Sharding& s = m_.shardings[m_[m_[f].args[i].value].sharding];
        shards[p].push_back(takeShard(args[i], s, mesh, static_cast<int64_t>(p)));
      }
    auto got = evaluateSpmd(m_, f, shards, kExact);
    ASSERT_TRUE(got.ok()) << got.error().message << what;
    for (size_t r = 0; r < want.size(); ++r) {
      const Sharding& s = m_.shardings[m_[f].results[r].sharding];
      std::vector<Tensor> parts;
      for (auto& device : *got) parts.push_back(device[r]);
      for (size_t p = 0; p < parts.size(); ++p) // each device's own shard, not only their sum
        ASSERT_EQ(parts[p].shape(), localShape(s, mesh, want[r].shape(), static_cast<int64_t>(p))) << what;
      const Tensor global = assemble(parts, s, mesh, want[r].shape());
      for (int64_t e = 0; e < global.numElements(); ++e)
        ASSERT_TRUE(close(global.getFloat(e), want[r].getFloat(e)))
            << "result " << r << " element " << e << "\n got " << valueText(global) << "\nwant "
            << valueText(want[r]) << "\n"
            << what;
      if (!s.pending.empty()) continue;
      for (size_t p = 0; p < parts.size(); ++p) {
        const Tensor mine = takeShard(want[r], s, mesh, static_cast<int64_t>(p));
        for (int64_t e = 0; e < mine.numElements(); ++e)
          ASSERT_TRUE(close(parts[p].getFloat(e), mine.getFloat(e))) << "device " << p << what;
      }
    }
  }

  std::string text_;
  Module m_;
};

struct Case {
  const char* name;
  const char* text;
};

// Axes a and b; every program runs on each of the meshes.
const Case kCases[] = {
    {"matmul_contracted",
     "func @main(%x: f32[7, 11] @m{_, a}, %w: f32[11, 5] @m{a, b}) -> (%y: f32[7, 5] @m{_, _}) {\n"
     "  %y = matmul %x, %w\n  return %y\n}"},
    {"mlp", "func @main(%x: f32[6, 8] @m{a, _}, %w1: f32[8, 12] @m{_, b}, %w2: f32[12, 8] @m{b, _}) -> (%y: "
            "f32[6, 8] @m{a, _}) {\n"
            "  %h = matmul %x, %w1\n  %r = relu %h\n  %y = matmul %r, %w2\n  return %y\n}"},
    {"reduce_scatter",
     "func @main(%x: f32[7, 11] @m{_, a}, %w: f32[11, 5] @m{a, _}) -> (%y: f32[7, 5] @m{a, _}) {\n"
     "  %y = matmul %x, %w\n  return %y\n}"},
    {"pending_result",
     "func @main(%x: f32[7, 11] @m{_, a}, %w: f32[11, 5] @m{a, _}) -> (%y: f32[7, 5] @m{_, _ | sum(a)}) {\n"
     "  %y = matmul %x, %w\n  return %y\n}"},
    {"made_pending",
     "func @main(%x: f32[7, 5]) -> (%y: f32[7, 5] @m{_, _ | sum(a)}) {\n  %y = neg %x\n  return %y\n}"},
    {"bias_joins", "func @main(%x: f32[7, 11] @m{_, a}, %w: f32[5, 11] @m{_, a}, %c: f32[5]) -> (%y: f32[7, "
                   "5] @m{_, _ | sum(a)}) {\n"
                   "  %y = linear %x, %w, %c\n  return %y\n}"},
    {"transposed_cuts",
     "func @main(%x: f32[7, 5] @m{a, b}) -> (%y: f32[7, 5] @m{b, a}) {\n  %y = neg %x\n  return %y\n}"},
    {"all_to_all",
     "func @main(%x: f32[7, 5] @m{_, a}) -> (%y: f32[7, 5] @m{a, _}) {\n  %y = neg %x\n  return %y\n}"},
    {"order_of_axes",
     "func @main(%x: f32[13] @m{(a, b)}) -> (%y: f32[13] @m{(b, a)}) {\n  %y = neg %x\n  return %y\n}"},
    {"gather_minor",
     "func @main(%x: f32[13] @m{(a, b)}) -> (%y: f32[13] @m{a}) {\n  %y = neg %x\n  return %y\n}"},
    {"mean_of_cut", "func @main(%x: f32[7, 5] @m{a, b}) -> (%y: f32[5], %z: f32[]) {\n"
                    "  %y = mean %x {dims = [0]}\n  %z = mean %x\n  return %y, %z\n}"},
    {"max_min", "func @main(%x: f32[7, 5] @m{a, b}) -> (%y: f32[5], %z: f32[]) {\n"
                "  %y = max %x {dims = [0]}\n  %z = min %x\n  return %y, %z\n}"},
    {"prod_int", "func @main(%x: i32[7] @m{a}) -> (%y: i32[], %z: i32[]) {\n"
                 "  %c = add %x, 1\n  %y = prod %c\n  %z = sum %x\n  return %y, %z\n}"},
    {"argmax",
     "func @main(%x: f32[7, 5] @m{a, b}) -> (%y: i32[7]) {\n  %y = argmax %x {dim = 1}\n  return %y\n}"},
    {"softmax_rows", "func @main(%x: f32[7, 5] @m{a, b}) -> (%y: f32[7, 5]) {\n  %y = softmax %x {dims = "
                     "[1]}\n  return %y\n}"},
    {"layer_norm",
     "func @main(%x: f32[7, 6] @m{a, b}, %g: f32[6], %c: f32[6]) -> (%y: f32[7, 6] @m{a, _}) {\n"
     "  %y = layer_norm %x, %g, %c {dims = [1]}\n  return %y\n}"},
    {"iota_placed",
     "func @main(%x: f32[7, 5] @m{a, b}) -> (%y: f32[7, 5] @m{a, b}) {\n"
     "  %i = iota {dim = 0} : f32[7, 5]\n  %j = iota {dim = 1} : f32[7, 5]\n  %s = mul %i, %j\n"
     "  %y = add %x, %s\n  return %y\n}"},
    {"iota_two_axes", "func @main(%x: f32[13] @m{(a, b)}) -> (%y: f32[13] @m{(a, b)}) {\n"
                      "  %i = iota : f32[13]\n  %y = add %x, %i\n  return %y\n}"},
    {"eye_placed", "func @main(%x: f32[7, 5] @m{a, b}) -> (%y: f32[7, 5] @m{a, b}) {\n"
                   "  %i = eye : f32[7, 5]\n  %y = add %x, %i\n  return %y\n}"},
    {"full_and_constants",
     "func @main(%x: f32[4] @m{a}) -> (%y: f32[4] @m{a}) {\n"
     "  %f = full {value = 2.0} : f32[4]\n  %c = constant {value = [1.0, 2.0, 3.0, 4.0]} : f32[4]\n"
     "  %s = add %f, %c\n  %y = mul %x, %s\n  return %y\n}"},
    {"broadcast_bias", "func @main(%x: f32[7, 5] @m{a, b}, %c: f32[5]) -> (%y: f32[7, 5] @m{a, b}) {\n"
                       "  %y = add %x, %c\n  return %y\n}"},
    {"shard_constraint", "func @main(%x: f32[8, 6]) -> (%y: f32[8, 6]) {\n"
                         "  %h = relu %x\n  %s = shard %h : @m{a, b}\n  %y = neg %s\n  return %y\n}"},
    {"reshards", "func @main(%x: f32[8, 6] @m{a, _}) -> (%y: f32[8, 6] @m{a, _}) {\n"
                 "  %h = reshard %x : @m{_, b}\n  %y = reshard %h : @m{a, _}\n  return %y\n}"},
    {"reshape_merge", "func @main(%x: f32[4, 6] @m{a, _}) -> (%y: f32[24]) {\n  %y = reshape %x {shape = "
                      "[24]}\n  return %y\n}"},
    {"reshape_split", "func @main(%x: f32[24] @m{a}) -> (%y: f32[4, 6]) {\n  %y = reshape %x {shape = [4, "
                      "6]}\n  return %y\n}"},
    {"strided_view", "func @main(%x: f32[2, 12] @m{_, a}) -> (%y: f32[24]) {\n  %y = reshape %x {shape = "
                     "[24]}\n  return %y\n}"},
    {"transpose", "func @main(%x: f32[7, 5] @m{a, b}) -> (%y: f32[5, 7]) {\n  %y = transpose %x {perm = [1, "
                  "0]}\n  return %y\n}"},
    {"embedding", "func @main(%i: i32[6] @m{b}, %t: f32[8, 3] @m{a, _}) -> (%y: f32[6, 3]) {\n"
                  "  %y = embedding %i, %t\n  return %y\n}"},
    {"one_hot", "func @main(%i: i32[6] @m{b}) -> (%y: f32[6, 8] @m{b, a}) {\n"
                "  %y = one_hot %i {depth = 8, dtype = f32}\n  return %y\n}"},
    {"cross_entropy", "func @main(%x: f32[6, 8] @m{a, b}, %l: i32[6] @m{a}) -> (%y: f32[]) {\n"
                      "  %c = cross_entropy %x, %l\n  %y = mean %c\n  return %y\n}"},
    {"tiny_empty_pieces", "func @main(%x: f32[1, 2] @m{a, b}) -> (%y: f32[], %z: f32[1, 2] @m{b, a}) {\n"
                          "  %y = sum %x\n  %z = neg %x\n  return %y, %z\n}"},
    {"sub_axes", "mesh @n = [c=4]\nfunc @main(%x: f32[7, 5] @n{c:(1)2, c:(2)2}) -> (%y: f32[7, 5] @n{c:(2)2, "
                 "c:(1)2}, %z: f32[7, 5] @n{_, c}) {\n"
                 "  %y = neg %x\n  %z = exp %x\n  return %y, %z\n}"},
    {"sub_axis_of_uneven",
     "mesh @n = [c=4]\nfunc @main(%x: f32[7] @n{c}) -> (%y: f32[7] @n{c:(1)2}, %z: f32[7] @n{c:(2)2}) {\n"
     "  %y = neg %x\n  %z = exp %x\n  return %y, %z\n}"},
    {"strided_argument", "mesh @n = [c=4]\nfunc @main(%x: f32[16, 3] @n{(2, c), _}) -> (%y: f32[16, 3] @n{c, "
                         "_}, %z: f32[16, 3] @n{_, c}) {\n"
                         "  %y = neg %x\n  %z = exp %x\n  return %y, %z\n}"},
    {"to_strided", "mesh @n = [c=4]\nfunc @main(%x: f32[16, 3] @n{c, _}) -> (%y: f32[16, 3] @n{(4, c), _}, "
                   "%z: f32[16, 3] @n{(c:(2)2, c:(1)2), _}) {\n"
                   "  %y = neg %x\n  %z = exp %x\n  return %y, %z\n}"},
    {"pending_other_kinds",
     "func @main(%x: f32[7, 5] @m{a, _}) -> (%y: f32[5] @m{_ | max(a)}, %z: f32[7] @m{_ | prod(a)}) {\n"
     "  %y = max %x {dims = [0]}\n  %z = sum %x {dims = [1]}\n  return %y, %z\n}"},
    {"attention", "func @main(%q: f32[3, 4, 5, 2] @m{a, b, _, _}, %k: f32[3, 4, 5, 2], %v: f32[3, 4, 5, 2]) "
                  "-> (%y: f32[3, 4, 5, 2]) {\n"
                  "  %y = attention %q, %k, %v {causal = true}\n  return %y\n}"},
    {"rope", "func @main(%x: f32[3, 7, 4] @m{a, b, _}, %p: i32[7]) -> (%y: f32[3, 7, 4]) {\n  %y = rope %x, "
             "%p\n  return %y\n}"},
    {"concat_slice_pad",
     "func @main(%x: f32[7, 5] @m{a, b}) -> (%y: f32[14, 5], %z: f32[7, 3], %w: f32[7, 8]) {\n"
     "  %y = concat %x, %x {dim = 0}\n  %z = slice %x {start = [0, 1], limit = [7, 4]}\n"
     "  %w = pad %x {low = [0, 1], high = [0, 2]}\n  return %y, %z, %w\n}"},
    {"gather_scatter", "func @main(%x: f32[7, 5] @m{a, b}, %i: i32[7, 5] @m{a, b}) -> (%y: f32[7, 5]) {\n"
                       "  %j = rem %i, 5\n  %k = abs %j\n  %y = gather %x, %k {dim = 1}\n  return %y\n}"},
    {"broadcasts",
     "func @main(%x: f32[7, 1] @m{a, _}) -> (%y: f32[7, 5] @m{a, b}, %z: f32[7, 1, 5]) {\n"
     "  %y = broadcast %x {shape = [7, 5]}\n  %z = expand_dims %y {dims = [1]}\n  return %y, %z\n}"},
    {"tril_flip", "func @main(%x: f32[7, 5] @m{a, b}) -> (%y: f32[7, 5] @m{a, b}, %z: f32[7, 5]) {\n"
                  "  %y = tril %x\n  %z = flip %x {dims = [0]}\n  return %y, %z\n}"},
    {"local_region",
     "func @main(%x: f32[6, 8] @m{a, b}, %w: f32[8, 4] @m{b, _}) -> (%y: f32[6, 4]) {\n"
     "  %y = local (%p = %x @m{a, b}, %q = %w @m{b, _}) {\n    %1 = matmul %p, %q\n"
     "    %2 = all_reduce %1 {axes = [b]}\n    yield %2\n  } : f32[6, 4] @m{a, _}\n  return %y\n}"},
    {"for_loop", "func @main(%ws: f32[3, 6, 6] @m{_, _, a}, %x: f32[4, 6] @m{b, _}) -> (%y: f32[4, 6], %ys: "
                 "f32[3, 4, 6]) {\n"
                 "  %y, %ys = for %i in 0..3 (%h = %x) {\n    %w = index_select %ws, %i {dim = 0}\n"
                 "    %n = matmul %h, %w\n    %t = tanh %n\n    yield %t, %n\n  } : f32[4, 6], f32[3, 4, "
                 "6]\n  return %y, %ys\n}"},
    {"cond", "func @main(%p: bool[], %x: f32[7] @m{a}) -> (%y: f32[7]) {\n"
             "  %y = cond %p {\n    %u = neg %x\n    yield %u\n  } {\n    %v = exp %x\n    yield %v\n  } : "
             "f32[7]\n  return %y\n}"},
};

class PartitionCases : public testing::TestWithParam<std::tuple<Case, const char*>> {};

} // namespace

TEST_P(PartitionCases, Equivalent) {
  const auto& [c, mesh] = GetParam();
  Equivalence(c.text, mesh).check();
}

INSTANTIATE_TEST_SUITE_P(Programs, PartitionCases,
                         testing::Combine(testing::ValuesIn(kCases),
                                          testing::Values("a=2, b=2", "a=2, b=3", "a=3, b=2", "a=1, b=4",
                                                          "a=4, b=1")),
                         [](const auto& info) {
                           std::string mesh = std::get<1>(info.param);
                           return std::string(std::get<0>(info.param).name) + "_" + mesh[2] + mesh[7];
                         });

TEST(Partition, RefusesOpenShardings) {
  Module m(standardOps());
  Diagnostics d;
  ASSERT_TRUE(parseModule(
      {"t", "mesh @m = [a=2]\nfunc @main(%x: f32[4]) -> (f32[4]) {\n  %y = neg %x\n  return %y\n}\n"},
      standardOps(), m, d));
  EXPECT_FALSE(partition(m, d));
  ASSERT_EQ(d.all().size(), 1u);
  EXPECT_EQ(
      d.all()[0].message(),
      "'partition' needs a closed sharding on every value of @main: run the pass 'propagate' before it");
}
