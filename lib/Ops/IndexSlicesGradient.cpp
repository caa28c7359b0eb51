// Gradients of gather_slices and scatter_slices: each is made of the other.
#include "IndexSlices.h"

#include <algorithm>

namespace dtc {
namespace {

// A scatter with the dims of a gather, and the other way round.
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

  ValueId scattered(ValueId into, ValueId indices, ValueId updates, const char* reduce) {
    const AttrId how = m_.attrs.string(m_.strings.intern(reduce));
    return made("scatter_slices", std::array{into, indices, updates}, 1, "reduce", how);
  }

  // The indices as a gather clamps them.
  ValueId clamped() {
    return between([&](size_t) { return int64_t(0); },
                   [&](size_t d) { return shape()[d].value() - dims_.operand[d].size.value(); }, 0);
  }

  // Of a scatter: v at each update's place, `outside` where that is none: windows of v within a margin.
  ValueId gathered(ValueId v, double outside) {
    std::vector<int64_t> margins;
    for (size_t d = 0; d < dims_.operand.size(); ++d) margins.push_back(margin(d));
    const ValueId filling = b_.literal(outside, m_.typeOf(v).dtype);
    const ValueId padded =
        b_.value("pad", {v, filling}, {{"low", b_.ints(margins)}, {"high", b_.ints(margins)}});
    const ValueId indices =
        between([&](size_t d) { return -margin(d); }, [&](size_t d) { return shape()[d].value(); }, 1);
    std::vector<Dim> sizes;
    for (const SliceDims::OperandDim& o : dims_.operand) sizes.push_back(o.size);
    return made("gather_slices", std::array{padded, indices}, 0, "slice_sizes", sizesToAttr(m_, sizes));
  }

private:
  [[nodiscard]] const std::vector<Dim>& shape() const { return m_.typeOf(m_.operand(op_, 0)).dims; }
  // Elements beside a dim that is indexed, in which a window outside lies.
  [[nodiscard]] int64_t margin(size_t d) const {
    return dims_.operand[d].indexed >= 0 ? dims_.operand[d].size.value() : 0;
  }

  // An op with this one's dims, in the words of the gather (0) or of the scatter (1), and one more attribute.
  ValueId made(const char* name, std::span<const ValueId> operands, size_t words, const char* more,
               AttrId value) {
    const AttrList before = b_.common;
    for (const auto& pair : kPairs)
      if (const AttrId a = m_.attr(op_, pair[gather_ ? 0 : 1]); a.valid())
        b_.common.push_back({m_.strings.intern(pair[words]), a});
    const OpId op = b_.op(name, operands, {{more, value}});
    b_.common = before;
    normaliseAttrs(m_, m_[op].kind, m_[op].attrs);
    return m_.result(op);
  }

  // Each component of the indices clamped to [low, high], and moved by `moved` margins.
  template <class Low, class High> ValueId between(Low&& low, High&& high, int64_t moved) {
    const ValueId given = m_.operand(op_, 1);
    const DType dtype = moved != 0 ? DType::I64 : m_.typeOf(given).dtype;
    const ValueId indices = dtype == m_.typeOf(given).dtype
                                ? given
                                : b_.value("convert", {given}, {{"dtype", b_.word(dtypeName(dtype))}});
    std::vector<int64_t> least, most, by;
    for (int component = 0; component < static_cast<int>(dims_.operand.size()); ++component)
      for (size_t d = 0; d < dims_.operand.size(); ++d)
        if (dims_.operand[d].indexed == component) {
          least.push_back(low(d));
          most.push_back(std::min(high(d), intMax(dtype)));
          by.push_back(moved * margin(d));
        }
    if (least.empty()) return indices;
    const ValueId within = b_.value("clamp", {indices, along(least, dtype), along(most, dtype)});
    return moved != 0 ? b_.value("add", {within, along(by, dtype)}) : within;
  }
  // Numbers along the indices' dim of components.
  ValueId along(const std::vector<int64_t>& numbers, DType dtype) {
    const size_t rank = m_.typeOf(m_.operand(op_, 1)).rank(), vector = static_cast<size_t>(dims_.vector);
    std::vector<Dim> thin(rank, Dim(1));
    if (vector < rank) thin[vector] = Dim(static_cast<int64_t>(numbers.size()));
    const TypeId type[] = {m_.tensorType(dtype, std::array{Dim(static_cast<int64_t>(numbers.size()))})};
    const ValueId list = m_.result(b_.op("constant", {}, {{"value", m_.attrs.integers(numbers)}}, type));
    return b_.value("reshape", {list}, {{"shape", sizesToAttr(m_, thin)}});
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
  const ValueId zeros = b.constant(0, b.module[b.module.operand(op, 0)].type);
  dx[0] = g.scattered(zeros, g.clamped(), dy[0], "sum");
  return true;
}

bool scatterSlicesGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  SliceGradient g(b, op);
  Diagnostics none;
  const ScatterKind* kind = scatterKind(queryOf(m, op, none), true);
  if (!g.ok() || !kind) return false;
  const ValueId indices = m.operand(op, 1);
  const ScatterParts parts{b,
                           m.operand(op, 0),
                           m.operand(op, 2),
                           dy[0],
                           [&](ValueId v, double outside) { return g.gathered(v, outside); },
                           [&](ValueId into, ValueId updates, const char* reduce) {
                             return g.scattered(into, indices, updates, reduce);
                           }};
  dx.resize(m[op].numOperands);
  return scatterGradient(parts, m.result(op), *kind, dx);
}

} // namespace dtc
