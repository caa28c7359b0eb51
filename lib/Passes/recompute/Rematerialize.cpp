#include "recompute/Rematerialize.h"
#include "analysis/StageMarks.h"
#include "analysis/Within.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/Phase.h"
#include <algorithm>

namespace dtc {

OpStages::OpStages(const Module& m, BlockId block, const Mesh& mesh) {
  if (!m.strings.find("stage").valid()) return;
  for (OpId o : m[block].ops) {
    int64_t most = -1;
    int stage = static_cast<int>(stageMarkOf(m, o).value_or(kNone));
    if (stage == kNone)
      for (ValueId v : m.operands(o)) {
        const OpId from = m.definingOp(v);
        const int its = from.valid() ? (*this)(from) : kNone;
        const int64_t bytes = its == kNone ? -1 : largestBytes(m, m[v].type, mesh).value_or(0);
        if (bytes > most || (bytes == most && its > stage)) most = bytes, stage = its;
      }
    of_.emplace(o, stage);
  }
}

ValueId Again::value(ValueId v, std::vector<OpId>& out, int stage) {
  const OpId wanted = m_.definingOp(v);
  if (!wanted.valid() || !cut_.isAgain(wanted)) return given_(v);
  auto& [copies, done] = stagesDone_.try_emplace(stage, Stage{given_, {}}).first->second;
  std::vector<OpId> open = {wanted};
  while (!open.empty()) { // iteratively: a chain of ops may be long
    const OpId o = open.back();
    const size_t before = open.size();
    for (ValueId x : m_.operands(o))
      if (const OpId from = m_.definingOp(x); from.valid() && cut_.isAgain(from) && !done.contains(from))
        open.push_back(from);
    if (open.size() != before) continue;
    open.pop_back();
    if (!done.insert(o).second) continue;
    ++made_;
    const std::vector<ValueId> operands(m_.operands(o).begin(), m_.operands(o).end());
    const OpId made = m_.makeOp(m_[o].kind, operands, m_[o].numResults, m_[o].attrs, 0, m_[o].loc);
    for (ValueId& x : m_.operands(made)) x = copies(x);
    m_[made].parent = parent_;
    if (stage != OpStages::kNone && stages_ && (*stages_)(o) != stage)
      m_.setAttr(made, "stage", m_.attrs.integer(stage));
    markRecomputed(m_, made, {});
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      m_[m_.result(made, r)].type = m_[m_.result(o, r)].type;
      m_[m_.result(made, r)].sharding = m_[m_.result(o, r)].sharding;
      m_[m_.result(made, r)].name = m_[m_.result(o, r)].name; // for reports: the text numbers the later one
      copies.set(m_.result(o, r), m_.result(made, r));
    }
    out.push_back(made);
  }
  return copies(v);
}

void removeUnread(Module& m, BlockId block) {
  std::unordered_set<ValueId> read(m[block].yields.begin(), m[block].yields.end());
  std::vector<OpId> kept;
  for (size_t i = m[block].ops.size(); i-- > 0;) {
    const OpId o = m[block].ops[i];
    bool needed = m.record(o).sideEffect || m[o].numRegions != 0 || m[o].numResults == 0;
    for (uint32_t r = 0; r < m[o].numResults; ++r) needed |= read.contains(m.result(o, r));
    if (!needed) continue;
    forEachRead(m, o, [&](ValueId v) { read.insert(v); });
    kept.push_back(o);
  }
  m[block].ops.assign(kept.rbegin(), kept.rend());
}

namespace {

// A block whose ops are a forward part and a backward part. Text does not say where one ends. The depth of an op
// (the number of ops on the longest path to it) orders ops as if each ran as early as possible: values of the
// forward part live from their depth to that of the op's gradient, so that the most bytes are live at the loss.
// An op of the gradient that reads the forward part alone (a mask, a sigmoid) has a small depth, too, and may be
// computed early, or again.
class BlockSplit {
public:
  BlockSplit(Module& m, BlockId block, const Mesh& mesh) : m_(m), block_(block), mesh_(mesh) {}

