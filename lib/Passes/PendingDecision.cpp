// Which pending values stay pending: builds the closure problem of PendingCut.h, one per set of pending axes.
//
// What a loop carries, and what a branch gives, is one variable: pending everywhere (start, argument, yield, result) or
// nowhere. Whether its yield can be pending may depend on whether its argument is, so the nodes are collected again until
// what was assumed of the carried values is what their yields turn out to be.
#include "OpForms.h"
#include "PendingCut.h"
#include "dtc/IR/Homomorphism.h"
#include "dtc/Sharding/ReshardBytes.h"
#include <algorithm>
#include <array>
#include <map>
#include <unordered_set>

namespace dtc {

namespace {

using Signature = std::vector<PendingAxis>;

// The trips that a loop is taken to make where its bounds do not say: what is reduced inside is paid so often.
constexpr int64_t kNominalTrips = 8;
// Operands of an op of which one alone is tried as made pending.
constexpr uint32_t kMostMade = 4;

class PendingDecider {
public:
  PendingDecider(PropagationState& s, std::vector<OpForm>& forms, const PendingOptions& options)
      : s_(s), m_(s.m), forms_(forms), options_(options) {
    decision_.keepPending.assign(m_.values.size(), false);
    decision_.needsReduced.assign(m_.values.size(), false);
  }

  PendingDecision run() {
    do {
      clear();
      for (FuncId f : m_.order) {
        if (m_[f].spmd) continue;
        for (const FuncArg& a : m_[f].args) addAnnotated(a.value);
        collect(m_[f].body);
        const std::vector<ValueId>& returned = m_[m_[f].body].yields;
        for (size_t i = 0; i < returned.size(); ++i)
          use(returned[i], s_.vars[s_.resultVars[f.index][i]].pending);
      }
    } while (revise());
    solve();
    return std::move(decision_);
  }

private:
  static constexpr uint32_t kNone = ~0u;
  struct Node {
    ValueId value; // none: the reduction in a reshard that is written
    Signature signature;
    PendingNode cut;
  };

  // Everything but what is assumed of carried values.
  void clear() {
    nodeOf_.assign(m_.values.size(), kNone);
    nodes_.clear();
    for (OpForm& form : forms_) {
      form.passed.clear();
      form.takesPending.assign(form.takesPending.size(), false);
    }
  }

  uint32_t addNode(ValueId v, Signature signature, bool source) {
    nodeOf_[v.index] = static_cast<uint32_t>(nodes_.size());
    Node n{v, std::move(signature), {}};
    int64_t bytes = globalBytes(m_, v);
    if (VarId var = s_.varOf[v.index]; var != kNoVar)
      for (const DimSharding& d : s_.vars[var].dims) bytes /= partsProduct(d.parts, s_.mesh(var));
    n.cut.bytes = checkedMul(std::max<int64_t>(bytes, 1), trips_).value_or(INT64_MAX / 1024);
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
      if (uint32_t r = s_.relationOf[o.index]; r != ~0u) {
        collectOp(o, r);
        continue;
      }
      switch (m_.record(o).regions) {
      case RegionKind::Cond: collectCond(o); break;
      case RegionKind::While:
      case RegionKind::For: collectLoop(o); break;
      case RegionKind::Recompute: collectRecompute(o); break;
      default: useOther(o);
      }
    }
  }

  const Signature& writtenOn(ValueId v) const { return s_.vars[s_.varOf[v.index]].pending; }

  // What the carried value with this result is pending on: as written, or as assumed.
  Signature carriedSignature(ValueId result) const {
    if (!writtenOn(result).empty()) return writtenOn(result);
    auto it = assumed_.find(result.index);
    return it == assumed_.end() ? Signature() : it->second;
  }

