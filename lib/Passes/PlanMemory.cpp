#include "dtc/Passes/PlanMemory.h"

#include "MemoryLiveness.h"
#include "MemoryPlacement.h"
#include "dtc/IR/OpRecord.h"

#include <algorithm>

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
      if (AttrId place = offsets(std::span(&yields[r], 1))) set(m[f].results[r].attrs, at, place);
    set(m[f].attrs, m.strings.intern("arena"), m.attrs.integer(plan.arenaBytes));
    ops(m[f].body);
  }
  void ops(BlockId b) {
    for (OpId o : m[b].ops) {
      std::vector<ValueId> results;
      for (uint32_t r = 0; r < m[o].numResults; ++r) results.push_back(m.result(o, r));
      if (!results.empty()) m.setAttr(o, "at", offsets(results));
      if (m.record(o).regions == RegionKind::Fused) continue;
      for (uint32_t r = 0; r < m[o].numRegions; ++r) ops(m.region(o, r));
    }
  }
};

} // namespace

bool isViewRegion(const Module& m, OpId op) {
  if (m.record(op).regions != RegionKind::Fused || m[op].numResults != 1 || m[op].numOperands != 1)
    return false;
  AttrId kind = m.attr(op, "kind");
  return kind && m.strings[m.attrs[kind].text] == "view";
}

bool isLoadTimeOp(const Module& m, OpId op) {
  return m[op].numOperands == 0 && m[op].numRegions == 0 && m[op].numResults > 0;
}

std::optional<size_t> carriedArgument(const Module& m, FuncId f, size_t result) {
  const FuncResult& r = m[f].results[result];
  const StrId carry = m.strings.find("carry");
  const AttrId given = carry ? findAttr(r.attrs, carry) : AttrId();
  if (!given || m.attrs[given].i == 0 || !r.label) return std::nullopt;
  for (size_t i = 0; i < m[f].args.size(); ++i)
    if (m[m[f].args[i].value].name == r.label) return i;
  return std::nullopt; // the verifier refuses it
}

std::optional<MemoryPlan> makeMemoryPlan(const Module& m, FuncId f, Diagnostics& diags, bool reuse,
                                         uint32_t inFlight) {
  auto plan = MemoryLiveness(m, f, diags, inFlight).run(reuse);
  if (plan && !placeBuffers(*plan)) {
    diags.error(kTooLarge, m[f].loc, m.strings[m[f].name]);
    return std::nullopt;
  }
  return plan;
}

bool planMemory(Module& m, const PassOptions&, Diagnostics& diags) {
  for (FuncId f : m.order) {
    if (!m[f].spmd || !m[f].body) continue;
    auto plan = makeMemoryPlan(m, f, diags);
    if (!plan) return false;
    Writer{m, *plan}.write(f);
  }
  return true;
}

PassInfo planMemoryInfo() {
  return {
      .name = "plan-memory",
      .summary = "gives every buffer its place in the device's arena",
      .why =
          "Last, after fuse, because before it ops still move and buffers come and go; what runs the program "
          "only reads the plan.\n"
          "A value lives from the op that writes it to the last that reads it. Elementwise results are "
          "written "
          "over an "
          "operand that dies with them, loops, branches and carried results work in place where nothing is "
          "read "
          "afterwards, and buffers that do not live at one time share their place: the arena is within a few "
          "percent "
          "of the most that is alive at once.",
      .needs = Level::Local, // a program of collectives alone has nothing to fuse
      .gives = Level::Scheduled,
      .run = planMemory,
      .before = R"(mesh @m = [a=2]

spmd func @main(%x: f32[4] of f32[8] @m{a}) -> (%y: f32[4] of f32[8] @m{a}) {
  %e = fused (%p0 = %x) {kind = "pointwise"} {
    %0 = exp %p0 : f32[4]
    yield %0
  } : f32[4]
  %r = all_reduce %e {axes = [a]} : f32[4]
  %y = fused (%p0 = %r) {kind = "pointwise"} {
    %1 = neg %p0 : f32[4]
    yield %1
  } : f32[4]
  return %y
}
)",
      .after = R"(mesh @m = [a=2]

spmd func @main(%x: f32[4] of f32[8] @m{a} {at = [0]})
    -> (%y: f32[4] of f32[8] @m{a} {at = [128]}) {arena = 192} {
  %e = fused (%p0 = %x) {kind = "pointwise", at = [64]} {
    %0 = exp %p0 : f32[4]
    yield %0
  } : f32[4]
  %r = all_reduce %e {axes = [a], at = [128]} : f32[4]
  %y = fused (%p0 = %r) {kind = "pointwise", at = [128]} {
    %1 = neg %p0 : f32[4]
    yield %1
  } : f32[4]
  return %y
}
)"};
}

} // namespace dtc
