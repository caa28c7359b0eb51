#include "import/LoopValues.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Ops/OpFunctions.h"

#include <algorithm>
#include <unordered_set>

namespace dtc {

ValueUses::ValueUses(const Module& m, BlockId b) { count(m, b); }

void ValueUses::count(const Module& m, BlockId b) {
  for (OpId o : m[b].ops) {
    for (ValueId v : m.operands(o)) ++counts_[v];
    for (uint32_t k = 0; k < m[o].numRegions; ++k) count(m, m.region(o, k));
  }
  for (ValueId v : m[b].yields) ++counts_[v];
}

void substitute(Module& m, BlockId b, const ValueMap& map) {
  for (OpId o : m[b].ops) {
    for (ValueId& v : m.operands(o)) v = map(v);
    for (uint32_t k = 0; k < m[o].numRegions; ++k) substitute(m, m.region(o, k), map);
  }
  for (ValueId& v : m[b].yields) v = map(v);
}

// The dim along which a window of this shape moves, one row at a time; all other dims are whole, so that the
// window's start is clamped to 0 there.
static std::optional<size_t> rowDim(const Type& stacked, const Type& window) {
  std::optional<size_t> dim;
  if (!stacked.isStatic() || !window.isStatic() || stacked.rank() != window.rank()) return std::nullopt;
  for (size_t d = 0; d < stacked.rank(); ++d) {
    if (stacked.dims[d] == window.dims[d]) continue;
    if (dim || window.dims[d].value() != 1) return std::nullopt;
    dim = d;
  }
  if (!dim && stacked.rank() > 0 && stacked.dims[0].value() == 1) return 0; // a single row
  return dim;
}

static bool isOp(const Module& m, OpId o, std::string_view name) {
  return o.valid() && m.record(o).name == name;
}

std::optional<StackedRows> stackedRows(const Module& m, const IndexRanges& ranges, const ValueUses& uses,
                                       BlockId body, size_t k, const LoopIndex& loop) {
  const ValueId arg = m[body].args[k], next = m[body].yields[k];
  const OpId o = m.definingOp(next);
  if (!isOp(m, o, "dynamic_update_slice") || m[o].parent != body || m.operand(o, 0) != arg)
    return std::nullopt;
  const Type &stacked = m.typeOf(arg), &window = m.typeOf(m.operand(o, 1));
  if (rowDim(stacked, window) != 0 || stacked.dims[0].value() != loop.iterations || m[next].sharding.valid())
    return std::nullopt;
  if (uses[arg] != 1 || uses[next] != 1) return std::nullopt;
  auto at = ranges(m.operand(o, 2));
  if (!at) return std::nullopt;
  const bool single = loop.iterations == 1 && at->isNumber();
  if (!single && at->index != loop.value) return std::nullopt;
  if (single || (at->slope == 1 && at->offset == -loop.first)) return StackedRows{o, false};
  if (at->slope == -1 && at->offset == loop.first + loop.iterations - 1) return StackedRows{o, true};
  return std::nullopt;
}

ValueId rowOf(Module& m, Builder& b, const StackedRows& rows) {
  const ValueId update = m.operand(rows.write, 1);
  const Type& window = m.typeOf(update);
  const std::vector<Dim> shape(window.dims.begin() + 1, window.dims.end());
  const OpId o = m.definingOp(update);
  const bool widened = isOp(m, o, "reshape") || isOp(m, o, "broadcast") || isOp(m, o, "expand_dims");
  if (widened && m.typeOf(m.operand(o, 0)).dims == shape) return m.operand(o, 0);
  return ops::reshape(ops::Expr(b, update), shape);
}

std::optional<RowSlice> rowSlice(const Module& m, const IndexRanges& ranges, OpId reshape) {
  if (!isOp(m, reshape, "reshape")) return std::nullopt;
  const OpId slice = m.definingOp(m.operand(reshape, 0));
  if (!isOp(m, slice, "dynamic_slice") || m[m.result(slice)].sharding.valid()) return std::nullopt;
  const Type &stacked = m.typeOf(m.operand(slice, 0)), &window = m.typeOf(m.result(slice));
  const auto dim = rowDim(stacked, window);
  if (!dim || m[slice].numOperands != stacked.rank() + 1) return std::nullopt;
  std::vector<Dim> shape = window.dims;
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*dim));
  const ValueId index = m.operand(slice, *dim + 1);
  if (shape != m.typeOf(m.result(reshape)).dims || m.typeOf(index).dtype != DType::I32) return std::nullopt;
  const auto at = ranges(index);
  if (!at || at->lo < 0 || at->hi >= stacked.dims[*dim].value()) return std::nullopt;
  return RowSlice{m.operand(slice, 0), index, static_cast<int64_t>(*dim)};
}

// --- dead code ---

namespace {

class DeadOps {
public:
  explicit DeadOps(Module& m) : m_(m), uses_(m.values.size(), 0) {
    for (FuncId f : m.order) count(m[f].body);
  }

  void loop(OpId o) { block(m_.region(o)); }

  void start(ValueId v) {
    for (std::vector<ValueId> next = {v}; !next.empty();) {
      const OpId o = m_.definingOp(next.back());
      next.pop_back();
      if (!o.valid() || !dead(o) || !dropped_.insert(o).second) continue;
      touched_.insert(m_[o].parent);
      for (ValueId operand : m_.operands(o)) {
        --uses_[operand.index];
        next.push_back(operand);
      }
    }
  }

  void remove() {
    for (BlockId b : touched_) std::erase_if(m_[b].ops, [&](OpId o) { return dropped_.contains(o); });
  }

private:
  void count(BlockId b) {
    for (OpId o : m_[b].ops) {
      for (ValueId v : m_.operands(o)) ++uses_[v.index];
      for (uint32_t k = 0; k < m_[o].numRegions; ++k) count(m_.region(o, k));
    }
    for (ValueId v : m_[b].yields) ++uses_[v.index];
  }

  void block(BlockId b) {
    for (size_t i = m_[b].ops.size(); i-- > 0;) {
      const OpId o = m_[b].ops[i];
      for (uint32_t k = 0; k < m_[o].numRegions; ++k) block(m_.region(o, k));
      if (m_[o].numResults > 0) start(m_.result(o));
    }
  }

  [[nodiscard]] bool dead(OpId o) const {
    const OpRecord& rec = m_.record(o);
    if (rec.sideEffect || rec.isCollective() || rec.isCall || m_[o].numRegions > 0 || m_[o].numResults == 0)
      return false;
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      if (uses_[m_.result(o, r).index] != 0) return false;
    return true;
  }

  Module& m_;
  std::vector<uint32_t> uses_; // by value
  std::unordered_set<OpId> dropped_;
  std::unordered_set<BlockId> touched_;
};

} // namespace

void dropDead(Module& m, std::span<const OpId> loops, std::span<const ValueId> starts) {
  DeadOps dead(m);
  for (OpId o : loops) dead.loop(o);
  for (ValueId v : starts) dead.start(v);
  dead.remove();
}

} // namespace dtc
