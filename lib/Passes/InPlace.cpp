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

// Rows of its first operand, each by itself: a reduction, softmax, a norm.
bool isOfRows(const OpRecord& r) {
  return r.lowering == Lowering::Rows || std::string_view(r.family) == "reduce";
}

// Follows what a region makes of one of its arguments, element by element.
class Follower {
public:
  Follower(const Module& m, const Block& body, ValueId arg)
      : m_(m), body_(body), dims_(m.typeOf(arg).dims), from_({arg}) {}

  // False where an op reads the argument's elements at other places than the loop around them stores at.
  bool run() {
    return std::all_of(body_.ops.begin(), body_.ops.end(), [&](OpId o) { return op(o); });
  }
  [[nodiscard]] bool reaches(ValueId v) const { return from_.contains(v); }

private:
  bool op(OpId o) {
    std::span<const ValueId> operands = m_.operands(o);
    const auto readers =
        std::count_if(operands.begin(), operands.end(), [&](ValueId v) { return from_.contains(v); });
    if (readers == 0) return true;
    const OpRecord& r = m_.record(o);
    if (!isElementwise(r)) {
      // The rows are read again in the loop that stores, and by no other row's: so long as there is one such loop.
      if (!isOfRows(r) || readers > 1 || !from_.contains(operands[0]) || body_.yields.size() > 1)
        return false;
      for (uint32_t k = 0; k < m_[o].numResults; ++k)
        if (m_.typeOf(m_.result(o, k)).dims == dims_) from_.insert(m_.result(o, k));
      return true;
    }
    for (uint32_t k = 0; k < m_[o].numResults; ++k) {
      if (m_.typeOf(m_.result(o, k)).dims != dims_) return false;
      from_.insert(m_.result(o, k));
    }
    return true;
  }

  const Module& m_;
  const Block& body_;
  const std::vector<Dim>& dims_;
  std::unordered_set<ValueId> from_; // values of the argument's shape, made of its elements
};

// An op that stores by itself says which operand it may be written over (OpRecord::rewrites).
bool rewritesOperand(const Module& m, OpId fused, uint32_t operand, uint32_t result) {
  const Block& body = m[m.region(fused)];
  if (body.ops.size() != 1 || result != 0) return false;
  const OpId op = body.ops[0];
  const int rewrites = m.record(op).rewrites;
  if (rewrites < 0 || m.operand(op, static_cast<size_t>(rewrites)) != body.args[operand]) return false;
  if (m[body.args[operand]].type != m[body.yields[0]].type) return false;
  std::span<const ValueId> operands = m.operands(op);
  if (std::count(operands.begin(), operands.end(), body.args[operand]) != 1) return false;
  std::span<const ValueId> given = m.operands(fused);
  return std::count(given.begin(), given.end(), m.operand(fused, operand)) == 1;
}

} // namespace

bool canWriteInPlace(const Module& m, OpId fused, uint32_t operand, uint32_t result) {
  if (m.record(fused).regions != RegionKind::Fused) return false;
  AttrId kind = m.attr(fused, "kind");
  static constexpr std::string_view kLoops[] = {"pointwise", "row",
                                                "reduce"}; // not a library's, nor attention's
  if (kind && m.strings[m.attrs[kind].text] == "ordered") return rewritesOperand(m, fused, operand, result);
  if (!kind ||
      std::find(std::begin(kLoops), std::end(kLoops), m.strings[m.attrs[kind].text]) == std::end(kLoops))
    return false;
  const Block& body = m[m.region(fused)];
  const ValueId arg = body.args[operand], made = body.yields[result];
  const TypeId type = m[arg].type;
  if (m[made].type != type) return false;
  Follower follower(m, body, arg);
  if (made == arg || !follower.run() || !follower.reaches(made)) return false;
  const std::unordered_set<ValueId> met = meeting(m, body, arg);
  for (ValueId y : body.yields) // another shape would have a loop of its own, after this one
    if (met.contains(y) && m.typeOf(y).dims != m.types[type].dims) return false;
  for (size_t i = 0; i < m[fused].numOperands; ++i) // the same memory again, for loops of its own
    if (i != operand && m.operand(fused, i) == m.operand(fused, operand) && !met.contains(body.args[i]))
      return false;
  return true;
}

} // namespace dtc
