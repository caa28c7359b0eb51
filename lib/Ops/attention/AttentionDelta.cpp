#include "dtc/IR/OpRecord.h"
#include "dtc/Ops/attention/AttentionKeys.h"
#include <algorithm>

namespace dtc {
namespace {

constexpr size_t kDelta = 4, kDy = 5; // operands of attention_grad

class DeltaFinder {
public:
  DeltaFinder(Module& m, OpId gradient) : m_(m), gradient_(gradient) {}

  [[nodiscard]] std::optional<AttentionDelta> run() {
    const ValueId dy = m_.operand(gradient_, kDy);
    const OpId sum = take(m_.operand(gradient_, kDelta), "sum");
    if (!sum.valid() || !alongLast(sum)) return {};
    const OpId product = take(m_.operand(sum, 0), "mul");
    if (!product.valid()) return {};
    const ValueId a = narrow(m_.operand(product, 0)), b = narrow(m_.operand(product, 1));
    for (const auto& [cotangent, y] : {std::pair{a, b}, {b, a}})
      if (same(cotangent, dy) && m_[y].type == m_[dy].type) {
        found_.y = y, found_.cotangent = cotangent;
        return found_;
      }
    return {};
  }

private:
  [[nodiscard]] OpId made(ValueId v) const {
    return m_[v].kind == ValueKind::OpResult ? OpId(m_[v].owner) : OpId();
  }
  OpId take(ValueId v, std::string_view name) {
    const OpId o = made(v);
    if (!o.valid() || m_.record(o).name != name) return {};
    found_.ops.push_back(o);
    return o;
  }
  [[nodiscard]] bool alongLast(OpId sum) const {
    Diagnostics quiet;
    const std::vector<int64_t> dims = queryOf(m_, sum, quiet).intsAttr("dims");
    const auto last = static_cast<int64_t>(m_.typeOf(m_.operand(sum, 0)).rank()) - 1;
    return dims.size() == 1 && (dims[0] == -1 || dims[0] == last);
  }
  // The value before a widening conversion.
  ValueId narrow(ValueId v) {
    const OpId wide = take(v, "convert");
    return wide.valid() ? m_.operand(wide, 0) : v;
  }
  // The same data movement of the same value.
  [[nodiscard]] bool same(ValueId a, ValueId b) const {
    while (a != b) {
      const OpId p = made(a), q = made(b);
      if (!p.valid() || !q.valid() || !movesData(p) || m_[p].kind != m_[q].kind ||
          m_[p].attrs != m_[q].attrs || m_[a].type != m_[b].type)
        return false;
      a = m_.operand(p, 0), b = m_.operand(q, 0);
    }
    return true;
  }
  [[nodiscard]] bool movesData(OpId o) const {
    return m_[o].numOperands == 1 && m_[o].numResults == 1 &&
           std::ranges::any_of(m_.record(o).through,
                               [](const Through& t) { return t.row == ThroughRow::Moving; });
  }

  Module& m_;
  OpId gradient_;
  AttentionDelta found_;
};

} // namespace

std::optional<AttentionDelta> attentionDelta(Module& m, OpId gradient) {
  return DeltaFinder(m, gradient).run();
}

} // namespace dtc
