#include "analysis/MemoryLiveness.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/Frozen.h"

#include <algorithm>

namespace dtc {
namespace {

inline constexpr DiagKind kUnbound{"memory-unbound",
                                   "{0} has no fixed size: bind its symbols with --dim NAME=SIZE"};

// Ascending ranges, overlapping ones merged. Adjacent ranges are not merged: between a buffer's last reader
// at t and its next writer at t+1 another value may use it, written in place at t and read in place at t+1.
void normalize(std::vector<MemoryPlan::Range>& set) {
  std::sort(set.begin(), set.end(), [](auto a, auto b) { return a.first < b.first; });
  size_t n = 0;
  for (size_t i = 0; i < set.size(); ++i) {
    if (n > 0 && set[i].first <= set[n - 1].last)
      set[n - 1].last = std::max(set[n - 1].last, set[i].last);
    else
      set[n++] = set[i];
  }
  set.resize(n);
}

} // namespace

MemoryLiveness::MemoryLiveness(const Module& m, FuncId f, Diagnostics& diags)
    : m_(m), func_(f), mesh_(meshValueOf(m, f)), absent_(m, f), diags_(diags),
      localOf_(m.values.size(), kNone) {}

bool MemoryLiveness::make(ValueId v, uint32_t position) {
  auto bytes = largestBytes(m_, m_[v].type, mesh_);
  if (!bytes)
    return diags_.fail(kUnbound, m_[v].loc, "a value of @" + std::string(m_.strings[m_[func_].name]));
  if (absent_(v)) bytes = 0;
  localOf_[v.index] = static_cast<uint32_t>(locals_.size());
  locals_.push_back({v, {position, position}, *bytes, false, local(v), {}});
  return true;
}

void MemoryLiveness::use(ValueId v, uint32_t position) {
  const uint32_t i = local(v);
  if (i == kNone) return; // a literal
  Local& l = locals_[i];
  l.live.last = std::max(l.live.last, position);
  for (Loop& loop : loops_)
    if (l.live.first < loop.begin) {
      loop.used.push_back(i);
      break; // the outermost loop ends last
    }
  const OpId by = m_.definingOp(v); // an asynchronous transfer still reads its operands
  if (by && m_.record(by).async == AsyncForm::Start)
    for (ValueId read : m_.operands(by)) use(read, position);
}

void MemoryLiveness::occupy(ValueId v, Range when) {
  if (local(v) != kNone) occupied_.push_back({local(v), when});
}

void MemoryLiveness::share(ValueId a, ValueId b) {
  if (local(a) != kNone && local(b) != kNone) shared_.push_back({local(a), local(b)});
}

// What later ops read of an op that runs once is in memory between runs.
void MemoryLiveness::keepFrozen() {
  const BlockId body = m_[func_].body;
  if (!m_.strings.find("frozen")) return;
  const auto keep = [&](ValueId v) {
    const OpId by = m_.definingOp(v);
    if (by.valid() && m_[by].parent == body && isFrozenOp(m_, by)) locals_[local(v)].always = true;
  };
  for (ValueId v : m_[body].yields) keep(v);
  std::vector<BlockId> blocks{body};
  while (!blocks.empty()) {
    const BlockId b = blocks.back();
    blocks.pop_back();
    for (OpId o : m_[b].ops) {
      if (b == body && isFrozenOp(m_, o)) continue;
      for (ValueId v : m_.operands(o)) keep(v);
      if (m_.record(o).regions == RegionKind::Fused) continue;
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) blocks.push_back(m_.region(o, r));
      for (uint32_t r = 0; r < m_[o].numRegions; ++r)
        for (ValueId v : m_[m_.region(o, r)].yields) keep(v);
    }
  }
}

bool MemoryLiveness::block(BlockId b) {
  for (OpId o : m_[b].ops)
    if (!op(o)) return false;
  const uint32_t end = tick();
  for (ValueId v : m_[b].yields) use(v, end);
  return true;
}

