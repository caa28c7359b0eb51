#include "dtc/Passes/split/Decompose.h"

#include "analysis/FusionForm.h"
#include "analysis/Within.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/Passes/analysis/Clone.h"

namespace dtc {

namespace {

// The streamed rows of attention (keys and values) must fit into a core's L1 cache: attention with longer
// rows, or rows of unknown size, is decomposed.
constexpr int64_t kLongestRowBytes = 1024;

// True if the op combines rows of its first operand with rows of others.
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

// True if the op may run as a ring. Its decomposition could not: the op is kept until its sharded program is
// written.
bool goesRound(Module& m, OpId o) {
  Diagnostics quiet;
  Rule rule;
  return m.record(o).shard && ruleOf(queryOf(m, o, quiet), rule) &&
         std::ranges::any_of(rule.factors, [](const Factor& f) { return f.alongside >= 0; });
}

enum class Which : uint8_t { NeededUnlessKept, Needed, Long, All };

bool decomposes(Module& m, OpId o, Which which) {
  const OpRecord& record = m.record(o);
  if (!record.decompose) return false;
  // ops with a store of their own, for some dtypes only, and those that a library computes in another layout
  if (which == Which::All || record.stores || record.lowering == Lowering::Library) return true;
  if (which == Which::NeededUnlessKept && mayHaveKernel(m, o)) return false;
  const bool needed = which == Which::Needed || which == Which::NeededUnlessKept;
  if (record.lowering == Lowering::Decompose) return needed || !(goesRound(m, o) || mayHaveKernel(m, o));
  if (needed) // an op that nothing else defines for kernels (rope)
    return record.lowering == Lowering::Loops && !record.element && !record.scalar && !record.scalarFor;
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
    b.common = inheritedAttrs(m, o);
    std::vector<ValueId> values;
    if (!rec.decompose(b, o, values)) return false;
    if (values.empty() && m[o].numResults != 0) { // not decomposable
      out.push_back(o);
      continue;
    }
    for (uint32_t r = 0; r < m[o].numResults; ++r) {
      ValueId result = m.result(o, r), v = values[r];
      if (m[result].sharding.valid())
        m[v].sharding = m[result].sharding; // an annotated sharding stays a constraint
      if (!m[v].name.valid()) m[v].name = m[result].name;
      map.set(result, v);
    }
  }
  m[block].ops = std::move(out);
  for (ValueId& v : m[block].yields) v = map(v);
  return true;
}

} // namespace

bool decomposeNeeded(Module& m, BlockId block, Diagnostics& diags, bool unlessKept) {
  ValueMap map;
  return decomposeBlock(m, block, map, diags, unlessKept ? Which::NeededUnlessKept : Which::Needed);
}

bool decomposePass(Module& m, const PassOptions& options, Diagnostics& diags) {
  const bool all = options.flag("all", false);
  for (FuncId f : m.order) {
    if (m[f].spmd) continue;
    ValueMap map;
    if (!decomposeBlock(m, m[f].body, map, diags, all ? Which::All : Which::Long)) return false;
  }
  return !diags.hasErrors();
}

} // namespace dtc
