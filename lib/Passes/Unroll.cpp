#include "dtc/Passes/Unroll.h"
#include "PassLimit.h"
#include "dtc/IR/Builder.h"
#include "dtc/Passes/Clone.h"

namespace dtc {

namespace {

constexpr int64_t kMaxCopies = 1 << 16; // ops that the loops of one function may become

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
  // Outer loops first: the bounds of inner ones may become numbers.
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
      if (m_[v].kind == ValueKind::Symbol) return false; // a start that no constant can say
    const int64_t trips = std::max<int64_t>(bound(o, 1) - bound(o, 0), 0);
    int64_t ops = 1;
    forEachOp(m_, m_.region(o), [&](OpId) { ++ops; });
    if (trips > limit_ || trips > (kMaxCopies - copies_) / ops) return false;
    copies_ += trips * ops;
    return true;
  }

  // A literal as a value that stands by itself; any other value as it is.
  ValueId valueOf(ValueId v, ShardingId sharding, Builder& b) {
    if (m_[v].kind != ValueKind::Literal) return v;
    const OpId made = b.op("constant", {}, {{"value", m_[v].literal}}, std::array{m_[v].type});
    if (level_ == Level::Propagated) m_[m_.result(made)].sharding = sharding;
    return m_.result(made);
  }

  // `v` under the sharding that is written on what carries it: a constraint in global text; later it has it already.
  ValueId constrain(ValueId v, ShardingId sharding, Builder& b) {
    if (level_ != Level::Global || !sharding.valid() || m_[v].sharding == sharding) return v;
    const OpId o = b.op("shard", std::array{v});
    m_[m_.result(o)].sharding = sharding;
    return m_.result(o);
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
      std::vector<ValueId> yields = trip(o, i, now, b);
      for (size_t k = 0; k < yields.size(); ++k) {
        const ShardingId sharding = k < carried ? writtenOn(o, k) : sliceSharding(m_.result(o, k));
        const ValueId v = valueOf(yields[k], sharding, b);
        if (k < carried)
          now[k] = constrain(v, sharding, b);
        else
          stacks[k - carried].push_back(v);
      }
    }
    for (size_t k = 0; k < carried; ++k) give(m_.result(o, k), now[k]);
    for (size_t k = 0; k < stacks.size(); ++k)
      give(m_.result(o, carried + k), stacked(m_.result(o, carried + k), stacks[k], b));
  }

  // One copy of the block, its own loops unrolled; gives what it yields.
  std::vector<ValueId> trip(OpId o, int64_t index, std::span<const ValueId> now, Builder& b) {
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

  // Where a place asks for an i32 the trip's index is a number. True where the constant is still used.
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

  // Of one trip's part of a stacked result.
  ShardingId sliceSharding(ValueId result) {
    if (!m_[result].sharding.valid()) return {};
    Sharding s = m_.shardings[m_[result].sharding];
    s.dims.erase(s.dims.begin());
    return m_.shardings.intern(std::move(s));
  }

  ValueId stacked(ValueId result, const std::vector<ValueId>& slices, Builder& b) {
    const ShardingId wanted = m_[result].sharding;
    ValueId v;
    if (slices.empty())
      v = b.constant(0, m_[result].type);
    else
      v = m_.result(b.op("stack", slices, {{"dim", b.integer(0)}}));
    m_[v].sharding = wanted;
    if (level_ != Level::Propagated || slices.empty() || !m_.shardings[wanted].dims[0].cut()) return v;
    Sharding whole = m_.shardings[wanted]; // what is stacked is uncut along its trips, then cut
    whole.dims[0].parts.clear();
    m_[v].sharding = m_.shardings.intern(std::move(whole));
    const OpId o = b.op("reshard", std::array{v});
    m_[m_.result(o)].sharding = wanted;
    return m_.result(o);
  }

  // `v` stands for the loop's result, and takes its name if it was made here.
  void give(ValueId result, ValueId v) {
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

bool unrollPass(Module& m, const PassOptions& options, Diagnostics& diags) {
  auto limit = limitOption(options, "unroll", 8, diags);
  if (!limit) return false;
  for (FuncId f : m.order)
    if (levelOf(m, f) != Level::Scheduled) Unroller(m, f, *limit, diags).run(m[f].body);
  return !diags.hasErrors();
}

PassInfo unrollInfo() {
  return {
      .name = "unroll",
      .summary = "replaces a `for` of few iterations by its block, once per iteration",
      .why =
          "Outside the standard pipeline, anywhere before fuse: a loop's kernels are compiled once, "
          "however often they run, and most loops should stay loops. It pays where the iterations differ: "
          "the "
          "index becomes a number, bounds of inner loops that depend on it too, and what the first iteration "
          "starts from can be seen. Bounds must be numbers; loops of more iterations than the limit, and "
          "those "
          "whose copies would pass 65,536 ops, stay.",
      .needs = Level::Global,
      .gives = Level::Global,
      .run = unrollPass,
      .before = R"(func @main(%x: f32[4], %ws: f32[2, 4]) -> (%y: f32[4], %ys: f32[2, 4]) {
  %y, %ys = for %i in 0..2 (%h = %x) {
    %w = index_select %ws, %i {dim = 0}
    %n = mul %h, %w
    yield %n, %n
  }
  return %y, %ys
}
)",
      .after = R"(func @main(%x: f32[4], %ws: f32[2, 4]) -> (%y: f32[4], %ys: f32[2, 4]) {
  %i0_w = index_select %ws, 0 {dim = 0} : f32[4]
  %i0_n = mul %x, %i0_w : f32[4]
  %i1_w = index_select %ws, 1 {dim = 0} : f32[4]
  %y = mul %i0_n, %i1_w : f32[4]
  %ys = stack %i0_n, %y {dim = 0} : f32[2, 4]
  return %y, %ys
}
)",
      .options = {{"limit", "8", "the most iterations of a loop that is unrolled"}},
      .standard = false};
}

} // namespace dtc
