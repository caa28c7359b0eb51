// Rows that an earlier op of the block has already received.
#include "dtc/IR/LocalShape.h"
#include "record/ShapeParts.h"
#include "window/Window.h"
#include <algorithm>

namespace dtc {

namespace {

bool isTranspose(const Module& m, OpId o) { return m.record(o).name == std::string_view("transpose"); }
bool isReshape(const Module& m, OpId o) { return m.record(o).name == std::string_view("reshape"); }

// The number of trailing dims that a reshape preserves.
size_t keptDims(const Module& m, OpId reshape) {
  const std::vector<Dim>&from = m.typeOf(m.operand(reshape, 0)).dims, &to = m.typeOf(m.result(reshape)).dims;
  const auto [a, b] = std::mismatch(from.rbegin(), from.rend(), to.rbegin(), to.rend());
  return static_cast<size_t>(a - from.rbegin());
}

// The dim of `o`'s operand that corresponds to its dim `dim`, complete and in order, if the op only moves
// other dims.
std::optional<size_t> dimBefore(const Module& m, OpId o, size_t dim) {
  if (!o.valid()) return std::nullopt;
  if (isTranspose(m, o)) {
    const Attr& perm = m.attrs[m.attr(o, "perm")];
    const int64_t from = m.attrs[perm.list[dim]].i, rank = static_cast<int64_t>(perm.list.size());
    return static_cast<size_t>(from < 0 ? from + rank : from);
  }
  if (!isReshape(m, o)) return std::nullopt;
  const size_t innerDims = m.typeOf(m.result(o)).rank() - dim;
  if (innerDims > keptDims(m, o)) return std::nullopt;
  return m.typeOf(m.operand(o, 0)).rank() - innerDims;
}

// The same data-movement op, on some rows only.
Expr movedAlike(OpId move, Expr rows) {
  Module& m = rows.builder().module;
  if (isTranspose(m, move)) return transpose(rows, m.attr(move, "perm"));
  std::vector<Dim> shape = m.typeOf(m.result(move)).dims;
  const auto kept = static_cast<ptrdiff_t>(keptDims(m, move));
  const std::vector<Dim>& own = rows.dims();
  std::copy(own.end() - kept, own.end(), shape.end() - kept);
  return reshape(rows, shape);
}

} // namespace

std::vector<int64_t> WindowFetch::asked(size_t dim) const {
  const Module& m = op_.b.module;
  const WindowRead& r = reads_[0];
  const WindowSource& s = r.sources[0];
  if (reads_.size() != 1 || r.sources.size() != 1 || (r.fill.valid() && m[r.fill].kind != ValueKind::Literal))
    return {};
  const auto axes = static_cast<int64_t>(axesAttr(op_.b.module, factor_.axes).index);
  const int64_t fill = r.fill.valid() ? static_cast<int64_t>(m[r.fill].literal.index) : -1;
  return {static_cast<int64_t>(dim),
          axes,
          fill,
          r.result,
          r.scale,
          r.first,
          r.last,
          r.divide,
          s.size,
          s.base,
          s.length,
          s.step,
          s.offset,
          static_cast<int64_t>(s.order)};
}

std::vector<ValueId> WindowFetch::receivedBefore(ReceivedRows& record) {
  const Module& m = op_.b.module;
  record.of = reads_[0].sources[0].x;
  record.asked = asked(dim_);
  if (!op_.received || record.asked.empty()) return {};
  std::vector<OpId> moves;
  ValueId v = record.of;
  for (size_t dim = dim_;;) {
    const std::vector<int64_t> wanted = asked(dim);
    for (const ReceivedRows& r : *op_.received) {
      if (r.of != v || r.asked != wanted) continue;
      std::vector<ValueId> values = r.values;
      for (ValueId& rows : values)
        for (size_t i = moves.size(); i-- > 0;) rows = movedAlike(moves[i], op_.value(rows));
      record.like = r.buffer, record.moves = moves;
      return values;
    }
    // A buffer that was assembled equals the buffer that it is like, transformed.
    const auto anew = std::ranges::find_if(
        *op_.received, [&](const ReceivedRows& r) { return r.buffer == v && r.like.valid(); });
    const std::vector<OpId> steps =
        anew != op_.received->end() ? anew->moves : std::vector<OpId>{m.definingOp(v)};
    for (const OpId o : steps) {
      const auto before = dimBefore(m, o, dim);
      if (!before) return {};
      dim = *before;
      moves.push_back(o);
    }
    v = anew != op_.received->end() ? anew->like : m.operand(steps[0], 0);
  }
}

} // namespace dtc
