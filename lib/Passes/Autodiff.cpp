#include "dtc/Passes/Autodiff.h"
#include "OpGradient.h"
#include "dtc/Passes/Clone.h"
#include "dtc/Passes/Inline.h"
#include <algorithm>
#include <unordered_set>

namespace dtc {

static constexpr DiagKind kRegionGradient{
    "region-gradient", "'{0}' cannot be differentiated: what the gradient is asked for depends on it"};

namespace {

// One value_and_grad: forward body, then the reverse sweep.
class Differentiator {
public:
  Differentiator(Module& m, BlockId block, std::vector<OpId>& out, Diagnostics& diags,
                 std::unordered_map<std::string, bool>& names)
      : m_(m), b_(m, block, out, diags), out_(out), diags_(diags), names_(names) {}

  // Fills `results`: all results of the callee, then the gradients.
  bool run(OpId o, std::vector<ValueId>& results) {
    const FuncId callee = m_.findFunction(m_.strings[m_[o].callee]);
    ValueMap map;
    for (size_t i = 0; i < m_[callee].args.size(); ++i) {
      ValueId v = constrain(m_.operand(o, i), m_[m_[callee].args[i].value].sharding);
      map.set(m_[callee].args[i].value, v);
      args_.push_back(v);
    }
    wrt_ = wrtOf(o, callee);
    for (size_t i : wrt_) active_.insert(args_[i].index);
    const size_t firstForward = out_.size();
    const size_t firstValue = m_.values.size();
    std::vector<OpId> body;
    cloneOps(m_, m_[callee].body, b_.parent, body, map, {std::string(nameOf(m_.result(o))), &names_});
    ValueMap decomposed;
    for (OpId f : body)
      if (!forwardOp(f, decomposed)) return false;
    for (size_t r = 0; r < m_[callee].results.size(); ++r) {
      ValueId v = decomposed(map(m_[m_[callee].body].yields[r]));
      results.push_back(constrain(v, m_[callee].results[r].sharding));
    }
    for (size_t r = 0; r < results.size(); ++r) // the caller's names, before gradients are named after them
      if (results[r].index >= firstValue && m_[results[r]].kind == ValueKind::OpResult)
        m_[results[r]].name = m_[m_.result(o, r)].name;
    const std::vector<OpId> forward(out_.begin() + static_cast<ptrdiff_t>(firstForward), out_.end());
    for (OpId f : forward) spreadActivity(f);
    b_.loc = m_[o].loc;
    accumulate(results[0], b_.constant(1, m_[results[0]].type));
    for (size_t i = forward.size(); i-- > 0;)
      if (!backward(forward[i])) return false;
    b_.loc = m_[o].loc;
    for (size_t i : wrt_) {
      ValueId v = args_[i], d = cotangent(v);
      results.push_back(d.valid() ? d : b_.constant(0, m_[v].type));
    }
    return true;
  }

private:
  std::string_view nameOf(ValueId v) const { return m_.strings[m_[v].name]; }

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

  // `v` under the sharding that the callee's signature writes: a constraint, whose gradient carries it to the cotangent.
  ValueId constrain(ValueId v, ShardingId sharding) {
    if (!sharding.valid() || m_[v].sharding == sharding) return v;
    OpId o = m_.makeOp(m_.registry->find("shard"), std::array{v}, 1, {}, 0, m_[v].loc);
    m_[o].parent = b_.parent;
    m_[m_.result(o)].type = m_[v].type;
    m_[m_.result(o)].sharding = sharding;
    out_.push_back(o);
    return m_.result(o);
  }

  // An op that is its decomposition (attention) has the gradient of that.
  bool forwardOp(OpId o, ValueMap& decomposed) {
    for (uint32_t i = 0; i < m_[o].numOperands; ++i) m_.operands(o)[i] = decomposed(m_.operand(o, i));
    const OpRecord& rec = m_.record(o);
    if (!rec.decompose || rec.grad || rec.gradFn || rec.gradFromRule || rec.gradNone) {
      out_.push_back(o);
      return true;
    }
    b_.loc = m_[o].loc;
    std::vector<ValueId> values;
    if (!rec.decompose(b_, o, values)) return false;
    for (uint32_t r = 0; r < m_[o].numResults; ++r) decomposed.set(m_.result(o, r), values[r]);
    return true;
  }

  // A float result of an op with an active operand is active: it depends on what the gradient is asked for.
  void spreadActivity(OpId o) {
    bool active = false;
    for (ValueId v : m_.operands(o)) active = active || active_.contains(v.index);
    for (uint32_t k = 0; k < m_[o].numRegions && !active; ++k)
      forEachOp(m_, m_.region(o, k), [&](OpId inner) {
        for (ValueId v : m_.operands(inner)) active = active || active_.contains(v.index);
      });
    if (!active) return;
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      if (isFloat(m_.typeOf(m_.result(o, r)).dtype)) active_.insert(m_.result(o, r).index);
  }

  bool backward(OpId o) {
    bool any = false, active = false;
    std::vector<ValueId> results, operands;
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      results.push_back(cotangent(m_.result(o, r)));
      any = any || results.back().valid();
      active = active || active_.contains(m_.result(o, r).index);
    }
    if (!any || !active) return true;
    if (m_.record(o).regions != RegionKind::None) {
      diags_.error(kRegionGradient, m_[o].loc, m_.record(o).name);
      return false;
    }
    nameCotangents(o, results);
    if (!opGradient(b_, o, results, operands)) return false;
    for (size_t i = 0; i < operands.size(); ++i) {
      ValueId v = m_.operand(o, i);
      if (operands[i].valid() && active_.contains(v.index)) accumulate(v, operands[i]);
    }
    return true;
  }

