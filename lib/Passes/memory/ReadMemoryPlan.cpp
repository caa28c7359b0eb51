// Reads the memory plan in a text, and checks it against the live ranges of its values.
#include "analysis/MemoryLiveness.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Naming.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/analysis/Frozen.h"
#include "dtc/Passes/memory/PlanMemory.h"
#include "dtc/Support/Counted.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace dtc {
namespace {

constexpr DiagKind kUnplaced{"memory-unplaced", "@{1} has an incomplete memory plan: {0} has no {2}"};
constexpr DiagKind kOffsets{"memory-offsets", "{0} has {1}: expected {2}{3}"};
constexpr DiagKind kOffset{"memory-offset", "{0} of {1} bytes has offset {2}: {3}"};
constexpr DiagKind kArena{"memory-offset", "@{0} has arena = {1}: expected a number of bytes"};
constexpr DiagKind kDistinctOffsets{"memory-apart",
                                    "{0} and {1} share a buffer, but have offsets {2} and {3}"};
constexpr DiagKind kResultOffset{"memory-apart",
                                 "{0} has offset {1}, but {2}, which it returns, has offset {3}"};
constexpr DiagKind kFrozenOperand{
    "frozen-operand",
    "'{0}' has frozen = true, but reads {1}, which is not frozen: mark the argument, or drop the mark"};
constexpr DiagKind kFrozenOp{"frozen-op",
                             "'{0}' cannot have frozen = true: it depends on more than its operands"};
constexpr DiagKind kFrozenOrder{"frozen-order",
                                "'{0}' has frozen = true: it must be before the ops of each run"};
constexpr DiagKind kOverlap{
    "memory-overlap", "{0} at [{1}, {2}) overlaps {3} at [{4}, {5}), and both are live at the same time"};

// The offsets in `at = […]`: on arguments, on ops for each result, on a `for` also for its index, after the
// results.
class Offsets {
public:
  Offsets(const Module& m, FuncId f, Diagnostics& diags)
      : names(m, f), m_(m), at_(m.strings.find("at")), diags_(diags) {
    for (const FuncArg& a : m[f].args)
      if (const auto list = listOf(a.attrs, m[a.value].loc, [&] { return names(a.value); }))
        of[a.value] = (*list)[0];
    block(m[f].body);
    for (size_t r = 0; r < m[f].results.size(); ++r) {
      const FuncResult& result = m[f].results[r];
      const auto list = listOf(result.attrs, result.loc, [&] { return resultName(m, f, r); });
      results.push_back(list ? std::optional((*list)[0]) : std::nullopt);
    }
  }
  // "result %y", or "result 1" without a label.
  static std::string resultName(const Module& m, FuncId f, size_t r) {
    const StrId label = m[f].results[r].label;
    return "result " + (label ? "%" + std::string(m.strings[label]) : std::to_string(r));
  }
  Naming names;
  MemoryLiveness::Offsets of;
  std::vector<std::optional<int64_t>> results; // as written on the function's results

private:
  // The `count` offsets of the attribute; nothing if there is none, or, with an error, if there are others.
  template <class Name>
  std::optional<std::vector<int64_t>> listOf(const AttrList& attrs, SourceRange range, Name&& name,
                                             size_t count = 1, const char* which = "") const {
    const AttrId given = at_.valid() ? findAttr(attrs, at_) : AttrId();
    if (!given) return std::nullopt;
    std::vector<int64_t> out;
    for (AttrId a : m_.attrs[given].list) out.push_back(m_.attrs[a].i);
    if (out.size() == count) return out;
    diags_.error(kOffsets, range, name(), counted(out.size(), "offset"), count, which);
    return std::nullopt;
  }
  void block(BlockId b) {
    for (OpId o : m_[b].ops) {
      const RegionKind kind = m_.record(o).regions;
      const bool indexed = kind == RegionKind::For;
      const auto list = listOf(
          m_[o].attrs, m_[o].loc, [&] { return "'" + std::string(m_.record(o).name) + "'"; },
          m_[o].numResults + (indexed ? 1 : 0),
          indexed ? ", one for each result and one for the index" : ", one for each result");
      if (list) {
        for (uint32_t r = 0; r < m_[o].numResults; ++r) of[m_.result(o, r)] = (*list)[r];
        if (indexed) of[m_[m_.region(o)].args[0]] = list->back();
        if (indexed || kind == RegionKind::While) carried(o, indexed ? 1 : 0, *list);
      }
      if (kind == RegionKind::Fused) continue;
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) block(m_.region(o, r));
    }
  }
  // A carried value has the offset of its result.
  void carried(OpId o, size_t firstArg, const std::vector<int64_t>& list) {
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
      const std::vector<ValueId>& args = m_[m_.region(o, r)].args;
      for (size_t i = firstArg; i < args.size(); ++i) of[args[i]] = list[i - firstArg];
    }
  }

  const Module& m_;
  StrId at_;
  Diagnostics& diags_;
};

