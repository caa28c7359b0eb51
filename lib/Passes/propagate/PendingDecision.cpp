// Decides which pending values stay pending: builds the closure problem of PendingCut.h, one per set of
// pending axes.
//
// A carried value of a loop, or a result of a branch, is one variable: pending everywhere (start, argument,
// yield, result) or nowhere. Whether its yield can be pending may depend on whether its argument is, so nodes
// are collected again until the assumptions about carried values hold for their yields.
#include "dtc/IR/Homomorphism.h"
#include "dtc/Sharding/ReshardBytes.h"
#include "propagate/OpForms.h"
#include "propagate/PendingCut.h"
#include <algorithm>
#include <array>
#include <map>
#include <unordered_set>

namespace dtc {

namespace {

using Signature = std::vector<PendingAxis>;

// The assumed iteration count of a loop with unknown bounds: reductions in its body are paid that many times.
constexpr int64_t kNominalIterations = 8;
// Ops with at most this many operands are tried with one operand made pending.
constexpr uint32_t kMaxMade = 4;

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
    ValueId value; // invalid: the reduction of an explicit reshard
    Signature signature;
    PendingNode node;
  };

  // Everything except the assumptions about carried values.
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
    n.node.bytes = checkedMul(std::max<int64_t>(bytes, 1), iterations_).value_or(INT64_MAX / 1024);
    n.node.source = source;
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

  // The pending axes of the carried value with this result: as written, or as assumed.
  Signature carriedSignature(ValueId result) const {
    if (!writtenOn(result).empty()) return writtenOn(result);
    auto it = assumed_.find(result.index);
    return it == assumed_.end() ? Signature() : it->second;
  }

  // True if the variable of `result` may be pending like `v`, which flows into it.
  bool canBeAs(ValueId result, ValueId v) const {
    uint32_t n = nodeAt(v);
    if (n == kNone) return false;
    const ShardingVar& var = s_.vars[s_.varOf[result.index]];
    if (var.written || !sameSharding(v, result)) return false; // a constraint, as on an argument
    PartList axes;
    for (const PendingAxis& p : nodes_[n].signature) axes.push_back({p.axis, 0});
    for (const DimSharding& d : var.dims)
      if (!disjoint(d.parts, axes, m_.shardings.mesh(var.mesh))) return false;
    for (const AxisRef& a : var.replicated)
      if (PartList kept = {{a, 0}}; !disjoint(kept, axes, m_.shardings.mesh(var.mesh))) return false;
    return true;
  }
  bool sameSharding(ValueId a, ValueId b) const {
    return s_.vars[s_.varOf[a.index]].dims == s_.vars[s_.varOf[b.index]].dims;
  }

  // `v` flows into a target that is pending as `signature` if node `target` is. With `both`, they are pending
  // only together.
  void feed(ValueId v, ValueId result, const Signature& signature, uint32_t target, bool both) {
    const uint32_t n = nodeAt(v);
    if (n == kNone) return; // made pending
    if (nodes_[n].signature != signature || !sameSharding(v, result)) {
      nodes_[n].node.mustReduce = true;
      return;
    }
    nodes_[n].node.users.push_back(target);
    if (both) nodes_[target].node.operands.push_back(n);
  }

  void collectCond(OpId o) {
    use(m_.operand(o, 0), {});
    collect(m_.region(o, 0));
    collect(m_.region(o, 1));
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      collectMerge(m_.result(o, r), std::array{m_[m_.region(o, 0)].yields[r], m_[m_.region(o, 1)].yields[r]});
  }

  // A block that runs once, in place: its arguments are pending with the operands, its results with the
  // yields.
  void collectRecompute(OpId o) {
    const BlockId body = m_.region(o);
    for (uint32_t i = 0; i < m_[o].numOperands; ++i) {
      const ValueId given = m_.operand(o, i), arg = m_[body].args[i];
      // Each of several blocks would reduce the value: profitable only if bytes are counted.
      options_.late ? use(given, writtenOn(arg)) : collectMerge(arg, std::array{given});
    }
    collect(body);
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      collectMerge(m_.result(o, r), std::array{m_[body].yields[r]});
  }

  // An argument or a result of blocks that are not loop bodies: pending as written, or as one of the values
  // `given` to it, and then only if all of them are.
  void collectMerge(ValueId merged, std::span<const ValueId> given) {
    Signature signature = writtenOn(merged);
    const bool written = !signature.empty();
    for (ValueId v : given)
      if (signature.empty() && canBeAs(merged, v)) signature = nodes_[nodeAt(v)].signature;
    const uint32_t node = signature.empty() ? kNone : addNode(merged, signature, written);
    for (ValueId v : given) node == kNone ? use(v, {}) : feed(v, merged, signature, node, true);
  }

