#include "dtc/Passes/PlanMemory.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"

#include <algorithm>
#include <map>

namespace dtc {
namespace {

inline constexpr DiagKind kUnbound{"memory-unbound",
                                   "{0} has no fixed size: bind its symbols with --dim NAME=SIZE"};
inline constexpr DiagKind kTooLarge{"memory-too-large", "the buffers of @{0} pass 2^63-1 bytes"};

constexpr uint32_t kForever = UINT32_MAX;

int64_t aligned(int64_t bytes) { return (bytes + kBufferAlignment - 1) & ~(kBufferAlignment - 1); }

// Walks a function once, in the order in which it runs, and notes when each value is made and last read.
struct Liveness {
  const Module& m;
  FuncId func;
  const Mesh mesh;
  Diagnostics& diags;
  MemoryPlan plan;
  std::vector<uint32_t> madeBefore; // of each loop around us: how many buffers were there when it began
  std::vector<std::vector<uint32_t>> usedInLoop; // of those, the ones that it reads: they live to its end

  uint32_t tick() { return plan.numPositions++; }

  bool make(ValueId v, uint32_t position) {
    auto bytes = largestBytes(m, m[v].type, mesh);
    if (!bytes) {
      diags.error(kUnbound, m[v].loc, "a value of @" + std::string(m.strings[m[func].name]));
      return false;
    }
    plan.bufferOf[v] = static_cast<uint32_t>(plan.buffers.size());
    plan.buffers.push_back({v, *bytes, 0, position, position});
    return true;
  }
  void share(ValueId v, ValueId with) {
    if (auto it = plan.bufferOf.find(with); it != plan.bufferOf.end()) plan.bufferOf[v] = it->second;
  }
  void use(ValueId v, uint32_t position) {
    auto it = plan.bufferOf.find(v);
    if (it == plan.bufferOf.end()) return; // a literal
    MemoryPlan::Buffer& b = plan.buffers[it->second];
    b.last = std::max(b.last, position);
    for (size_t i = 0; i < madeBefore.size(); ++i)
      if (it->second < madeBefore[i]) {
        usedInLoop[i].push_back(it->second);
        break; // the outermost loop ends last
      }
  }
  void keep(ValueId v) {
    if (auto it = plan.bufferOf.find(v); it != plan.bufferOf.end()) plan.buffers[it->second].last = kForever;
  }

  bool block(BlockId b) {
    for (OpId o : m[b].ops)
      if (!op(o)) return false;
    uint32_t end = tick();
    for (ValueId v : m[b].yields) use(v, end);
    return true;
  }

  bool op(OpId o) {
    uint32_t at = tick();
    plan.position[o] = {at, at};
    for (ValueId v : m.operands(o)) use(v, at);
    RegionKind kind = m.record(o).regions;
    bool once = isLoadTimeOp(m, o);
    if (isViewRegion(m, o) && m[m.operand(o, 0)].kind != ValueKind::Literal) {
      share(m.result(o), m.operand(o, 0));
    } else {
      for (uint32_t r = 0; r < m[o].numResults; ++r) {
        if (!make(m.result(o, r), once ? 0 : at)) return false;
        if (once) keep(m.result(o, r));
      }
    }
    if (kind == RegionKind::None || kind == RegionKind::Fused) return true;
    return regions(o, kind);
  }

  bool regions(OpId o, RegionKind kind) {
    bool loop = kind == RegionKind::While || kind == RegionKind::For;
    size_t firstArg = kind == RegionKind::For ? 1 : 0;
    if (loop) {
      madeBefore.push_back(static_cast<uint32_t>(plan.buffers.size()));
      usedInLoop.emplace_back();
    }
    for (uint32_t r = 0; r < m[o].numRegions; ++r) {
      const std::vector<ValueId>& args = m[m.region(o, r)].args;
      if (loop)
        for (size_t i = firstArg; i < args.size(); ++i) share(args[i], m.result(o, i - firstArg));
      if (kind == RegionKind::For && !make(args[0], plan.position[o][0])) return false;
      if (!block(m.region(o, r))) return false;
    }
    uint32_t end = tick();
    plan.position[o][1] = end;
    for (uint32_t r = 0; r < m[o].numResults; ++r) use(m.result(o, r), end);
    if (kind == RegionKind::For) use(m[m.region(o)].args[0], end);
    if (loop) {
      for (uint32_t b : usedInLoop.back()) plan.buffers[b].last = std::max(plan.buffers[b].last, end);
      usedInLoop.pop_back();
      madeBefore.pop_back();
    }
    return true;
  }

