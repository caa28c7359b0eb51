#include "dtc/Passes/IfToSelect.h"
#include "PassLimit.h"
#include "dtc/IR/Builder.h"
#include "dtc/Passes/Clone.h"

namespace dtc {

namespace {

class IfToSelect {
public:
  IfToSelect(Module& m, FuncId f, int64_t limit, Diagnostics& diags)
      : m_(m), diags_(diags), limit_(limit), level_(levelOf(m, f)) {}

  // Inner conds first: they may make an outer one cheap.
  void run(BlockId block) {
    std::vector<OpId> out;
    for (OpId o : std::vector<OpId>(m_[block].ops)) {
      for (ValueId& v : m_.operands(o)) v = map_(v);
      for (uint32_t k = 0; k < m_[o].numRegions; ++k) run(m_.region(o, k));
      if (isCheap(o))
        replace(o, block, out);
      else
        out.push_back(o);
    }
    m_[block].ops = std::move(out);
    for (ValueId& v : m_[block].yields) v = map_(v);
  }

private:
  bool isCheap(OpId o) {
    if (m_.record(o).regions != RegionKind::Cond) return false;
    int64_t count = 0;
    for (uint32_t k = 0; k < 2; ++k)
      for (OpId inner : m_[m_.region(o, k)].ops) {
        ++count;
        if (!mayRunAnyway(inner)) return false;
      }
    return count <= limit_;
  }

  // Costs no more than reading and writing its operands, and cannot fail: an index may be out of range where the block is
  // not taken.
  bool mayRunAnyway(OpId o) {
    const OpRecord& rec = m_.record(o);
    const bool moves = rec.lowering == Lowering::Loops || rec.lowering == Lowering::Annotation;
    if (!moves || rec.sideEffect || rec.regions != RegionKind::None || rec.isCall) return false;
    for (size_t i = 0; i < m_[o].numOperands; ++i)
      if (literalTypeAt(rec, i) == OpRecord::LiteralType::I32) return false;
    if (rec.lowering == Lowering::Annotation) return true;
    Diagnostics quiet;
    Rule rule;
    OpQuery q = queryOf(m_, o, quiet);
    if (!ruleOf(q, rule)) return false;
    for (const Factor& f : rule.factors)
      if (f.kind == FactorKind::Reduce || f.kind == FactorKind::Merge) return false;
    return true;
  }

  void replace(OpId o, BlockId block, std::vector<OpId>& out) {
    for (uint32_t k = 0; k < 2; ++k)
      for (OpId inner : m_[m_.region(o, k)].ops) {
        m_[inner].parent = block;
        out.push_back(inner);
      }
    Builder b(m_, block, out, diags_);
    b.loc = m_[o].loc;
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      const ValueId result = m_.result(o, r);
      const ValueId yes = m_[m_.region(o, 0)].yields[r], no = m_[m_.region(o, 1)].yields[r];
      const bool constrained = level_ == Level::Global && m_[result].sharding.valid();
      if (yes == no && m_[yes].kind != ValueKind::Literal && !constrained) {
        map_.set(result, yes);
        continue;
      }
      const OpId made =
          b.op("select", std::array{m_.operand(o, 0), yes, no}, {}, std::array{m_[result].type});
      const ValueId v = m_.result(made);
      m_[v].sharding = m_[result].sharding;
      m_[v].name = m_[result].name;
      map_.set(result, v);
    }
  }

  Module& m_;
  Diagnostics& diags_;
  int64_t limit_;
  Level level_;
  ValueMap map_;
};

} // namespace

bool ifToSelectPass(Module& m, const PassOptions& options, Diagnostics& diags) {
  auto limit = limitOption(options, "if-to-select", 8, diags);
  if (!limit) return false;
  for (FuncId f : m.order)
    if (levelOf(m, f) != Level::Scheduled) IfToSelect(m, f, *limit, diags).run(m[f].body);
  return !diags.hasErrors();
}

PassInfo ifToSelectInfo() {
  return {
      .name = "if-to-select",
      .summary = "replaces a `cond` of cheap, pure blocks by both and a `select` for each result",
      .why =
          "Outside the standard pipeline, after autodiff and before fuse: what the blocks compute can then "
          "fuse with what stands around them, and no device reads the predicate back to find its way. Both "
          "blocks run, so only elementwise ops and moves count as cheap, and none that can fail (an index "
          "may "
          "be out of range where its block is not taken). After autodiff, because the gradient of a `select` "
          "goes through both sides.",
      .needs = Level::Global,
      .gives = Level::Global,
      .run = ifToSelectPass,
      .before = R"(func @main(%p: bool[], %x: f32[4]) -> (%y: f32[4]) {
  %y = cond %p {
    %a = neg %x
    yield %a
  } {
    yield %x
  }
  return %y
}
)",
      .after = R"(func @main(%p: bool[], %x: f32[4]) -> (%y: f32[4]) {
  %a = neg %x : f32[4]
  %y = select %p, %a, %x : f32[4]
  return %y
}
)",
      .options = {{"limit", "8", "how many ops both blocks may have together"}},
      .standard = false};
}

} // namespace dtc
