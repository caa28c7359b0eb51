#include "autodiff/GradientPaths.h"
#include "dtc/Ops/record/GradientText.h"

namespace dtc {

bool GradientPaths::carries(ValueId v) const {
  const Value& value = m_[v];
  if (v.index < first_ || value.kind == ValueKind::Literal || value.kind == ValueKind::Symbol) return false;
  return value.type.valid() && isFloat(m_.types[value.type].dtype);
}

void GradientPaths::edge(ValueId from, ValueId to) {
  if (carries(from) && carries(to)) edges_.emplace_back(from.index - first_, to.index - first_);
}

void GradientPaths::addOps(std::span<const OpId> ops) {
  for (OpId o : ops) {
    if (m_.record(o).regions == RegionKind::None)
      plain(o);
    else
      regions(o);
  }
}

uint32_t GradientPaths::zeroOperands(OpKind kind) {
  auto [it, isNew] = zero_.try_emplace(kind, 0);
  const char* text = (*m_.registry)[kind].grad;
  if (!isNew || !text) return it->second;
  const GradientText gradient(text);
  for (uint32_t i = 0; i < 32 && i < gradient.cotangents.size(); ++i)
    if (gradient.cotangents[i] == "none") it->second |= 1u << i;
  return it->second;
}

void GradientPaths::plain(OpId o) {
  const uint32_t zero = zeroOperands(m_[o].kind);
  for (uint32_t i = 0; i < m_[o].numOperands; ++i) {
    if (i < 32 && (zero >> i & 1)) continue;
    for (uint32_t r = 0; r < m_[o].numResults; ++r) edge(m_.operand(o, i), m_.result(o, r));
  }
}

void GradientPaths::regions(OpId o) {
  const RegionKind kind = m_.record(o).regions;
  const size_t firstStart = kind == RegionKind::For ? 2 : kind == RegionKind::Cond ? 1 : 0;
  const size_t firstArg = kind == RegionKind::For ? 1 : 0;
  const bool loop = kind == RegionKind::For || kind == RegionKind::While;
  std::span<const ValueId> starts = m_.operands(o).subspan(firstStart);
  for (uint32_t k = 0; k < m_[o].numRegions; ++k) {
    const Block& block = m_[m_.region(o, k)];
    for (size_t i = 0; i < starts.size() && i + firstArg < block.args.size(); ++i)
      edge(starts[i], block.args[i + firstArg]);
    addOps(block.ops);
    if (kind == RegionKind::While && k == 0) continue; // yields the loop condition
    for (size_t r = 0; r < block.yields.size(); ++r) {
      if (r < m_[o].numResults) edge(block.yields[r], m_.result(o, r));
      if (loop && r < starts.size() && r + firstArg < block.args.size())
        edge(block.yields[r], block.args[r + firstArg]);
    }
  }
  for (size_t i = 0; loop && i < starts.size(); ++i) edge(starts[i], m_.result(o, i)); // for zero iterations
}

// Breadth-first search over the edges, sorted by source.
std::vector<bool> GradientPaths::reached(std::span<const ValueId> from, bool backwards) const {
  const size_t n = m_.values.size() - first_;
  std::vector<uint32_t> begins(n + 1, 0), ends(edges_.size());
  for (const Edge& e : edges_) ++begins[(backwards ? e.second : e.first) + 1];
  for (size_t i = 0; i < n; ++i) begins[i + 1] += begins[i];
  std::vector<uint32_t> next(begins.begin(), begins.end() - 1);
  for (const Edge& e : edges_) ends[next[backwards ? e.second : e.first]++] = backwards ? e.first : e.second;
  std::vector<bool> seen(n, false);
  std::vector<uint32_t> queue;
  auto visit = [&](uint32_t v) {
    if (!seen[v]) seen[v] = true, queue.push_back(v);
  };
  for (ValueId v : from)
    if (carries(v)) visit(v.index - first_);
  for (size_t i = 0; i < queue.size(); ++i)
    for (uint32_t e = begins[queue[i]]; e < begins[queue[i] + 1]; ++e) visit(ends[e]);
  return seen;
}

void GradientPaths::solve(std::span<const ValueId> from, ValueId to) {
  onPath_ = reached(from, false);
  const std::vector<bool> useful = reached({&to, 1}, true);
  for (size_t i = 0; i < onPath_.size(); ++i) onPath_[i] = onPath_[i] && useful[i];
}

} // namespace dtc
