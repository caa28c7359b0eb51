#include "dtc/Passes/autodiff/Autodiff.h"
#include "analysis/Within.h"
#include "autodiff/GradientSweep.h"
#include "dtc/Ops/OpName.h"
#include "dtc/Passes/analysis/Clone.h"
#include "dtc/Passes/complex/SplitComplex.h"
#include "dtc/Passes/simplify/Inline.h"
#include "dtc/Support/Result.h"
#include <algorithm>
#include <unordered_set>

namespace dtc {

namespace {

// Expands one value_and_grad: the callee's body, then the reverse sweep over it.
class Differentiator {
public:
  Differentiator(Module& m, BlockId block, std::vector<OpId>& out, Diagnostics& diags,
                 std::unordered_map<std::string, bool>& names)
      : m_(m), out_(out), b_(m, block, forward_, diags), first_(static_cast<uint32_t>(m.values.size())),
        shared_{m, diags, names, GradientPaths(m, first_), {}, {}} {}

  // Fills `results`: all results of the callee, then the gradients.
  bool run(OpId o, std::vector<ValueId>& results) {
    if (!forward(o, results)) return false;
    shared_.paths.addOps(forward_);
    shared_.paths.solve(asked_, results[0]);
    GradientSweep sweep(shared_, nullptr, GradientSweep::Scope::Whole, b_.parent, b_.parent);
    sweep.b.loc = m_[o].loc;
    sweep.b.common = shared_.taker = withinOf(m_, o);
    if (sweep.onPath(results[0])) sweep.accumulate(results[0], sweep.b.constant(1, m_[results[0]].type));
    if (!sweep.run(forward_)) return false;
    sweep.b.loc = m_[o].loc;
    std::vector<ValueId> gradients;
    for (ValueId v : asked_) gradients.push_back(sweep.visibleOrZero(v));
    dropUnused(m_, sweep.out, gradients);
    results.insert(results.end(), gradients.begin(), gradients.end());
    forward_.insert(forward_.end(), sweep.out.begin(), sweep.out.end());
    for (OpId made : forward_) forEachRead(m_, made, [&](ValueId& v) { v = replacementOf(v); });
    for (ValueId& v : results) v = replacementOf(v);
    out_.insert(out_.end(), forward_.begin(), forward_.end());
    return true;
  }

private:
  std::string_view nameOf(ValueId v) const { return m_.strings[m_[v].name]; }
  ValueId replacementOf(ValueId v) const { return arguments_(shared_.replaced(v)); }

  // Clones the callee's body into `forward_`, with results constrained as in its signature.
  bool forward(OpId o, std::vector<ValueId>& results) {
    const FuncId callee = m_.findFunction(m_.strings[m_[o].callee]);
    b_.loc = m_[o].loc;
    ValueMap map;
    bindArguments(o, callee, map);
    std::vector<OpId> body;
    cloneOps(m_, m_[callee].body, b_.parent, body, map, {std::string(nameOf(m_.result(o))), &shared_.names});
    enterCall(m_, m_[b_.parent].parentFunc, o, callee, body);
    const AttrList within = body.empty() ? AttrList() : withinOf(m_, body[0]);
    ValueMap decomposed;
    if (!decompose(body, b_, decomposed)) return false;
    const size_t firstConstraint = forward_.size();
    const uint32_t firstOwn = first_ + static_cast<uint32_t>(asked_.size());
    for (size_t r = 0; r < m_[callee].results.size(); ++r) {
      ValueId v = decomposed(map(m_[m_[callee].body].yields[r]));
      results.push_back(constrain(v, m_[callee].results[r].sharding));
    }
    for (size_t i = firstConstraint; i < forward_.size(); ++i) addWithin(m_, forward_[i], within);
    for (size_t r = 0; r < results.size(); ++r) // the caller's names take precedence over those of gradients
      if (results[r].index >= firstOwn && m_[results[r]].kind == ValueKind::OpResult)
        m_[results[r]].name = m_[m_.result(o, r)].name;
    return true;
  }

  // The call of a function with a custom gradient; its results are mapped to those of the callee.
  OpId callOf(OpId o, FuncId callee, ValueMap& map) {
    std::vector<ValueId> args;
    for (const FuncArg& a : m_[callee].args) args.push_back(map(a.value));
    const auto numResults = static_cast<uint32_t>(m_[callee].results.size());
    const OpId call = m_.makeOp(m_.registry->find(OpName("call")), args, numResults, {}, 0, m_[o].loc);
    m_[call].callee = m_[callee].name;
    m_[call].parent = b_.parent;
    for (uint32_t r = 0; r < numResults; ++r) {
      m_[m_.result(call, r)].type = m_[callee].results[r].type;
      map.set(m_[m_[callee].body].yields[r], m_.result(call, r));
    }
    return call;
  }

