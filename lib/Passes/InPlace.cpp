// Which results of a region may be written over which of its operands.
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/PlanMemory.h"

#include <algorithm>
#include <unordered_set>

namespace dtc {
namespace {

bool isElementwise(const OpRecord& r) {
  return r.lowering == Lowering::Loops && r.ruleText && std::string_view(r.ruleText) == "pointwise";
}

// All values of the region that meet `arg` in an op, directly or through others. What does not meet it (fuse joins small
// updates of many tensors) has loops and buffers of its own.
std::unordered_set<ValueId> meeting(const Module& m, const Block& body, ValueId arg) {
  std::unordered_set<ValueId> met = {arg};
  auto isValue = [&](ValueId v) { return m[v].kind != ValueKind::Literal && m[v].kind != ValueKind::Symbol; };
  for (size_t before = 0; before != met.size();) {
    before = met.size();
    for (OpId o : body.ops) {
      std::vector<ValueId> values(m.operands(o).begin(), m.operands(o).end());
      for (uint32_t r = 0; r < m[o].numResults; ++r) values.push_back(m.result(o, r));
      if (std::none_of(values.begin(), values.end(), [&](ValueId v) { return met.contains(v); })) continue;
      for (ValueId v : values)
        if (isValue(v)) met.insert(v);
    }
  }
  return met;
}

} // namespace

bool canWriteInPlace(const Module& m, OpId fused, uint32_t operand, uint32_t result) {
  if (m.record(fused).regions != RegionKind::Fused) return false;
  AttrId kind = m.attr(fused, "kind");
  static constexpr std::string_view kLoops[] = {"pointwise", "row",
                                                "reduce"}; // not a library's, nor attention's
  if (!kind ||
      std::find(std::begin(kLoops), std::end(kLoops), m.strings[m.attrs[kind].text]) == std::end(kLoops))
    return false;
  const Block& body = m[m.region(fused)];
  const ValueId arg = body.args[operand], made = body.yields[result];
  const TypeId type = m[arg].type;
  if (m[made].type != type) return false;
  const std::unordered_set<ValueId> met = meeting(m, body, arg);
  for (ValueId y : body.yields) // another shape would have a loop of its own, after this one
    if (met.contains(y) && m.typeOf(y).dims != m.types[type].dims) return false;
  for (size_t i = 0; i < m[fused].numOperands; ++i) // the same memory again, for loops of its own
    if (i != operand && m.operand(fused, i) == m.operand(fused, operand) && !met.contains(body.args[i]))
      return false;
  std::unordered_set<ValueId> from = {arg};
  for (OpId o : body.ops) {
    std::span<const ValueId> operands = m.operands(o);
    if (std::none_of(operands.begin(), operands.end(), [&](ValueId v) { return from.contains(v); })) continue;
    if (!isElementwise(m.record(o))) return false;
    for (uint32_t r = 0; r < m[o].numResults; ++r) {
      if (m.typeOf(m.result(o, r)).dims != m.types[type].dims) return false;
      from.insert(m.result(o, r));
    }
  }
  return made != arg && from.contains(made);
}

} // namespace dtc