class PlanCheck {
public:
  PlanCheck(const Module& m, FuncId f, const MemoryPlan& plan, const Offsets& offsets, Diagnostics& diags)
      : m_(m), func_(f), plan_(plan), offsets_(offsets), diags_(diags), names_(offsets.names) {}

  bool run() {
    const size_t before = diags_.all().size();
    for (const MemoryPlan::Held& held : plan_.values) {
      const MemoryPlan::Buffer& b = plan_.buffers[held.buffer];
      if (const int64_t at = offsets_.of.at(held.value); at != b.offset)
        diags_.error(kDistinctOffsets, locOf(held.value), names_(held.value), names_(b.value), at, b.offset)
            .note(locOf(b.value), names_(b.value) + " is defined here");
    }
    results();
    for (const MemoryPlan::Buffer& b : plan_.buffers) bounds(b);
    if (diags_.all().size() == before) overlaps();
    return diags_.all().size() == before;
  }

private:
  SourceRange locOf(ValueId v) const {
    const OpId by = m_.definingOp(v);
    return by && m_[by].loc.valid() ? m_[by].loc : m_[v].loc;
  }
  // A result's `at` repeats the offset of the returned value.
  void results() {
    for (size_t r = 0; r < offsets_.results.size(); ++r) {
      const std::optional<int64_t> said = offsets_.results[r];
      const auto returned = offsets_.of.find(m_[m_[func_].body].yields[r]);
      if (said && returned != offsets_.of.end() && *said != returned->second)
        diags_.error(kResultOffset, m_[func_].results[r].loc, Offsets::resultName(m_, func_, r), *said,
                     names_(returned->first), returned->second);
    }
  }
  void bounds(const MemoryPlan::Buffer& b) {
    std::string why;
    if (b.offset < 0)
      why = "offsets must not be negative";
    else if (b.offset % kBufferAlignment != 0)
      why = "offsets must be multiples of 64 bytes";
    else if (b.bytes > plan_.arenaBytes || b.offset > plan_.arenaBytes - b.bytes)
      why = "it exceeds the arena of " + std::to_string(plan_.arenaBytes) + " bytes";
    if (!why.empty()) diags_.error(kOffset, locOf(b.value), names_(b.value), b.bytes, b.offset, why);
  }
  // A sweep over time, with the live buffers ordered by offset.
  void overlaps() {
    struct Event {
      uint32_t at;
      bool begins;
      uint32_t buffer;
    };
    std::vector<Event> events;
    for (uint32_t i = 0; i < plan_.buffers.size(); ++i)
      if (plan_.buffers[i].bytes > 0)
        for (const MemoryPlan::Range& r : plan_.buffers[i].live)
          events.push_back({r.first, true, i}), events.push_back({r.last + 1, false, i});
    std::ranges::sort(events, [](const Event& a, const Event& b) {
      return std::tuple(a.at, a.begins, a.buffer) < std::tuple(b.at, b.begins, b.buffer);
    });
    std::map<int64_t, uint32_t> live; // by offset
    for (const Event& e : events) {
      const MemoryPlan::Buffer& b = plan_.buffers[e.buffer];
      if (!e.begins) {
        live.erase(b.offset);
        continue;
      }
      const auto next = live.lower_bound(b.offset);
      if (next != live.end() && next->first < b.offset + b.bytes)
        return overlap(e.buffer, next->second, e.at);
      if (next != live.begin())
        if (const MemoryPlan::Buffer& below = plan_.buffers[std::prev(next)->second];
            below.offset + below.bytes > b.offset)
          return overlap(e.buffer, std::prev(next)->second, e.at);
      live.emplace_hint(next, b.offset, e.buffer);
    }
  }
  // The value that is in the buffer at this position: the last one defined.
  ValueId valueIn(uint32_t buffer, uint32_t position) const {
    ValueId last = plan_.buffers[buffer].value;
    for (const MemoryPlan::Held& held : plan_.values)
      if (held.buffer == buffer && held.live.first <= position) last = held.value;
    return last;
  }
  void overlap(uint32_t buffer, uint32_t with, uint32_t position) {
    const MemoryPlan::Buffer &b = plan_.buffers[buffer], &other = plan_.buffers[with];
    const ValueId v = valueIn(buffer, position), w = valueIn(with, position);
    diags_
        .error(kOverlap, locOf(v), names_(v), b.offset, b.offset + b.bytes, names_(w), other.offset,
               other.offset + other.bytes)
        .note(locOf(w), names_(w) + " is defined here");
  }