  // One value may be passed for several differentiated arguments: each argument gets a placeholder of its own
  // until the end.
  void bindArguments(OpId o, FuncId callee, ValueMap& map) {
    std::vector<char> asked(m_[callee].args.size(), 0);
    const std::vector<size_t> wrt = wrtOf(o, callee);
    for (size_t i : wrt) asked[i] = 1;
    const BlockId scratch = m_.makeBlock();
    std::vector<ValueId> values(asked.size());
    for (size_t i = 0; i < asked.size(); ++i) {
      if (!asked[i]) continue;
      values[i] = m_.makeBlockArg(scratch, m_[m_.operand(o, i)].type);
    }
    for (size_t i : wrt) asked_.push_back(values[i]);
    for (size_t i = 0; i < asked.size(); ++i) {
      const ValueId arg = m_[callee].args[i].value, given = constrain(m_.operand(o, i), m_[arg].sharding);
      if (asked[i]) {
        m_[values[i]].sharding = m_[given].sharding;
        arguments_.set(values[i], given);
      }
      map.set(arg, asked[i] ? values[i] : given);
    }
  }

  std::vector<size_t> wrtOf(OpId o, FuncId callee) {
    std::vector<size_t> out;
    AttrId wrt = m_.attr(o, "wrt");
    if (wrt.valid()) {
      for (AttrId a : m_.attrs[wrt].list) out.push_back(static_cast<size_t>(m_.attrs[a].i));
      return out;
    }
    for (size_t i = 0; i < m_[callee].args.size(); ++i)
      if (isFloat(m_.typeOf(m_[callee].args[i].value).dtype)) out.push_back(i);
    return out;
  }

  // `v` with the sharding of the callee's signature: a constraint, whose gradient applies it to the
  // cotangent.
  ValueId constrain(ValueId v, ShardingId sharding) {
    if (!sharding.valid() || m_[v].sharding == sharding) return v;
    OpId o = m_.makeOp(m_.registry->find(Constraint::Shard), std::array{v}, 1, {}, 0, m_[v].loc);
    m_[o].parent = b_.parent;
    m_[m_.result(o)].type = m_[v].type;
    m_[m_.result(o)].sharding = sharding;
    forward_.push_back(o);
    return m_.result(o);
  }

  // Appends `ops` to the builder's list. An op defined as its decomposition is differentiated through that.
  bool decompose(std::span<const OpId> ops, Builder& b, ValueMap& map) {
    for (OpId o : ops) {
      for (uint32_t i = 0; i < m_[o].numOperands; ++i) m_.operands(o)[i] = map(m_.operand(o, i));
      for (uint32_t k = 0; k < m_[o].numRegions; ++k)
        if (!decomposeBlock(m_.region(o, k), map)) return false;
      const OpRecord& rec = m_.record(o);
      if (!rec.decompose || rec.grad || rec.gradFn || rec.gradFromRule || rec.gradNone) {
        b.out.push_back(withAllResults(o, map));
        continue;
      }
      b.loc = m_[o].loc;
      b.common = withinOf(m_, o);
      std::vector<ValueId> values;
      if (!rec.decompose(b, o, values)) return false;
      b.common = {};
      for (uint32_t r = 0; r < m_[o].numResults; ++r) map.set(m_.result(o, r), values[r]);
    }
    return true;
  }

  // An op with optional results (max_pool: the indices of its maxima) produces them for its gradient.
  OpId withAllResults(OpId o, ValueMap& map) {
    const std::string_view name = optionalResultAttr(m_.record(o));
    if (name.empty() || !isFloat(m_.typeOf(m_.result(o)).dtype)) return o;
    if (queryOf(m_, o, b_.diags).boolAttr(name)) return o;
    const std::vector<ValueId> operands(m_.operands(o).begin(), m_.operands(o).end());
    const OpId complete = m_.makeOp(m_[o].kind, operands, 0, m_[o].attrs, 0, m_[o].loc);
    m_[complete].parent = m_[o].parent;
    m_.setAttr(complete, name, m_.attrs.boolean(true));
    std::vector<TypeId> types;
    DTC_CHECK(inferResultTypes(queryOf(m_, complete, b_.diags), types),
              "the op with all of its results is invalid");
    completeOp(m_, complete, operands, types);
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      const Value& old = m_[m_.result(o, r)];
      Value& made = m_[m_.result(complete, r)];
      made.name = old.name, made.sharding = old.sharding;
      map.set(m_.result(o, r), m_.result(complete, r));
    }
    return complete;
  }