  [[nodiscard]] bool find() {
    findDepths();
    const uint32_t peak = peakDepth();
    const std::unordered_set<OpId> marked = markedBackward();
    first_ = m_[block_].ops.size();
    for (size_t i = 0; i < m_[block_].ops.size(); ++i) {
      const OpId o = m_[block_].ops[i];
      if (marked.empty() ? depth_.at(o) <= peak : !marked.contains(o))
        forward.push_back(o);
      else
        first_ = std::min(first_, i);
    }
    return !forward.empty() && first_ < m_[block_].ops.size();
  }
  [[nodiscard]] bool isForward(OpId o) const { return isForward_.contains(o); }

  // Instead of order(): ops behind the first op of the backward part belong to it.
  void keepOrder() {
    const auto& ops = m_[block_].ops;
    isForward_.insert(forward.begin(), forward.end());
    for (size_t i = first_; i < ops.size(); ++i) isForward_.erase(ops[i]);
    std::erase_if(forward, [&](OpId o) { return !isForward(o); });
  }

  // Moves ops behind the first op of the backward part to right after their operands: those of the forward part
  // so that their results, not their operands, are kept; those far behind their operands, such as the updates of
  // weights at the end of the program, so that the operands, and what a kernel computes them from, do not wait.
  void order() {
    dropRepeated();
    isForward_.insert(forward.begin(), forward.end());
    std::unordered_map<ValueId, size_t> at;
    std::vector<std::pair<size_t, size_t>> order; // the new position, the old one
    const std::vector<OpId> ops = m_[block_].ops;
    for (size_t i = 0; i < ops.size(); ++i) {
      const OpId o = ops[i];
      size_t position = i;
      if (i >= first_ && !m_.record(o).sideEffect) {
        std::optional<size_t> made; // its last operand
        forEachRead(m_, o, [&](ValueId v) {
          if (const auto it = at.find(v); it != at.end()) made = std::max(made.value_or(0), it->second);
        });
        if (made && (isForward(o) || (*made >= first_ && i - *made > kFar))) position = *made;
      }
      for (uint32_t r = 0; r < m_[o].numResults; ++r) at[m_.result(o, r)] = position;
      order.emplace_back(position, i);
    }
    std::ranges::sort(order);
    for (size_t i = 0; i < order.size(); ++i) m_[block_].ops[i] = ops[order[i].second];
  }

  std::vector<OpId> forward;

private:
  static constexpr size_t kFar = 16; // ops

  // Ops of the backward part that compute again what the forward part computes come from `recompute` blocks: the
  // depth of such an op is that of its first computation, but the text says to compute it late. Equal ops have been
  // merged before blocks were inlined.
  void dropRepeated() {
    using Key = std::vector<uint32_t>;
    std::map<Key, OpId> first;
    std::unordered_map<ValueId, ValueId> same; // of the first computation
    std::unordered_set<OpId> repeated;
    const auto& ops = m_[block_].ops;
    for (size_t i = 0; i < ops.size(); ++i) {
      const OpId o = ops[i];
      if (m_[o].numRegions != 0 || m_.record(o).sideEffect || m_[o].numResults == 0) continue;
      Key key = {m_[o].kind, m_[m_.result(o)].type.index};
      for (ValueId v : m_.operands(o)) {
        const auto it = same.find(v);
        const bool literal = m_[v].kind == ValueKind::Literal; // equal ones are different values
        key.push_back(literal ? m_[v].literal.index : it == same.end() ? v.index : it->second.index);
        key.push_back(literal ? m_[v].type.index : ~0u);
      }
      for (const NamedAttr& a : withoutOrigin(m_, m_[o].attrs)) {
        key.push_back(a.name.index);
        key.push_back(a.value.index);
      }
      const auto [at, isNew] = first.try_emplace(std::move(key), o);
      if (isNew) continue;
      for (uint32_t r = 0; r < m_[o].numResults; ++r) same[m_.result(o, r)] = m_.result(at->second, r);
      if (i >= first_) repeated.insert(o);
    }
    std::erase_if(forward, [&](OpId o) { return repeated.contains(o); });
  }