  const Module& m_;
  FuncId func_;
  const MemoryPlan& plan_;
  const Offsets& offsets_;
  Diagnostics& diags_;
  const Naming& names_;
};

} // namespace

// Ops that run once come first, and read nothing that a run computes.
static bool checkFrozen(const Module& m, FuncId f, Diagnostics& diags) {
  FrozenValues frozen(m, f);
  OpId other; // the first step of each run
  for (OpId o : m[m[f].body].ops) {
    const bool view = isViewRegion(m, o);
    if (isLoadTimeOp(m, o) || (view && frozen.computes(o))) {
      frozen.add(o);
      continue;
    }
    if (!isFrozenOp(m, o)) {
      if (!other.valid()) other = o;
      continue;
    }
    if (!frozen.computes(o)) {
      const auto varies = std::ranges::find_if(m.operands(o), [&](ValueId v) { return !frozen(v); });
      if (varies != m.operands(o).end())
        diags.error(kFrozenOperand, m[o].loc, m.record(o).name, printValueName(m, *varies));
      else
        diags.error(kFrozenOp, m[o].loc, m.record(o).name);
      return false;
    }
    if (other.valid()) {
      diags.error(kFrozenOrder, m[o].loc, m.record(o).name).note(m[other].loc, "this op runs in each run");
      return false;
    }
    frozen.add(o);
  }
  return true;
}

std::optional<MemoryPlan> readMemoryPlan(const Module& m, FuncId f, Diagnostics& diags) {
  const size_t before = diags.numErrors();
  const Offsets offsets(m, f, diags);
  if (diags.numErrors() != before) return std::nullopt;
  auto plan = MemoryLiveness(m, f, diags).run(true, &offsets.of);
  if (!plan) return std::nullopt;
  for (const MemoryPlan::Held& held : plan->values)
    if (!offsets.of.contains(held.value))
      return diags.fail(kUnplaced, m[held.value].loc, printValueName(m, held.value), m.strings[m[f].name],
                        "offset (`at`)");
  for (MemoryPlan::Buffer& b : plan->buffers) b.offset = offsets.of.at(b.value);
  const StrId arena = m.strings.find("arena");
  const AttrId bytes = arena ? findAttr(m[f].attrs, arena) : AttrId();
  if (!bytes) return diags.fail(kUnplaced, m[f].loc, "the function", m.strings[m[f].name], "`arena`");
  plan->arenaBytes = m.attrs[bytes].i;
  if (plan->arenaBytes < 0) return diags.fail(kArena, m[f].loc, m.strings[m[f].name], plan->arenaBytes);
  if (!checkFrozen(m, f, diags) || !measureBuffers(*plan) || !PlanCheck(m, f, *plan, offsets, diags).run())
    return std::nullopt;
  return plan;
}

bool checkMemoryPlans(const Module& m, Diagnostics& diags) {
  bool good = true;
  for (FuncId f : m.order) {
    if (!m[f].body.valid() || levelOf(m, f) != Level::Placed) continue;
    Diagnostics unbound;
    if (memoryLowerBound(m, f, unbound)) good = readMemoryPlan(m, f, diags).has_value() && good;
  }
  return good;
}

} // namespace dtc