bool MemoryLiveness::op(OpId o) {
  const RegionKind kind = m_.record(o).regions;
  if (kind == RegionKind::Cond) return cond(o);
  if (kind == RegionKind::While || kind == RegionKind::For) return loop(o, kind);
  const uint32_t at = tick();
  plan_.position[o] = {at, at};
  const bool view = isViewRegion(m_, o);
  for (ValueId v : m_.operands(o)) use(v, at);
  for (uint32_t r = 0; r < m_[o].numResults; ++r) {
    if (!make(m_.result(o, r), at)) return false;
    if (isLoadTimeOp(m_, o)) locals_.back().always = true;
  }
  if (view)
    share(m_.operand(o, 0), m_.result(o));
  else if (m_.record(o).async == AsyncForm::Done) // the collective's own buffers
    for (uint32_t r = 0; r < m_[o].numResults; ++r) share(m_.operand(o, r), m_.result(o, r));
  else if (kind == RegionKind::Fused)
    fused_.push_back(o), fusedAt_[at] = o;
  return true;
}

// Each branch writes the results at its end; during one branch, the values and results of the other are dead.
bool MemoryLiveness::cond(OpId o) {
  const uint32_t begin = tick();
  for (ValueId v : m_.operands(o)) use(v, begin);
  uint32_t ends[2];
  for (uint32_t r = 0; r < 2; ++r) {
    if (!block(m_.region(o, r))) return false;
    ends[r] = plan_.numPositions - 1;
  }
  const uint32_t end = tick();
  plan_.position[o] = {begin, end};
  for (uint32_t i = 0; i < m_[o].numResults; ++i) {
    const ValueId result = m_.result(o, i);
    if (!make(result, end)) return false;
    occupy(result, {ends[0], ends[0]});
    occupy(result, {ends[1], end});
    for (uint32_t r = 0; r < 2; ++r)
      if (const ValueId y = m_[m_.region(o, r)].yields[i]; local(y) != kNone)
        copies_.push_back({local(y), local(result), ends[r]});
  }
  return true;
}

// A carried value has one buffer, the arguments' and the result's. It is written from the start before the
// first iteration, and from the yield at the end of the body; in between it is free from its last reader on.
bool MemoryLiveness::loop(OpId o, RegionKind kind) {
  const uint32_t begin = tick();
  plan_.position[o] = {begin, begin};
  for (ValueId v : m_.operands(o)) use(v, begin);
  loops_.push_back({begin, {}});
  const size_t firstStart = kind == RegionKind::For ? 2 : 0, firstArg = kind == RegionKind::For ? 1 : 0;
  size_t carried = 0;
  for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
    const BlockId b = m_.region(o, r);
    const uint32_t entry = r == 0 ? begin : plan_.numPositions - 1;
    for (ValueId arg : m_[b].args)
      if (!make(arg, entry)) return false;
    carried = m_[b].args.size() - firstArg;
    if (!block(b)) return false;
    if (r + 1 <
        m_[o].numRegions) // the condition: carried values are read after it, by the body or as results
      for (ValueId arg : m_[b].args) use(arg, plan_.numPositions - 1);
  }
  const uint32_t bodyEnd = plan_.numPositions - 1, end = tick();
  plan_.position[o][1] = end;
  const BlockId body = m_.region(o, m_[o].numRegions - 1);
  if (firstArg) use(m_[body].args[0], end); // the loop index
  for (uint32_t i = 0; i < m_[o].numResults; ++i) {
    const ValueId result = m_.result(o, i), yield = m_[body].yields[i];
    if (!make(result, i < carried ? end : begin)) return false;
    locals_.back().live.last = end;
    if (i >= carried) continue; // stacked: written per iteration
    occupy(result, {bodyEnd, end});
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) share(m_[m_.region(o, r)].args[firstArg + i], result);
    if (const ValueId start = m_.operand(o, firstStart + i); local(start) != kNone)
      copies_.push_back({local(start), local(result), begin});
    if (local(yield) != kNone) copies_.push_back({local(yield), local(result), bodyEnd});
  }
  for (uint32_t i : loops_.back().used) locals_[i].live.last = std::max(locals_[i].live.last, end);
  loops_.pop_back();
  return true;
}

