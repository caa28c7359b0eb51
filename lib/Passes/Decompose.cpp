#include "dtc/Passes/Decompose.h"
#include "dtc/IR/Builder.h"
#include "dtc/Passes/Clone.h"

namespace dtc {

static bool decomposeBlock(Module& m, BlockId block, ValueMap& map, Diagnostics& diags) {
  std::vector<OpId> out;
  Builder b(m, block, out, diags);
  for (OpId o : std::vector<OpId>(m[block].ops)) {
    for (uint32_t i = 0; i < m[o].numOperands; ++i) m.operands(o)[i] = map(m.operand(o, i));
    for (uint32_t k = 0; k < m[o].numRegions; ++k)
      if (!decomposeBlock(m, m.region(o, k), map, diags)) return false;
    const OpRecord& rec = m.record(o);
    if (rec.lowering != Lowering::Decompose || !rec.decompose) {
      out.push_back(o);
      continue;
    }
    b.loc = m[o].loc;
    std::vector<ValueId> values;
    if (!rec.decompose(b, o, values)) return false;
    for (uint32_t r = 0; r < m[o].numResults; ++r) {
      ValueId result = m.result(o, r), v = values[r];
      if (m[result].sharding.valid())
        m[v].sharding = m[result].sharding; // what is written stays a constraint
      if (!m[v].name.valid()) m[v].name = m[result].name;
      map.set(result, v);
    }
  }
  m[block].ops = std::move(out);
  for (ValueId& v : m[block].yields) v = map(v);
  return true;
}

bool decomposePass(Module& m, const PassOptions&, Diagnostics& diags) {
  for (FuncId f : m.order) {
    if (m[f].spmd) continue;
    ValueMap map;
    if (!decomposeBlock(m, m[f].body, map, diags)) return false;
  }
  return !diags.hasErrors();
}

PassInfo decomposeInfo() {
  return {
      .name = "decompose",
      .summary = "replaces ops that no backend makes in one piece by more basic ones",
      .why = "After autodiff, which prefers the gradient of a whole op; before propagate, so that the parts "
             "are sharded by "
             "their own rules. Row ops (softmax, norms) stay whole: they are one kernel each.",
      .needs = Level::Global,
      .gives = Level::Global,
      .run = decomposePass,
      .before =
          R"(func @main(%q: f32[1, 2, 4, 8], %k: f32[1, 2, 4, 8], %v: f32[1, 2, 4, 8]) -> (%y: f32[1, 2, 4, 8]) {
  %y = attention %q, %k, %v
  return %y
}
)",
      .after =
          R"(func @main(%q: f32[1, 2, 4, 8], %k: f32[1, 2, 4, 8], %v: f32[1, 2, 4, 8]) -> (%y: f32[1, 2, 4, 8]) {
  %0 = matmul %q, %k {transpose_b = true} : f32[1, 2, 4, 4]
  %1 = mul %0, 0.35355338 : f32[1, 2, 4, 4]
  %2 = softmax %1 {dims = [-1]} : f32[1, 2, 4, 4]
  %y = matmul %2, %v : f32[1, 2, 4, 8]
  return %y
}
)"};
}

} // namespace dtc
