// inline-recompute: replaces every `recompute` op by its block.
//
// Needs local text; runs after optimize-collectives, the last pass that merges equal ops, and before fuse,
// which groups adjacent ops. Until then the block prevents recomputed ops (collectives too) from being merged
// with those of the forward pass.
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/Pass.h"
#include "dtc/Passes/analysis/Clone.h"
#include "dtc/Passes/analysis/Recomputes.h"

namespace dtc {

// Maps the block's arguments to their starts, and the op's results to the yields. Returns whether there was one.
static bool inlineBlocks(Module& m, BlockId block, ValueMap& map) {
  bool any = false;
  std::vector<OpId> out;
  for (OpId o : std::vector<OpId>(m[block].ops)) {
    for (ValueId& v : m.operands(o)) v = map(v);
    const bool opened = m.record(o).regions == RegionKind::Recompute;
    if (opened)
      for (size_t i = 0; i < m[m.region(o)].args.size(); ++i)
        map.set(m[m.region(o)].args[i], m.operand(o, i));
    for (uint32_t k = 0; k < m[o].numRegions; ++k) any |= inlineBlocks(m, m.region(o, k), map);
    any |= opened;
    if (!opened) {
      out.push_back(o);
      continue;
    }
    const Block& inner = m[m.region(o)];
    for (OpId moved : inner.ops) m[moved].parent = block;
    out.insert(out.end(), inner.ops.begin(), inner.ops.end());
    for (uint32_t r = 0; r < m[o].numResults; ++r) {
      map.set(m.result(o, r), inner.yields[r]);
      if (Value& made = m[inner.yields[r]]; made.kind == ValueKind::OpResult && !made.name.valid())
        made.name = m[m.result(o, r)].name;
    }
  }
  m[block].ops = std::move(out);
  for (ValueId& v : m[block].yields) v = map(v);
  return any;
}

bool inlineRecomputePass(Module& m, const PassOptions&, Diagnostics& diags) {
  for (FuncId f : m.order) {
    ValueMap map;
    if (inlineBlocks(m, m[f].body, map)) setRecomputes(m, f);
  }
  return !diags.hasErrors();
}

} // namespace dtc
