#include "import/CountedLoops.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Passes/analysis/Clone.h"
#include "dtc/Support/Checked.h"
#include "import/LoopCount.h"
#include "import/LoopValues.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_set>

namespace dtc {

namespace {

constexpr int kMaxInlineDepth = 8;
constexpr size_t kMaxInlinedOps = 1u << 16, kSmallFunction = 16; // ops

class LoopCounter {
public:
  LoopCounter(Module& m, Diagnostics& diags)
      : m_(m), diags_(diags), ranges_(m), for_(m.registry->find(RegionKind::For)) {
    for (FuncId f : m.order)
      forEachOp(m, m[f].body, [&](OpId o) {
        if (m_.record(o).isCall) ++calls_[m_[o].callee];
      });
  }

  void run(FuncId f) { block(m_[f].body, false); }

private:
  // --- the walk: outer loops first, so that inner loops see which values are invariant ---

  void block(BlockId b, bool counted) {
    std::vector<OpId> out;
    for (OpId o : std::vector<OpId>(m_[b].ops)) visit(o, b, counted, out);
    m_[b].ops = std::move(out);
    for (ValueId& v : m_[b].yields) v = map_(v);
  }

  void visit(OpId o, BlockId b, bool counted, std::vector<OpId>& out) {
    for (ValueId& v : m_.operands(o)) v = map_(v);
    if (m_.record(o).regions == RegionKind::For) ranges_.addIndex(o);
    if (m_.record(o).regions == RegionKind::While) {
      substitute(m_, m_.region(o, 0), map_);
      auto count = countOf(m_, ranges_, o);
      if (count && !count->onlyBound) return loop(o, *count, b, out);
      if (count && !m_.attr(o, "max_trips").valid())
        m_.setAttr(o, "max_trips", m_.attrs.integer(std::max<int64_t>(*count->iterations, 1)));
    }
    for (uint32_t k = 0; k < m_[o].numRegions; ++k) block(m_.region(o, k), counted);
    if (counted && (selectRow(o, b, out) || takeOperand(o))) return;
    out.push_back(o);
  }

  // --- one loop ---

  struct Carried {
    enum Kind : uint8_t { Kept, Unchanged, Counter, Stacked } kind = Kept;
    int64_t start = 0, step = 0; // Counter
    StackedRows rows;            // Stacked
    ValueId argument;            // Kept: of the new block
  };

  void loop(OpId old, const LoopCount& count, BlockId b, std::vector<OpId>& out) {
    const BlockId body = m_.region(old, 1);
    inlineCalls(body, 0);
    const OpId made = m_.makeOp(for_, {}, 0, m_[old].attrs, 1, m_[old].loc);
    m_[made].parent = b;
    const BlockId to = m_.region(made);
    m_[to].parentOp = made;
    m_[to].parentFunc = m_[b].parentFunc;
    m_[to].terminatorLoc = m_[body].terminatorLoc;
    std::vector<Carried> carried = classify(old, count);
    const ValueUses uses(m_, body);
    // The index follows the counter that is read most, if that counts up by one from a non-negative start.
    const int64_t first = firstIndex(body, uses, count, carried);
    const ValueId index = m_.makeBlockArg(to, m_.tensorType(DType::I32, std::initializer_list<int64_t>{}),
                                          m_.strings.intern("i"));
    if (count.iterations && *count.iterations > 0)
      ranges_.set(index, {first, first + *count.iterations - 1, index, 1, 0});
    for (size_t k = 0; k < carried.size(); ++k)
      if (carried[k].kind == Carried::Counter && count.iterations)
        knowCounter(m_[body].args[k], carried[k], index, first, *count.iterations);
    if (count.iterations)
      for (size_t k = 0; k < carried.size(); ++k)
        if (carried[k].kind == Carried::Kept)
          if (auto rows = stackedRows(m_, ranges_, uses, body, k, {index, first, *count.iterations})) {
            carried[k].kind = Carried::Stacked;
            carried[k].rows = *rows;
          }
    std::vector<OpId> head;
    std::vector<ValueId> operands = bounds(old, count, first);
    enterBody(old, count, carried, index, first, head, operands);
    moveBody(old, made, carried, std::move(head));
    m_.setOperands(made, operands);
    replaceResults(old, made, count, carried, out);
    block(to, true);
    loops_.push_back(made);
    for (ValueId v : m_.operands(old)) starts_.push_back(v);
  }

