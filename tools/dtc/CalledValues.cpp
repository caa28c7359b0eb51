#include "CalledValues.h"

#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/GivenNames.h"
#include "dtc/IR/text/Text.h"

#include <functional>
#include <set>

namespace dtc {

static void forEachCall(const Module& m, FuncId in, const std::function<void(OpId, FuncId)>& fn) {
  forEachOp(m, m[in].body, [&](OpId o) {
    if (m.record(o).isCall)
      if (const FuncId callee = m.findFunction(m.strings[m[o].callee]); callee.valid()) fn(o, callee);
  });
}

bool isCalled(const Module& m, FuncId entry, FuncId f) {
  std::set<FuncId> seen;
  const std::function<bool(FuncId)> calls = [&](FuncId from) {
    if (!seen.insert(from).second) return false;
    bool found = false;
    forEachCall(m, from, [&](OpId, FuncId callee) { found = found || callee == f || calls(callee); });
    return found;
  };
  return calls(entry);
}

CalledValue calledValue(const Module& m, FuncId entry, FuncId f, std::string_view name) {
  CalledValue out;
  std::set<ValueId> seen;
  const std::function<void(FuncId, ValueId)> add = [&](FuncId in, ValueId v) {
    if (!seen.insert(v).second) return;
    if (in == entry)
      out.passed.push_back(printValueName(m, v));
    else
      out.places.push_back(m[v].loc);
    // The result of a further call is what that function returns.
    if (const OpId call = m.definingOp(v); in != entry && call.valid() && m.record(call).isCall)
      if (const FuncId callee = m.findFunction(m.strings[m[call].callee]); callee.valid())
        for (uint32_t r = 0; r < m[call].numResults && r < m[m[callee].body].yields.size(); ++r)
          if (m.result(call, r) == v) add(callee, m[m[callee].body].yields[r]);
    for (size_t i = 0; i < m[in].args.size(); ++i)
      if (m[in].args[i].value == v)
        for (const FuncId caller : m.order)
          forEachCall(m, caller, [&](OpId o, FuncId callee) {
            if (callee == in && i < m[o].numOperands) add(caller, m.operand(o, static_cast<uint32_t>(i)));
          });
  };
  const auto look = [&](ValueId v) {
    if (printValueName(m, v) == name) add(f, v);
  };
  for (const FuncArg& a : m[f].args) look(a.value);
  forEachOp(m, m[f].body, [&](OpId o) {
    for (uint32_t r = 0; r < m[o].numResults; ++r) look(m.result(o, r));
    for (uint32_t k = 0; k < m[o].numRegions; ++k)
      for (const ValueId a : m[m.region(o, k)].args) look(a);
  });
  return out;
}

std::vector<std::string> calledNames(const Module& m, FuncId entry, const std::string& name) {
  std::vector<std::string> found;
  if (!nameInText(m, entry, name).empty()) return found;
  for (const FuncId f : m.order)
    if (f != entry && !valuesNamed(m, f, name).empty() && isCalled(m, entry, f))
      found.push_back("@" + std::string(m.strings[m[f].name]) + ":" + name);
  return found;
}

} // namespace dtc
