#include "dtc/Passes/propagate/Reasons.h"

#include "dtc/IR/OpRecord.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>

namespace dtc {

constexpr size_t kLongestChain = 64; // longer chains are truncated

// True if both shard along the same devices. Sub-axes of one axis may be disjoint.
static bool sameDevices(const AxisRef& a, const AxisRef& b, const Mesh& mesh) {
  return a.name == b.name && (mesh.axisIndex(a.name) < 0 || overlaps(a, b, mesh));
}

static bool isOneOf(const AxisRef& axis, std::span<const AxisRef> axes, const Mesh& mesh) {
  return axes.empty() ||
         std::ranges::any_of(axes, [&](const AxisRef& a) { return sameDevices(a, axis, mesh); });
}

// Axes that only one of the two has, or that they have in different dims.
static std::vector<AxisRef> axesBetween(const Sharding& from, const Sharding& to) {
  std::vector<AxisRef> out;
  auto add = [&](const AxisRef& a) {
    if (std::ranges::find(out, a) == out.end()) out.push_back(a);
  };
  for (size_t d = 0; d < from.dims.size() && d < to.dims.size(); ++d) {
    if (from.dims[d].parts == to.dims[d].parts) continue;
    for (const AxisRef& a : from.dims[d].axes()) add(a);
    for (const AxisRef& a : to.dims[d].axes()) add(a);
  }
  if (from.pending != to.pending)
    for (const PendingAxis& p : from.pending) add(p.axis);
  return out;
}

static void sortByLocation(std::vector<AnnotationUse>& uses) {
  std::ranges::sort(uses, {},
                    [](const AnnotationUse& u) { return std::tuple(u.range.begin, u.value.index, u.dim); });
}

Reasons::Reasons(const Module& m, const PropagationReport& report)
    : m_(m), report_(report), names_(m), lines_(m.source) {
  for (const ReshardReason& r : report.reshards) {
    reshards_.emplace(r.reshard, &r);
    reshardOf_.try_emplace(m.operand(r.reshard, 0), r.reshard);
  }
}

const ReshardReason* Reasons::reshard(OpId o) const {
  auto it = reshards_.find(o);
  return it == reshards_.end() ? nullptr : it->second;
}

ValueId Reasons::source(ValueId v) const {
  for (OpId o = m_.definingOp(v); o.valid() && reshards_.contains(o); o = m_.definingOp(v))
    v = m_.operand(o, 0);
  return v;
}

ValueId Reasons::shown(ValueId v) const {
  if (m_[v].name.valid()) return v;
  auto it = reshardOf_.find(v);
  if (it == reshardOf_.end()) return v;
  const ValueId named = m_.result(it->second);
  return m_[named].name.valid() ? named : v;
}

uint32_t Reasons::variable(ValueId v) const {
  return v.index < report_.variable.size() ? report_.variable[v.index] : ~0u - 1 - v.index;
}

bool Reasons::shardsAlong(const ShardingReason& r, const AxisRef* axis) const {
  const ShardingId s = m_[r.value].sharding;
  if (!axis || !s.valid()) return true;
  const Mesh& mesh = m_.shardings.mesh(m_.shardings[s].mesh);
  return std::ranges::any_of(
      r.parts, [&](const DimPart& p) { return p.isAxis() && sameDevices(p.axis, *axis, mesh); });
}

// The last reason, found before `before`, for the sharding of dim d of v.
const ShardingReason* Reasons::last(ValueId v, uint16_t d, const AxisRef* axis,
                                    const ShardingReason* before) const {
  const std::vector<ShardingReason>& all = report_.shardings;
  for (size_t i = before ? static_cast<size_t>(before - all.data()) : all.size(); i > 0; --i)
    if (all[i - 1].dim == d && variable(all[i - 1].value) == variable(v) && shardsAlong(all[i - 1], axis))
      return &all[i - 1];
  return nullptr;
}

// The dim of `r.from` that the axes, or `axis`, came from.
uint16_t Reasons::sourceDim(const ShardingReason& r, const AxisRef* axis) const {
  const ShardingId s = m_[r.from].sharding;
  if (!s.valid()) return 0;
  const Sharding& sharding = m_.shardings[s];
  const Mesh& mesh = m_.shardings.mesh(sharding.mesh);
  for (uint16_t d = 0; d < sharding.dims.size(); ++d)
    for (const DimPart& p : sharding.dims[d].parts)
      for (const DimPart& wanted : r.parts)
        if (p.isAxis() && wanted.isAxis() && sameDevices(p.axis, wanted.axis, mesh) &&
            (!axis || sameDevices(p.axis, *axis, mesh)))
          return d;
  return r.dim;
}

std::vector<ReasonStep> Reasons::chain(ValueId v, uint16_t d, const AxisRef* axis) const {
  std::vector<ReasonStep> out;
  const ShardingReason* at = nullptr;
  while (out.size() < kLongestChain) {
    const ShardingReason* r = last(v, d, axis, at);
    if (!r) break;
    out.push_back({r, d});
    if (r->kind != ShardingReason::Propagated || !r->from.valid()) break;
    d = sourceDim(*r, axis);
    v = r->from;
    at = r;
  }
  return out;
}

// The values that flow into v, one step back: an op's operands; for a region's results its yields and starts;
// for a region's argument what is passed to it, and the previous iteration's yield.
std::vector<ValueId> Reasons::readFor(ValueId v) const {
  std::vector<ValueId> out;
  const bool isArg = m_[v].kind == ValueKind::BlockArg;
  const OpId o = isArg ? m_[BlockId(m_[v].owner)].parentOp : m_.definingOp(v);
  if (!o.valid()) return out;
  const auto operands = m_.operands(o);
  if (m_[o].numRegions == 0) return {operands.begin(), operands.end()};
  const Block& body = m_[m_.region(o, m_[o].numRegions - 1)];
  const size_t args = body.args.size(), position = m_[v].position;
  const size_t index =
      m_.record(o).regions == RegionKind::For ? 1 : 0; // the loop's index is its first argument
  const size_t arg = isArg ? position : position + index;
  if (arg >= index && arg < args && operands.size() + arg >= args)
    out.push_back(operands[operands.size() + arg - args]);
  for (uint32_t r = 0; r < m_[o].numRegions; ++r)
    if (const auto& yields = m_[m_.region(o, r)].yields; arg >= index && arg - index < yields.size())
      out.push_back(yields[arg - index]);
  return out;
}

std::vector<PendingOrigin> Reasons::pendingOrigins(ValueId start, std::span<const AxisRef> axes) const {
  auto isPending = [&](ValueId v) {
    if (!m_[v].sharding.valid()) return false;
    const Sharding& s = m_.shardings[m_[v].sharding];
    return std::ranges::any_of(
        s.pending, [&](const PendingAxis& p) { return isOneOf(p.axis, axes, m_.shardings.mesh(s.mesh)); });
  };
  std::vector<PendingOrigin> out;
  std::vector<ValueId> todo = {start};
  std::unordered_set<ValueId> seen;
  while (!todo.empty()) {
    const ValueId v = todo.back();
    todo.pop_back();
    if (!isPending(v) || !seen.insert(v).second) continue;
    std::vector<ValueId> before = readFor(v);
    const OpId o = m_.definingOp(v);
    if (m_[v].kind == ValueKind::BlockArg && !m_[BlockId(m_[v].owner)].parentOp.valid()) {
      out.push_back({{}, v});
      continue;
    }
    // An operand that propagate made pending, such as the zeros of a scatter, is not an origin.
    std::erase_if(before, [&](ValueId b) {
      const OpId made = m_.definingOp(b);
      return !isPending(b) || (made.valid() && reshards_.contains(made) && !isPending(m_.operand(made, 0)));
    });
    if (before.empty() && o.valid() && !reshards_.contains(o)) out.push_back({o, v});
    todo.insert(todo.end(), before.rbegin(), before.rend());
  }
  return out;
}

std::vector<ReasonStep> Reasons::pendingChain(const ReshardReason& r, const AxisRef& axis) const {
  const ValueId operand = m_.operand(r.reshard, 0);
  for (const PendingOrigin& origin : pendingOrigins(operand, {&axis, 1})) {
    if (!origin.op.valid()) continue;
    for (ValueId v : m_.operands(origin.op)) {
      if (!m_[v].sharding.valid()) continue;
      const Sharding& s = m_.shardings[m_[v].sharding];
      for (uint16_t d = 0; d < s.dims.size(); ++d)
        for (const DimPart& p : s.dims[d].parts)
          if (p.isAxis() && sameDevices(p.axis, axis, m_.shardings.mesh(s.mesh)))
            if (auto found = chain(source(v), d, &axis); !found.empty()) return found;
    }
  }
  return {};
}

AnnotationUse Reasons::annotation(const ShardingReason& r) const {
  AnnotationUse use{r.value, r.dim, r.kind == ShardingReason::ResultAnnotation, 0, r.parts, m_[r.value].loc};
  if (use.ofResult)
    for (FuncId f : m_.order) {
      const Block& body = m_[m_[f].body];
      for (size_t k = 0; k < m_[f].results.size() && k < body.yields.size(); ++k)
        if (source(body.yields[k]) == r.value)
          use.range = m_[f].results[k].loc, use.result = static_cast<uint32_t>(k);
    }
  use.range = shardingRange(m_.source, use.range);
  return use;
}

SourceRange Reasons::annotationLocation(const ShardingReason& r) const { return annotation(r).range; }

void Reasons::addEnd(const std::vector<ReasonStep>& steps, Uses& out) const {
  if (steps.empty()) return;
  const ShardingReason& r = *steps.back().reason;
  if (r.kind != ShardingReason::Annotation && r.kind != ShardingReason::ResultAnnotation) return;
  const AnnotationUse use = annotation(r);
  if (std::ranges::find(out, use) == out.end()) out.push_back(use);
}

// The source of a pending value: the annotations that shard what an op reads, or that of an argument.
void Reasons::addOrigin(const PendingOrigin& origin, std::span<const AxisRef> axes, Uses& out) const {
  if (origin.op.valid()) return addOp(origin.op, axes, out);
  const SourceRange range = shardingRange(m_.source, m_[origin.value].loc);
  const AnnotationUse use{origin.value, 0, false, 0, {}, range};
  if (std::ranges::find(out, use) == out.end()) out.push_back(use);
}

// The reasons that axes of `axes` shard the tensor.
void Reasons::addTensor(ValueId v, std::span<const AxisRef> axes, Uses& out) const {
  if (!m_[v].sharding.valid()) return;
  v = source(v);
  const Sharding& s = m_.shardings[m_[v].sharding];
  for (uint16_t d = 0; d < s.dims.size(); ++d)
    for (const DimPart& p : s.dims[d].parts)
      if (p.isAxis() && isOneOf(p.axis, axes, m_.shardings.mesh(s.mesh))) {
        addEnd(chain(v, d), out);
        break;
      }
}

void Reasons::addOp(OpId o, std::span<const AxisRef> axes, Uses& out) const {
  if (!o.valid()) return;
  for (ValueId v : m_.operands(o)) addTensor(v, axes, out);
  for (uint32_t k = 0; k < m_[o].numResults; ++k) addTensor(m_.result(o, k), axes, out);
}

std::vector<AnnotationUse> Reasons::annotations(OpId o, std::span<const AxisRef> axes) const {
  Uses out;
  addOp(o, axes, out);
  sortByLocation(out);
  return out;
}

std::vector<AnnotationUse> Reasons::annotations(const ReshardReason& r) const {
  const ValueId operand = m_.operand(r.reshard, 0), result = m_.result(r.reshard);
  const Sharding &from = m_.shardings[m_[operand].sharding], &to = m_.shardings[m_[result].sharding];
  const std::vector<AxisRef> axes = axesBetween(from, to);
  Uses out;
  addTensor(operand, axes, out);
  // A sum is pending because of what its op reads; any other reshard is needed because of its user.
  std::vector<AxisRef> pending;
  for (const PendingAxis& p : from.pending) pending.push_back(p.axis);
  if (!pending.empty())
    for (const PendingOrigin& origin : pendingOrigins(operand, pending)) addOrigin(origin, pending, out);
  if (r.kind == ReshardReason::Operand) addOp(r.needs, axes, out);
  if (r.kind == ReshardReason::Result) addOp(r.cause, axes, out);
  if (r.kind == ReshardReason::Boundary && r.needs.valid()) addTensor(m_.result(r.needs), axes, out);
  sortByLocation(out);
  return out;
}

std::vector<AnnotationUse> Reasons::reaching(OpId o, std::span<const AxisRef> axes, size_t limit) const {
  constexpr size_t kMaxTensors = 256; // each is looked up in all reasons
  Uses out;
  std::vector<ValueId> queue;
  std::unordered_set<ValueId> seen;
  const auto add = [&](ValueId v) {
    if (seen.insert(source(v)).second) queue.push_back(source(v));
  };
  for (const ValueId v : m_.operands(o)) add(v);
  for (size_t next = 0; next < queue.size(); ++next) {
    const ValueId v = queue[next];
    if (!m_[v].sharding.valid()) continue;
    const Sharding& s = m_.shardings[m_[v].sharding];
    bool sharded = false;
    for (uint16_t d = 0; d < s.dims.size(); ++d)
      for (const DimPart& p : s.dims[d].parts) {
        if (!p.isAxis() || !isOneOf(p.axis, axes, m_.shardings.mesh(s.mesh))) continue;
        sharded = true;
        const ShardingReason* r = last(v, d, &p.axis, nullptr);
        if (!r || (r->kind != ShardingReason::Annotation && r->kind != ShardingReason::ResultAnnotation))
          continue;
        if (const AnnotationUse use = annotation(*r); std::ranges::find(out, use) == out.end())
          out.push_back(use);
      }
    if (queue.size() > kMaxTensors || out.size() > limit) return {};
    if (sharded)
      for (const ValueId read : readFor(v)) add(read);
  }
  sortByLocation(out);
  return out;
}

static bool isWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The end of the bracket that opens at `at`, or npos if it is not closed on the line.
static size_t closing(std::string_view text, size_t at) {
  int depth = 0;
  for (; at < text.size() && text[at] != '\n'; ++at) {
    if (text[at] == '{' || text[at] == '[' || text[at] == '(') ++depth;
    if ((text[at] == '}' || text[at] == ']' || text[at] == ')') && --depth == 0) return at + 1;
  }
  return std::string_view::npos;
}

// True if `{` at `at` opens attributes.
static bool opensAttributes(std::string_view text, size_t at) {
  ++at;
  while (at < text.size() && text[at] == ' ') ++at;
  const size_t word = at;
  while (at < text.size() && isWord(text[at])) ++at;
  if (at == word) return false;
  while (at < text.size() && text[at] == ' ') ++at;
  return at < text.size() && text[at] == '=';
}

// True if the name is that of an argument of a loop's block: "(%a = %x : f32[4] @m{_})".
static bool isCarried(std::string_view text, size_t name) {
  const std::string_view before = text.substr(0, name);
  const size_t line = before.rfind('\n');
  return before.substr(line == std::string_view::npos ? 0 : line).find_first_of("=(") !=
         std::string_view::npos;
}

SourceRange shardingRange(const SourceText& source, SourceRange name) {
  const std::string_view text = source.text;
  if (!name.valid() || name.end > text.size()) return name;
  const std::string_view own = text.substr(name.begin, name.end - name.begin);
  if (size_t begin = own.rfind('@'); begin != std::string_view::npos && own.find(':') < begin) // the result
    return {name.begin + static_cast<uint32_t>(begin), name.end};
  size_t at = name.end;
  while (at < text.size() && text[at] == ' ') ++at;
  if (at < text.size() && text[at] == '=' && isCarried(text, name.begin)) {
    at = text.find_first_not_of(' ', at + 1);
    if (at != std::string_view::npos) at = text.find_first_of(" ,)\n", at); // after the initial value
    if (at == std::string_view::npos) return name;
  } else if (at < text.size() && text[at] == '=') { // an op's result: its type is at the end of the statement
    const size_t line = text.find('\n', at), colon = text.substr(0, line).rfind(" : ");
    if (colon == std::string_view::npos || colon < at) return name;
    at = colon + 3;
  }
  while (at < text.size()) {
    const char c = text[at];
    if (c == '%' || c == '\n' || c == ',' || c == ')') break;
    if (c == '@' || (c == '{' && !opensAttributes(text, at))) {
      size_t open = at + (c == '@' ? 1 : 0);
      while (open < text.size() && isWord(text[open])) ++open;
      const size_t end = open < text.size() && (text[open] == '{' || text[open] == '[')
                             ? closing(text, open)
                             : std::string_view::npos;
      if (end == std::string_view::npos) break;
      return {static_cast<uint32_t>(at), static_cast<uint32_t>(end)};
    }
    const size_t past = c == '[' || c == '{' ? closing(text, at) : at + 1;
    if (past == std::string_view::npos) break;
    at = past;
  }
  return name;
}

} // namespace dtc
