#include "dtc/Passes/Decompose.h"
#include "Within.h"
#include "dtc/IR/Builder.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/Clone.h"

namespace dtc {

namespace {

// A row of what is streamed over (attention's keys and values) lies in a core's nearest memory: one that is longer than this, or
// of a size that is not known, is made of parts instead.
constexpr int64_t kLongestRowBytes = 1024;

// Does the op merge rows of its first operand with rows of others?
bool streams(const Rule& rule) {
  std::vector<bool> first(rule.factors.size());
  for (const DimMap& d : rule.operands[0].dims)
    for (const Term& t : d.terms) first[t.factor] = true;
  for (size_t f = 0; f < rule.factors.size(); ++f)
    if ((rule.factors[f].kind == FactorKind::Whole || rule.factors[f].kind == FactorKind::Merge) && !first[f])
      return true;
  return false;
}

bool tooLong(const Module& m, OpId o) {
  for (ValueId v : {m.operand(o, 0), m.result(o)}) {
    const Type& t = m.typeOf(v);
    if (t.rank() == 0) continue;
    const Dim row = t.dims.back();
    if (!row.isStatic() || row.value() * dtypeBytes(accumulationType(t.dtype)) > kLongestRowBytes)
      return true;
  }
  return false;
}

// May the op send pieces round a ring? Its parts could not: it stays until its local program is written.
bool goesRound(Module& m, OpId o) {
  Diagnostics quiet;
  Rule rule;
  return m.record(o).cut && ruleOf(queryOf(m, o, quiet), rule) &&
         std::ranges::any_of(rule.factors, [](const Factor& f) { return f.alongside >= 0; });
}

enum class Which : uint8_t { NeededButWhole, Needed, Long, All };

bool decomposes(Module& m, OpId o, Which which) {
  const OpRecord& record = m.record(o);
  if (!record.decompose) return false;
  if (which == Which::All || record.stores) return true; // what stores by itself: of some dtypes
  if (which == Which::NeededButWhole && mayStayWhole(m, o)) return false;
  const bool needed = which == Which::Needed || which == Which::NeededButWhole;
  if (record.lowering == Lowering::Decompose) return needed || !(goesRound(m, o) || mayStayWhole(m, o));
  if (needed) return false;
  Diagnostics quiet;
  Rule rule;
  return record.lowering == Lowering::Rows && ruleOf(queryOf(m, o, quiet), rule) && !rule.operands.empty() &&
         streams(rule) && tooLong(m, o);
}

bool decomposeBlock(Module& m, BlockId block, ValueMap& map, Diagnostics& diags, Which which) {
  std::vector<OpId> out;
  Builder b(m, block, out, diags);
  for (OpId o : std::vector<OpId>(m[block].ops)) {
    for (uint32_t i = 0; i < m[o].numOperands; ++i) m.operands(o)[i] = map(m.operand(o, i));
    for (uint32_t k = 0; k < m[o].numRegions; ++k)
      if (!decomposeBlock(m, m.region(o, k), map, diags, which)) return false;
    const OpRecord& rec = m.record(o);
    if (!decomposes(m, o, which)) {
      out.push_back(o);
      continue;
    }
    b.loc = m[o].loc;
    b.common = withinOf(m, o);
    std::vector<ValueId> values;
    if (!rec.decompose(b, o, values)) return false;
    if (values.empty() && m[o].numResults != 0) { // not this one
      out.push_back(o);
      continue;
    }
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

} // namespace

bool mayStayWhole(Module& m, OpId o) {
  const OpRecord& record = m.record(o);
  if (record.lowering != Lowering::Decompose || !record.derive) return false;
  Diagnostics quiet;
  return record.derive(queryOf(m, o, quiet), "one kernel").value_or(0) == 1;
}

bool decomposeNeeded(Module& m, BlockId block, Diagnostics& diags, bool whole) {
  ValueMap map;
  return decomposeBlock(m, block, map, diags, whole ? Which::NeededButWhole : Which::Needed);
}

bool decomposePass(Module& m, const PassOptions& options, Diagnostics& diags) {
  auto it = options.values.find("all");
  const bool all = it != options.values.end() && it->second == "true";
  for (FuncId f : m.order) {
    if (m[f].spmd) continue;
    ValueMap map;
    if (!decomposeBlock(m, m[f].body, map, diags, all ? Which::All : Which::Long)) return false;
  }
  return !diags.hasErrors();
}

PassInfo decomposeInfo() {
  return {
      .name = "decompose",
      .summary = "replaces ops that no backend makes in one piece by more basic ones",
      .why =
          "After autodiff, which prefers the gradient of a whole op; before propagate, so that the parts "
          "are sharded by their own rules. Row ops (softmax, norms, attention) stay whole: they are one "
          "kernel each. Only an attention whose heads are longer than a core's nearest memory holds (1 KiB "
          "a row in the dtype that it sums in), or of a size that is not known, is taken apart.",
      .needs = Level::Global,
      .gives = Level::Global,
      .run = decomposePass,
      .before =
          R"(func @main(%q: f32[1, 2, 4, 320], %k: f32[1, 2, 4, 320], %v: f32[1, 2, 4, 8]) -> (%y: f32[1, 2, 4, 8]) {
  %y = attention %q, %k, %v {scale = 0.5}
  return %y
}
)",
      .after =
          R"(func @main(%q: f32[1, 2, 4, 320], %k: f32[1, 2, 4, 320], %v: f32[1, 2, 4, 8]) -> (%y: f32[1, 2, 4, 8]) {
  %0 = matmul %q, %k {transpose_b = true} : f32[1, 2, 4, 4]
  %1 = mul %0, 0.5 : f32[1, 2, 4, 4]
  %2 = softmax %1 {dims = [-1]} : f32[1, 2, 4, 4]
  %y = matmul %2, %v : f32[1, 2, 4, 8]
  return %y
}
)",
      .options = {
          {"all", "false", "true: every op that has a decomposition, also those that are one kernel"}}};
}

} // namespace dtc
