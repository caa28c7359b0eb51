// unroll: replaces a `for` of few iterations with constant bounds by one copy of its block per iteration.
//
// Takes text of every level before `fuse`, and keeps the level. Outside the standard pipeline: a loop's
// kernels are compiled once, and straight-line code is profitable only if iterations differ (an index that
// becomes a constant, a special first iteration).
#include "dtc/IR/build/Builder.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Passes/Pass.h"
#include "dtc/Passes/analysis/Clone.h"

namespace dtc {

namespace {

constexpr int64_t kMaxCopies = 1 << 16; // max ops from unrolled loops of one function

class Unroller {
public:
  Unroller(Module& m, FuncId f, int64_t limit, Diagnostics& diags)
      : m_(m), diags_(diags), limit_(limit), level_(levelOf(m, f)) {
    for (const FuncArg& a : m[f].args) names_.emplace(m.strings[m[a.value].name], true);
    forEachOp(m, m[f].body, [&](OpId o) {
      for (uint32_t r = 0; r < m[o].numResults; ++r) {
        const Value& v = m[m.result(o, r)];
        if (v.name.valid()) names_.emplace(m.strings[v.name], true);
        if (v.sharding.valid()) mesh_ = m.shardings[v.sharding].mesh;
      }
    });
  }

  void run(BlockId block) {
    std::vector<OpId> out;
    for (OpId o : std::vector<OpId>(m_[block].ops)) op(o, block, out);
    m_[block].ops = std::move(out);
    for (ValueId& v : m_[block].yields) v = map_(v);
  }

private:
  // Outer loops first: the bounds of inner ones may become constant.
  void op(OpId o, BlockId block, std::vector<OpId>& out) {
    for (ValueId& v : m_.operands(o)) v = map_(v);
    if (fits(o)) return unroll(o, block, out);
    for (uint32_t k = 0; k < m_[o].numRegions; ++k) run(m_.region(o, k));
    out.push_back(o);
  }

  int64_t bound(OpId o, size_t i) const { return m_.attrs[m_[m_.operand(o, i)].literal].i; }

  bool fits(OpId o) {
    if (m_.record(o).regions != RegionKind::For) return false;
    for (size_t i = 0; i < 2; ++i)
      if (m_[m_.operand(o, i)].kind != ValueKind::Literal) return false;
    for (ValueId v : m_.operands(o))
      if (m_[v].kind == ValueKind::Symbol) return false; // a start that is not a constant
    const int64_t iterations = std::max<int64_t>(bound(o, 1) - bound(o, 0), 0);
    int64_t ops = 1;
    forEachOp(m_, m_.region(o), [&](OpId) { ++ops; });
    if (iterations > limit_ || iterations > (kMaxCopies - copies_) / ops) return false;
    copies_ += iterations * ops;
    return true;
  }

  // A literal as a constant op; any other value unchanged.
  ValueId valueOf(ValueId v, ShardingId sharding, Builder& b) {
    if (m_[v].kind != ValueKind::Literal) return v;
    const ValueId made = ops::constant(b, m_[v].type, m_[v].literal);
    if (level_ == Level::Propagated) m_[made].sharding = sharding;
    return made;
  }

  // `v` with the annotated sharding of the carried value: a constraint in global text; later it has that
  // sharding already.
  ValueId constrain(ValueId v, ShardingId sharding, Builder& b) {
    if (level_ != Level::Global || !sharding.valid() || m_[v].sharding == sharding) return v;
    v = ops::shard(Expr(b, v));
    m_[v].sharding = sharding;
    return v;
  }

  ShardingId writtenOn(OpId o, size_t i) const {
    const ShardingId s = m_[m_[m_.region(o)].args[i + 1]].sharding;
    return s.valid() ? s : m_[m_.result(o, i)].sharding;
  }

  void unroll(OpId o, BlockId block, std::vector<OpId>& out) {
    Builder b(m_, block, out, diags_);
    b.loc = m_[o].loc;
    b.mesh = mesh_;
    const size_t carried = m_[m_.region(o)].args.size() - 1;
    std::vector<ValueId> now;
    for (size_t i = 0; i < carried; ++i)
      now.push_back(constrain(valueOf(m_.operand(o, i + 2), writtenOn(o, i), b), writtenOn(o, i), b));
    std::vector<std::vector<ValueId>> stacks(m_[o].numResults - carried);
    for (int64_t i = bound(o, 0); i < bound(o, 1); ++i) {
      std::vector<ValueId> yields = cloneIteration(o, i, now, b);
      for (size_t k = 0; k < yields.size(); ++k) {
        const ShardingId sharding = k < carried ? writtenOn(o, k) : sliceSharding(m_.result(o, k));
        const ValueId v = valueOf(yields[k], sharding, b);
        if (k < carried)
          now[k] = constrain(v, sharding, b);
        else
          stacks[k - carried].push_back(v);
      }
    }
    for (size_t k = 0; k < carried; ++k) replaceBy(m_.result(o, k), now[k]);
    for (size_t k = 0; k < stacks.size(); ++k)
      replaceBy(m_.result(o, carried + k), stacked(m_.result(o, carried + k), stacks[k], b));
  }

