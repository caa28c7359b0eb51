// if-to-select: replaces a `cond` with cheap, pure blocks by both blocks and a `select` per result.
//
// Takes text of every level before `fuse`, and keeps the level. The ops of the blocks can then fuse with the
// surrounding ops, and the predicate is not read back to the host. Run it after `autodiff`: the gradient of a
// `select` evaluates both sides, so that 0 times infinity on the side not taken would be NaN.
#include "dtc/IR/build/Builder.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Passes/Pass.h"
#include "dtc/Passes/analysis/Clone.h"

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

  // True if the op costs no more than reading and writing its operands, and cannot fail: an index may be out
  // of range if the block is not taken.
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
      const ValueId v = ops::select(Expr(b, m_.operand(o, 0)), yes, no);
      m_[v].type = m_[result].type;
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

// Option `limit`: the max number of ops in both blocks together.
bool ifToSelectPass(Module& m, const PassOptions& options, Diagnostics& diags) {
  const int64_t limit = options.integer("limit").value_or(8);
  for (FuncId f : m.order)
    if (levelOf(m, f) < Level::Split) IfToSelect(m, f, limit, diags).run(m[f].body);
  return !diags.hasErrors();
}

} // namespace dtc