  // May the variable of `result` be pending as `v`, which is given to it, is?
  bool canBeAs(ValueId result, ValueId v) const {
    uint32_t n = nodeAt(v);
    if (n == kNone) return false;
    const ShardingVar& var = s_.vars[s_.varOf[result.index]];
    if (var.written || !sameCuts(v, result)) return false; // a constraint, as on an argument
    PartList axes;
    for (const PendingAxis& p : nodes_[n].signature) axes.push_back({p.axis, 0});
    for (const DimSharding& d : var.dims)
      if (!disjoint(d.parts, axes, m_.shardings.mesh(var.mesh))) return false;
    for (const AxisRef& a : var.replicated)
      if (PartList kept = {{a, 0}}; !disjoint(kept, axes, m_.shardings.mesh(var.mesh))) return false;
    return true;
  }
  bool sameCuts(ValueId a, ValueId b) const {
    return s_.vars[s_.varOf[a.index]].dims == s_.vars[s_.varOf[b.index]].dims;
  }

  // `v` goes to a place that is pending as `signature` says if node `place` is. With `both`, only pending together.
  void feed(ValueId v, ValueId result, const Signature& signature, uint32_t place, bool both) {
    const uint32_t n = nodeAt(v);
    if (n == kNone) return; // made pending
    if (nodes_[n].signature != signature || !sameCuts(v, result)) {
      nodes_[n].cut.mustReduce = true;
      return;
    }
    nodes_[n].cut.users.push_back(place);
    if (both) nodes_[place].cut.operands.push_back(n);
  }

  void collectCond(OpId o) {
    use(m_.operand(o, 0), {});
    collect(m_.region(o, 0));
    collect(m_.region(o, 1));
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      collectPlace(m_.result(o, r), std::array{m_[m_.region(o, 0)].yields[r], m_[m_.region(o, 1)].yields[r]});
  }

  // A block that runs once, where it stands: its arguments are pending with the operands, its results with what it yields.
  void collectRecompute(OpId o) {
    const BlockId body = m_.region(o);
    for (uint32_t i = 0; i < m_[o].numOperands; ++i) {
      const ValueId given = m_.operand(o, i), arg = m_[body].args[i];
      // Each of several blocks that are given a value would reduce it: worth it only where bytes are counted.
      options_.late ? use(given, writtenOn(arg)) : collectPlace(arg, std::array{given});
    }
    collect(body);
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      collectPlace(m_.result(o, r), std::array{m_[body].yields[r]});
  }

  // An argument or a result of blocks that are no loop's: pending as written, or as one of the values `given` to it is, and
  // then only if all of them are.
  void collectPlace(ValueId place, std::span<const ValueId> given) {
    Signature signature = writtenOn(place);
    const bool written = !signature.empty();
    for (ValueId v : given)
      if (signature.empty() && canBeAs(place, v)) signature = nodes_[nodeAt(v)].signature;
    const uint32_t node = signature.empty() ? kNone : addNode(place, signature, written);
    for (ValueId v : given) node == kNone ? use(v, {}) : feed(v, place, signature, node, true);
  }

  int64_t tripsOf(OpId o) const {
    if (m_.record(o).regions != RegionKind::For) return kNominalTrips;
    const Value &lo = m_[m_.operand(o, 0)], &hi = m_[m_.operand(o, 1)];
    if (lo.kind != ValueKind::Literal || hi.kind != ValueKind::Literal) return kNominalTrips;
    return std::max<int64_t>(m_.attrs[hi.literal].i - m_.attrs[lo.literal].i, 1);
  }

