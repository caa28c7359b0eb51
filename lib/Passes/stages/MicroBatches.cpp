// The loop over micro-batches, unrolled.
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Passes/analysis/Clone.h"
#include "stages/StagedFunction.h"

#include <algorithm>
#include <unordered_set>

namespace dtc {
namespace {

constexpr DiagKind kLoops{"pipeline-loop", "{0}"};

class MicroBatches {
public:
  MicroBatches(Module& m, FuncId f, StagedFunction& out, Diagnostics& diags)
      : m_(m), func_(f), out_(out), diags_(diags) {}

  bool run() {
    OpId loop;
    for (OpId o : m_[m_[func_].body].ops)
      if (isLoop(o)) {
        if (loop.valid())
          return diags_.fail(kLoops, m_[o].loc,
                             "a second loop contains ops with a stage: a pipeline has one loop over micro-batches");
        loop = o;
      }
    if (!loop.valid()) return withoutLoop();
    using enum StagedStep::Part;
    StagedStep::Part part = Before;
    for (OpId o : std::vector<OpId>(m_[m_[func_].body].ops)) {
      if (o == loop) {
        if (!unroll(o)) return false;
        part = After;
        continue;
      }
      for (ValueId& v : m_.operands(o)) v = map_(v);
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) replaceIn(m_.region(o, r));
      out_.steps.push_back({o, part});
    }
    for (ValueId v : m_[m_[func_].body].yields) out_.results.push_back(map_(v));
    return true;
  }

private:
  bool isLoop(OpId o) const {
    return m_.record(o).regions == RegionKind::For && stageMarkOf(m_, o).has_value() && *stageMarkOf(m_, o) < 0;
  }

  // Ops without a mark belong to the micro-batch if an op with a mark reads them, else they follow it.
  bool withoutLoop() {
    const std::vector<OpId>& ops = m_[m_[func_].body].ops;
    std::unordered_set<ValueId> read;
    std::vector<bool> inside(ops.size(), false);
    for (size_t i = ops.size(); i-- > 0;) {
      inside[i] = stageMarkOf(m_, ops[i]).has_value();
      for (uint32_t r = 0; r < m_[ops[i]].numResults; ++r)
        inside[i] = inside[i] || read.contains(m_.result(ops[i], r));
      if (inside[i]) forEachRead(m_, ops[i], [&](ValueId v) { read.insert(v); });
    }
    for (size_t i = 0; i < ops.size(); ++i)
      out_.steps.push_back({ops[i], inside[i] ? StagedStep::Part::Inside : StagedStep::Part::After});
    out_.results = m_[m_[func_].body].yields;
    return true;
  }

  void replaceIn(BlockId b) {
    for (ValueId& v : m_[b].yields) v = map_(v);
    for (OpId o : m_[b].ops) {
      for (ValueId& v : m_.operands(o)) v = map_(v);
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) replaceIn(m_.region(o, r));
    }
  }

  bool unroll(OpId o) {
    for (size_t i = 0; i < 2; ++i)
      if (m_[m_.operand(o, i)].kind != ValueKind::Literal)
        return diags_.fail(kLoops, m_[o].loc, "the number of micro-batches is not a constant");
    const int64_t begin = m_.attrs[m_[m_.operand(o, 0)].literal].i;
    const int64_t end = m_.attrs[m_[m_.operand(o, 1)].literal].i;
    if (end <= begin || end - begin > kMostMicroBatches)
      return diags_.fail(kLoops, m_[o].loc,
                         "a pipeline has 1 to " + std::to_string(kMostMicroBatches) + " micro-batches, not " +
                             std::to_string(end - begin));
    out_.microbatches = static_cast<int>(end - begin);
    const size_t carried = m_[m_.region(o)].args.size() - 1;
    std::vector<ValueId> now;
    for (size_t i = 0; i < carried; ++i) now.push_back(map_(m_.operand(o, i + 2)));
    std::vector<std::vector<ValueId>> stacks(m_[o].numResults - carried);
    for (int64_t i = begin; i < end; ++i) {
      const std::vector<ValueId> yields = iteration(o, i, i - begin, now);
      for (size_t k = 0; k < yields.size(); ++k)
        k < carried ? void(now[k] = yields[k]) : stacks[k - carried].push_back(yields[k]);
    }
    for (size_t k = 0; k < carried; ++k) map_.set(m_.result(o, k), now[k]);
    std::vector<OpId> after;
    Builder b(m_, m_[func_].body, after, diags_);
    b.loc = m_[o].loc;
    for (size_t k = 0; k < stacks.size(); ++k)
      map_.set(m_.result(o, carried + k), ops::stack(b, stacks[k], 0));
    for (OpId made : after) out_.steps.push_back({made, StagedStep::Part::After});
    return true;
  }

  std::vector<ValueId> iteration(OpId o, int64_t index, int64_t microbatch, std::span<const ValueId> now) {
    const BlockId body = m_.region(o);
    const ValueId i = m_[body].args[0];
    std::vector<OpId> list;
    Builder b(m_, m_[func_].body, list, diags_);
    b.loc = m_[o].loc;
    ValueMap map;
    map.set(i, ops::constant(b, m_[i].type, m_.attrs.integer(index)));
    for (size_t k = 0; k < now.size(); ++k) map.set(m_[body].args[k + 1], now[k]);
    cloneOps(m_, body, b.parent, list, map, CloneNames());
    for (OpId made : list) {
      for (ValueId& v : m_.operands(made)) v = map_(v);
      out_.steps.push_back({made, StagedStep::Part::Inside, static_cast<int>(microbatch)});
    }
    std::vector<ValueId> yields;
    for (ValueId v : m_[body].yields) yields.push_back(map(v));
    return yields;
  }

  static constexpr int64_t kMostMicroBatches = 4096;
  Module& m_;
  FuncId func_;
  StagedFunction& out_;
  Diagnostics& diags_;
  ValueMap map_; // of the loop's results
};

} // namespace

std::optional<int64_t> stageMarkOf(const Module& m, OpId o) {
  const StrId key = m.strings.find("stage");
  if (!key.valid()) return std::nullopt;
  if (const AttrId mark = findAttr(m[o].attrs, key); mark.valid()) return m.attrs[mark].i;
  std::optional<int64_t> all;
  for (uint32_t r = 0; r < m[o].numRegions; ++r)
    forEachOp(m, m.region(o, r), [&](OpId inner) {
      if (const AttrId mark = findAttr(m[inner].attrs, key); mark.valid())
        all = !all || *all == m.attrs[mark].i ? m.attrs[mark].i : -1;
    });
  return all;
}

int64_t numStageMarks(const Module& m, FuncId f) {
  const StrId key = m.strings.find("stage");
  int64_t count = 0;
  if (key.valid())
    forEachOp(m, m[f].body, [&](OpId o) {
      if (const AttrId mark = findAttr(m[o].attrs, key); mark.valid())
        count = std::max(count, m.attrs[mark].i + 1);
    });
  return count;
}

bool unrollMicroBatches(Module& m, FuncId f, StagedFunction& out, Diagnostics& diags) {
  return MicroBatches(m, f, out, diags).run();
}

} // namespace dtc
