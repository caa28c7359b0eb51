// What ops cost: finite for every op of the registry at every size, and in proportion to what is moved.
#include "dtc/Passes/analysis/OpWork.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Ops/record/Samples.h"
#include "dtc/Passes/analysis/Collectives.h"
#include "dtc/Sharding/Reshard.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace dtc;

namespace {

// The work of an op whose dims and factors are `scale` times as large as they are written.
std::optional<OpWork> workAt(Module& m, OpId o, double scale) {
  Diagnostics diags;
  const OpQuery q = queryOf(m, o, diags);
  Rule rule;
  if (!ruleOf(q, rule)) return std::nullopt;
  std::vector<TypeId> results;
  for (uint32_t r = 0; r < m[o].numResults; ++r) results.push_back(m[m.result(o, r)].type);
  auto size = [&](Dim d) { return std::optional(scale * static_cast<double>(d.isStatic() ? d.value() : 7)); };
  return OpWorkModel(q, rule, results)
      .at({[&](size_t f) { return size(rule.factors[f].size); },
           [&](size_t t, size_t d) {
             const size_t n = q.operandTypes.size();
             return size(m.types[t < n ? q.operandTypes[t] : results[t - n]].dims[d]);
           }});
}

OpWork workOfText(const std::string& text, std::string_view op) {
  Module m(standardOps());
  Diagnostics diags;
  EXPECT_TRUE(parseModule({"test", text}, standardOps(), m, diags))
      << renderDiagnostics(diags, m.source, false) << text;
  OpWork out;
  forEachOp(m, m[m.order[0]].body, [&](OpId o) {
    if (m.record(o).name == op) out = workAt(m, o, 1).value();
  });
  return out;
}

std::string concatOf(int operands, int each) {
  std::string args, values;
  for (int i = 0; i < operands; ++i) {
    const std::string name = (i ? ", %x" : "%x") + std::to_string(i);
    args += name + ": f32[" + std::to_string(each) + "]";
    values += name;
  }
  return "func @f(" + args + ") -> (f32[" + std::to_string(operands * each) + "]) {\n  %y = concat " +
         values + " {dim = 0}\n  return %y\n}\n";
}

TEST(OpWork, IsFiniteForEveryOp) {
  const OpRegistry& ops = standardOps();
  size_t priced = 0;
  for (size_t k = 0; k < ops.size(); ++k)
    for (DType t : {DType::F32, DType::BF16, DType::I32, DType::Bool, DType::C64})
      for (OpSample& s : opSamples(ops, static_cast<OpKind>(k), t))
        for (double scale : {0.0, 1.0, 1e6, 1e18, 1e300}) {
          const auto work = workAt(s.module, s.op, scale);
          if (!work) continue;
          ++priced;
          EXPECT_TRUE(std::isfinite(work->flops) && work->flops >= 0) << s.text << " at " << scale;
          EXPECT_TRUE(std::isfinite(work->bytes) && work->bytes >= 0) << s.text << " at " << scale;
          EXPECT_TRUE(std::isfinite(work->seconds({}))) << s.text << " at " << scale;
        }
  EXPECT_GT(priced, 2000u);
}

TEST(OpWork, ConcatCostsTheBytesItCopies) {
  for (int n : {1, 2, 16, 100, 400}) {
    const OpWork work = workOfText(concatOf(n, 4096), "concat");
    EXPECT_EQ(work.flops, 0) << n;
    EXPECT_EQ(work.bytes, 2.0 * 4 * 4096 * n) << n;
  }
}

TEST(OpWork, DataMovementReadsAsManyBytesAsItWrites) {
  const std::string x = "func @f(%x: f32[1000, 8], %i: i32[5]) -> () {\n  ", end = "\n  return\n}\n";
  EXPECT_EQ(workOfText(x + "%y = slice %x {start = [10, 0], limit = [20, 8]}" + end, "slice").bytes,
            2.0 * 4 * 80);
  EXPECT_EQ(workOfText(x + "%y = index_select %x, %i {dim = 0}" + end, "index_select").bytes,
            2.0 * 4 * 40 + 4 * 5);
  EXPECT_EQ(workOfText(x + "%a, %b = split %x {sizes = [1, 999], dim = 0}" + end, "split").bytes,
            2.0 * 4 * 8000);
  EXPECT_EQ(workOfText(x + "%y = transpose %x {perm = [1, 0]}" + end, "transpose").bytes, 2.0 * 4 * 8000);
}

// The planner of reshards, the lists of collectives and the schedule price an all_slice alike: as a copy of its result.
TEST(OpWork, AllSliceIsACopyWhereverItIsPriced) {
  for (const int64_t rows : {8, 64, 4096}) {
    Module m(standardOps());
    Diagnostics diags;
    const std::string n = std::to_string(rows), part = std::to_string(rows / 4);
    const std::string text = "mesh @m = [a=4]\nspmd func @f(%x: f32[" + n + ", 8] of f32[" + n +
                             ", 8] @m{_, _}) -> (f32[" + part + ", 8] of f32[" + n +
                             ", 8] @m{a, _}) {\n  %y = all_slice %x {axes = [a], dim = 0} : f32[" + part +
                             ", 8]\n  return %y\n}\n";
    ASSERT_TRUE(parseModule({"test", text}, standardOps(), m, diags))
        << renderDiagnostics(diags, m.source, false) << text;
    const FuncId f = m.order[0];
    const Mesh mesh = meshValueOf(m, f);
    const NominalMachine machine;
    const OpId o = m[m[f].body].ops[0];
    const double copied = machine.copySeconds(static_cast<double>(rows * 8));
    const auto price = priceOfCollective(m, o, mesh, machine);
    ASSERT_TRUE(price);
    EXPECT_EQ(price->bytesReceived, 0);
    EXPECT_DOUBLE_EQ(price->seconds, copied);
    EXPECT_DOUBLE_EQ(localWork(m, o, mesh)->seconds(machine), copied);
    EXPECT_DOUBLE_EQ(nominalSeconds(m, o, mesh), copied);
    const StrId a = m.strings.find("a");
    Sharding from{MeshId(0), std::vector<DimSharding>(2), {}, {}};
    Sharding to = from;
    to.dims[0].parts.push_back({AxisRef{a}, 0});
    const int64_t shape[] = {rows, 8};
    const ReshardPlan plan = planReshard(from, to, mesh, plannedSizes(shape), DType::F32);
    ASSERT_EQ(plan.steps.size(), 1u);
    EXPECT_EQ(plan.steps[0].kind, StepKind::AllSlice);
    EXPECT_DOUBLE_EQ(plan.price, copied);
    EXPECT_EQ(plan.bytesReceived, 0);
  }
}

TEST(OpWork, ArithmeticCountsEachPointOnce) {
  EXPECT_EQ(workOfText("func @f(%x: f32[4, 6], %w: f32[6, 5]) -> () {\n  %y = matmul %x, %w\n  return\n}\n",
                       "matmul")
                .flops,
            2.0 * 4 * 6 * 5);
  // 3 x 3 products of 2 channels for each of 6 x 6 results in 4 channels: the input's own rows are no axis.
  EXPECT_EQ(workOfText("func @f(%x: f32[1, 2, 8, 8], %w: f32[4, 2, 3, 3]) -> () {\n"
                       "  %y = conv %x, %w\n  return\n}\n",
                       "conv")
                .flops,
            2.0 * 4 * 6 * 6 * 2 * 9);
}

} // namespace
