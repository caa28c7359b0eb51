// The loop over micro-batches, unrolled.
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Passes/analysis/Clone.h"
#include "stages/StagedFunction.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

namespace dtc {
namespace {

constexpr DiagKind kLoops{"pipeline-loop", "{0}"};

class MicroBatches {
public:
  MicroBatches(Module& m, FuncId f, bool splitSums, StagedFunction& out, Diagnostics& diags)
      : m_(m), func_(f), splitSums_(splitSums), out_(out), diags_(diags) {}

  bool run() {
    OpId loop;
    for (OpId o : m_[m_[func_].body].ops)
      if (isLoop(o)) {
        if (loop.valid())
          return diags_.fail(
              kLoops, m_[o].loc,
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
    return m_.record(o).regions == RegionKind::For && stageMarkOf(m_, o).has_value() &&
           *stageMarkOf(m_, o) < 0;
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
    if (splitSums_) findSums(o, carried);
    for (int64_t i = begin; i < end; ++i) {
      const std::vector<ValueId> yields = iteration(o, i, i - begin, now);
      for (size_t k = 0; k < yields.size(); ++k)
        k < carried ? void(now[k] = yields[k]) : stacks[k - carried].push_back(yields[k]);
    }
    std::vector<OpId> after;
    Builder b(m_, m_[func_].body, after, diags_);
    b.loc = m_[o].loc;
    for (size_t k = 0; k < carried; ++k) {
      if (const auto sum = sums_.find(k); sum != sums_.end())
        for (const Part& part : sum->second.parts)
          if (part.sum.valid()) now[k] = Expr(b, now[k]) + part.sum;
      map_.set(m_.result(o, k), now[k]);
    }
    for (size_t k = 0; k < stacks.size(); ++k)
      map_.set(m_.result(o, carried + k), ops::stack(b, stacks[k], 0));
    for (OpId made : after) out_.steps.push_back({made, StagedStep::Part::After});
    return true;
  }

  // A sum over micro-batches whose terms several stages compute, such as the gradient of weights that the first and the
  // last stage use: each stage adds up its own terms, and the sums are added once, after the loop.
  struct Part {
    std::optional<int64_t> stage;
    std::vector<ValueId> terms; // of the loop's block
    ValueId sum;                // so far; invalid: the loop's own
  };
  struct Sum {
    OpId adds;                // the addition to the carried value
    std::vector<OpId> joined; // the additions of terms of different stages
    std::vector<Part> parts;  // the first one continues the loop's sum
  };

  bool isAddition(OpId o) const {
    return o.valid() && m_.record(o).combines == PendingKind::Sum && m_[o].numOperands == 2 &&
           m_[o].numRegions == 0 && m_[m_.operand(o, 0)].type == m_[m_.result(o)].type &&
           m_[m_.operand(o, 1)].type == m_[m_.result(o)].type;
  }

  void findSums(OpId loop, size_t carried) {
    const BlockId body = m_.region(loop);
    std::unordered_map<ValueId, int> uses;
    for (OpId o : m_[body].ops) forEachRead(m_, o, [&](ValueId v) { ++uses[v]; });
    for (ValueId v : m_[body].yields) ++uses[v];
    for (size_t k = 0; k < carried; ++k) {
      const ValueId arg = m_[body].args[k + 1], yield = m_[body].yields[k];
      const OpId adds = m_.definingOp(yield);
      if (!isAddition(adds) || m_[adds].parent != body || uses[yield] != 1 || uses[arg] != 1) continue;
      const bool first = m_.operand(adds, 0) == arg;
      if (!first && m_.operand(adds, 1) != arg) continue;
      Sum sum{adds, {}, {}};
      addTerms(m_.operand(adds, first ? 1 : 0), body, uses, sum);
      if (sum.parts.size() > 1) sums_.emplace(k, std::move(sum));
    }
  }

  void addTerms(ValueId v, BlockId body, std::unordered_map<ValueId, int>& uses, Sum& sum) const {
    const OpId made = m_.definingOp(v);
    if (made.valid() && m_[made].parent == body && uses[v] == 1 && isAddition(made)) {
      sum.joined.push_back(made);
      for (ValueId term : m_.operands(made)) addTerms(term, body, uses, sum);
      return;
    }
    const std::optional<int64_t> stage = made.valid() ? stageMarkOf(m_, made) : std::nullopt;
    const auto part = std::ranges::find(sum.parts, stage, &Part::stage);
    Part& own = part == sum.parts.end() ? sum.parts.emplace_back() : *part;
    own.stage = stage;
    own.terms.push_back(v);
  }

  // Adds the terms of one micro-batch; returns the first part's sum.
  ValueId addUp(Sum& sum, ValueId now, const ValueMap& map, Builder& b) {
    ValueId out;
    for (Part& part : sum.parts) {
      ValueId term = map(part.terms[0]);
      for (size_t i = 1; i < part.terms.size(); ++i) term = Expr(b, term) + map(part.terms[i]);
      ValueId& to = &part == &sum.parts[0] ? out : part.sum;
      const ValueId before = &part == &sum.parts[0] ? now : part.sum;
      to = before.valid() ? ValueId(Expr(b, before) + term) : term;
    }
    return out;
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
    std::unordered_set<OpId> split;
    for (const auto& [k, sum] : sums_)
      split.insert(sum.adds), split.insert(sum.joined.begin(), sum.joined.end());
    const std::vector<OpId> ops = m_[body].ops; // a copy: cloning grows the tables
    for (OpId op : ops)
      if (!split.contains(op)) {
        list.push_back(cloneOp(m_, op, b.parent, map, CloneNames()));
        nameAfter(op, list.back());
      }
    for (auto& [k, sum] : sums_) map.set(m_.result(sum.adds), addUp(sum, now[k], map, b));
    for (OpId made : list) {
      for (ValueId& v : m_.operands(made)) v = map_(v);
      out_.steps.push_back({made, StagedStep::Part::Inside, static_cast<int>(microbatch)});
    }
    std::vector<ValueId> yields;
    for (ValueId v : m_[body].yields) yields.push_back(map(v));
    return yields;
  }

  // A copy has the names of its results for reports; the text numbers all but the first one. Names that the function has
  // outside the loop are those values' alone.
  void nameAfter(OpId op, OpId copy) {
    for (uint32_t r = 0; r < m_[op].numResults; ++r)
      if (const StrId name = m_[m_.result(op, r)].name; name.valid() && !isOutside(name))
        m_[m_.result(copy, r)].name = name;
  }
  bool isOutside(StrId name) {
    if (outside_.empty()) {
      for (const FuncArg& a : m_[func_].args) outside_.insert(m_[a.value].name.index);
      for (OpId o : m_[m_[func_].body].ops)
        for (uint32_t r = 0; r < m_[o].numResults; ++r) outside_.insert(m_[m_.result(o, r)].name.index);
    }
    return outside_.contains(name.index);
  }

  static constexpr int64_t kMostMicroBatches = 4096;
  Module& m_;
  FuncId func_;
  bool splitSums_;
  StagedFunction& out_;
  Diagnostics& diags_;
  ValueMap map_;                         // of the loop's results
  std::map<size_t, Sum> sums_;           // by carried value
  std::unordered_set<uint32_t> outside_; // names
};

} // namespace

bool unrollMicroBatches(Module& m, FuncId f, bool splitSums, StagedFunction& out, Diagnostics& diags) {
  return MicroBatches(m, f, splitSums, out, diags).run();
}

} // namespace dtc
