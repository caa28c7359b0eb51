#include "dtc/Passes/simplify/Inline.h"
#include "analysis/Within.h"
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/build/PlainLiterals.h"
#include "dtc/Passes/analysis/Clone.h"
#include "dtc/Passes/simplify/Specialize.h"
#include <algorithm>
#include <unordered_set>

namespace dtc {

namespace {

constexpr int64_t kMaxOps = 1 << 22; // the max size of one function after inlining
constexpr DiagKind kInlinedOps{
    "inlined-ops", "@{0} exceeds {1} ops after inlining: call the function in a 'for' loop instead"};

class Inliner {
public:
  Inliner(Module& m, Diagnostics& diags)
      : m_(m), diags_(diags), shard_(m.registry->find(Constraint::Shard)) {}

  [[nodiscard]] bool run() {
    std::unordered_set<uint32_t> wereCalled = calledFunctions(), stillCalled;
    keepsOwnGradients_ = takesGradients(m_);
    const std::vector<FuncId> order = calleesFirst();
    if (!bounded(order)) return false;
    for (FuncId f : order) inlineInto(f);
    do stillCalled = calledFunctions();
    while (std::erase_if(
        m_.order, [&](FuncId f) { return wereCalled.contains(f.index) && !stillCalled.contains(f.index); }));
    return true;
  }

private:
  [[nodiscard]] bool isPlainCall(OpId o) const { return m_.record(o).isCall && !m_.record(o).differentiates; }
  // A call of a function with a custom gradient is kept for autodiff.
  [[nodiscard]] bool isKept(OpId call) const {
    const FuncId callee = m_.findFunction(m_.strings[m_[call].callee]);
    return keepsOwnGradients_ && findAttr(m_[callee].attrs, m_.strings.find("grad")).valid();
  }

  // Functions that a call, gradient or custom gradient refers to.
  std::unordered_set<uint32_t> calledFunctions() const {
    std::unordered_set<uint32_t> out;
    for (FuncId f : m_.order) {
      forEachOp(m_, m_[f].body, [&](OpId o) {
        if (m_.record(o).isCall) out.insert(m_.findFunction(m_.strings[m_[o].callee]).index);
      });
      AttrId grad = findAttr(m_[f].attrs, m_.strings.find("grad"));
      if (grad.valid()) out.insert(m_.findFunction(m_.strings[m_.attrs[grad].text]).index);
    }
    return out;
  }

  std::vector<FuncId> calleesOf(FuncId f) const {
    std::vector<FuncId> out;
    forEachOp(m_, m_[f].body, [&](OpId o) {
      if (isPlainCall(o)) out.push_back(m_.findFunction(m_.strings[m_[o].callee]));
    });
    return out;
  }

  // Each body is cloned only once it has no calls. Iterative: a chain of calls may have any length.
  std::vector<FuncId> calleesFirst() const {
    struct Entry {
      FuncId f;
      std::vector<FuncId> left; // callees to process
    };
    std::vector<FuncId> out;
    std::unordered_set<uint32_t> seen;
    std::vector<Entry> path;
    auto enter = [&](FuncId f) {
      if (!seen.insert(f.index).second) return;
      std::vector<FuncId> callees = calleesOf(f);
      std::reverse(callees.begin(), callees.end());
      path.push_back({f, std::move(callees)});
    };
    for (FuncId root : m_.order) {
      enter(root);
      while (!path.empty()) {
        Entry& e = path.back();
        if (e.left.empty()) {
          out.push_back(e.f);
          path.pop_back();
          continue;
        }
        const FuncId next = e.left.back();
        e.left.pop_back();
        enter(next);
      }
    }
    return out;
  }

  // Inlining is exponential for functions that call each other twice, and so on.
  bool bounded(std::span<const FuncId> order) {
    std::unordered_map<uint32_t, int64_t> ops;
    for (FuncId f : order) {
      int64_t& sum = ops[f.index];
      forEachOp(m_, m_[f].body, [&](OpId) { ++sum; });
      for (FuncId c : calleesOf(f)) sum = std::min(sum + ops[c.index], kMaxOps + 1);
      if (sum <= kMaxOps) continue;
      return diags_.fail(kInlinedOps, m_[f].loc, m_.strings[m_[f].name], kMaxOps);
    }
    return true;
  }

  void inlineInto(FuncId f) {
    std::unordered_map<std::string, bool> names;
    for (const FuncArg& a : m_[f].args) takeName(a.value, names);
    forEachOp(m_, m_[f].body, [&](OpId o) {
      for (uint32_t r = 0; r < m_[o].numResults; ++r) takeName(m_.result(o, r), names);
      for (uint32_t k = 0; k < m_[o].numRegions; ++k)
        for (ValueId a : m_[m_.region(o, k)].args) takeName(a, names);
    });
    names_ = &names;
    ValueMap map;
    inlineBlock(m_[f].body, map);
  }

  void takeName(ValueId v, std::unordered_map<std::string, bool>& names) {
    if (m_[v].name.valid()) names.emplace(m_.strings[m_[v].name], true);
  }

  void inlineBlock(BlockId b, ValueMap& map) {
    std::vector<OpId> out;
    for (OpId o : std::vector<OpId>(m_[b].ops)) {
      for (uint32_t i = 0; i < m_[o].numOperands; ++i) m_.operands(o)[i] = map(m_.operand(o, i));
      for (uint32_t k = 0; k < m_[o].numRegions; ++k) inlineBlock(m_.region(o, k), map);
      if (isPlainCall(o) && !isKept(o))
        inlineCall(o, b, out, map);
      else
        out.push_back(o);
    }
    m_[b].ops = std::move(out);
    for (ValueId& v : m_[b].yields) v = map(v);
  }

