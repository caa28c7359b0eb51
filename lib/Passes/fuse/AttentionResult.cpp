#include "fuse/AttentionResult.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Ops/attention/AttentionKeys.h"
#include <algorithm>

namespace dtc {
namespace {

constexpr size_t kDelta = 4, kDy = 5; // operands of attention_grad

// y, if a region computes `delta` as the sum of y * dy along their last dim and reads y from memory;
// otherwise invalid.
class ResultFinder {
public:
  ResultFinder(Module& m, ValueId delta, ValueId dy) : m_(m), delta_(delta), dy_(dy) {}

  [[nodiscard]] ValueId run() {
    if (m_[delta_].kind != ValueKind::OpResult) return {};
    region_ = OpId(m_[delta_].owner);
    if (m_.record(region_).regions != RegionKind::Fused) return {};
    const Block& block = m_[m_.region(region_)];
    const OpId sum = named(block.yields[m_[delta_].position], "sum");
    if (!sum.valid() || !alongLast(sum)) return {};
    const OpId product = named(m_.operand(sum, 0), "mul");
    if (!product.valid()) return {};
    const ValueId a = narrow(m_.operand(product, 0)), b = narrow(m_.operand(product, 1));
    const ValueId y = isDy(a) ? read(b) : isDy(b) ? read(a) : ValueId();
    return y.valid() && m_.typeOf(y) == m_.typeOf(dy_) ? y : ValueId();
  }

private:
  [[nodiscard]] OpId named(ValueId v, std::string_view name) const {
    if (m_[v].kind != ValueKind::OpResult) return {};
    const OpId o(m_[v].owner);
    return m_.record(o).name == name ? o : OpId();
  }
  [[nodiscard]] bool alongLast(OpId sum) const {
    Diagnostics quiet;
    const std::vector<int64_t> dims = queryOf(m_, sum, quiet).intsAttr("dims");
    const auto last = static_cast<int64_t>(m_.typeOf(m_.operand(sum, 0)).rank()) - 1;
    return dims.size() == 1 && (dims[0] == -1 || dims[0] == last);
  }
  // The value before a widening conversion.
  [[nodiscard]] ValueId narrow(ValueId v) const {
    const OpId wide = named(v, "convert");
    return wide.valid() ? m_.operand(wide, 0) : v;
  }
  // The operand that it reads, if it is an argument.
  [[nodiscard]] ValueId read(ValueId v) const {
    const std::vector<ValueId>& args = m_[m_.region(region_)].args;
    const auto at = std::find(args.begin(), args.end(), v);
    return at == args.end() ? ValueId() : m_.operand(region_, static_cast<size_t>(at - args.begin()));
  }
  // Read, or computed by the same region.
  [[nodiscard]] bool isDy(ValueId v) const {
    if (m_[dy_].kind == ValueKind::OpResult && OpId(m_[dy_].owner) == region_)
      return m_[m_.region(region_)].yields[m_[dy_].position] == v;
    return read(v) == dy_;
  }

  Module& m_;
  ValueId delta_, dy_;
  OpId region_;
};

// The region's operand for a value inside it.
ValueId outside(const Module& m, OpId fused, ValueId v) {
  const std::vector<ValueId>& args = m[m.region(fused)].args;
  const auto at = std::find(args.begin(), args.end(), v);
  return at == args.end() ? ValueId() : m.operand(fused, static_cast<size_t>(at - args.begin()));
}

} // namespace

void readAttentionResult(Module& m, BlockId block) {
  for (OpId fused : std::vector<OpId>(m[block].ops)) {
    for (uint32_t r = 0; r < m[fused].numRegions && m.record(fused).regions != RegionKind::Fused; ++r)
      readAttentionResult(m, m.region(fused, r));
    if (m.record(fused).regions != RegionKind::Fused) continue;
    const BlockId body = m.region(fused);
    if (m[body].ops.size() != 1) continue;
    const OpId grad = m[body].ops[0];
    if (attentionForm(m.record(grad)) != AttentionForm::Gradient) continue;
    const ValueId delta = outside(m, fused, m.operand(grad, kDelta)),
                  dy = outside(m, fused, m.operand(grad, kDy));
    if (!delta.valid() || !dy.valid()) continue;
    const ValueId y = ResultFinder(m, delta, dy).run();
    if (!y.valid()) continue;
    std::vector<ValueId> starts(m.operands(fused).begin(), m.operands(fused).end());
    m.makeBlockArg(body, m[y].type, m.strings.intern("p" + std::to_string(starts.size())));
    starts.push_back(y);
    m.setOperands(fused, starts);
  }
}

} // namespace dtc