  int64_t iterationsOf(OpId o) const {
    if (m_.record(o).regions != RegionKind::For) return kNominalIterations;
    const Value &lo = m_[m_.operand(o, 0)], &hi = m_[m_.operand(o, 1)];
    if (lo.kind != ValueKind::Literal || hi.kind != ValueKind::Literal) return kNominalIterations;
    return std::max<int64_t>(m_.attrs[hi.literal].i - m_.attrs[lo.literal].i, 1);
  }

  void collectLoop(OpId o) {
    const bool isFor = m_.record(o).regions == RegionKind::For;
    const size_t firstStart = isFor ? 2 : 0, firstArg = isFor ? 1 : 0;
    const BlockId body = m_.region(o, m_[o].numRegions - 1);
    const size_t numCarried = m_[body].args.size() - firstArg;
    for (size_t i = 0; i < firstStart; ++i) use(m_.operand(o, i), {});
    const int64_t outside = iterations_,
                  inside = checkedMul(iterations_, iterationsOf(o)).value_or(INT32_MAX);
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
      iterations_ = inside;
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
        argument[i] = addNode(m_[m_.region(o, r)].args[firstArg + i], signatures[i], written);
        sameVariable(argument[i], after);
      }
      iterations_ = outside;
      feed(m_.operand(o, firstStart + i), result, signatures[i], argument[i], false);
    }
    iterations_ = inside;
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) collect(m_.region(o, r));
    if (!isFor) use(m_[m_.region(o, 0)].yields[0], {});
    iterations_ = outside;
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

  // Both pending, or neither.
  void sameVariable(uint32_t a, uint32_t b) {
    for (auto [x, y] : {std::pair(a, b), std::pair(b, a)}) {
      nodes_[x].node.operands.push_back(y);
      nodes_[x].node.users.push_back(y); // so that an unused value requires nothing
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

  // Assumes what the last round found; if that is nothing new, drops the assumptions that did not hold. False
  // once all hold. Each carried value is assumed once and dropped once at most.
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

  // A use that is not an op with a rule: reduced, unless the target is pending on the same axes.
  void use(ValueId v, const Signature& wanted) {
    if (v.index >= nodeOf_.size() || nodeOf_[v.index] == kNone) return;
    if (nodes_[nodeOf_[v.index]].signature != wanted)
      nodes_[nodeOf_[v.index]].node.mustReduce = true;
    else
      nodes_[nodeOf_[v.index]].node.source = true; // required in exactly this form
  }
  void useOther(OpId o) {
    const Constraint constraint = m_.record(o).constraint; // of one operand; a reshard accepts any
    if (constraint == Constraint::Reshard) reduceInReshard(o);
    const size_t count = constraint == Constraint::Reshard ? 0
                         : constraint == Constraint::None  ? m_[o].numOperands
                                                           : 1;
    for (size_t i = 0; i < count; ++i) use(m_.operand(o, i), pendingOfOperand(o, i));
    for (uint32_t r = 0; r < m_[o].numResults; ++r) addAnnotated(m_.result(o, r));
  }
  // An explicit reshard accepts a pending operand, too: a node of its own, whose cost is the share of
  // reducing the operand first that reducing it during the reshard costs (half, if the target is sharded
  // along the pending axes).
  void reduceInReshard(OpId o) {
    const ValueId v = m_.operand(o, 0);
    const uint32_t n = nodeAt(v);
    if (n == kNone) return;
    const Sharding to = m_.shardings[s_.shardingOf(s_.varOf[m_.result(o).index])];
    const ShardingVar& var = s_.vars[s_.varOf[v.index]];
    Node node{ValueId(), nodes_[n].signature, {}};
    node.node.bytes = nodes_[n].node.bytes;
    if (to.mesh == var.mesh) {
      const Sharding reduced{var.mesh, var.dims, {}, {}}, pending{var.mesh, var.dims, node.signature, {}};
      const Mesh& mesh = m_.shardings.mesh(var.mesh);
      const int64_t bytes = globalBytes(m_, v);
      const auto before = static_cast<double>(estimateReshardBytes(pending, reduced, mesh, bytes));
      const auto onTheWay = static_cast<double>(estimateReshardBytes(pending, to, mesh, bytes) -
                                                estimateReshardBytes(reduced, to, mesh, bytes));
      const double share = before > 0 ? std::clamp(onTheWay / before, 0.0, 1.0) : 1.0;
      node.node.bytes = static_cast<int64_t>(share * static_cast<double>(node.node.bytes));
    }
    node.node.mustReduce = true;
    node.node.operands.push_back(n);
    nodes_[n].node.users.push_back(static_cast<uint32_t>(nodes_.size()));
    nodes_.push_back(std::move(node));
  }
  // The pending axes of the target of operand i of a constraint, a call or a `local` region.
  Signature pendingOfOperand(OpId o, size_t i) const {
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
        nodes_[n].node.mustReduce = true;
      else if (form.takesPending[i])
        for (uint32_t r = 0; r < m_[o].numResults; ++r)
          nodes_[n].node.users.push_back(nodeOf_[m_.result(o, r).index]);
    }
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      ValueId res = m_.result(o, r);
      VarId var = s_.varOf[res.index];
      if (nodeOf_[res.index] == kNone) continue;
      // A result that needs a reshard anyway is reduced during that.
      if (form.results[r] != s_.vars[var].dims) nodes_[nodeOf_[res.index]].node.mustReduce = true;
    }
  }

  uint32_t nodeAt(ValueId v) const { return v.index < nodeOf_.size() ? nodeOf_[v.index] : kNone; }
  bool literal(ValueId v) const {
    return m_[v].kind == ValueKind::Literal || m_[v].kind == ValueKind::Symbol;
  }

  // Whether the pending operands can pass through this op. Tried in order: all that share the signature; the
  // largest alone (a matmul of two pending values reduces the smaller one); with replicated operands made
  // pending: one (scatter's x), or all (jointly linear).
  void tryPass(OpId o, OpForm& form, uint32_t relation) {
    const uint32_t n = m_[o].numOperands;
    uint32_t lead = kNone;
    for (uint32_t i = 0; i < n; ++i)
      if (uint32_t node = nodeAt(m_.operand(o, i)); node != kNone)
        if (lead == kNone || nodes_[node].node.bytes > nodes_[nodeAt(m_.operand(o, lead))].node.bytes)
          lead = i;
    if (lead == kNone) return;
    const Signature signature = nodes_[nodeAt(m_.operand(o, lead))].signature;
    if (!axesFree(form, signature, s_.relations[relation])) return;
    std::vector<std::vector<bool>> choices(2, std::vector<bool>(n, false));
    std::vector<bool> all(n, true);
    for (uint32_t i = 0; i < n; ++i) {
      uint32_t node = nodeAt(m_.operand(o, i));
      choices[0][i] = node != kNone && nodes_[node].signature == signature;
      // Making a replicated value pending is free, except for a literal, or a value that is pending
      // otherwise.
      all[i] = choices[0][i] || (node == kNone && !literal(m_.operand(o, i)));
    }
    choices[1][lead] = true;
    for (uint32_t i = 0; i < n && n <= kMaxMade; ++i)
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
              nodes_[node].node.operands.push_back(nodeAt(m_.operand(o, i)));
        }
        return;
      }
  }

  // The pending axes of the results if the operands of `choice` are pending as `signature` says, on the same
  // axes each; nothing if some operand must be reduced first.
  std::optional<std::vector<Signature>> passes(OpId o, const std::vector<bool>& choice,
                                               const Signature& signature) {
    if (m_.record(o).lowering == Lowering::Host) return std::nullopt; // print, expect_eq read complete values
    Diagnostics quiet;
    OpQuery q = queryOf(m_, o, quiet);
    // A sum is moved into a narrower dtype only on request.
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

  // The pending axes must not shard any tensor of the op.
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
    std::map<std::vector<AxisRef>, std::vector<uint32_t>> byAxes; // a kind may change from op to op
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
      std::vector<AxisRef> key;
      for (const PendingAxis& p : nodes_[n].signature) key.push_back(p.axis);
      byAxes[key].push_back(n);
    }
    std::vector<uint32_t> local(nodes_.size());
    for (const auto& [key, members] : byAxes) {
      std::vector<PendingNode> graph;
      for (uint32_t i = 0; i < members.size(); ++i) local[members[i]] = i;
      for (uint32_t n : members) {
        graph.push_back(nodes_[n].node);
        for (uint32_t& u : graph.back().users) u = local[u];
        for (uint32_t& x : graph.back().operands) x = local[x];
      }
      std::vector<bool> pending = options_.late ? pendingWhereverPossible(graph) : pendingByMinimumCut(graph);
      for (uint32_t i = 0; i < members.size(); ++i) record(nodes_[members[i]], graph[i], pending, i);
    }
    for (OpForm& form : forms_) dropUndecided(form);
  }

  void record(const Node& node, const PendingNode& pendingNode, const std::vector<bool>& pending,
              uint32_t i) {
    if (!pending[i] || !node.value.valid()) return;
    decision_.keepPending[node.value.index] = true;
    bool reduce = pendingNode.mustReduce;
    for (uint32_t u : pendingNode.users) reduce = reduce || !pending[u];
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
  int64_t iterations_ = 1;                           // how often the block being collected runs
  std::unordered_map<uint32_t, Signature> assumed_;  // carried values, by their result
  std::unordered_set<uint32_t> refused_;             // carried values that cannot be pending
  std::vector<std::pair<ValueId, Signature>> found_; // in this round: carried values with pending yields …
  std::vector<ValueId> broken_;                      // … and those assumed pending whose yields are not
  PendingDecision decision_;
};

} // namespace

PendingDecision decidePending(PropagationState& s, std::vector<OpForm>& forms,
                              const PendingOptions& options) {
  return PendingDecider(s, forms, options).run();
}

} // namespace dtc
