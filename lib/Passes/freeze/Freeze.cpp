// freeze: marks what depends on frozen arguments and constants alone, and is worth keeping, with {frozen = true}.
//
// The op whose result is kept is the last one that is smaller than what it is computed from: a reduction, a table of
// cosines, the quotient of two weights; data-movement ops and ops such as `convert` to a wider dtype stay with their
// readers, which fuse them. An op that both a kept result and the rest of the program need is cloned, so that fuse can
// put each into the kernel of its readers.
#include "analysis/Costly.h"
#include "analysis/FusionForm.h"
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/Pass.h"
#include "dtc/Passes/analysis/Clone.h"
#include "dtc/Passes/analysis/Frozen.h"
#include "dtc/Passes/analysis/MemoryPlan.h"

#include <algorithm>
#include <unordered_set>

namespace dtc {
namespace {

class Freezer {
public:
  Freezer(Module& m, FuncId f, std::optional<int64_t> limit)
      : m_(m), func_(f), mesh_(meshValueOf(m, f)), frozen_(m, f), forms_(m),
        left_(limit.value_or(frozenLimit(m, f))), heavy_(m.values.size()) {}

  void run() {
    findFrozen();
    if (computed_.empty()) return;
    decide();
    if (required_.empty()) return;
    write();
  }

private:
  // Reads `m_.ops` of the body only: control flow is not frozen.
  void findFrozen() {
    for (OpId o : m_[m_[func_].body].ops) {
      if (isLoadTimeOp(m_, o) || frozen_.computes(o)) frozen_.add(o);
      if (isLoadTimeOp(m_, o) || !frozen_.computes(o) || isPlaced(o)) continue;
      computed_.insert(o);
      const bool heavy =
          isHeavy(o) || std::ranges::any_of(m_.operands(o), [&](ValueId v) { return heavy_[v.index]; });
      for (uint32_t r = 0; r < m_[o].numResults; ++r) heavy_[m_.result(o, r).index] = heavy;
    }
  }
  // Ops of a pipeline's micro-batches.
  [[nodiscard]] bool isPlaced(OpId o) const {
    const StrId microbatch = m_.strings.find("microbatch");
    return microbatch.valid() && findAttr(m_[o].attrs, microbatch).valid();
  }
  // More than some instructions per element of the result.
  [[nodiscard]] bool isHeavy(OpId o) {
    const FusionForm& form = forms_.of(o);
    if (form.move) return form.indexed || form.joins;
    const auto reduces = [](const Factor& f) { return f.reduce != PendingKind::None; };
    return !form.loops || form.alone || form.ordered || m_.record(o).lowering != Lowering::Loops ||
           std::ranges::any_of(form.rule.factors, reduces) || costly_.is(m_, o);
  }

  // From the last op to the first: what is kept, what the rest of the program computes, and what kept results need.
  void decide() {
    std::unordered_set<ValueId> inRuns(m_[m_[func_].body].yields.begin(), m_[m_[func_].body].yields.end()),
        once;
    const std::vector<OpId>& ops = m_[m_[func_].body].ops;
    for (size_t i = ops.size(); i-- > 0;) {
      const OpId o = ops[i];
      if (!computed_.contains(o)) {
        read(o, inRuns);
        continue;
      }
      const bool wanted = isAny(o, inRuns), keeps = wanted && isWorthKeeping(o);
      if (keeps || isAny(o, once)) required_.insert(o), read(o, once);
      if (wanted && !keeps) staying_.insert(o), read(o, inRuns);
    }
  }
  [[nodiscard]] bool isAny(OpId o, const std::unordered_set<ValueId>& values) const {
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      if (values.contains(m_.result(o, r))) return true;
    return false;
  }
  void read(OpId o, std::unordered_set<ValueId>& values) const {
    values.insert(m_.operands(o).begin(), m_.operands(o).end());
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
      values.insert(m_[m_.region(o, r)].yields.begin(), m_[m_.region(o, r)].yields.end());
      for (OpId inner : m_[m_.region(o, r)].ops) read(inner, values);
    }
  }
  // Kept, it takes no more memory traffic than its operands, which are then not read.
  [[nodiscard]] bool isWorthKeeping(OpId o) {
    const auto bytes = resultBytes(m_, o, mesh_);
    if (!bytes || *bytes > left_) return false;
    if (!isHeavy(o)) {
      if (forms_.of(o).move) return false;
      int64_t operands = 0;
      bool heavy = false;
      for (ValueId v : m_.operands(o)) {
        if (m_[v].kind == ValueKind::Literal) continue;
        operands += largestBytes(m_, m_[v].type, mesh_).value_or(0);
        heavy = heavy || heavy_[v.index];
      }
      if (*bytes > operands || (*bytes == operands && !heavy)) return false;
    }
    left_ -= *bytes;
    return true;
  }

  void write() {
    const BlockId body = m_[func_].body;
    ValueMap kept; // in frozen ops
    std::vector<OpId> out;
    for (OpId o : m_[body].ops) {
      if (!required_.contains(o)) {
        out.push_back(o);
        continue;
      }
      const bool both = staying_.contains(o);
      const OpId made = both ? cloneOp(m_, o, body, kept, {}) : o;
      if (!both)
        for (ValueId& v : m_.operands(o)) v = kept(v);
      setFrozen(m_, made);
      out.push_back(made);
      if (both) out.push_back(o);
    }
    m_[body].ops = std::move(out);
  }

  Module& m_;
  FuncId func_;
  Mesh mesh_;
  FrozenValues frozen_;
  FusionForms forms_;
  CostlyOps costly_;
  int64_t left_;            // of the limit, in bytes
  std::vector<bool> heavy_; // by value: an op that it is computed from is heavy
  std::unordered_set<OpId> computed_, required_, staying_;
};

} // namespace

bool freezePass(Module& m, const PassOptions& options, Diagnostics&) {
  for (FuncId f : m.order)
    if (m[f].spmd && m[f].body) Freezer(m, f, options.bytes("memory")).run();
  return true;
}

} // namespace dtc