  bool decomposeBlock(BlockId block, ValueMap& map) {
    std::vector<OpId> out;
    Builder b(m_, block, out, b_.diags);
    if (!decompose(std::vector<OpId>(m_[block].ops), b, map)) return false;
    m_[block].ops = std::move(out);
    for (ValueId& v : m_[block].yields) v = map(v);
    return true;
  }

  Module& m_;
  std::vector<OpId>& out_;
  std::vector<OpId> forward_;
  Builder b_;
  uint32_t first_; // ids from here on belong to the forward program
  Differentiation shared_;
  std::vector<ValueId> asked_; // placeholders of the differentiated arguments, in the order of `wrt`
  ValueMap arguments_;         // the arguments that the placeholders stand for
};

class AutodiffRunner {
public:
  AutodiffRunner(Module& m, Diagnostics& diags) : m_(m), diags_(diags) {}

  bool run() {
    for (FuncId f : std::vector<FuncId>(m_.order))
      if (!differentiate(f)) return false;
    std::erase_if(m_.order, [&](FuncId f) { return differentiated_.contains(f.index) && !isCalled(f); });
    return !diags_.hasErrors();
  }

private:
  // Callees first: a function that takes gradients itself is expanded before it is differentiated.
  bool differentiate(FuncId f) {
    if (!done_.insert(f.index).second) return true;
    std::vector<FuncId> callees;
    forEachOp(m_, m_[f].body, [&](OpId o) {
      if (m_.record(o).differentiates) callees.push_back(m_.findFunction(m_.strings[m_[o].callee]));
    });
    if (callees.empty()) return true;
    for (FuncId c : callees)
      if (!differentiate(c)) return false;
    collectNames(f);
    ValueMap map;
    return rewrite(m_[f].body, map);
  }

  void collectNames(FuncId f) {
    names_.clear();
    for (const FuncArg& a : m_[f].args) names_.emplace(m_.strings[m_[a.value].name], true);
    forEachOp(m_, m_[f].body, [&](OpId o) {
      for (uint32_t r = 0; r < m_[o].numResults; ++r)
        if (m_[m_.result(o, r)].name.valid()) names_.emplace(m_.strings[m_[m_.result(o, r)].name], true);
      for (uint32_t k = 0; k < m_[o].numRegions; ++k)
        for (ValueId a : m_[m_.region(o, k)].args)
          if (m_[a].name.valid()) names_.emplace(m_.strings[m_[a].name], true);
    });
  }

  bool isCalled(FuncId callee) const {
    bool called = false;
    for (FuncId f : m_.order)
      forEachOp(m_, m_[f].body, [&](OpId o) { called = called || m_[o].callee == m_[callee].name; });
    return called;
  }

  bool rewrite(BlockId block, ValueMap& map) {
    std::vector<OpId> out;
    for (OpId o : std::vector<OpId>(m_[block].ops)) {
      for (uint32_t i = 0; i < m_[o].numOperands; ++i) m_.operands(o)[i] = map(m_.operand(o, i));
      for (uint32_t k = 0; k < m_[o].numRegions; ++k)
        if (!rewrite(m_.region(o, k), map)) return false;
      if (!m_.record(o).differentiates) {
        out.push_back(o);
        continue;
      }
      differentiated_.insert(m_.findFunction(m_.strings[m_[o].callee]).index);
      const size_t before = m_.values.size();
      std::vector<ValueId> results;
      if (!Differentiator(m_, block, out, diags_, names_).run(o, results)) return false;
      for (uint32_t r = 0; r < m_[o].numResults; ++r) {
        ValueId v = results[r];
        if (v.index >= before && m_[v].kind == ValueKind::OpResult && named_.insert(v.index).second)
          m_[v].name = m_[m_.result(o, r)].name;
        map.set(m_.result(o, r), v);
      }
    }
    m_[block].ops = std::move(out);
    for (ValueId& v : m_[block].yields) v = map(v);
    return true;
  }

  Module& m_;
  Diagnostics& diags_;
  std::unordered_set<uint32_t> done_, differentiated_;
  std::unordered_map<std::string, bool> names_;
  std::unordered_set<uint32_t> named_;
};

} // namespace

bool autodiffPass(Module& m, const PassOptions& options, Diagnostics& diags) {
  if (!inlinePass(m, options, diags)) return false; // calls in the callee are differentiated through
  if (takesGradients(m) && !splitComplexPass(m, {}, diags)) return false; // gradients are defined on reals
  return AutodiffRunner(m, diags).run() && inlinePass(m, options, diags); // calls with custom gradients
}

} // namespace dtc
