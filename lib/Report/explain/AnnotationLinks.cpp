#include "dtc/Report/explain/AnnotationLinks.h"

#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/propagate/Reasons.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

namespace dtc {

namespace {

// Sets of values and of results of functions that are one tensor.
class TensorSets {
public:
  explicit TensorSets(const Module& m) : m_(m) {
    uint32_t count = static_cast<uint32_t>(m.values.size());
    for (const FuncId f : m.order) {
      firstResult_[f.index] = count;
      count += static_cast<uint32_t>(m[f].results.size());
    }
    parent_.resize(count);
    std::iota(parent_.begin(), parent_.end(), 0u);
    annotated_.resize(count);
    for (const FuncId f : m.order) annotate(f);
    for (const FuncId f : m.order) linkWithin(f);
    linkCalls();
  }

  [[nodiscard]] uint32_t of(ValueId v) { return find(v.index); }
  [[nodiscard]] uint32_t of(FuncId f, size_t result) { return find(resultNode(f, result)); }

private:
  [[nodiscard]] uint32_t resultNode(FuncId f, size_t result) const {
    return firstResult_.at(f.index) + static_cast<uint32_t>(result);
  }

  uint32_t find(uint32_t node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }

  bool join(uint32_t a, uint32_t b) {
    a = find(a), b = find(b);
    if (a == b) return false;
    parent_[b] = a;
    annotated_[a] = annotated_[a] || annotated_[b];
    return true;
  }

  // A literal, or a constant that several tensors start from, makes them no single tensor.
  [[nodiscard]] bool isTensor(ValueId v) const {
    if (m_[v].kind == ValueKind::BlockArg) return true;
    const OpId o = m_.definingOp(v);
    return o.valid() && (m_[o].numOperands > 0 || m_[o].numRegions > 0 || m_[v].sharding.valid());
  }
  bool link(ValueId a, ValueId b) { return isTensor(a) && isTensor(b) && join(a.index, b.index); }

  void annotate(FuncId f) {
    const auto value = [&](ValueId v) { annotated_[v.index] = m_[v].sharding.valid(); };
    for (const FuncArg& a : m_[f].args) value(a.value);
    for (size_t k = 0; k < m_[f].results.size(); ++k)
      annotated_[resultNode(f, k)] = m_[f].results[k].sharding.valid();
    forEachOp(m_, m_[f].body, [&](OpId o) {
      for (uint32_t k = 0; k < m_[o].numResults; ++k) value(m_.result(o, k));
      for (uint32_t r = 0; r < m_[o].numRegions; ++r)
        for (const ValueId a : m_[m_.region(o, r)].args) value(a);
    });
  }

  void linkWithin(FuncId f) {
    const Function& function = m_[f];
    const auto& yields = m_[function.body].yields;
    for (size_t k = 0; k < function.results.size(); ++k) {
      if (k < yields.size() && isTensor(yields[k])) join(resultNode(f, k), yields[k].index);
      const StrId carry = m_.strings.find("carry");
      const AttrId carried = carry.valid() ? findAttr(function.results[k].attrs, carry) : AttrId();
      if (!carried.valid() || !m_.attrs[carried].i) continue;
      for (const FuncArg& a : function.args)
        if (m_[a.value].name == function.results[k].label) join(resultNode(f, k), a.value.index);
    }
    forEachOp(m_, function.body, [&](OpId o) {
      if (m_.record(o).isCall)
        calls_.push_back(o);
      else if (const RegionKind kind = m_.record(o).regions;
               kind != RegionKind::None && kind != RegionKind::Local && kind != RegionKind::Fused)
        linkRegions(o, kind);
    });
  }

  // Initial values, the arguments of the blocks, what these yield, and the results.
  void linkRegions(OpId o, RegionKind kind) {
    const size_t firstArg = kind == RegionKind::For ? 1 : 0;
    const size_t firstStart = kind == RegionKind::For ? 2 : kind == RegionKind::Cond ? 1 : 0;
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
      const Block& block = m_[m_.region(o, r)];
      const size_t carried = block.args.size() - std::min(firstArg, block.args.size());
      const bool condition = kind == RegionKind::While && r == 0;
      const bool loops = kind == RegionKind::For || kind == RegionKind::While;
      for (size_t i = 0; i < carried && firstStart + i < m_[o].numOperands; ++i)
        link(block.args[firstArg + i], m_.operand(o, firstStart + i));
      // After the carried ones, a `for` yields elements of its results.
      const size_t whole = kind == RegionKind::For ? carried : block.yields.size();
      for (size_t i = 0; i < block.yields.size() && i < whole && !condition; ++i) {
        if (loops && i < carried) link(block.args[firstArg + i], block.yields[i]);
        if (i < m_[o].numResults) link(m_.result(o, i), block.yields[i]);
      }
    }
  }