  bool run() {
    const Function& fn = m[func];
    StrId donate = m.strings.find("donate");
    uint32_t start = tick();
    for (const FuncArg& a : fn.args) {
      if (!make(a.value, start)) return false;
      AttrId given = donate ? findAttr(a.attrs, donate) : AttrId();
      if (!given || m.attrs[given].i == 0) keep(a.value);
    }
    if (!block(fn.body)) return false;
    for (ValueId v : m[fn.body].yields) keep(v);
    return true;
  }
};

// The free places of an arena that grows at its end: first fit, neighbours joined.
class FreeList {
public:
  std::optional<int64_t> take(int64_t bytes) {
    if (bytes == 0) return 0;
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if (it->second >= bytes) {
        int64_t at = it->first, left = it->second - bytes;
        free_.erase(it);
        if (left > 0) free_[at + bytes] = left;
        return at;
      }
    int64_t at = end_;
    if (!free_.empty() && std::prev(free_.end())->first + std::prev(free_.end())->second == end_) {
      at = std::prev(free_.end())->first; // the last hole reaches the end: grow it
      free_.erase(std::prev(free_.end()));
    }
    if (__builtin_add_overflow(at, bytes, &end_)) return std::nullopt;
    return at;
  }
  void give(int64_t at, int64_t bytes) {
    if (bytes == 0) return;
    auto next = free_.lower_bound(at);
    if (next != free_.end() && at + bytes == next->first) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == at)
      std::prev(next)->second += bytes;
    else
      free_[at] = bytes;
  }
  [[nodiscard]] int64_t end() const { return end_; }

private:
  std::map<int64_t, int64_t> free_; // offset -> bytes
  int64_t end_ = 0;
};

bool place(MemoryPlan& plan) {
  // Buffers in the order of their first position; those that end before it are given back first.
  std::vector<uint32_t> order(plan.buffers.size()), ends;
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const std::vector<MemoryPlan::Buffer>& all = plan.buffers;
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return std::pair(all[a].first, a) < std::pair(all[b].first, b); });
  ends = order;
  std::sort(ends.begin(), ends.end(),
            [&](uint32_t a, uint32_t b) { return std::pair(all[a].last, a) < std::pair(all[b].last, b); });
  FreeList arena;
  int64_t live = 0;
  size_t next = 0;
  for (uint32_t i : order) {
    MemoryPlan::Buffer& b = plan.buffers[i];
    for (; plan.buffers[ends[next]].last < b.first; ++next) {
      MemoryPlan::Buffer& gone = plan.buffers[ends[next]];
      arena.give(gone.offset, aligned(gone.bytes));
      live -= aligned(gone.bytes);
    }
    if (b.bytes > INT64_MAX - kBufferAlignment) return false;
    auto at = arena.take(aligned(b.bytes));
    if (!at) return false;
    b.offset = *at;
    live += aligned(b.bytes);
    plan.lowerBound = std::max(plan.lowerBound, live);
  }
  plan.arenaBytes = arena.end();
  return true;
}

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

std::optional<MemoryPlan> makeMemoryPlan(const Module& m, FuncId f, Diagnostics& diags, bool reuse) {
  Liveness liveness{m, f, meshValueOf(m, f), diags, {}, {}, {}};
  if (!liveness.run()) return std::nullopt;
  if (!reuse)
    for (MemoryPlan::Buffer& b : liveness.plan.buffers) b.last = kForever;
  if (!place(liveness.plan)) {
    diags.error(kTooLarge, m[f].loc, m.strings[m[f].name]);
    return std::nullopt;
  }
  return std::move(liveness.plan);
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
          "A buffer lives from the op that writes it to the last that reads it and gets the lowest place "
          "that is "
          "free for that long.",
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
    -> (%y: f32[4] of f32[8] @m{a} {at = [64]}) {arena = 192} {
  %e = fused (%p0 = %x) {kind = "pointwise", at = [64]} {
    %0 = exp %p0 : f32[4]
    yield %0
  } : f32[4]
  %r = all_reduce %e {axes = [a], at = [128]} : f32[4]
  %y = fused (%p0 = %r) {kind = "pointwise", at = [64]} {
    %1 = neg %p0 : f32[4]
    yield %1
  } : f32[4]
  return %y
}
)"};
}

} // namespace dtc