  // Clones the block once, unrolling its own loops; returns its yields.
  std::vector<ValueId> cloneIteration(OpId o, int64_t index, std::span<const ValueId> now, Builder& b) {
    const BlockId body = m_.region(o);
    const ValueId i = m_[body].args[0];
    const ValueId number = m_.makeLiteral(m_.attrs.integer(index), DType::I32, m_[i].loc);
    std::vector<OpId> list;
    Builder first(m_, b.parent, list, diags_);
    first.loc = b.loc;
    const ValueId constant =
        valueOf(number, mesh_.valid() ? m_.shardings.replicated(mesh_, 0) : ShardingId(), first);
    ValueMap map;
    map.set(i, constant);
    for (size_t k = 0; k < now.size(); ++k) map.set(m_[body].args[k + 1], now[k]);
    CloneNames names{"", &names_};
    if (index >= 0 && m_[i].name.valid())
      names.prefix = std::string(m_.strings[m_[i].name]) + std::to_string(index);
    cloneOps(m_, body, b.parent, list, map, names);
    std::vector<ValueId> yields;
    for (ValueId v : m_[body].yields) yields.push_back(map(v));
    bool used = std::find(yields.begin(), yields.end(), constant) != yields.end();
    for (size_t k = 1; k < list.size(); ++k) used = spellIndex(list[k], constant, number) || used;
    if (used) b.out.push_back(list[0]);
    for (size_t k = 1; k < list.size(); ++k) op(list[k], b.parent, b.out);
    for (ValueId& v : yields) v = map_(v);
    return yields;
  }

  // Replaces the index by a literal where an i32 literal is allowed. True if the constant is still used.
  bool spellIndex(OpId o, ValueId constant, ValueId number) {
    bool used = false;
    auto spell = [&](OpId at) {
      for (size_t k = 0; k < m_[at].numOperands; ++k) {
        if (m_.operand(at, k) != constant) continue;
        if (literalTypeAt(m_.record(at), k) == OpRecord::LiteralType::I32)
          m_.operands(at)[k] = number;
        else
          used = true;
      }
      for (uint32_t k = 0; k < m_[at].numRegions; ++k)
        for (ValueId v : m_[m_.region(at, k)].yields) used = used || v == constant;
    };
    spell(o);
    for (uint32_t k = 0; k < m_[o].numRegions; ++k) forEachOp(m_, m_.region(o, k), spell);
    return used;
  }

  // The type of one iteration's slice of a stacked result.
  ShardingId sliceSharding(ValueId result) {
    if (!m_[result].sharding.valid()) return {};
    Sharding s = m_.shardings[m_[result].sharding];
    s.dims.erase(s.dims.begin());
    return m_.shardings.intern(std::move(s));
  }

  ValueId stacked(ValueId result, const std::vector<ValueId>& slices, Builder& b) {
    const ShardingId wanted = m_[result].sharding;
    ValueId v = slices.empty() ? b.constant(0, m_[result].type) : ops::stack(b, slices, 0);
    m_[v].sharding = wanted;
    if (level_ != Level::Propagated || slices.empty() || !m_.shardings[wanted].dims[0].isSharded()) return v;
    Sharding unsharded = m_.shardings[wanted]; // stacked unsharded along the iterations, then resharded
    unsharded.dims[0].parts.clear();
    m_[v].sharding = m_.shardings.intern(std::move(unsharded));
    v = ops::reshard(Expr(b, v));
    m_[v].sharding = wanted;
    return v;
  }

  // `v` replaces the loop's result, and takes its name if it was created here.
  void replaceBy(ValueId result, ValueId v) {
    map_.set(result, v);
    if (m_[v].kind == ValueKind::OpResult && v.index > result.index) m_[v].name = m_[result].name;
  }

  Module& m_;
  Diagnostics& diags_;
  int64_t limit_, copies_ = 0;
  Level level_;
  MeshId mesh_;
  ValueMap map_;
  std::unordered_map<std::string, bool> names_;
};

} // namespace

// Option `limit`: loops with more iterations are kept. So are loops whose copies would exceed 65,536 ops.
bool unrollPass(Module& m, const PassOptions& options, Diagnostics& diags) {
  const int64_t limit = options.integer("limit").value_or(8);
  for (FuncId f : m.order)
    if (levelOf(m, f) < Level::Split) Unroller(m, f, limit, diags).run(m[f].body);
  return !diags.hasErrors();
}

} // namespace dtc
