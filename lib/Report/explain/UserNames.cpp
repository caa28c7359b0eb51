#include "explain/UserNames.h"

#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/UserLocation.h"

#include <algorithm>
#include <ranges>

namespace dtc {

static std::string nameInText(const Module& m, ValueId v) {
  return m[v].name.valid() ? "%" + std::string(m.strings[m[v].name]) : "";
}

UserNames::UserNames(const Module& m)
    : m_(m), result_(m.values.size(), kNone), arguments_(m.values.size()), readers_(m.values.size()) {
  for (FuncId f : m.order) {
    for (const FuncArg& a : m[f].args) arguments_[a.value.index] = userName(m, a.attrs);
    const std::vector<ValueId>& yields = m[m[f].body].yields;
    const bool several = m[f].results.size() > 1 && m[f].results.size() == yields.size();
    for (size_t r = 0; several && r < yields.size(); ++r) {
      const FuncResult& result = m[f].results[r];
      const std::string own = userName(m, result.attrs);
      const std::string label = result.label.valid() ? "%" + std::string(m.strings[result.label]) : "";
      join(yields[r], static_cast<uint32_t>(names_.size()));
      names_.push_back(own.empty() ? label : own);
    }
    block(m[f].body);
  }
}

std::string UserNames::argument(ValueId v, const std::string& inText) const {
  if (v.index >= arguments_.size() || "%" + arguments_[v.index] == inText) return "";
  return arguments_[v.index];
}

std::string UserNames::purpose(ValueId v, bool generated) const {
  std::string purpose = onlyResult(v);
  if (purpose.empty() && generated) purpose = onlyReader(v);
  const std::string name = purpose.starts_with('%') ? annotated(v) : "";
  return name.empty() ? purpose : name;
}

std::string UserNames::onlyResult(ValueId v) const {
  if (v.index >= result_.size() || result_[v.index] >= names_.size()) return "";
  const std::string& name = names_[result_[v.index]];
  const std::string own = nameInText(m_, v);
  return name == own || "%" + name == own ? "" : name;
}

std::string UserNames::annotated(ValueId v) const {
  if (v.index >= readers_.size() || readers_[v.index].count != 1) return "";
  const OpId reader = readers_[v.index].first;
  if (m_.record(reader).lowering != Lowering::Annotation || m_[reader].numResults != 1) return "";
  const std::vector<ValueId>& returned = m_[m_[reader].parent].yields;
  const bool isResult = std::ranges::find(returned, m_.result(reader)) != returned.end();
  return isResult ? nameInText(m_, m_.result(reader)) : "";
}

std::string UserNames::onlyReader(ValueId v) const {
  constexpr int kFar = 8;
  for (int i = 0; i < kFar && v.index < readers_.size() && readers_[v.index].count == 1; ++i) {
    const OpId reader = readers_[v.index].first;
    if (m_[reader].numResults != 1) return "";
    v = m_.result(reader);
    if (const std::string name = nameInText(m_, v); !name.empty()) return name;
  }
  return "";
}

void UserNames::join(ValueId v, uint32_t result) {
  uint32_t& known = result_[v.index];
  if (result == kNone || known == result) return;
  known = known == kNone ? result : kSeveral;
}

void UserNames::block(BlockId b) {
  for (OpId o : std::views::reverse(m_[b].ops)) op(o);
}

// All that an op reads, in its regions too, contributes to what its results contribute to.
void UserNames::op(OpId o) {
  uint32_t to = kNone;
  for (uint32_t r = 0; r < m_[o].numResults; ++r) {
    const uint32_t own = result_[m_.result(o, r).index];
    if (own != kNone) to = to == kNone || to == own ? own : kSeveral;
  }
  for (ValueId v : m_.operands(o)) join(v, to);
  for (ValueId v : m_.operands(o))
    if (Readers& r = readers_[v.index]; ++r.count == 1) r.first = o;
  for (uint32_t k = 0; k < m_[o].numRegions; ++k) {
    for (ValueId v : m_[m_.region(o, k)].yields) join(v, to);
    forEachOp(m_, m_.region(o, k), [&](OpId inner) {
      for (uint32_t r = 0; r < m_[inner].numResults; ++r) join(m_.result(inner, r), to);
      for (ValueId v : m_.operands(inner)) join(v, to);
    });
  }
}

} // namespace dtc
