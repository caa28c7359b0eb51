#include "match/Join.h"
#include "dtc/Ops/shape/Join.h"
#include <algorithm>

namespace dtc {

using namespace loops;

namespace {

constexpr size_t kFewParts = 4;         // maximum number of parts that a loop over elements distinguishes,
constexpr int64_t kShortRunBytes = 128; // if the runs of a row are no longer than this

// The same elements in the same order: every factor passes, and none is added, dropped or transposed.
bool isView(Module& m, OpId o) {
  const OpRecord& record = m.record(o);
  if (m[o].numOperands != 1 || m[o].numResults != 1 || record.scalar) return false;
  const bool movesOnly = std::any_of(record.through.begin(), record.through.end(),
                                     [](const Through& t) { return t.row == ThroughRow::Moving; });
  Diagnostics diags;
  Rule rule;
  if (!movesOnly || !ruleOf(queryOf(m, o, diags), rule)) return false;
  auto factors = [&](const TensorMap& map, std::vector<uint16_t>& list) {
    for (const DimMap& d : map.dims) {
      if (d.form != DimMap::Compound) return false;
      for (const Term& t : d.terms) list.push_back(t.factor);
    }
    return true;
  };
  std::vector<uint16_t> in, out;
  if (!factors(rule.operands[0], in) || !factors(rule.results[0], out) || in != out) return false;
  return std::all_of(in.begin(), in.end(),
                     [&](uint16_t f) { return rule.factors[f].kind == FactorKind::Pass; });
}

class JoinMatcher {
public:
  JoinMatcher(Module& m, OpId fused) : m_(m), block_(m[m.region(fused)]), sizes_(m, fused) {}

  std::optional<Lowered> run() {
    if (block_.yields.size() != 1 || m_[block_.yields[0]].kind != ValueKind::OpResult) return std::nullopt;
    const OpId op(m_[block_.yields[0]].owner);
    Diagnostics diags;
    const std::optional<JoinedDim> join = joinOf(queryOf(m_, op, diags));
    if (!join || !dims(op, *join)) return std::nullopt;
    Kernel& k = lowered_.kernel;
    for (ValueId v : std::vector<ValueId>(m_.operands(op).begin(), m_.operands(op).end()))
      if (!part(v, *join)) return std::nullopt;
    if (joined_.parts.empty() || shortRows()) return std::nullopt;
    k.numInputs = static_cast<uint32_t>(k.buffers.size());
    k.buffers.push_back({m_.typeOf(block_.yields[0]).dtype, true});
    lowered_.outputs = {0};
    lowered_.sizes = sizes_.list;
    k.numSizes = static_cast<uint32_t>(sizes_.list.size());
    k.joined = std::move(joined_);
    return std::move(lowered_);
  }

private:
  bool dims(OpId op, const JoinedDim& join) {
    const Type& y = m_.typeOf(m_.result(op));
    for (size_t d = 0; d < join.dim; ++d) joined_.outer = joined_.outer * sizes_.of(y.dims[d]);
    Size inner;
    for (size_t d = join.dim + 1; d < y.rank(); ++d) inner = inner * sizes_.of(y.dims[d]);
    across_ = inner.number;
    joined_.inner = {1, inner.args};
    return joined_.outer.number != 0 && across_ != 0;
  }
  bool part(ValueId v, const JoinedDim& join) {
    const Dim along = join.adds ? Dim(1) : m_.typeOf(v).dims[join.dim];
    if (!along.isStatic()) return false;
    while (m_[v].kind == ValueKind::OpResult) {
      const OpId o(m_[v].owner);
      if (!isView(m_, o)) return false;
      v = m_.operand(o, 0);
    }
    const auto arg = std::find(block_.args.begin(), block_.args.end(), v);
    if (arg == block_.args.end()) return false;
    if (along.value() == 0) return true;
    const auto number = static_cast<uint32_t>(arg - block_.args.begin());
    auto at = std::find(lowered_.inputs.begin(), lowered_.inputs.end(), number);
    if (at == lowered_.inputs.end()) {
      at = lowered_.inputs.insert(at, number);
      lowered_.kernel.buffers.push_back({m_.typeOf(v).dtype, false});
    }
    joined_.parts.push_back({static_cast<uint32_t>(at - lowered_.inputs.begin()), along.value() * across_});
    return true;
  }
  [[nodiscard]] bool shortRows() const {
    if (joined_.parts.size() > kFewParts || !joined_.inner.isStatic()) return false;
    int64_t row = 0;
    for (const Joined::Part& p : joined_.parts) row += p.run;
    const int64_t bytes = row * dtypeBytes(lowered_.kernel.buffers[0].dtype);
    return !joined_.outer.is(1) && bytes < kShortRunBytes * static_cast<int64_t>(joined_.parts.size());
  }

  Module& m_;
  const Block& block_;
  SizeArgs sizes_;
  Lowered lowered_;
  Joined joined_;
  int64_t across_ = 1; // the first number after the dim
};

} // namespace

std::optional<Lowered> matchJoin(Module& m, OpId fused) { return JoinMatcher(m, fused).run(); }

} // namespace dtc