  // An argument that is passed on, and the parameter: if the parameter has an annotation anywhere, this requires it
  // of all calls. Otherwise the tensors of several calls are unrelated.
  void linkCalls() {
    std::unordered_map<uint32_t, size_t> count;
    const auto calleeOf = [&](OpId o) { return m_.findFunction(m_.strings[m_[o].callee]); };
    for (const OpId o : calls_) ++count[calleeOf(o).index];
    for (bool changed = true; changed;) {
      changed = false;
      for (const OpId o : calls_) {
        const FuncId f = calleeOf(o);
        if (!f.valid()) continue;
        const auto isOne = [&](uint32_t node) { return count[f.index] == 1 || annotated_[find(node)]; };
        for (size_t i = 0; i < m_[f].args.size() && i < m_[o].numOperands; ++i)
          if (isTensor(m_.operand(o, i)) && isOne(m_[f].args[i].value.index))
            changed |= join(m_[f].args[i].value.index, m_.operand(o, i).index);
        for (size_t k = 0; k < m_[f].results.size() && k < m_[o].numResults; ++k) // then gradients
          if (isOne(resultNode(f, k))) changed |= join(resultNode(f, k), m_.result(o, k).index);
      }
    }
  }

  const Module& m_;
  std::unordered_map<uint32_t, uint32_t> firstResult_; // by function
  std::vector<uint32_t> parent_;
  std::vector<bool> annotated_; // of a set's first node: one of its nodes is
  std::vector<OpId> calls_;
};

} // namespace

std::string resultText(const Module& m, FuncId f, size_t result) {
  const StrId label = m[f].results[result].label;
  if (m[f].results.size() == 1 || !label.valid()) return "the result";
  return "the result %" + std::string(m.strings[label]);
}

AnnotationLinks::AnnotationLinks(const Module& m) {
  TensorSets sets(m);
  std::map<uint32_t, std::vector<WrittenSharding>> bySet;
  const std::string_view text = m.source.text;
  const auto add = [&](uint32_t set, SourceRange loc, ShardingId sharding, std::string of) {
    if (!sharding.valid() || !loc.valid()) return;
    const SourceRange range = shardingRange(m.source, loc);
    if (range.end > text.size() || range.begin >= range.end ||
        (text[range.begin] != '@' && text[range.begin] != '{'))
      return;
    bySet[set].push_back({range, m.shardings[sharding], std::move(of)});
  };
  const auto value = [&](ValueId v) {
    const std::string name = m[v].name.valid() ? "%" + std::string(m.strings[m[v].name]) : "a value";
    add(sets.of(v), m[v].loc, m[v].sharding, name);
  };
  for (const FuncId f : m.order) {
    for (const FuncArg& a : m[f].args) value(a.value);
    for (size_t k = 0; k < m[f].results.size(); ++k)
      add(sets.of(f, k), m[f].results[k].loc, m[f].results[k].sharding, resultText(m, f, k));
    forEachOp(m, m[f].body, [&](OpId o) {
      for (uint32_t k = 0; k < m[o].numResults; ++k) value(m.result(o, k));
      for (uint32_t r = 0; r < m[o].numRegions; ++r)
        for (const ValueId a : m[m.region(o, r)].args) value(a);
    });
  }
  for (auto& [set, found] : bySet) {
    if (found.size() < 2) continue;
    std::ranges::sort(found, {}, [](const WrittenSharding& w) { return w.range.begin; });
    for (const WrittenSharding& w : found) tensorAt_.emplace(w.range.begin, tensors_.size());
    tensors_.push_back(std::move(found));
  }
}

std::vector<WrittenSharding> AnnotationLinks::others(uint32_t begin) const {
  const auto it = tensorAt_.find(begin);
  if (it == tensorAt_.end()) return {};
  std::vector<WrittenSharding> out = tensors_[it->second];
  std::erase_if(out, [&](const WrittenSharding& w) { return w.range.begin == begin; });
  return out;
}

} // namespace dtc
