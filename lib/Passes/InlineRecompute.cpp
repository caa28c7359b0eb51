#include "dtc/Passes/InlineRecompute.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/Clone.h"

namespace dtc {

// The block's arguments are what they start from, and the op's results what the block yields.
static void inlineBlocks(Module& m, BlockId block, ValueMap& map) {
  std::vector<OpId> out;
  for (OpId o : std::vector<OpId>(m[block].ops)) {
    for (ValueId& v : m.operands(o)) v = map(v);
    const bool opened = m.record(o).regions == RegionKind::Recompute;
    if (opened)
      for (size_t i = 0; i < m[m.region(o)].args.size(); ++i)
        map.set(m[m.region(o)].args[i], m.operand(o, i));
    for (uint32_t k = 0; k < m[o].numRegions; ++k) inlineBlocks(m, m.region(o, k), map);
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
}

bool inlineRecomputePass(Module& m, const PassOptions&, Diagnostics& diags) {
  for (FuncId f : m.order) {
    ValueMap map;
    inlineBlocks(m, m[f].body, map);
  }
  return !diags.hasErrors();
}

PassInfo inlineRecomputeInfo() {
  return {
      .name = "inline-recompute",
      .summary = "puts the block of every 'recompute' in the place of the op",
      .why =
          "After optimize-collectives, the last pass that makes one of two equal ops: until here the block "
          "keeps what the backward pass computes again, collectives too, apart from what the forward pass "
          "computed. Before fuse, which makes kernels of ops side by side.",
      .needs = Level::Local,
      .gives = Level::Local,
      .run = inlineRecomputePass,
      .before = R"(mesh @m = [a=2]

spmd func @main(%x: f32[4] of f32[8] @m{a}) -> (%y: f32[4] of f32[8] @m{a}) {
  %r = recompute (%a = %x) {
    %e = exp %a : f32[4]
    yield %e
  } : f32[4]
  %y = neg %r : f32[4]
  return %y
}
)",
      .after = R"(mesh @m = [a=2]

spmd func @main(%x: f32[4] of f32[8] @m{a}) -> (%y: f32[4] of f32[8] @m{a}) {
  %e = exp %x : f32[4]
  %y = neg %e : f32[4]
  return %y
}
)"};
}

} // namespace dtc