  std::vector<Carried> classify(OpId old, const LoopCount& count) {
    const BlockId body = m_.region(old, 1);
    std::vector<Carried> out(m_[body].args.size());
    for (size_t k = 0; k < out.size(); ++k) {
      const ValueId arg = m_[body].args[k];
      const bool constrained = m_[arg].sharding.valid() || m_[m_.result(old, k)].sharding.valid();
      if (m_[body].yields[k] == arg && !constrained) out[k].kind = Carried::Unchanged;
      auto step = stepOf(m_, ranges_, old, k);
      auto start = ranges_.number(m_.operand(old, k));
      const bool counts =
          step && start && count.iterations && staysWithin(arg, *start, *step, *count.iterations);
      if (!counts && !(k == count.counter && !count.iterations)) continue;
      out[k].kind = Carried::Counter;
      out[k].start = start.value_or(0);
      out[k].step = *step;
    }
    return out;
  }

  // True if a counter reaches all its values, and the one after the last iteration, without overflow.
  [[nodiscard]] bool staysWithin(ValueId arg, int64_t start, int64_t step, int64_t iterations) const {
    constexpr int64_t limit = int64_t(1) << 31; // so that no multiplication here overflows
    const IndexRange all = rangeOf(m_.typeOf(arg).dtype);
    if (step <= -limit || step >= limit) return false;
    const auto last = checkedAdd(start, step * iterations);
    return last && *last >= all.lo && *last <= all.hi;
  }

  int64_t firstIndex(BlockId body, const ValueUses& uses, const LoopCount& count,
                     const std::vector<Carried>& carried) {
    if (!count.iterations) return 0; // the counter's own start
    int64_t first = 0;
    uint32_t maxUses = 0;
    for (size_t k = 0; k < carried.size(); ++k) {
      const Carried& c = carried[k];
      if (c.kind != Carried::Counter || c.step != 1 || c.start < 0 || c.start > INT32_MAX - *count.iterations)
        continue;
      if (uses[m_[body].args[k]] <= maxUses) continue;
      maxUses = uses[m_[body].args[k]];
      first = c.start;
    }
    return first;
  }

  // A counter as a function of the index.
  void knowCounter(ValueId arg, const Carried& c, ValueId index, int64_t first, int64_t iterations) {
    const int64_t last = c.start + c.step * std::max<int64_t>(iterations - 1, 0);
    const auto offset = checkedSub(c.start, c.step * first);
    if (offset) ranges_.set(arg, {std::min(c.start, last), std::max(c.start, last), index, c.step, *offset});
  }

  std::vector<ValueId> bounds(OpId old, const LoopCount& count, int64_t first) {
    auto number = [&](int64_t v) { return m_.makeLiteral(m_.attrs.integer(v), DType::I32, m_[old].loc); };
    if (count.iterations) return {number(first), number(first + *count.iterations)};
    const ValueId start = m_.operand(old, count.counter);
    auto known = ranges_.number(start);
    return {known ? number(*known) : start, count.limit};
  }

  // The arguments of the new block, and the replacements of the old ones.
  void enterBody(OpId old, const LoopCount& count, std::vector<Carried>& carried, ValueId index,
                 int64_t first, std::vector<OpId>& head, std::vector<ValueId>& operands) {
    const BlockId body = m_.region(old, 1), to = BlockId(m_[index].owner);
    Builder b(m_, to, head, diags_);
    b.loc = m_[old].loc;
    ValueMap map;
    for (size_t k = 0; k < carried.size(); ++k) {
      Carried& c = carried[k];
      const ValueId arg = m_[body].args[k];
      switch (c.kind) {
      case Carried::Unchanged: map.set(arg, m_.operand(old, k)); break;
      case Carried::Stacked: break;
      case Carried::Counter:
        map.set(arg, count.iterations ? counterFrom(b, c, index, first, m_.typeOf(arg).dtype) : index);
        break;
      case Carried::Kept:
        c.argument = m_.makeBlockArg(to, m_[arg].type, m_[arg].name);
        m_[c.argument].loc = m_[arg].loc;
        m_[c.argument].sharding = m_[arg].sharding;
        map.set(arg, c.argument);
        operands.push_back(m_.operand(old, k));
      }
    }
    substitute(m_, body, map);
  }

