#include "dtc/Passes/analysis/Frozen.h"
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/MemoryPlan.h"

#include <algorithm>

namespace dtc {
namespace {

constexpr int64_t kTableBytes = int64_t(4) << 20;

bool isSet(const Module& m, const AttrList& attrs) {
  const StrId frozen = m.strings.find("frozen");
  const AttrId given = frozen ? findAttr(attrs, frozen) : AttrId();
  return given && m.attrs[given].i != 0;
}

} // namespace

bool isFrozenArgument(const Module& m, const FuncArg& a) { return isSet(m, a.attrs); }

std::vector<bool> frozenArgumentsOf(const Module& m, FuncId f) {
  std::vector<bool> out;
  for (const FuncArg& a : m[f].args) out.push_back(isFrozenArgument(m, a));
  return out;
}

bool isFrozenOp(const Module& m, OpId o) { return isSet(m, m[o].attrs); }

void setFrozen(Module& m, OpId o) { m.setAttr(o, "frozen", m.attrs.boolean(true)); }

FrozenValues::FrozenValues(const Module& m, FuncId f) : m_(m), frozen_(m.values.size()) {
  for (const FuncArg& a : m[f].args)
    if (isFrozenArgument(m, a)) frozen_[a.value.index] = true;
}

bool FrozenValues::operator()(ValueId v) const {
  return m_[v].kind == ValueKind::Literal || (v.index < frozen_.size() && frozen_[v.index]);
}

bool FrozenValues::computes(OpId o) const {
  const OpRecord& record = m_.record(o);
  if (record.sideEffect || record.isCollective() || record.lowering == Lowering::Host) return false;
  if (m_[o].numResults == 0 || (m_[o].numRegions > 0 && record.regions != RegionKind::Fused)) return false;
  return std::ranges::all_of(m_.operands(o), [&](ValueId v) { return (*this)(v); });
}

void FrozenValues::add(OpId o) {
  frozen_.resize(std::max(frozen_.size(), m_.values.size()));
  for (uint32_t r = 0; r < m_[o].numResults; ++r) frozen_[m_.result(o, r).index] = true;
}

int64_t frozenLimit(const Module& m, FuncId f) {
  const Mesh mesh = meshValueOf(m, f);
  int64_t bytes = kTableBytes;
  for (const FuncArg& a : m[f].args)
    if (isFrozenArgument(m, a)) bytes += largestBytes(m, m[a.value].type, mesh).value_or(0);
  return bytes;
}

std::optional<int64_t> resultBytes(const Module& m, OpId o, const Mesh& mesh) {
  int64_t sum = 0;
  for (uint32_t r = 0; r < m[o].numResults; ++r) {
    const auto bytes = largestBytes(m, m[m.result(o, r)].type, mesh);
    if (!bytes || __builtin_add_overflow(sum, *bytes, &sum)) return std::nullopt;
  }
  return sum;
}

} // namespace dtc
