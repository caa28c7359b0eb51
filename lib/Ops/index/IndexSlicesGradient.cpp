// Gradients of gather_slices and scatter_slices, each in terms of the other.
#include "index/IndexSlices.h"

#include <algorithm>

namespace dtc {
namespace {

// Maps the dims of a gather to those of a scatter, and back.
constexpr const char* kPairs[][2] = {{"offset_dims", "update_window_dims"},
                                     {"collapsed_slice_dims", "inserted_window_dims"},
                                     {"operand_batching_dims", "input_batching_dims"},
                                     {"start_indices_batching_dims", "scatter_indices_batching_dims"},
                                     {"start_index_map", "scatter_dims_to_operand_dims"},
                                     {"index_vector_dim", "index_vector_dim"}};

class SliceGradient {
public:
  SliceGradient(Builder& b, OpId op) : b_(b), m_(b.module), op_(op) {
    const OpQuery q = queryOf(m_, op, none_);
    gather_ = isGatherSlices(q);
    ok_ = sliceDims(q, dims_);
  }
  [[nodiscard]] bool ok() const { return ok_; }

  Expr scattered(Expr into, Expr indices, Expr updates, const char* reduce) {
    const AttrId how = m_.attrs.string(m_.strings.intern(reduce));
    return made("scatter_slices", std::array<ValueId, 3>{into, indices, updates}, 1, "reduce", how);
  }

  // The indices, clamped as in a gather.
  Expr clamped() {
    return between([&](size_t) { return int64_t(0); },
                   [&](size_t d) { return shape()[d].value() - dims_.operand[d].size.value(); }, 0);
  }

  // For a scatter: v at each update's position, `outside` if out of bounds: windows of v padded by a margin.
  Expr gathered(Expr v, double outside) {
    std::vector<int64_t> margins;
    for (size_t d = 0; d < dims_.operand.size(); ++d) margins.push_back(margin(d));
    const Expr padded = pad(v, {.value = outside, .low = margins, .high = margins});
    const Expr indices =
        between([&](size_t d) { return -margin(d); }, [&](size_t d) { return shape()[d].value(); }, 1);
    std::vector<Dim> sizes;
    for (const SliceDims::OperandDim& o : dims_.operand) sizes.push_back(o.size);
    return made("gather_slices", std::array<ValueId, 2>{padded, indices}, 0, "slice_sizes",
                sizesAttr(m_, sizes));
  }

private:
  [[nodiscard]] const std::vector<Dim>& shape() const { return m_.typeOf(m_.operand(op_, 0)).dims; }
  // The margin of padding along an indexed dim, which contains windows that are out of bounds.
  [[nodiscard]] int64_t margin(size_t d) const {
    return dims_.operand[d].indexed >= 0 ? dims_.operand[d].size.value() : 0;
  }

  // An op with this one's dims, under the attribute names of the gather (0) or of the scatter (1), and one
  // more attribute.
  Expr made(const char* name, std::span<const ValueId> operands, size_t words, const char* more,
            AttrId value) {
    const AttrList before = b_.common;
    for (const auto& pair : kPairs)
      if (const AttrId a = m_.attr(op_, pair[gather_ ? 0 : 1]); a.valid())
        b_.common.push_back({m_.strings.intern(pair[words]), a});
    const OpId op = b_.op(m_.registry->find(name), operands, {{m_.strings.intern(more), value}});
    b_.common = before;
    normalizeAttrs(m_, m_[op].kind, m_[op].attrs);
    return Expr(b_, m_.result(op));
  }

  // Each component of the indices clamped to [low, high], and shifted by `moved` margins.
  template <class Low, class High> Expr between(Low&& low, High&& high, int64_t moved) {
    const Expr given(b_, m_.operand(op_, 1));
    const DType dtype = moved != 0 ? DType::I64 : given.dtype();
    const Expr indices = given.as(dtype);
    std::vector<int64_t> lows, highs, by;
    for (int component = 0; component < static_cast<int>(dims_.operand.size()); ++component)
      for (size_t d = 0; d < dims_.operand.size(); ++d)
        if (dims_.operand[d].indexed == component) {
          lows.push_back(low(d));
          highs.push_back(std::min(high(d), intMax(dtype)));
          by.push_back(moved * margin(d));
        }
    if (lows.empty()) return indices;
    const Expr lowest = along(lows, dtype);
    const Expr within = clamp(indices, lowest, along(highs, dtype));
    return moved != 0 ? within + along(by, dtype) : within;
  }
  // A constant along the component dim of the indices.
  Expr along(const std::vector<int64_t>& numbers, DType dtype) {
    const size_t rank = m_.typeOf(m_.operand(op_, 1)).rank(), vector = static_cast<size_t>(dims_.vector);
    std::vector<Dim> thin(rank, Dim(1));
    if (vector < rank) thin[vector] = Dim(static_cast<int64_t>(numbers.size()));
    const TypeId type = m_.tensorType(dtype, std::array{Dim(static_cast<int64_t>(numbers.size()))});
    const Expr list = ops::constant(b_, type, m_.attrs.integers(numbers));
    return reshape(list, thin);
  }

  Builder& b_;
  Module& m_;
  OpId op_;
  Diagnostics none_;
  SliceDims dims_;
  bool gather_ = false, ok_ = false;
};

} // namespace

bool gatherSlicesGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  SliceGradient g(b, op);
  if (!g.ok()) return false;
  dx.resize(b.module[op].numOperands);
  const Expr zeros(b, b.constant(0, b.module[b.module.operand(op, 0)].type));
  dx[0] = g.scattered(zeros, g.clamped(), Expr(b, dy[0]), "sum");
  return true;
}

bool scatterSlicesGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  SliceGradient g(b, op);
  Diagnostics none;
  const ScatterKind* kind = scatterKind(queryOf(m, op, none), true);
  if (!g.ok() || !kind) return false;
  const Expr indices(b, m.operand(op, 1));
  const ScatterParts parts{Expr(b, m.operand(op, 0)), Expr(b, m.operand(op, 2)), Expr(b, dy[0]),
                           [&](Expr v, double outside) { return g.gathered(v, outside); },
                           [&](Expr into, Expr updates, const char* reduce) {
                             return g.scattered(into, indices, updates, reduce);
                           }};
  dx.resize(m[op].numOperands);
  return scatterGradient(parts, Expr(b, m.result(op)), *kind, dx);
}

} // namespace dtc