  // step * (index - first) + start. Signed counters of up to 32 bits are computed in the index's dtype,
  // others in their own: either way no intermediate value wraps around.
  ValueId counterFrom(Builder& b, const Carried& c, ValueId index, int64_t first, DType dtype) {
    const DType in = isSignedInt(dtype) && dtypeBytes(dtype) <= 4 ? DType::I32 : dtype;
    Expr v(b, index);
    if (c.step == 1 && c.start == first) return v.as(dtype);
    if (first != 0) v = v - first;
    v = v.as(in);
    if (std::abs(c.step) != 1) v = v * std::abs(c.step);
    if (c.step < 0)
      v = c.start - v;
    else if (c.start != 0)
      v = v + c.start;
    return v.as(dtype);
  }

  void moveBody(OpId old, OpId made, const std::vector<Carried>& carried, std::vector<OpId> head) {
    const BlockId body = m_.region(old, 1), to = m_.region(made);
    Builder b(m_, to, head, diags_);
    b.loc = m_[old].loc;
    for (OpId o : std::vector<OpId>(m_[body].ops)) {
      m_[o].parent = to;
      const bool stacks = std::ranges::any_of(
          carried, [&](const Carried& c) { return c.kind == Carried::Stacked && c.rows.write == o; });
      if (!stacks) head.push_back(o);
    }
    std::vector<ValueId> yields;
    for (size_t k = 0; k < carried.size(); ++k)
      if (carried[k].kind == Carried::Kept) yields.push_back(m_[body].yields[k]);
    for (const Carried& c : carried)
      if (c.kind == Carried::Stacked) yields.push_back(rowOf(m_, b, c.rows));
    m_[to].ops = std::move(head);
    m_[to].yields = std::move(yields);
    m_[body].ops.clear();
  }

  void replaceResults(OpId old, OpId made, const LoopCount& count, const std::vector<Carried>& carried,
                      std::vector<OpId>& out) {
    std::vector<size_t> order;
    for (auto kind : {Carried::Kept, Carried::Stacked})
      for (size_t k = 0; k < carried.size(); ++k)
        if (carried[k].kind == kind) order.push_back(k);
    m_[made].firstResult = ValueId(static_cast<uint32_t>(m_.values.size()));
    m_[made].numResults = static_cast<uint32_t>(order.size());
    for (uint32_t i = 0; i < order.size(); ++i) {
      Value v = m_[m_.result(old, order[i])];
      v.owner = made.index;
      v.position = i;
      m_.values.push_back(v);
    }
    out.push_back(made);
    Builder b(m_, m_[made].parent, out, diags_);
    b.loc = m_[old].loc;
    for (uint32_t i = 0; i < order.size(); ++i)
      map_.set(m_.result(old, order[i]), unflipped(b, m_.result(made, i), carried[order[i]]));
    for (size_t k = 0; k < carried.size(); ++k) {
      const ValueId result = m_.result(old, k);
      if (carried[k].kind == Carried::Unchanged) map_.set(result, m_.operand(old, k));
      if (carried[k].kind == Carried::Counter) map_.set(result, lastOf(b, old, k, count, carried[k]));
    }
  }

  // Reverses rows that were written from the last to the first.
  ValueId unflipped(Builder& b, ValueId result, const Carried& c) {
    if (c.kind != Carried::Stacked || !c.rows.backwards) return result;
    const ValueId out = flip(Expr(b, result), {0});
    m_[out].name = m_[result].name;
    m_[out].sharding = m_[result].sharding;
    m_[result].name = {};
    return out;
  }

  // The value of a counter after the loop.
  ValueId lastOf(Builder& b, OpId old, size_t k, const LoopCount& count, const Carried& c) {
    const ValueId result = m_.result(old, k), start = m_.operand(old, k);
    if (!count.iterations) return named(max(Expr(b, count.limit), start), result);
    const int64_t last = c.start + c.step * *count.iterations;
    return named(ops::constant(b, m_[result].type, b.integer(last)), result);
  }

  ValueId named(ValueId v, ValueId as) {
    m_[v].name = m_[as].name;
    starts_.push_back(v); // rarely read
    return v;
  }

  // --- functions that index by the counter ---