bool MemoryLiveness::arguments() {
  const Function& fn = m_[func_];
  const StrId donate = m_.strings.find("donate");
  const uint32_t start = tick();
  for (const FuncArg& a : fn.args) {
    if (!make(a.value, start)) return false;
    const AttrId given = donate ? findAttr(a.attrs, donate) : AttrId();
    locals_.back().always = !given || m_.attrs[given].i == 0;
  }
  for (auto [result, argument] : carriedResults(m_, func_))
    locals_[local(fn.args[argument].value)].always = false;
  return true;
}

// Results are live to the end; an argument with {carry = true} is written after the last op, at the latest.
void MemoryLiveness::results() {
  const Function& fn = m_[func_];
  const uint32_t end = plan_.numPositions - 1;
  for (auto [result, argument] : carriedResults(m_, func_)) {
    const ValueId arg = fn.args[argument].value, yield = m_[fn.body].yields[result];
    occupy(arg, {end, end});
    if (local(yield) != kNone) copies_.push_back({local(yield), local(arg), end});
  }
}

uint32_t MemoryLiveness::find(uint32_t a) {
  while (locals_[a].parent != a) a = locals_[a].parent = locals_[locals_[a].parent].parent;
  return a;
}

void MemoryLiveness::unite(uint32_t a, uint32_t b) {
  a = find(a), b = find(b);
  if (a == b) return;
  if (b < a) std::swap(a, b); // the first value names the buffer
  Local &to = locals_[a], &from = locals_[b];
  from.parent = a;
  to.bytes = std::max(to.bytes, from.bytes);
  to.set.insert(to.set.end(), from.set.begin(), from.set.end());
  normalize(to.set);
  from.set = {};
}

void MemoryLiveness::buildSets() {
  const uint32_t end = plan_.numPositions - 1;
  for (Local& l : locals_) {
    if (l.always) l.live = {0, end};
    l.set = {l.live};
  }
  for (const auto& [i, when] : occupied_) locals_[i].set.push_back(when);
  for (const auto& [i, when] : occupied_) normalize(locals_[i].set);
  for (const auto& [a, b] : shared_) unite(a, b);
}

// True if the op at this position writes a value of `born` over one of `dying`, and accesses neither buffer
// otherwise.
bool MemoryLiveness::writesInPlace(uint32_t dying, uint32_t born, uint32_t position) {
  auto it = fusedAt_.find(position);
  if (it == fusedAt_.end()) return false;
  const OpId o = it->second;
  int operand = -1, result = -1, touched = 0;
  for (uint32_t i = 0; i < m_[o].numOperands; ++i)
    if (const uint32_t l = local(m_.operand(o, i)); l != kNone && find(l) == dying)
      operand = static_cast<int>(i), ++touched;
  for (uint32_t r = 0; r < m_[o].numResults; ++r)
    if (const uint32_t l = find(local(m_.result(o, r))); l == born || l == dying)
      result = static_cast<int>(r), ++touched;
  return operand >= 0 && result >= 0 && touched == 2 &&
         canWriteInPlace(m_, o, static_cast<uint32_t>(operand), static_cast<uint32_t>(result));
}

// True if the text assigns them different offsets. `a`, `b`: roots, whose values have one offset each.
bool MemoryLiveness::haveDistinctOffsets(uint32_t a, uint32_t b) const {
  if (!written_) return false;
  const auto x = written_->find(locals_[a].value), y = written_->find(locals_[b].value);
  return x == written_->end() || y == written_->end() || x->second != y->second;
}

