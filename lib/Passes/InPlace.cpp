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

// The values of a region that meet one of its arguments in an op, directly or through others. What does not meet it (fuse joins
// small updates of many tensors) has loops and buffers of its own.
class Meeting {
public:
  Meeting(const Module& m, const Block& body, ValueId arg) : m_(m) {
    uint32_t high = low_ = arg.index;
    auto see = [&](ValueId v) { low_ = std::min(low_, v.index), high = std::max(high, v.index); };
    for (ValueId v : body.args) see(v);
    for (OpId o : body.ops)
      for (uint32_t r = 0; r < m[o].numResults; ++r) see(m.result(o, r));
    met_.resize(high - low_ + size_t{1});
    met_[arg.index - low_] = true;
    for (bool grows = true; grows;) {
      grows = false;
      for (OpId o : body.ops) grows |= join(o);
    }
  }
  [[nodiscard]] bool contains(ValueId v) const { return inside(v) && met_[v.index - low_]; }

private:
  [[nodiscard]] bool inside(ValueId v) const { // literals may lie outside, and meet nothing
    return v.index >= low_ && v.index - low_ < met_.size() && m_[v].kind != ValueKind::Literal &&
           m_[v].kind != ValueKind::Symbol;
  }
  bool join(OpId o) { // true where a value is new
    bool any = false, all = true;
    auto each = [&](auto&& fn) {
      for (ValueId v : m_.operands(o))
        if (inside(v)) fn(v);
      for (uint32_t r = 0; r < m_[o].numResults; ++r) fn(m_.result(o, r));
    };
    each([&](ValueId v) {
      const bool here = met_[v.index - low_];
      any |= here, all &= here;
    });
    if (!any || all) return false;
    each([&](ValueId v) { met_[v.index - low_] = true; });
    return true;
  }

  const Module& m_;
  uint32_t low_ = 0;
  std::vector<char> met_; // by value, from low_ on
};

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
  const Meeting met(m, body, arg);
  for (ValueId y : body.yields) // another shape would have a loop of its own, after this one
    if (met.contains(y) && m.typeOf(y).dims != m.types[type].dims) return false;
  for (size_t i = 0; i < m[fused].numOperands; ++i) // the same memory again, for loops of its own
    if (i != operand && m.operand(fused, i) == m.operand(fused, operand) && !met.contains(body.args[i]))
      return false;
  return true;
}

} // namespace dtc
