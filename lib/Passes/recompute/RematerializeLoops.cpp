#include "dtc/IR/LocalShape.h"
#include "dtc/IR/Region.h"
#include "recompute/Rematerialize.h"
#include <algorithm>

namespace dtc {

namespace {

// A loop whose stacked results a later loop of as many iterations reads row by row.
class LoopPair {
public:
  LoopPair(Module& m, BlockId block, OpId forward, OpId backward, const Mesh& mesh)
      : m_(m), block_(block), forward_(forward), backward_(backward), body_(m.region(forward)),
        back_(m.region(backward)), numCarried_(m[forward].numOperands - 2), mesh_(mesh) {}

  // Whether a row of a stacked result is read by the backward loop, and all rows by the same index.
  [[nodiscard]] bool find() {
    const auto iterations = iterationCount(m_, forward_);
    if (!iterations || iterationCount(m_, backward_) != iterations || !startsAtZero()) return false;
    std::unordered_map<ValueId, uint32_t> resultOf;
    for (uint32_t k = numCarried_; k < m_[forward_].numResults; ++k) resultOf[m_.result(forward_, k)] = k;
    for (OpId o : m_[back_].ops)
      if (const auto it = m_[o].numOperands == 2 ? resultOf.find(m_.operand(o, 0)) : resultOf.end();
          it != resultOf.end() && isRow(o))
        rows_.emplace_back(o, it->second);
    return !rows_.empty() && isReversed(index_, *iterations);
  }

  void rewrite(const RecomputePrices& prices, Rematerialized& done) {
    const std::vector<ValueId> arguments(m_[body_].args.begin() + 1, m_[body_].args.end());
    RecomputeCut cut(m_, mesh_, m_[body_].ops, arguments);
    countReads();
    std::vector<ValueId> needed;
    for (uint32_t k = numCarried_; k < m_[body_].yields.size(); ++k)
      if (!isReplaced(k)) cut.setFree(m_[body_].yields[k]);
    for (const auto& [o, k] : rows_) needed.push_back(m_[body_].yields[k]);
    cut.solve(needed, prices);
    if (!cut.isUseful(prices)) return;
    ValueMap copies;
    std::vector<OpId> head;
    stack(cut, copies, head);
    const ValueId index = index_;
    copies.set(m_[body_].args[0], index);
    readAgain(cut, std::move(copies), std::move(head), done);
    for (ValueId v : cut.kept()) done.keptBytes += largestBytes(m_, m_[v].type, mesh_).value_or(0);
    removeUnread(m_, body_);
  }

private:
  [[nodiscard]] bool startsAtZero() const {
    const Value& lo = m_[m_.operand(forward_, 0)];
    const Value& from = m_[m_.operand(backward_, 0)];
    return lo.kind == ValueKind::Literal && m_.attrs[lo.literal].i == 0 && from.kind == ValueKind::Literal &&
           m_.attrs[from.literal].i == 0;
  }

  // Row `index` of a stack: the operand without its first dim, at a scalar that the op looks up.
  [[nodiscard]] bool isRow(OpId o) {
    const ValueId at = m_.operand(o, 1);
    const Type &from = m_.typeOf(m_.operand(o, 0)), &to = m_.typeOf(m_.result(o));
    if (m_.record(o).flopsPerPoint != 0 || m_.record(o).isCollective()) return false;
    if (from.rank() != to.rank() + 1 || !std::equal(to.dims.begin(), to.dims.end(), from.dims.begin() + 1))
      return false;
    if (m_.typeOf(at).rank() != 0 || isFloat(m_.typeOf(at).dtype)) return false;
    Diagnostics quiet;
    Rule rule;
    if (!ruleOf(queryOf(m_, o, quiet), rule) || rule.operands.empty() || rule.operands[0].dims.empty() ||
        rule.operands[0].dims[0].form != DimMap::Free)
      return false;
    if (!index_.valid()) index_ = at;
    return index_ == at;
  }

  // iterations - 1 - i, as autodiff writes it: in range, so that row j is what iteration j computed.
  [[nodiscard]] bool isReversed(ValueId index, Dim iterations) const {
    if (index == m_[back_].args[0]) return true;
    const OpId o = m_.definingOp(index);
    if (!o.valid() || m_[o].numOperands != 2 || !iterations.isStatic()) return false;
    const Value& last = m_[m_.operand(o, 0)];
    const char* scalar = m_.record(o).scalar;
    return scalar && std::string_view(scalar) == "a - b" && m_.operand(o, 1) == m_[back_].args[0] &&
           last.kind == ValueKind::Literal && m_.attrs[last.literal].i == iterations.value() - 1;
  }

  // Stacked results that are read elsewhere stay.
  void countReads() {
    const auto count = [&](ValueId v) {
      if (m_.definingOp(v) == forward_) ++reads_[m_[v].position];
    };
    for (OpId o : m_[block_].ops) forEachRead(m_, o, count);
    for (ValueId v : m_[block_].yields) count(v);
    for (const auto& [o, k] : rows_) --reads_[k];
  }
  [[nodiscard]] bool isReplaced(uint32_t k) { return reads_[k] == 0; }

