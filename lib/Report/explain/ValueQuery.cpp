// The values that a user's name stands for, and the collectives of an op.
#include "dtc/Passes/propagate/Reasons.h"
#include "dtc/Report/explain/Explain.h"
#include "dtc/Report/explain/ExplainProgram.h"

#include <algorithm>

namespace dtc {

template <class Fn> static void forEachValue(const Module& m, Fn&& fn) {
  for (FuncId f : m.order) {
    for (const FuncArg& a : m[f].args) fn(a.value);
    forEachOp(m, m[f].body, [&](OpId o) {
      for (uint32_t r = 0; r < m[o].numResults; ++r) fn(m.result(o, r));
      for (uint32_t k = 0; k < m[o].numRegions; ++k)
        for (ValueId a : m[m.region(o, k)].args) fn(a);
    });
  }
}

static std::vector<ValueId> resultsNamed(const Module& m, std::string_view name) {
  std::vector<ValueId> out;
  for (FuncId f : m.order)
    for (size_t r = 0; r < m[f].results.size() && r < m[m[f].body].yields.size(); ++r)
      if (const StrId label = m[f].results[r].label;
          label.valid() && name == "%" + std::string(m.strings[label]))
        out.push_back(m[m[f].body].yields[r]);
  return out;
}

std::vector<ValueId> valuesOf(const Module& m, const PropagationReport& report, const ValueQuery& query) {
  const Reasons reasons(m, report);
  std::vector<ValueId> written;
  ValueId generated;
  forEachValue(m, [&](ValueId v) {
    if (reasons.source(v) != v) return; // a reshard of another value
    const ValueId shown = reasons.shown(v);
    const SourceRange at = m[v].loc;
    const bool there = at.valid() && std::ranges::any_of(query.locations, [&](SourceRange r) {
                         return r.begin == at.begin && r.end == at.end;
                       });
    const bool named = reasons.lookupName(shown) == query.name;
    if (there || (named && !reasons.isGenerated(shown)))
      written.push_back(v);
    else if (named)
      generated = v;
  });
  if (!written.empty()) return written;
  if (auto results = resultsNamed(m, query.name); !results.empty()) return results;
  return generated.valid() ? std::vector{generated} : written;
}

OpCollectives opCollectives(const CollectiveTrace& t) {
  OpCollectives out;
  std::vector<const TracedCollective*> all;
  for (const auto* list : {&t.collectives, &t.slices})
    for (const TracedCollective& c : *list) all.push_back(&c);
  std::ranges::sort(all, {}, &TracedCollective::position);
  for (const TracedCollective* each : all)
    for (OpId source : each->sources) {
      const TracedCollective& c = *each;
      ExplainCollective one;
      one.shared = c.sources.size() - 1;
      one.kind = collectiveName(t.local.record(c.op).collective);
      for (const AxisRef& a : collectiveAxes(t.local, c.op))
        one.axes += (one.axes.empty() ? "" : ", ") + printAxis(a, t.local.strings);
      if (c.price) one.bytes = c.price->bytesReceived, one.seconds = c.price->seconds;
      out[source].push_back(one);
    }
  return out;
}

} // namespace dtc
