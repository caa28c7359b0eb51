#include "dtc/Passes/analysis/ValuePrograms.h"

#include "analysis/StageMarks.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"

#include <algorithm>
#include <set>

namespace dtc {

ValueOrigin ValueOrigin::of(const Module& m, ValueId v) {
  ValueOrigin origin;
  OpId by = m.definingOp(v);
  for (; by.valid() && m.record(by).constraint == Constraint::Reshard; by = m.definingOp(v))
    v = m.operand(by, 0);
  if (!by.valid()) {
    origin.argument = m[v].name.valid() ? m.strings[m[v].name] : "";
    return origin;
  }
  origin.op = m[by].loc, origin.stageMark = stageMarkOf(m, by).value_or(-1);
  return origin;
}

ValuePrograms::ValuePrograms(const Module& m, FuncId entry, int64_t numStageMarks)
    : programs_(programsOf(m, entry)), numMarks_(numStageMarks), results_(m[entry].results.size()) {
  for (size_t f = 0; f < programs_.functions.size(); ++f) {
    const FuncId function = programs_.functions[f];
    const AbsentValues absent(m, function);
    const Mesh mesh = programs_.differ() ? meshValueOf(m, function) : Mesh();
    const std::vector<int64_t> own = programs_.differ() ? programs_.coordinatesOf(f) : std::vector<int64_t>();
    for (const FuncArg& a : m[function].args)
      if (!absent(a.value) && m[a.value].name.valid())
        arguments_[std::string(m.strings[m[a.value].name])].push_back(f);
    std::unordered_map<AttrId, bool> returns; // by list of devices: there are few, which may be long
    const StrId key = m.strings.find("devices");
    for (size_t r = 0; r < std::min(results_.size(), m[function].results.size()); ++r) {
      const AttrList& attrs = m[function].results[r].attrs;
      const AttrId listed = key.valid() ? findAttr(attrs, key) : AttrId();
      const auto [at, isNew] = returns.try_emplace(listed, true);
      if (isNew && listed.valid() && !own.empty()) {
        const std::vector<bool> holds = holdersOf(m, mesh, attrs);
        at->second = std::ranges::any_of(own, [&](int64_t p) { return holds[static_cast<size_t>(p)]; });
      }
      if (at->second) results_[r].push_back(f);
    }
    forEachOp(m, m[function].body, [&](OpId o) {
      const std::optional<int64_t> stage = stageMarkOf(m, o);
      if (m.record(o).collective == CollectiveKind::P2p) return;
      if (stage && *stage >= 0) {
        numStages_ = std::max(numStages_, *stage + 1);
        std::vector<size_t>& of = stages_[*stage];
        if (of.empty() || of.back() != f) of.push_back(f);
      }
      if (m[o].loc.valid()) ops_[m[o].loc.begin].push_back({f, stage.value_or(-1)});
    });
  }
}

std::vector<size_t> ValuePrograms::having(const ValueOrigin& v) const {
  if (!v.op.valid()) {
    const auto at = arguments_.find(v.argument);
    return at == arguments_.end() ? std::vector<size_t>() : at->second;
  }
  const int64_t stage = v.stageMark >= 0 && numMarks_ > 0 ? v.stageMark * numStages_ / numMarks_ : -1;
  std::set<size_t> marked, all; // calls of one function in several stages are at one location
  if (const auto at = ops_.find(v.op.begin); at != ops_.end())
    for (const Computed& c : at->second) {
      all.insert(c.function);
      if (c.stage == stage) marked.insert(c.function);
    }
  const std::set<size_t>& found = stage >= 0 && !marked.empty() ? marked : all;
  if (found.empty() && stage >= 0)
    if (const auto at = stages_.find(stage); at != stages_.end()) return at->second;
  return {found.begin(), found.end()};
}

std::vector<size_t> ValuePrograms::returning(size_t result) const {
  return result < results_.size() ? results_[result] : std::vector<size_t>();
}

std::vector<bool> ValuePrograms::devices(std::span<const size_t> functions) const {
  std::vector<bool> out;
  for (const uint32_t f : programs_.of)
    out.push_back(std::ranges::find(functions, size_t{f}) != functions.end());
  return out;
}

} // namespace dtc
