#include "dtc/Passes/memory/PlanMemory.h"

#include "analysis/MemoryLiveness.h"
#include "dtc/IR/OpRecord.h"
#include "memory/MemoryPlacement.h"

namespace dtc {
namespace {

inline constexpr DiagKind kTooLarge{"type-too-large", "the buffers of @{0} pass 2^61-1 bytes"};

struct Writer {
  Module& m;
  const MemoryPlan& plan;
  StrId at = m.strings.intern("at");

  AttrId offsets(std::span<const ValueId> values) {
    std::vector<int64_t> list;
    for (ValueId v : values) {
      auto it = plan.bufferOf.find(v);
      if (it == plan.bufferOf.end()) return {};
      list.push_back(plan.buffers[it->second].offset);
    }
    return m.attrs.integers(list);
  }
  void set(AttrList& attrs, StrId name, AttrId value) {
    for (NamedAttr& a : attrs)
      if (a.name == name) {
        a.value = value;
        return;
      }
    attrs.push_back({name, value});
  }
  void write(FuncId f) {
    for (FuncArg& a : m[f].args) set(a.attrs, at, offsets(std::span(&a.value, 1)));
    const std::vector<ValueId> yields = m[m[f].body].yields;
    for (size_t r = 0; r < yields.size(); ++r)
      if (AttrId offset = offsets(std::span(&yields[r], 1))) set(m[f].results[r].attrs, at, offset);
    set(m[f].attrs, m.strings.intern("arena"), m.attrs.integer(plan.arenaBytes));
    ops(m[f].body);
  }
  void ops(BlockId b) {
    for (OpId o : m[b].ops) {
      std::vector<ValueId> results;
      for (uint32_t r = 0; r < m[o].numResults; ++r) results.push_back(m.result(o, r));
      if (m.record(o).regions == RegionKind::For) results.push_back(m[m.region(o)].args[0]); // its index
      if (!results.empty()) m.setAttr(o, "at", offsets(results));
      if (m.record(o).regions == RegionKind::Fused) continue;
      for (uint32_t r = 0; r < m[o].numRegions; ++r) ops(m.region(o, r));
    }
  }
};

} // namespace

// Results are live for the whole program, so that no other value shares their buffers.
static void reserveResults(const Module& m, FuncId f, MemoryPlan& plan) {
  for (const ValueId v : m[m[f].body].yields)
    if (const auto found = plan.bufferOf.find(v); found != plan.bufferOf.end())
      plan.buffers[found->second].live = {{0, plan.numPositions - 1}};
}

std::optional<MemoryPlan> makeMemoryPlan(const Module& m, FuncId f, Diagnostics& diags, bool reuse,
                                         bool resultsApart) {
  auto plan = MemoryLiveness(m, f, diags).run(reuse);
  if (plan && resultsApart) reserveResults(m, f, *plan);
  if (plan && !placeBuffers(*plan)) return diags.fail(kTooLarge, m[f].loc, m.strings[m[f].name]);
  return plan;
}

bool planMemory(Module& m, const PassOptions& options, Diagnostics& diags) {
  const bool reuse = options.flag("reuse", true), apart = options.word("results", "shared") == "apart";
  for (FuncId f : m.order) {
    if (!m[f].spmd || !m[f].body) continue;
    auto plan = makeMemoryPlan(m, f, diags, reuse, apart);
    if (!plan) return false;
    Writer{m, *plan}.write(f);
  }
  return true;
}

bool planWithoutReuse(Module& m, Diagnostics& diags) {
  PassOptions options;
  options.values["reuse"] = "false";
  return planMemory(m, options, diags);
}

} // namespace dtc
