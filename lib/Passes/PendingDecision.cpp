// Which pending values stay pending: builds the closure problem of PendingCut.h, one per set of pending axes.
#include "OpForms.h"
#include "PendingCut.h"
#include "dtc/Ops/Homomorphism.h"
#include <algorithm>
#include <map>

namespace dtc {

namespace {

using Signature = std::vector<PendingAxis>;

class PendingDecider {
public:
  PendingDecider(PropagationState& s, std::vector<OpForm>& forms) : s_(s), m_(s.m), forms_(forms) {
    nodeOf_.assign(m_.values.size(), kNone);
    decision_.keepPending.assign(m_.values.size(), false);
    decision_.needsReduced.assign(m_.values.size(), false);
  }

  PendingDecision run() {
    for (FuncId f : m_.order) {
      if (m_[f].spmd) continue;
      for (const FuncArg& a : m_[f].args) addAnnotated(a.value);
      collect(m_[f].body);
      useYields(m_[f].body, &s_.resultVars[f.index]);
    }
    solve();
    return std::move(decision_);
  }

private:
  static constexpr uint32_t kNone = ~0u;
  struct Node {
    ValueId value;
    Signature signature;
    PendingNode cut;
  };

  uint32_t addNode(ValueId v, Signature signature, bool source) {
    nodeOf_[v.index] = static_cast<uint32_t>(nodes_.size());
    Node n{v, std::move(signature), {}};
    int64_t bytes = globalBytes(m_, v);
    if (VarId var = s_.varOf[v.index]; var != kNoVar)
      for (const DimSharding& d : s_.vars[var].dims) bytes /= partsProduct(d.parts, s_.mesh(var));
    n.cut.bytes = std::max<int64_t>(bytes, 1);
    n.cut.source = source;
    nodes_.push_back(std::move(n));
    return nodeOf_[v.index];
  }

  void addAnnotated(ValueId v) {
    VarId var = s_.varOf[v.index];
    if (var != kNoVar && !s_.vars[var].pending.empty()) addNode(v, s_.vars[var].pending, true);
  }

  void collect(BlockId b) {
    for (OpId o : m_[b].ops) {
      uint32_t r = s_.relationOf[o.index];
      if (r != ~0u)
        collectOp(o, r);
      else
        useOther(o);
      const RegionKind kind = m_.record(o).regions;
      if (kind == RegionKind::None || kind == RegionKind::Local || kind == RegionKind::Fused) continue;
      for (uint32_t k = 0; k < m_[o].numRegions; ++k) {
        collect(m_.region(o, k));
        useYields(m_.region(o, k), nullptr);
      }
    }
  }

  // A use that is no op with a rule: reduced, unless the place itself is pending on the same axes.
  void use(ValueId v, const Signature& placeHas) {
    if (v.index >= nodeOf_.size() || nodeOf_[v.index] == kNone) return;
    if (nodes_[nodeOf_[v.index]].signature != placeHas)
      nodes_[nodeOf_[v.index]].cut.mustReduce = true;
    else
      nodes_[nodeOf_[v.index]].cut.source = true; // somebody wants it exactly so
  }
  void useOther(OpId o) {
    const OpRecord& rec = m_.record(o);
    for (ValueId v : m_.operands(o)) {
      Signature has;
      if (rec.constraint == Constraint::Shard || rec.constraint == Constraint::Reshard) {
        VarId var = s_.varOf[m_.result(o).index];
        has = s_.vars[var].pending;
        if (rec.constraint == Constraint::Reshard) continue; // takes anything
      }
      use(v, has);
    }
    for (uint32_t r = 0; r < m_[o].numResults; ++r) addAnnotated(m_.result(o, r));
  }
  void useYields(BlockId b, const std::vector<VarId>* resultVars) {
    for (size_t i = 0; i < m_[b].yields.size(); ++i)
      use(m_[b].yields[i], resultVars ? s_.vars[(*resultVars)[i]].pending : Signature());
  }

  void collectOp(OpId o, uint32_t relation) {
    OpForm& form = forms_[relation];
    if (form.reduced.empty()) {
      tryPass(o, form, relation);
    } else {
      std::sort(form.reduced.begin(), form.reduced.end(), [](auto& a, auto& b) { return a.axis < b.axis; });
      for (uint32_t r = 0; r < m_[o].numResults; ++r) addNode(m_.result(o, r), form.reduced, true);
    }
    for (uint32_t i = 0; i < m_[o].numOperands; ++i) {
      uint32_t n = nodeAt(m_.operand(o, i));
      if (n == kNone) continue;
      bool taken = form.takesPending[i] || (form.joins[i] && nodes_[n].signature == form.reduced);
      if (!taken)
        nodes_[n].cut.mustReduce = true;
      else if (form.takesPending[i])
        for (uint32_t r = 0; r < m_[o].numResults; ++r)
          nodes_[n].cut.users.push_back(nodeOf_[m_.result(o, r).index]);
    }
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      ValueId res = m_.result(o, r);
      VarId var = s_.varOf[res.index];
      if (nodeOf_[res.index] == kNone) continue;
      // What is cut otherwise than the op gives it is moved anyway, and reduced on the way.
      if (form.results[r] != s_.vars[var].dims) nodes_[nodeOf_[res.index]].cut.mustReduce = true;
    }
  }

