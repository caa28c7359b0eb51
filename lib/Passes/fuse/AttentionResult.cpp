#include "fuse/AttentionResult.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Ops/attention/AttentionKeys.h"
#include <algorithm>

namespace dtc {
namespace {

constexpr size_t kDelta = 4, kDy = 5; // operands of attention_grad

// A value of a region as data movement of a value outside of it.
struct Read {
  ValueId outer;          // invalid: it is computed in the region
  std::vector<OpId> path; // the data-movement ops, the last first
};

class RegionReads {
public:
  RegionReads(const Module& m, OpId fused) : m_(m), fused_(fused) {}

  // `v`, a value of the region, or one that it yields as `v`.
  [[nodiscard]] Read of(ValueId v) const {
    Read read;
    while (m_[v].kind == ValueKind::OpResult && movesData(OpId(m_[v].owner))) {
      read.path.emplace_back(m_[v].owner);
      v = m_.operand(read.path.back(), 0);
    }
    const Block& block = m_[m_.region(fused_)];
    if (const auto arg = std::find(block.args.begin(), block.args.end(), v); arg != block.args.end())
      read.outer = m_.operand(fused_, static_cast<size_t>(arg - block.args.begin()));
    else if (const auto made = std::find(block.yields.begin(), block.yields.end(), v);
             made != block.yields.end())
      read.outer = m_.result(fused_, static_cast<size_t>(made - block.yields.begin()));
    return read;
  }

private:
  [[nodiscard]] bool movesData(OpId o) const {
    const OpRecord& record = m_.record(o);
    return m_[o].numOperands == 1 && m_[o].numResults == 1 &&
           std::ranges::any_of(record.through, [](const Through& t) { return t.row == ThroughRow::Moving; });
  }

  const Module& m_;
  OpId fused_;
};

bool samePath(const Module& m, const Read& a, const Read& b) {
  return a.outer.valid() && a.outer == b.outer && std::ranges::equal(a.path, b.path, [&](OpId p, OpId q) {
           return m[p].kind == m[q].kind && m[p].attrs == m[q].attrs &&
                  m[m.result(p)].type == m[m.result(q)].type;
         });
}

// y, if a region computes `delta` as the sum of y * dy along their last dim and reads y from memory.
class ResultFinder {
public:
  // `dy`: as the gradient's region reads it.
  ResultFinder(Module& m, ValueId delta, const Read& dy, TypeId type)
      : m_(m), delta_(delta), dy_(dy), type_(type) {}

  [[nodiscard]] Read run() {
    if (m_[delta_].kind != ValueKind::OpResult) return {};
    region_ = OpId(m_[delta_].owner);
    if (m_.record(region_).regions != RegionKind::Fused) return {};
    const Block& block = m_[m_.region(region_)];
    const OpId sum = named(block.yields[m_[delta_].position], "sum");
    if (!sum.valid() || !alongLast(sum)) return {};
    const OpId product = named(m_.operand(sum, 0), "mul");
    if (!product.valid()) return {};
    const ValueId a = narrow(m_.operand(product, 0)), b = narrow(m_.operand(product, 1));
    const RegionReads reads(m_, region_);
    for (const auto& [dy, y] : {std::pair{a, b}, {b, a}})
      if (samePath(m_, reads.of(dy), dy_) && m_[y].type == type_)
        if (Read found = reads.of(y); found.outer.valid() && !isMadeBy(region_, found.outer)) return found;
    return {};
  }

private:
  [[nodiscard]] bool isMadeBy(OpId o, ValueId v) const {
    return m_[v].kind == ValueKind::OpResult && OpId(m_[v].owner) == o;
  }
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

  Module& m_;
  ValueId delta_;
  const Read& dy_;
  TypeId type_;
  OpId region_;
};

// Reads `y` in the region of the gradient: a value there that no op reads.
void addRead(Module& m, OpId fused, const Read& y) {
  const BlockId body = m.region(fused);
  std::vector<ValueId> starts(m.operands(fused).begin(), m.operands(fused).end());
  ValueId v = m.makeBlockArg(body, m[y.outer].type, m.strings.intern("p" + std::to_string(starts.size())));
  starts.push_back(y.outer);
  m.setOperands(fused, starts);
  std::vector<OpId> copies;
  for (size_t i = y.path.size(); i-- > 0;) {
    const Op source = m[y.path[i]];
    const ValueId operand[] = {v};
    const OpId made = m.makeOp(source.kind, operand, 1, source.attrs, 0, source.loc);
    m[made].parent = body;
    v = m.result(made);
    m[v].type = m[m.result(y.path[i])].type;
    m[v].loc = source.loc;
    copies.push_back(made);
  }
  std::vector<OpId>& ops = m[body].ops;
  ops.insert(ops.begin(), copies.begin(), copies.end());
}

} // namespace

void readAttentionResult(Module& m, BlockId block) {
  for (OpId fused : std::vector<OpId>(m[block].ops)) {
    for (uint32_t r = 0; r < m[fused].numRegions && m.record(fused).regions != RegionKind::Fused; ++r)
      readAttentionResult(m, m.region(fused, r));
    if (m.record(fused).regions != RegionKind::Fused) continue;
    const std::vector<OpId>& ops = m[m.region(fused)].ops;
    const auto grad = std::ranges::find_if(
        ops, [&](OpId o) { return attentionForm(m.record(o)) == AttentionForm::Gradient; });
    if (grad == ops.end()) continue;
    const RegionReads reads(m, fused);
    const Read delta = reads.of(m.operand(*grad, kDelta)), dy = reads.of(m.operand(*grad, kDy));
    if (!delta.outer.valid() || !delta.path.empty() || !dy.outer.valid()) continue;
    const Read y = ResultFinder(m, delta.outer, dy, m[m.operand(*grad, kDy)].type).run();
    if (y.outer.valid()) addRead(m, fused, y);
  }
}

} // namespace dtc
