// Which results of a region may overwrite which of its operands.
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/RegionParts.h"
#include "dtc/Passes/analysis/MemoryPlan.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace dtc {
namespace {

bool isElementwise(const OpRecord& r) {
  return r.lowering == Lowering::Loops && r.ruleText && std::string_view(r.ruleText) == "pointwise";
}

// The parts of a region that read one of its arguments. The others (fuse merges small independent kernels) have
// loops and buffers of their own.
class ReadingParts {
public:
  ReadingParts(const Module& m, const Block& body, ValueId arg)
      : m_(m), body_(body), arg_(arg), parts_(m, body) {
    reads_.resize(parts_.count());
    for (OpId o : body.ops)
      if (reads(o, arg)) reads_[parts_.of(o)] = true;
  }
  [[nodiscard]] bool contain(ValueId v) const {
    const std::optional<uint32_t> part = parts_.of(v);
    return v == arg_ || (part && reads_[*part]);
  }
  // True if no other part reads the argument `other`.
  [[nodiscard]] bool containReadersOf(ValueId other) const {
    return std::ranges::all_of(body_.ops, [&](OpId o) { return !reads(o, other) || reads_[parts_.of(o)]; });
  }
  [[nodiscard]] size_t count() const { return static_cast<size_t>(std::ranges::count(reads_, true)); }

private:
  [[nodiscard]] bool reads(OpId o, ValueId v) const {
    return std::ranges::find(m_.operands(o), v) != m_.operands(o).end();
  }

  const Module& m_;
  const Block& body_;
  ValueId arg_;
  RegionParts parts_;
  std::vector<bool> reads_; // by part
};

// An op on independent rows of its first operand: a reduction, softmax, a norm.
bool isOfRows(const OpRecord& r) {
  return r.lowering == Lowering::Rows || std::string_view(r.family) == "reduce";
}

// Tracks the values computed elementwise from one argument of the region.
class Follower {
public:
  Follower(const Module& m, const Block& body, ValueId arg)
      : m_(m), body_(body), dims_(m.typeOf(arg).dims), from_({arg}) {}

  // False if an op reads the argument's elements at other indices than its loop stores.
  bool run() {
    return std::ranges::all_of(body_.ops, [&](OpId o) { return op(o); });
  }
  [[nodiscard]] bool reaches(ValueId v) const { return from_.contains(v); }

private:
  bool op(OpId o) {
    std::span<const ValueId> operands = m_.operands(o);
    const auto readers = std::ranges::count_if(operands, [&](ValueId v) { return from_.contains(v); });
    if (readers == 0) return true;
    const OpRecord& r = m_.record(o);
    if (!isElementwise(r)) {
      // The loop that stores reads the rows again, each row only for itself: safe if there is one such loop.
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
  std::unordered_set<ValueId> from_; // values of the argument's shape, computed from its elements
};

// An op with a store of its own declares which operand it may overwrite (OpRecord::rewrites).
bool rewritesOperand(const Module& m, OpId fused, uint32_t operand, uint32_t result) {
  const Block& body = m[m.region(fused)];
  if (result != 0) return false;
  const OpId op = m.definingOp(body.yields[0]); // others compute what it reads
  if (!op.valid()) return false;
  const int rewrites = m.record(op).rewrites;
  if (rewrites < 0 || m.operand(op, static_cast<size_t>(rewrites)) != body.args[operand]) return false;
  if (m[body.args[operand]].type != m[body.yields[0]].type) return false;
  ptrdiff_t reads = 0;
  for (OpId o : body.ops) {
    std::span<const ValueId> operands = m.operands(o);
    reads += std::count(operands.begin(), operands.end(), body.args[operand]);
  }
  if (reads != 1) return false;
  std::span<const ValueId> given = m.operands(fused);
  return std::count(given.begin(), given.end(), m.operand(fused, operand)) == 1;
}

} // namespace

bool canWriteInPlace(const Module& m, OpId fused, uint32_t operand, uint32_t result) {
  if (m.record(fused).regions != RegionKind::Fused) return false;
  AttrId kind = m.attr(fused, "kind");
  static constexpr std::string_view kLoops[] = {"pointwise", "row", "reduce",
                                                "reductions"}; // not library calls or attention
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
  const ReadingParts parts(m, body, arg);
  for (ValueId y : body.yields) // another shape would have a loop of its own, after this one
    if (parts.contain(y) && m.typeOf(y).dims != m.types[type].dims) return false;
  if (parts.count() > 1 && m.strings[m.attrs[kind].text] == "reductions") return false; // the same, by kind
  for (size_t i = 0; i < m[fused].numOperands; ++i) // the same memory again, for loops of its own
    if (i != operand && m.operand(fused, i) == m.operand(fused, operand) &&
        !parts.containReadersOf(body.args[i]))
      return false;
  return true;
}

bool isViewRegion(const Module& m, OpId op) {
  if (m.record(op).regions != RegionKind::Fused || m[op].numResults != 1 || m[op].numOperands != 1)
    return false;
  AttrId kind = m.attr(op, "kind");
  return kind && m.strings[m.attrs[kind].text] == "view";
}

bool isLoadTimeOp(const Module& m, OpId op) {
  return m[op].numOperands == 0 && m[op].numRegions == 0 && m[op].numResults > 0 && !m.record(op).sideEffect;
}

std::vector<CarriedResult> carriedResults(const Module& m, FuncId f) {
  std::vector<CarriedResult> carried;
  const StrId carry = m.strings.find("carry");
  std::unordered_map<StrId, size_t> arguments; // by name; filled at the first result that needs it
  for (size_t r = 0; carry && r < m[f].results.size(); ++r) {
    const FuncResult& result = m[f].results[r];
    const AttrId given = findAttr(result.attrs, carry);
    if (!given || m.attrs[given].i == 0 || !result.label) continue;
    if (arguments.empty())
      for (size_t a = 0; a < m[f].args.size(); ++a) arguments.emplace(m[m[f].args[a].value].name, a);
    if (auto a = arguments.find(result.label); a != arguments.end()) // else rejected by the verifier
      carried.push_back({r, a->second});
  }
  return carried;
}

} // namespace dtc
