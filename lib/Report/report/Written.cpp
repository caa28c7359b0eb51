#include "report/Written.h"

#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/simplify/Canonicalize.h"

namespace dtc {

WrittenProgram::WrittenProgram(Module& written, const Module& propagated, FuncId function,
                               const Reasons& reasons)
    : m_(written), names_(written) {
  const FuncId own = m_.findFunction(propagated.strings[propagated[function].name]);
  if (!own.valid()) return;
  body_ = m_[own].body;
  forEachOp(m_, body_, [&](OpId o) { ops_.insert(o); });
  forEachOp(propagated, propagated[function].body, [&](OpId o) {
    if (ops_.contains(o)) kept_.insert(o);
  });
  compareOps(propagated, reasons);
  findPermuted();
  for (const auto& [from, to] : replaced_)
    if (const OpId o = propagated.definingOp(to.value); o.valid() && !ops_.contains(o) && to.dims.empty())
      replacedBy_.emplace(to.value, from);
}

// What an op that is kept reads in one program, it reads in the other.
void WrittenProgram::compareOps(const Module& propagated, const Reasons& reasons) {
  const auto compareLists = [&](const auto& written, const auto& now) {
    if (written.size() != now.size()) return;
    for (size_t i = 0; i < written.size(); ++i) compare(written[i], now[i], reasons);
  };
  compareLists(m_[body_].yields, propagated[body_].yields);
  for (const OpId o : kept_) {
    compareLists(m_.operands(o), propagated.operands(o));
    for (uint32_t r = 0; r < m_[o].numRegions; ++r)
      compareLists(m_[m_.region(o, r)].yields, propagated[propagated.region(o, r)].yields);
  }
}

void WrittenProgram::compare(ValueId written, ValueId propagated, const Reasons& reasons) {
  const OpId maker = m_.definingOp(written);
  if (!maker.valid() || isKept(maker)) return;
  replaced_.try_emplace(written, Replaced{reasons.source(propagated), {}});
}

// A value that only a transpose reads, which its op then stores in that order.
void WrittenProgram::findPermuted() {
  std::vector<OpId> ops;
  forEachOp(m_, body_, [&](OpId o) { ops.push_back(o); });
  for (size_t i = ops.size(); i-- > 0;) {
    const OpId o = ops[i];
    if (isKept(o) || m_[o].numOperands != 1 || m_[o].numResults != 1) continue;
    const Replaced* to = replaced(m_.result(o));
    if (!to || !m_.definingOp(m_.operand(o, 0)).valid() || isKept(m_.definingOp(m_.operand(o, 0)))) continue;
    const std::vector<int64_t> perm = permutationOf(m_, o);
    if (perm.empty()) continue;
    Replaced from{to->value, std::vector<int64_t>(perm.size())};
    for (size_t d = 0; d < perm.size(); ++d)
      from.dims[static_cast<size_t>(perm[d])] = to->dims.empty() ? static_cast<int64_t>(d) : to->dims[d];
    replaced_.try_emplace(m_.operand(o, 0), std::move(from));
  }
}

const WrittenProgram::Replaced* WrittenProgram::replaced(ValueId v) const {
  const auto it = replaced_.find(v);
  return it == replaced_.end() ? nullptr : &it->second;
}

ValueId WrittenProgram::replacedBy(ValueId v) const {
  const auto it = replacedBy_.find(v);
  return it == replacedBy_.end() ? ValueId() : it->second;
}

namespace {

class CallReader {
public:
  explicit CallReader(const Module& m) : m_(m) {}

  void read(FuncId f, const std::string& prefix) {
    if (!f.valid() || !m_[f].body.valid()) return;
    forEachOp(m_, m_[f].body, [&](OpId o) {
      if (!m_.record(o).isCall || m_[o].numResults == 0 || out.size() > kMaxResults) return;
      const FuncId callee = m_.findFunction(m_.strings[m_[o].callee]);
      const size_t own = callee.valid() ? m_[callee].results.size() : m_[o].numResults;
      std::string first;
      for (uint32_t r = 0; r < m_[o].numResults; ++r) {
        const ValueId v = m_.result(o, r);
        if (!m_[v].name.valid()) continue;
        const std::string named(m_.strings[m_[v].name]), name = prefix.empty() ? named : prefix + "_" + named;
        if (r == 0) first = name;
        out.emplace(name, CallResult{m_[o].loc, "%" + named, r >= own});
      }
      // Values of the callee are named after the call's first result.
      if (!first.empty()) read(callee, first);
    });
  }

  std::unordered_map<std::string, CallResult> out;

private:
  static constexpr size_t kMaxResults = 10'000;
  const Module& m_;
};

} // namespace

std::unordered_map<std::string, CallResult> callResults(const Module& m, FuncId entry) {
  CallReader reader(m);
  reader.read(entry, "");
  return std::move(reader.out);
}

} // namespace dtc