  // The forward loop stacks the kept values, and no others that only the backward loop reads.
  void stack(const RecomputeCut& cut, ValueMap& copies, std::vector<OpId>& head) {
    std::vector<ValueId> yields(m_[body_].yields.begin(), m_[body_].yields.begin() + numCarried_);
    std::vector<TypeId> types;
    std::vector<uint32_t> old; // results that stay, by new position
    for (uint32_t k = 0; k < numCarried_; ++k) old.push_back(k);
    const std::unordered_set<ValueId> kept(cut.kept().begin(), cut.kept().end());
    std::unordered_map<ValueId, uint32_t> at; // of stacked values
    for (uint32_t k = numCarried_; k < m_[body_].yields.size(); ++k) {
      const ValueId v = m_[body_].yields[k];
      if (isReplaced(k) && (!kept.contains(v) || at.contains(v))) continue;
      at.emplace(v, static_cast<uint32_t>(yields.size()));
      yields.push_back(v), old.push_back(k);
    }
    for (uint32_t k : old) types.push_back(m_[m_.result(forward_, k)].type);
    const Dim iterations = *iterationCount(m_, forward_);
    for (ValueId v : cut.kept()) {
      if (!at.emplace(v, static_cast<uint32_t>(yields.size())).second) continue;
      Type t = m_.types[m_[v].type];
      t.dims.insert(t.dims.begin(), iterations);
      types.push_back(m_.types.intern(std::move(t)));
      yields.push_back(v);
    }
    m_[body_].yields = yields;
    replaceForward(types, old);
    for (ValueId v : cut.kept()) copies.set(v, row(v, at.at(v), head));
  }

  ValueId row(ValueId v, uint32_t k, std::vector<OpId>& head) {
    const OpId like = rows_.front().first;
    const OpId o = m_.makeOp(m_[like].kind, std::array{m_.result(forward_, k), index_}, 1, m_[like].attrs, 0,
                             m_[like].loc);
    m_[o].parent = back_;
    m_[m_.result(o)].type = m_[v].type;
    head.push_back(o);
    return m_.result(o);
  }

  // The loop with other results; `old` are the results that stay.
  void replaceForward(std::span<const TypeId> types, std::span<const uint32_t> old) {
    const Op from = m_[forward_];
    const std::vector<ValueId> operands(m_.operands(forward_).begin(), m_.operands(forward_).end());
    const OpId made = m_.makeOp(from.kind, operands, 0, from.attrs, 0, from.loc);
    m_.makeResults(made, types);
    m_[made].parent = from.parent;
    m_[made].numRegions = from.numRegions;
    m_[made].firstRegion = from.firstRegion;
    m_[body_].parentOp = made;
    ValueMap map;
    for (uint32_t k = 0; k < old.size(); ++k) {
      const Value& before = m_[m_.result(forward_, old[k])];
      Value& now = m_[m_.result(made, k)];
      now.sharding = before.sharding, now.name = before.name, now.loc = before.loc;
      map.set(m_.result(forward_, old[k]), m_.result(made, k));
    }
    for (OpId& o : m_[block_].ops) {
      if (o == forward_) o = made;
      forEachRead(m_, o, [&](ValueId& v) { v = map(v); });
    }
    for (ValueId& v : m_[block_].yields) v = map(v);
    forward_ = made;
  }

  // The rows that the backward loop read are kept ones, or computed before their first reader.
  void readAgain(const RecomputeCut& cut, ValueMap copies, std::vector<OpId> head, Rematerialized& done) {
    std::unordered_map<ValueId, ValueId> rowOf; // to the value of the forward loop
    std::unordered_set<OpId> replaced;
    for (const auto& [o, k] : rows_) replaced.insert(o), rowOf.emplace(m_.result(o), valueOf_.at(o));
    Again again(m_, back_, cut, std::move(copies));
    std::vector<OpId> out;
    const auto replace = [&](ValueId v) {
      const auto it = rowOf.find(v);
      return it == rowOf.end() ? v : again.value(it->second, out);
    };
    bool started = false;
    for (OpId o : std::vector<OpId>(m_[back_].ops)) {
      if (replaced.contains(o)) {
        if (!started) out.insert(out.end(), head.begin(), head.end());
        started = true;
        continue;
      }
      std::vector<ValueId> read;
      forEachRead(m_, o, [&](ValueId v) { read.push_back(v); });
      for (ValueId& v : read) v = replace(v);
      size_t next = 0;
      forEachRead(m_, o, [&](ValueId& v) { v = read[next++]; });
      out.push_back(o);
    }
    for (ValueId& v : m_[back_].yields) v = replace(v);
    m_[back_].ops = std::move(out);
    done.ops += again.count();
  }

public:
  // The values of the forward loop behind the rows, before its yields change.
  void remember() {
    for (const auto& [o, k] : rows_) valueOf_.emplace(o, m_[body_].yields[k]);
  }

private:
  Module& m_;
  BlockId block_;
  OpId forward_, backward_;
  BlockId body_, back_;
  uint32_t numCarried_;
  const Mesh& mesh_;
  ValueId index_;                               // of the rows
  std::vector<std::pair<OpId, uint32_t>> rows_; // in the backward loop, and the results that they read
  std::unordered_map<OpId, ValueId> valueOf_;
  std::unordered_map<uint32_t, int64_t> reads_; // of results, other than by rows
};

} // namespace

void rematerializeLoops(Module& m, BlockId block, const Mesh& mesh, const RecomputePrices& prices,
                        Rematerialized& done, std::unordered_set<OpId>& pairs) {
  const auto isLoop = [&](OpId o) { return m.record(o).regions == RegionKind::For; };
  for (size_t b = 0; b < m[block].ops.size(); ++b) {
    for (uint32_t k = 0; k < m[m[block].ops[b]].numRegions; ++k)
      rematerializeLoops(m, m.region(m[block].ops[b], k), mesh, prices, done, pairs);
    for (size_t f = 0; isLoop(m[block].ops[b]) && f < b; ++f) {
      if (!isLoop(m[block].ops[f])) continue;
      LoopPair pair(m, block, m[block].ops[f], m[block].ops[b], mesh);
      if (!pair.find()) continue;
      pairs.insert({m[block].ops[f], m[block].ops[b]});
      pair.remember();
      pair.rewrite(prices, done);
    }
  }
}

} // namespace dtc