// True if two buffers may be merged. If one's live range ends at the position where the other's begins, the
// op there must work in place, or (copiedAt) be a copy from one to the other.
bool MemoryLiveness::mayMerge(uint32_t a, uint32_t b, uint32_t copiedAt) {
  if (locals_[a].bytes != locals_[b].bytes || haveDistinctOffsets(a, b)) return false;
  const std::vector<Range>&x = locals_[a].set, &y = locals_[b].set;
  for (size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    if (x[i].last < y[j].first) {
      ++i;
    } else if (y[j].last < x[i].first) {
      ++j;
    } else {
      const bool xDies = x[i].last == y[j].first, yDies = y[j].last == x[i].first;
      if (!xDies && !yDies) return false;
      const uint32_t at = xDies ? x[i].last : y[j].last;
      if (at != copiedAt && !(xDies && writesInPlace(a, b, at)) && !(yDies && writesInPlace(b, a, at)))
        return false;
      x[i].last < y[j].last ? ++i : ++j;
    }
  }
  return true;
}

void MemoryLiveness::mergeInPlace(OpId o) {
  const uint32_t at = plan_.position[o][0];
  for (uint32_t r = 0; r < m_[o].numResults; ++r)
    for (uint32_t i = 0; i < m_[o].numOperands; ++i) {
      const uint32_t from = local(m_.operand(o, i)), to = local(m_.result(o, r));
      if (from == kNone || m_[m_.operand(o, i)].type != m_[m_.result(o, r)].type) continue;
      const uint32_t a = find(from), b = find(to);
      if (a == b) break;
      if (locals_[from].live.last != at || locals_[a].bytes == 0 || !mayMerge(a, b, kNone)) continue;
      unite(a, b);
      break;
    }
}

void MemoryLiveness::mergeAll() {
  for (const Copy& c : copies_) {
    const uint32_t a = find(c.from), b = find(c.to);
    if (a != b && mayMerge(a, b, c.at)) unite(a, b);
  }
  for (OpId o : fused_) mergeInPlace(o);
}

// Builds buffers from values, and the lower bound.
void MemoryLiveness::finish(bool reuse) {
  const uint32_t end = plan_.numPositions - 1;
  std::vector<uint32_t> bufferOf(locals_.size(), kNone);
  for (uint32_t i = 0; i < locals_.size(); ++i) {
    const uint32_t root = find(i);
    if (bufferOf[root] == kNone) {
      bufferOf[root] = static_cast<uint32_t>(plan_.buffers.size());
      Local& l = locals_[root];
      if (!reuse) l.set = {{0, end}};
      plan_.buffers.push_back({l.value, l.bytes, 0, std::move(l.set)});
    }
    plan_.values.push_back({locals_[i].value, bufferOf[root], locals_[i].live});
    plan_.bufferOf[locals_[i].value] = bufferOf[root];
  }
}

std::optional<MemoryPlan> MemoryLiveness::run(bool reuse, const Offsets* written) {
  written_ = written;
  const BlockId body = m_[func_].body;
  if (!arguments() || !block(body)) return std::nullopt;
  results();
  keepFrozen();
  buildSets();
  if (reuse) mergeAll();
  finish(reuse);
  return std::move(plan_);
}

bool measureBuffers(MemoryPlan& plan) {
  const auto aligned = [](int64_t bytes) { return (bytes + kBufferAlignment - 1) & ~(kBufferAlignment - 1); };
  int64_t total = 0;
  for (const MemoryPlan::Buffer& b : plan.buffers)
    if (b.bytes > INT64_MAX / 4 || __builtin_add_overflow(total, aligned(b.bytes), &total)) return false;
  if (total > INT64_MAX / 4) return false;
  std::vector<int64_t> change(plan.numPositions + 1);
  for (const MemoryPlan::Buffer& b : plan.buffers)
    for (const MemoryPlan::Range& r : b.live)
      change[r.first] += aligned(b.bytes), change[r.last + 1] -= aligned(b.bytes);
  int64_t live = 0;
  for (uint32_t t = 0; t < plan.numPositions; ++t) {
    live += change[t];
    if (live > plan.lowerBound) plan.lowerBound = live, plan.peakPosition = t;
  }
  return true;
}

std::optional<int64_t> memoryLowerBound(const Module& m, FuncId f, Diagnostics& diags) {
  auto plan = MemoryLiveness(m, f, diags).run(true);
  if (!plan || !measureBuffers(*plan)) return std::nullopt;
  return plan->lowerBound;
}

} // namespace dtc