  void collectLoop(OpId o) {
    const bool isFor = m_.record(o).regions == RegionKind::For;
    const size_t firstStart = isFor ? 2 : 0, firstArg = isFor ? 1 : 0;
    const BlockId body = m_.region(o, m_[o].numRegions - 1);
    const size_t numCarried = m_[body].args.size() - firstArg;
    for (size_t i = 0; i < firstStart; ++i) use(m_.operand(o, i), {});
    const int64_t outside = trips_, inside = checkedMul(trips_, tripsOf(o)).value_or(INT32_MAX);
    std::vector<uint32_t> argument(numCarried, kNone); // of the body
    std::vector<Signature> signatures(numCarried);
    for (uint32_t i = 0; i < numCarried; ++i) {
      const ValueId result = m_.result(o, i);
      signatures[i] = carriedSignature(result);
      if (signatures[i].empty()) {
        use(m_.operand(o, firstStart + i), {});
        continue;
      }
      const bool written = !writtenOn(result).empty();
      const uint32_t after = addNode(result, signatures[i], written);
      trips_ = inside;
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
        argument[i] = addNode(m_[m_.region(o, r)].args[firstArg + i], signatures[i], written);
        sameVariable(argument[i], after);
      }
      trips_ = outside;
      feed(m_.operand(o, firstStart + i), result, signatures[i], argument[i], false);
    }
    trips_ = inside;
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) collect(m_.region(o, r));
    if (!isFor) use(m_[m_.region(o, 0)].yields[0], {});
    trips_ = outside;
    for (uint32_t i = 0; i < m_[o].numResults; ++i) {
      const ValueId yielded = m_[body].yields[i], result = m_.result(o, i);
      if (i >= numCarried) {
        use(yielded, writtenOn(result)); // stacked
        if (!writtenOn(result).empty()) addNode(result, writtenOn(result), true);
      } else {
        yieldCarried(yielded, result, signatures[i], argument[i]);
      }
    }
  }

  // Pending both, or neither.
  void sameVariable(uint32_t a, uint32_t b) {
    for (auto [x, y] : {std::pair(a, b), std::pair(b, a)}) {
      nodes_[x].cut.operands.push_back(y);
      nodes_[x].cut.users.push_back(y); // so that one that nobody reads asks for nothing
    }
  }

  void yieldCarried(ValueId yielded, ValueId result, const Signature& signature, uint32_t argument) {
    if (argument != kNone) {
      feed(yielded, result, signature, argument, true);
      const bool holds = nodeAt(yielded) != kNone && nodes_[nodeAt(yielded)].signature == signature;
      if (!holds && writtenOn(result).empty()) broken_.push_back(result);
      return;
    }
    if (canBeAs(result, yielded) && !refused_.contains(result.index))
      found_.emplace_back(result, nodes_[nodeAt(yielded)].signature);
    use(yielded, {});
  }

  // Assumes what the last round found; where it found nothing new, gives up what did not hold. False where all holds. Each
  // carried value is assumed once and given up once at most.
  bool revise() {
    for (auto& [result, signature] : found_) assumed_[result.index] = std::move(signature);
    const bool more = !found_.empty() || !broken_.empty();
    if (found_.empty())
      for (ValueId result : broken_) {
        assumed_.erase(result.index);
        refused_.insert(result.index);
      }
    found_.clear();
    broken_.clear();
    return more;
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
    const Constraint constraint = m_.record(o).constraint; // of one operand; a reshard takes anything
    if (constraint == Constraint::Reshard) reduceInReshard(o);
    const size_t count = constraint == Constraint::Reshard ? 0
                         : constraint == Constraint::None  ? m_[o].numOperands
                                                           : 1;
    for (size_t i = 0; i < count; ++i) use(m_.operand(o, i), placePending(o, i));
    for (uint32_t r = 0; r < m_[o].numResults; ++r) addAnnotated(m_.result(o, r));
  }
  // A reshard that is written takes what is pending, too: a node of its own, which costs the share of reducing the operand
  // first that reducing it on the way does (half, to shards along the pending axes).
  void reduceInReshard(OpId o) {
    const ValueId v = m_.operand(o, 0);
    const uint32_t n = nodeAt(v);
    if (n == kNone) return;
    const Sharding to = m_.shardings[s_.shardingOf(s_.varOf[m_.result(o).index])];
    const ShardingVar& var = s_.vars[s_.varOf[v.index]];
    Node node{ValueId(), nodes_[n].signature, {}};
    node.cut.bytes = nodes_[n].cut.bytes;
    if (to.mesh == var.mesh) {
      const Sharding reduced{var.mesh, var.dims, {}, {}}, pending{var.mesh, var.dims, node.signature, {}};
      const Mesh& mesh = m_.shardings.mesh(var.mesh);
      const int64_t bytes = globalBytes(m_, v);
      const auto before = static_cast<double>(estimateReshardBytes(pending, reduced, mesh, bytes));
      const auto onTheWay = static_cast<double>(estimateReshardBytes(pending, to, mesh, bytes) -
                                                estimateReshardBytes(reduced, to, mesh, bytes));
      const double share = before > 0 ? std::clamp(onTheWay / before, 0.0, 1.0) : 1.0;
      node.cut.bytes = static_cast<int64_t>(share * static_cast<double>(node.cut.bytes));
    }
    node.cut.mustReduce = true;
    node.cut.operands.push_back(n);
    nodes_[n].cut.users.push_back(static_cast<uint32_t>(nodes_.size()));
    nodes_.push_back(std::move(node));
  }
  // What is pending where operand i of a constraint, a call or a `local` region goes.
  Signature placePending(OpId o, size_t i) const {
    const OpRecord& rec = m_.record(o);
    if (rec.constraint == Constraint::Shard) return writtenOn(m_.result(o));
    if (rec.isCall) return writtenOn(m_[m_.findFunction(m_.strings[m_[o].callee])].args[i].value);
    if (rec.regions != RegionKind::Local) return {};
    const ShardingId bound = m_[m_[m_.region(o)].args[i]].sharding;
    return bound.valid() ? m_.shardings[bound].pending : Signature();
  }

  void collectOp(OpId o, uint32_t relation) {
    OpForm& form = forms_[relation];
    if (form.reduced.empty()) {
      tryPass(o, form, relation);
    } else {
      for (uint32_t r = 0; r < m_[o].numResults; ++r)
        if (!form.reducedOn[r].empty()) addNode(m_.result(o, r), form.reducedOn[r], true);
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
  // two pending values reduces the smaller), then with replicated ones made pending: one (scatter's x), or all (jointly
  // linear).
  void tryPass(OpId o, OpForm& form, uint32_t relation) {
    const uint32_t n = m_[o].numOperands;
    uint32_t lead = kNone;
    for (uint32_t i = 0; i < n; ++i)
      if (uint32_t node = nodeAt(m_.operand(o, i)); node != kNone)
        if (lead == kNone || nodes_[node].cut.bytes > nodes_[nodeAt(m_.operand(o, lead))].cut.bytes) lead = i;
    if (lead == kNone) return;
    const Signature signature = nodes_[nodeAt(m_.operand(o, lead))].signature;
    if (!axesFree(form, signature, s_.relations[relation])) return;
    std::vector<std::vector<bool>> choices(2, std::vector<bool>(n, false));
    std::vector<bool> all(n, true);
    for (uint32_t i = 0; i < n; ++i) {
      uint32_t node = nodeAt(m_.operand(o, i));
      choices[0][i] = node != kNone && nodes_[node].signature == signature;
      // Made pending from a replicated value: free, but not for a literal, nor for what is pending otherwise.
      all[i] = choices[0][i] || (node == kNone && !literal(m_.operand(o, i)));
    }
    choices[1][lead] = true;
    for (uint32_t i = 0; i < n && n <= kMostMade; ++i)
      if (all[i] && !choices[0][i]) {
        choices.push_back(choices[0]);
        choices.back()[i] = true;
      }
    choices.push_back(std::move(all));
    for (const std::vector<bool>& choice : choices)
      if (auto given = passes(o, choice, signature)) {
        form.takesPending = choice;
        form.passed = signature;
        form.passedOn = *std::move(given);
        for (uint32_t r = 0; r < m_[o].numResults; ++r) {
          uint32_t node = addNode(m_.result(o, r), form.passedOn[r], false);
          for (uint32_t i = 0; i < n; ++i)
            if (choice[i] && nodeAt(m_.operand(o, i)) != kNone)
              nodes_[node].cut.operands.push_back(nodeAt(m_.operand(o, i)));
        }
        return;
      }
  }

  // What the results are pending on where the operands of `choice` are pending as `signature` says, the same axes each;
  // nothing where some operand must be reduced first.
  std::optional<std::vector<Signature>> passes(OpId o, const std::vector<bool>& choice,
                                               const Signature& signature) {
    Diagnostics quiet;
    OpQuery q = queryOf(m_, o, quiet);
    // A sum is moved into a narrower dtype only where that is asked for.
    if (narrowsFloats(q) && q.dtypeAttr("dtype") != options_.reduceDType) return std::nullopt;
    std::vector<Signature> given(m_[o].numResults, signature);
    for (size_t p = 0; p < signature.size(); ++p) {
      std::vector<PendingKind> kinds(choice.size(), PendingKind::None);
      for (size_t i = 0; i < choice.size(); ++i)
        if (choice[i]) kinds[i] = signature[p].kind;
      for (uint32_t r = 0; r < m_[o].numResults; ++r) {
        const auto kind = passThrough(q, kinds, r, options_.nonFinite);
        if (!kind || *kind == PendingKind::None) return std::nullopt;
        given[r][p].kind = *kind;
      }
    }
    return given;
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
    std::map<std::vector<AxisRef>, std::vector<uint32_t>> byAxes; // along the way a kind may become another
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
      std::vector<AxisRef> key;
      for (const PendingAxis& p : nodes_[n].signature) key.push_back(p.axis);
      byAxes[key].push_back(n);
    }
    std::vector<uint32_t> local(nodes_.size());
    for (const auto& [key, members] : byAxes) {
      std::vector<PendingNode> cut;
      for (uint32_t i = 0; i < members.size(); ++i) local[members[i]] = i;
      for (uint32_t n : members) {
        cut.push_back(nodes_[n].cut);
        for (uint32_t& u : cut.back().users) u = local[u];
        for (uint32_t& x : cut.back().operands) x = local[x];
      }
      std::vector<bool> pending = options_.late ? pendingWhereverPossible(cut) : pendingByMinimumCut(cut);
      for (uint32_t i = 0; i < members.size(); ++i) record(nodes_[members[i]], cut[i], pending, i);
    }
    for (OpForm& form : forms_) dropUndecided(form);
  }

  void record(const Node& node, const PendingNode& cut, const std::vector<bool>& pending, uint32_t i) {
    if (!pending[i] || !node.value.valid()) return;
    decision_.keepPending[node.value.index] = true;
    bool reduce = cut.mustReduce;
    for (uint32_t u : cut.users) reduce = reduce || !pending[u];
    decision_.needsReduced[node.value.index] = reduce;
    const OpId made = m_.definingOp(node.value);
    if (!made.valid() || m_.record(made).regions != RegionKind::None)
      s_.vars[s_.varOf[node.value.index]].pending = node.signature; // of its arguments and starts, too
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
  PendingOptions options_;
  std::vector<uint32_t> nodeOf_; // by value
  std::vector<Node> nodes_;
  int64_t trips_ = 1;                               // how often the block that is being collected runs
  std::unordered_map<uint32_t, Signature> assumed_; // carried values, by their result
  std::unordered_set<uint32_t> refused_;            // carried values that cannot be pending
  std::vector<std::pair<ValueId, Signature>>
      found_;                   // in this round: carried values whose yields are pending …
  std::vector<ValueId> broken_; // … and those whose yields are not, as was assumed
  PendingDecision decision_;
};

} // namespace

PendingDecision decidePending(PropagationState& s, std::vector<OpForm>& forms,
                              const PendingOptions& options) {
  return PendingDecider(s, forms, options).run();
}

} // namespace dtc