  // In the stages of a pipeline, the text says where the forward part ends: `phase = "backward"` on ops of gradients.
  // Others that read their results belong to the backward part, too.
  std::unordered_set<OpId> markedBackward() {
    const StrId key = m_.strings.find("phase");
    std::unordered_set<OpId> marked;
    std::unordered_set<ValueId> results;
    for (OpId o : m_[block_].ops) {
      const AttrId phase = key.valid() ? findAttr(m_[o].attrs, key) : AttrId();
      bool backward = phase.valid() && m_.strings[m_.attrs[phase].text] == phaseWord(PipelinePhase::Backward);
      forEachRead(m_, o, [&](ValueId v) { backward = backward || results.contains(v); });
      if (!backward) continue;
      marked.insert(o);
      for (uint32_t r = 0; r < m_[o].numResults; ++r) results.insert(m_.result(o, r));
    }
    return marked;
  }

  void findDepths() {
    std::unordered_map<ValueId, uint32_t> of;
    for (OpId o : m_[block_].ops) {
      uint32_t depth = 0;
      forEachRead(m_, o, [&](ValueId v) {
        if (const auto it = of.find(v); it != of.end()) {
          depth = std::max(depth, it->second + 1);
          last_[v]; // made below
        }
      });
      depth_[o] = depth;
      for (uint32_t r = 0; r < m_[o].numResults; ++r) of[m_.result(o, r)] = depth;
      forEachRead(m_, o, [&](ValueId v) {
        if (of.contains(v)) last_[v] = std::max(last_[v], depth);
      });
    }
  }

  [[nodiscard]] uint32_t peakDepth() const {
    std::vector<int64_t> change(m_[block_].ops.size() + 2);
    for (const auto& [v, last] : last_) {
      const int64_t bytes = largestBytes(m_, m_[v].type, mesh_).value_or(0);
      change[depth_.at(m_.definingOp(v))] += bytes;
      change[last] -= bytes;
    }
    int64_t live = 0, most = 0;
    uint32_t at = 0;
    for (uint32_t d = 0; d < change.size(); ++d)
      if (live += change[d]; live > most) most = live, at = d;
    return at;
  }

  Module& m_;
  BlockId block_;
  const Mesh& mesh_;
  std::unordered_map<OpId, uint32_t> depth_;
  std::unordered_map<ValueId, uint32_t> last_; // the depth of the last reader
  std::unordered_set<OpId> isForward_;
  size_t first_ = 0; // position of the first op of the backward part
};

} // namespace

void rematerializeBlock(Module& m, BlockId block, const Mesh& mesh, const RecomputePrices& prices,
                        Rematerialized& done) {
  BlockSplit split(m, block, mesh);
  if (!split.find()) return;
  const std::vector<OpId> before = m[block].ops;
  // Moving an op shortens the life of its operands, which only matters if arithmetic is repeated.
  prices.scope == RecomputeScope::Gathers ? split.keepOrder() : split.order();
  RecomputeCut cut(m, mesh, split.forward, {});
  for (ValueId v : m[block].yields) cut.setFree(v);
  std::vector<ValueId> needed;
  for (OpId o : m[block].ops)
    if (!split.isForward(o)) forEachRead(m, o, [&](ValueId v) { needed.push_back(v); });
  cut.solve(needed, prices);
  if (!cut.isUseful(prices)) { // ops stay in the order of the text
    m[block].ops = before;
    return;
  }
  const OpStages stages(m, block, mesh);
  Again again(m, block, cut, {}, &stages);
  std::vector<OpId> out;
  for (OpId o : std::vector<OpId>(m[block].ops)) {
    if (!split.isForward(o)) {
      std::vector<ValueId> read;
      forEachRead(m, o, [&](ValueId v) { read.push_back(v); });
      for (ValueId& v : read) v = again.value(v, out, stages(o));
      size_t next = 0;
      forEachRead(m, o, [&](ValueId& v) { v = read[next++]; });
    }
    out.push_back(o);
  }
  m[block].ops = std::move(out);
  removeUnread(m, block);
  done.ops += again.count();
  for (ValueId v : cut.kept()) done.keptBytes += largestBytes(m, m[v].type, mesh).value_or(0);
}

} // namespace dtc