  uint32_t nodeAt(ValueId v) const { return v.index < nodeOf_.size() ? nodeOf_[v.index] : kNone; }
  bool literal(ValueId v) const {
    return m_[v].kind == ValueKind::Literal || m_[v].kind == ValueKind::Symbol;
  }

  // Can the pending operands pass through this op? First all that share the signature, then the largest alone (a product of
  // two pending values reduces the smaller), then with the replicated ones made pending (jointly linear).
  void tryPass(OpId o, OpForm& form, uint32_t relation) {
    const uint32_t n = m_[o].numOperands;
    uint32_t lead = kNone;
    for (uint32_t i = 0; i < n; ++i)
      if (uint32_t node = nodeAt(m_.operand(o, i)); node != kNone)
        if (lead == kNone || nodes_[node].cut.bytes > nodes_[nodeAt(m_.operand(o, lead))].cut.bytes) lead = i;
    if (lead == kNone) return;
    const Signature signature = nodes_[nodeAt(m_.operand(o, lead))].signature;
    if (!axesFree(form, signature, s_.relations[relation])) return;
    std::vector<bool> same(n, false), only(n, false), all(n, true);
    for (uint32_t i = 0; i < n; ++i) {
      uint32_t node = nodeAt(m_.operand(o, i));
      same[i] = node != kNone && nodes_[node].signature == signature;
      // Made pending from a replicated value: free, but not for a literal, nor for what is pending otherwise.
      all[i] = same[i] || (node == kNone && !literal(m_.operand(o, i)));
    }
    only[lead] = true;
    for (const std::vector<bool>* choice : {&same, &only, &all})
      if (passes(o, *choice, signature)) {
        form.takesPending = *choice;
        form.passed = signature;
        for (uint32_t r = 0; r < m_[o].numResults; ++r) {
          uint32_t node = addNode(m_.result(o, r), signature, false);
          for (uint32_t i = 0; i < n; ++i)
            if ((*choice)[i] && nodeAt(m_.operand(o, i)) != kNone)
              nodes_[node].cut.operands.push_back(nodeAt(m_.operand(o, i)));
        }
        return;
      }
  }

  bool passes(OpId o, const std::vector<bool>& choice, const Signature& signature) {
    Diagnostics quiet;
    OpQuery q = queryOf(m_, o, quiet);
    if (narrowsFloats(q)) return false; // a sum is never moved into a narrower dtype
    for (const PendingAxis& p : signature) {
      std::vector<PendingKind> kinds(choice.size(), PendingKind::None);
      for (size_t i = 0; i < choice.size(); ++i)
        if (choice[i]) kinds[i] = p.kind;
      for (uint32_t r = 0; r < m_[o].numResults; ++r)
        if (passThrough(q, kinds, r) != p.kind) return false;
    }
    return true;
  }

  // The pending axes must cut nothing that the op touches.
  bool axesFree(const OpForm& form, const Signature& signature, const Relation& rel) const {
    VarId any = kNoVar;
    for (VarId v : rel.tensors)
      if (v != kNoVar) any = v;
    PartList axes;
    for (const PendingAxis& p : signature) axes.push_back({p.axis, 0});
    for (const PartList& f : form.factors)
      if (!disjoint(f, axes, s_.mesh(any))) return false;
    return true;
  }

  void solve() {
    std::map<std::vector<std::pair<AxisRef, PendingKind>>, std::vector<uint32_t>> bySignature;
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
      std::vector<std::pair<AxisRef, PendingKind>> key;
      for (const PendingAxis& p : nodes_[n].signature) key.push_back({p.axis, p.kind});
      bySignature[key].push_back(n);
    }
    std::vector<uint32_t> local(nodes_.size());
    for (const auto& [key, members] : bySignature) {
      std::vector<PendingNode> cut;
      for (uint32_t i = 0; i < members.size(); ++i) local[members[i]] = i;
      for (uint32_t n : members) {
        cut.push_back(nodes_[n].cut);
        for (uint32_t& u : cut.back().users) u = local[u];
        for (uint32_t& x : cut.back().operands) x = local[x];
      }
      std::vector<bool> pending = pendingByMinimumCut(cut);
      for (uint32_t i = 0; i < members.size(); ++i) record(nodes_[members[i]], cut[i], pending, i);
    }
    for (OpForm& form : forms_) dropUndecided(form);
  }

  void record(const Node& node, const PendingNode& cut, const std::vector<bool>& pending, uint32_t i) {
    if (!pending[i]) return;
    decision_.keepPending[node.value.index] = true;
    bool reduce = cut.mustReduce;
    for (uint32_t u : cut.users) reduce = reduce || !pending[u];
    decision_.needsReduced[node.value.index] = reduce;
  }

  void dropUndecided(OpForm& form) {
    if (form.passed.empty()) return;
    auto index = static_cast<size_t>(&form - forms_.data());
    OpId o = s_.relations[index].op;
    if (decision_.keepPending[m_.result(o).index]) return;
    form.passed.clear();
    form.takesPending.assign(form.takesPending.size(), false);
  }

  PropagationState& s_;
  Module& m_;
  std::vector<OpForm>& forms_;
  std::vector<uint32_t> nodeOf_; // by value
  std::vector<Node> nodes_;
  PendingDecision decision_;
};

} // namespace

PendingDecision decidePending(PropagationState& s, std::vector<OpForm>& forms) {
  return PendingDecider(s, forms).run();
}

} // namespace dtc
