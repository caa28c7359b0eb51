// Finds ops that scheduled programs do not support: blocks and complex values that passes before `fuse`
// rewrite.
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/pipeline/Pipeline.h"

#include <algorithm>

namespace dtc {
static bool isComplexValue(const Module& m, ValueId v) {
  return m[v].type.valid() && isComplex(m.typeOf(v).dtype);
}

// True if the op computes with complex values: kernels and communicators only move, select, split and
// assemble them (the family `complex`).
static bool computesComplex(const Module& m, OpId o) {
  const OpRecord& record = m.record(o);
  bool complex = std::ranges::any_of(m.operands(o), [&](ValueId v) { return isComplexValue(m, v); });
  for (uint32_t r = 0; r < m[o].numResults; ++r) complex = complex || isComplexValue(m, m.result(o, r));
  if (!complex || record.isCollective() || record.regions != RegionKind::None || record.isCall ||
      record.family == std::string_view("complex"))
    return false;
  const auto moves = [](const Through& t) {
    return t.row == ThroughRow::Moving || t.row == ThroughRow::Choosing;
  };
  if (std::ranges::any_of(record.through, moves)) return false;
  using Form = OpRecord::ComplexForm;
  return record.complexFn || record.complex == Form::Planes || record.complex == Form::Product ||
         record.complex == Form::Function;
}

std::optional<Unlowered> firstUnlowered(const Module& m, FuncId f) {
  std::optional<Unlowered> found;
  if (!m[f].body.valid()) return found;
  forEachOp(m, m[f].body, [&](OpId o) {
    if (found) return;
    const std::string name = "'" + std::string(m.record(o).name) + "'";
    if (m.record(o).regions == RegionKind::Recompute)
      found = {o, "kernels do not support " + name, "inline-recompute"};
    else if (computesComplex(m, o))
      found = {o, name + " computes with complex values, which kernels do not support", "split-complex"};
  });
  return found;
}

Status checkLowered(const Module& m, FuncId f) {
  const auto found = firstUnlowered(m, f);
  if (!found) return Ok{};
  std::string where = placeText(m.source, m[found->op].loc, true);
  if (!where.empty()) where += ": ";
  return inputError(where + found->what + ": run '" + found->pass + "' before 'fuse'");
}

} // namespace dtc