  // Ops of a call belong to its stage, if they have none of their own.
  void takeStage(OpId call, std::span<const OpId> ops) {
    const StrId stage = m_.strings.find("stage");
    const AttrId mark = stage.valid() ? findAttr(m_[call].attrs, stage) : AttrId();
    if (!mark.valid()) return;
    for (OpId o : ops)
      if (!stageOrInner(o, stage)) m_[o].attrs.push_back({stage, mark});
  }
  bool stageOrInner(OpId o, StrId stage) const {
    bool has = findAttr(m_[o].attrs, stage).valid();
    for (uint32_t r = 0; r < m_[o].numRegions; ++r)
      forEachOp(m_, m_.region(o, r),
                [&](OpId inner) { has = has || findAttr(m_[inner].attrs, stage).valid(); });
    return has;
  }

  void inlineCall(OpId o, BlockId b, std::vector<OpId>& out, ValueMap& map) {
    const FuncId callee = m_.findFunction(m_.strings[m_[o].callee]);
    ValueMap inner;
    for (size_t i = 0; i < m_[callee].args.size(); ++i) {
      ValueId arg = m_[callee].args[i].value;
      inner.set(arg, constrain(m_.operand(o, i), m_[arg].sharding, b, out, m_[o].loc, m_[arg].loc));
    }
    const size_t before = m_.values.size(), firstOp = out.size();
    CloneNames names;
    names.taken = names_;
    if (m_[o].numResults > 0) names.prefix = std::string(m_.strings[m_[m_.result(o)].name]);
    cloneOps(m_, m_[callee].body, b, out, inner, names);
    sayLiterals(m_, b, out, firstOp);
    std::vector<ValueId> returned;
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      returned.push_back(constrain(inner(m_[m_[callee].body].yields[r]), m_[callee].results[r].sharding, b,
                                   out, m_[o].loc, m_[callee].results[r].loc));
    enterCall(m_, m_[b].parentFunc, o, callee, std::span(out).subspan(firstOp));
    takeStage(o, std::span(out).subspan(firstOp));
    locateAtCall(o, std::span(out).subspan(firstOp));
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      const ShardingId written = m_[m_.result(o, r)].sharding;
      ValueId v = returned[r];
      v = constrain(v, written, b, out, m_[o].loc, m_[m_.result(o, r)].loc);
      if (v.index >= before) takeCallersName(v, m_.result(o, r));
      map.set(m_.result(o, r), v);
    }
  }

  // Ops without a location in the user's program get that of the call.
  void locateAtCall(OpId call, std::span<const OpId> ops) {
    const StrId loc = m_.strings.find("loc");
    const AttrId at = loc.valid() ? findAttr(m_[call].attrs, loc) : AttrId();
    if (!at.valid()) return;
    auto locate = [&](OpId o) {
      if (!findAttr(m_[o].attrs, loc).valid()) m_.setAttr(o, "loc", at);
    };
    for (OpId o : ops) {
      locate(o);
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) forEachOp(m_, m_.region(o, r), locate);
    }
  }

  // The caller's name for the result takes precedence, if the value was created here.
  void takeCallersName(ValueId v, ValueId result) {
    if (m_.definingOp(v).valid() && m_[result].name.valid() && named_.insert(v.index).second)
      m_[v].name = m_[result].name;
  }

  // `v`, or a `shard` of it if the annotation differs from v's sharding. In local text a sharding says what a
  // value is a shard of, and is not a constraint. `written`: the annotated value.
  ValueId constrain(ValueId v, ShardingId sharding, BlockId b, std::vector<OpId>& out, SourceRange loc,
                    SourceRange written) {
    if (!sharding.valid() || m_[v].sharding == sharding || m_[m_[b].parentFunc].spmd) return v;
    OpId o = m_.makeOp(shard_, std::array{v}, 1, {}, 0, loc);
    m_[o].parent = b;
    m_[m_.result(o)].type = m_[v].type;
    m_[m_.result(o)].sharding = sharding;
    m_[m_.result(o)].loc = written;
    out.push_back(o);
    return m_.result(o);
  }

  Module& m_;
  Diagnostics& diags_;
  OpKind shard_;
  bool keepsOwnGradients_ = false; // until autodiff has run
  std::unordered_set<uint32_t> named_;
  std::unordered_map<std::string, bool>* names_ = nullptr;
};

} // namespace

bool inlinePass(Module& m, const PassOptions&, Diagnostics& diags) {
  if (!specialize(m, diags)) return false;
  return Inliner(m, diags).run() && !diags.hasErrors();
}

void removeUnreachable(Module& m, FuncId entry) {
  std::unordered_set<uint32_t> reached;
  std::vector<FuncId> next = {entry};
  while (!next.empty()) {
    const FuncId f = next.back();
    next.pop_back();
    if (!f.valid() || !reached.insert(f.index).second) continue;
    next.push_back(ownGradient(m, f));
    for (FuncId part : functionsOfProgram(m, f)) next.push_back(part);
    forEachOp(m, m[f].body, [&](OpId o) {
      if (m[o].callee.valid()) next.push_back(m.findFunction(m.strings[m[o].callee]));
    });
  }
  std::erase_if(m.order, [&](FuncId f) { return !reached.contains(f.index); });
}

} // namespace dtc
