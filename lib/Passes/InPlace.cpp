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
  for (ValueId y : body.yields) // another shape would have a loop of its own, after this one
    if (m.typeOf(y).dims != m.types[type].dims) return false;
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