  // %d_h for the gradient of %h, where the name is free and the value has none.
  void nameCotangents(OpId o, const std::vector<ValueId>& cotangents) {
    for (uint32_t r = 0; r < cotangents.size(); ++r) {
      ValueId d = cotangents[r];
      if (!d.valid() || m_[d].name.valid() || !m_[m_.result(o, r)].name.valid()) continue;
      std::string name = "d_" + std::string(nameOf(m_.result(o, r)));
      if (names_.emplace(name, true).second) m_[d].name = m_.strings.intern(name);
    }
  }

  ValueId cotangent(ValueId v) const {
    auto it = cotangents_.find(v);
    return it == cotangents_.end() ? ValueId() : it->second;
  }
  void accumulate(ValueId v, ValueId d) {
    auto [it, fresh] = cotangents_.emplace(v, d);
    if (!fresh) it->second = b_.value("add", {it->second, d});
  }

  Module& m_;
  Builder b_;
  std::vector<OpId>& out_;
  Diagnostics& diags_;
  std::unordered_map<std::string, bool>& names_;
  std::vector<ValueId> args_;
  std::vector<size_t> wrt_;
  std::unordered_set<uint32_t> active_;
  std::unordered_map<ValueId, ValueId> cotangents_;
};

class AutodiffRunner {
public:
  AutodiffRunner(Module& m, Diagnostics& diags)
      : m_(m), diags_(diags), kind_(m.registry->find("value_and_grad")) {}

  bool run() {
    std::unordered_set<uint32_t> differentiated;
    for (FuncId f : std::vector<FuncId>(m_.order)) {
      bool has = false;
      forEachOp(m_, m_[f].body, [&](OpId o) { has = has || m_[o].kind == kind_; });
      if (!has) continue;
      collectNames(f);
      ValueMap map;
      if (!rewrite(m_[f].body, map, differentiated)) return false;
    }
    std::erase_if(m_.order, [&](FuncId f) { return differentiated.contains(f.index) && !isCalled(f); });
    return !diags_.hasErrors();
  }

private:
  void collectNames(FuncId f) {
    names_.clear();
    for (const FuncArg& a : m_[f].args) names_.emplace(m_.strings[m_[a.value].name], true);
    forEachOp(m_, m_[f].body, [&](OpId o) {
      for (uint32_t r = 0; r < m_[o].numResults; ++r)
        if (m_[m_.result(o, r)].name.valid()) names_.emplace(m_.strings[m_[m_.result(o, r)].name], true);
    });
  }

  bool isCalled(FuncId callee) const {
    bool called = false;
    for (FuncId f : m_.order)
      forEachOp(m_, m_[f].body, [&](OpId o) { called = called || m_[o].callee == m_[callee].name; });
    return called;
  }

  bool rewrite(BlockId block, ValueMap& map, std::unordered_set<uint32_t>& differentiated) {
    std::vector<OpId> out;
    for (OpId o : std::vector<OpId>(m_[block].ops)) {
      for (uint32_t i = 0; i < m_[o].numOperands; ++i) m_.operands(o)[i] = map(m_.operand(o, i));
      for (uint32_t k = 0; k < m_[o].numRegions; ++k)
        if (!rewrite(m_.region(o, k), map, differentiated)) return false;
      if (m_[o].kind != kind_) {
        out.push_back(o);
        continue;
      }
      differentiated.insert(m_.findFunction(m_.strings[m_[o].callee]).index);
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
  OpKind kind_;
  std::unordered_map<std::string, bool> names_;
  std::unordered_set<uint32_t> named_;
};

} // namespace

bool autodiffPass(Module& m, const PassOptions& options, Diagnostics& diags) {
  if (!inlinePass(m, options, diags)) return false; // a callee's own calls are part of what is differentiated
  return AutodiffRunner(m, diags).run();
}

PassInfo autodiffInfo() {
  return {.name = "autodiff",
          .summary = "replaces value_and_grad by the function's body and its gradients",
          .why = "After inline, so that it meets no calls (it inlines what is left); before decompose, since "
                 "a gradient of a "
                 "whole op (softmax, layer_norm) is shorter than that of its parts, and before propagate, so "
                 "that the backward "
                 "ops are sharded by the same rules as all others.",
          .needs = Level::Global,
          .gives = Level::Global,
          .run = autodiffPass,
          .before = R"(func @loss(%x: f32[4, 3], %w: f32[3, 2]) -> (%l: f32[]) {
  %h = matmul %x, %w
  %s = square %h
  %l = sum %s
  return %l
}

func @main(%x: f32[4, 3], %w: f32[3, 2]) -> (%l: f32[], %dw: f32[3, 2]) {
  %l, %dw = value_and_grad @loss(%x, %w) {wrt = [1]}
  return %l, %dw
}
)",
          .after = R"(func @main(%x: f32[4, 3], %w: f32[3, 2]) -> (%l: f32[], %dw: f32[3, 2]) {
  %l_h = matmul %x, %w : f32[4, 2]
  %l_s = square %l_h : f32[4, 2]
  %l = sum %l_s : f32[]
  %d_l = constant {value = 1.0} : f32[]
  %0 = expand_dims %d_l {dims = [0, 1]} : f32[1, 1]
  %d_l_s = broadcast %0 {shape = [4, 2]} : f32[4, 2]
  %1 = mul %l_h, 2.0 : f32[4, 2]
  %d_l_h = mul %d_l_s, %1 : f32[4, 2]
  %2 = einsum %d_l_h, %w {equation = "ac,bc->ab"} : f32[4, 3]
  %dw = einsum %d_l_h, %x {equation = "ac,ab->bc"} : f32[3, 2]
  return %l, %dw
}
)"};
}

} // namespace dtc