  [[nodiscard]] bool isInlined(FuncId callee, int depth) {
    if (!callee.valid() || !m_[callee].body.valid() || m_[callee].spmd || depth >= kMaxInlineDepth)
      return false;
    const Function& f = m_[callee];
    bool constrained = false, slices = false, counted = false;
    for (const FuncArg& a : f.args) {
      constrained = constrained || m_[a.value].sharding.valid();
      counted = counted || (isInteger(m_.typeOf(a.value).dtype) && m_.typeOf(a.value).dims.empty());
    }
    for (const FuncResult& r : f.results) constrained = constrained || r.sharding.valid();
    size_t ops = 0;
    forEachOp(m_, f.body, [&](OpId o) {
      ++ops;
      slices = slices || std::string_view(m_.record(o).name).starts_with("dynamic_");
    });
    const bool small = ops <= kSmallFunction && slices;
    if (constrained || !counted || (!small && calls_[f.name] != 1)) return false;
    return (inlined_ += ops) <= kMaxInlinedOps;
  }

  void inlineCalls(BlockId b, int depth) {
    std::vector<OpId> out;
    ValueMap map;
    bool any = false;
    for (OpId o : std::vector<OpId>(m_[b].ops)) {
      for (ValueId& v : m_.operands(o)) v = map(v);
      const FuncId callee = m_.record(o).isCall ? m_.findFunction(m_.strings[m_[o].callee]) : FuncId();
      if (!callee.valid() || !isInlined(callee, depth)) {
        out.push_back(o);
        continue;
      }
      any = true;
      ValueMap inner;
      for (size_t i = 0; i < m_[callee].args.size(); ++i)
        inner.set(m_[callee].args[i].value, m_.operand(o, i));
      cloneOps(m_, m_[callee].body, b, out, inner, {});
      for (uint32_t r = 0; r < m_[o].numResults; ++r) {
        const ValueId v = inner(m_[m_[callee].body].yields[r]), result = m_.result(o, r);
        if (m_[v].kind == ValueKind::OpResult && !m_[v].name.valid()) m_[v].name = m_[result].name;
        map.set(result, v);
      }
    }
    m_[b].ops = std::move(out);
    if (!any) return;
    substitute(m_, b, map);
    inlineCalls(b, depth + 1);
  }

  // --- slices of one row ---

  // A reshape that drops the sliced dim of a dynamic_slice of one row: an index_select where the index is in
  // bounds.
  bool selectRow(OpId o, BlockId b, std::vector<OpId>& out) {
    auto row = rowSlice(m_, ranges_, o);
    if (!row) return false;
    Builder builder(m_, b, out, diags_);
    builder.loc = m_[o].loc;
    builder.common = m_[o].attrs;
    std::erase_if(builder.common, [&](const NamedAttr& a) { return m_.strings[a.name] == "shape"; });
    const ValueId v = index_select(Expr(builder, row->source), row->index, {.dim = row->dim});
    m_[v].name = m_[m_.result(o)].name;
    m_[v].sharding = m_[m_.result(o)].sharding;
    map_.set(m_.result(o), v);
    return true;
  }

  // Removes the wrap-around of negative indices where the index is known to be non-negative.
  bool takeOperand(OpId o) {
    if (m_.record(o).name != std::string_view("select") || m_[m_.result(o)].sharding.valid()) return false;
    const size_t which = ranges_.taken(o);
    if (which == 0 || m_[m_.operand(o, which)].type != m_[m_.result(o)].type) return false;
    map_.set(m_.result(o), m_.operand(o, which));
    starts_.push_back(m_.operand(o, 0));
    return true;
  }

public:
  // Removes ops that the rewriting leaves without users: in loops, and initial values outside of them.
  void clean() { dropDead(m_, loops_, starts_); }

private:
  Module& m_;
  Diagnostics& diags_;
  IndexRanges ranges_;
  OpKind for_;
  ValueMap map_;
  std::unordered_map<StrId, int> calls_; // in text order
  size_t inlined_ = 0;
  std::vector<OpId> loops_;
  std::vector<ValueId> starts_;
};

} // namespace

static std::unordered_set<StrId> called(const Module& m) {
  std::unordered_set<StrId> out;
  for (FuncId f : m.order)
    forEachOp(m, m[f].body, [&](OpId o) {
      if (m[o].callee.valid()) out.insert(m[o].callee);
    });
  return out;
}

void countLoops(Module& m, Diagnostics& diags) {
  const std::unordered_set<StrId> before = called(m);
  LoopCounter counter(m, diags);
  for (FuncId f : m.order) counter.run(f);
  counter.clean();
  for (bool any = true; any;) { // functions that are now inlined everywhere
    const std::unordered_set<StrId> after = called(m);
    any = std::erase_if(m.order, [&](FuncId f) {
            return before.contains(m[f].name) && !after.contains(m[f].name);
          }) > 0;
  }
}

} // namespace dtc
