#include "autodiff/GradientPaths.h"
#include "autodiff/LocalGradient.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/Ops/OpFunctions.h"

namespace dtc {

LocalCotangents::LocalCotangents(const Module& m, OpId local, const GradientPaths& paths)
    : varying(m, local), m_(m), paths_(paths) {
  do {
    changed_ = false;
    block(m.region(local));
  } while (changed_);
}

AxisSet LocalCotangents::givenBy(OpId o) const {
  AxisSet set = 0;
  for (uint32_t r = 0; r < m_[o].numResults; ++r)
    if (paths_(m_.result(o, r))) set |= along(m_.result(o, r));
  const OpRecord& record = m_.record(o);
  if (!record.isCollective()) return set;
  const AxisSet own = varying.ofAttr(o, false);
  const bool gathers = record.collective == CollectiveKind::AllSlice && !(varying(m_.operand(o, 0)) & own);
  return gathers ? set & ~own : set | own;
}

void LocalCotangents::require(ValueId v, AxisSet from) {
  if (!paths_(v)) return;
  const AxisSet more = from & ~varying(v);
  AxisSet& has = pending_[v];
  if ((has | more) == has) return;
  has |= more;
  changed_ = true;
}

void LocalCotangents::alike(ValueId a, ValueId b) {
  const AxisSet both = along(a) | along(b);
  require(a, both);
  require(b, both);
}

void LocalCotangents::block(BlockId b) {
  const std::vector<OpId>& ops = m_[b].ops;
  for (size_t i = ops.size(); i-- > 0;) {
    if (m_[ops[i]].numRegions > 0)
      regions(ops[i]);
    else
      for (ValueId v : m_.operands(ops[i])) require(v, givenBy(ops[i]));
  }
}

void LocalCotangents::regions(OpId o) {
  const RegionKind kind = m_.record(o).regions;
  const size_t firstStart = kind == RegionKind::For ? 2 : kind == RegionKind::Cond ? 1 : 0;
  const size_t firstArg = kind == RegionKind::For ? 1 : 0;
  const bool loop = kind == RegionKind::For || kind == RegionKind::While;
  std::span<const ValueId> starts = m_.operands(o).subspan(firstStart);
  for (uint32_t k = kind == RegionKind::While ? 1 : 0; k < m_[o].numRegions; ++k) {
    const Block& inner = m_[m_.region(o, k)];
    for (size_t i = 0; loop && i < starts.size(); ++i) alike(inner.args[i + firstArg], m_.result(o, i));
    for (size_t r = 0; r < inner.yields.size() && r < m_[o].numResults; ++r)
      require(inner.yields[r], along(m_.result(o, r)));
    block(m_.region(o, k));
    for (size_t i = 0; i < starts.size() && i + firstArg < inner.args.size(); ++i)
      require(starts[i], along(inner.args[i + firstArg]));
  }
}

ValueId LocalCotangents::onlyAt(Builder& b, ValueId x, std::span<const AxisRef> axes, int64_t index) const {
  const Expr here = ops::eq(ops::axis_index(b, axes), index);
  return ops::select(here, x, 0);
}

ValueId LocalCotangents::brought(Builder& b, ValueId v, ValueId cotangent, AxisSet from) const {
  const AxisSet missing = pending(v) & ~from;
  return missing ? onlyAt(b, cotangent, varying.axes(missing), 0) : cotangent;
}

} // namespace dtc
