#include "index/Exchange.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Ops/Loop.h"
#include "dtc/Support/Result.h"
#include "index/IndexSlices.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc {

// The capacity per destination for `rows` rows to `devices`: an even share plus twice its square root, which
// uniformly distributed indices rarely exceed. If rows are sorted by index, most stay: only the deviation
// from an even distribution is sent.
static int64_t capacityFor(int64_t rows, int64_t devices, bool keepsMost) {
  auto twiceRoot = [](int64_t n) {
    return static_cast<int64_t>(std::ceil(2 * std::sqrt(static_cast<double>(n))));
  };
  const int64_t share = (rows + devices - 1) / devices;
  const int64_t room = std::min(rows, share + twiceRoot(share));
  return keepsMost ? std::min(room, twiceRoot(rows * devices)) : room;
}

static Expr counted(Builder& b, std::vector<Dim> dims, int64_t along) {
  return ops::iota(b, b.module.tensorType(DType::I32, dims), {.dim = along});
}

static Expr within(Expr v, int64_t end) {
  const Expr begun = v >= 0;
  return begun & (v < end);
}

static bool isShardedDim(const Module& m, Dim d) { return !d.isStatic() && !m.dims.dynamic(d).axes.empty(); }

bool RowExchange::possible(const ShardedOp& op, Expr indices, Dim size, const ShardedFactor& factor) {
  const Dim rows = op.typeOf(indices).dims[0];
  return size.isStatic() && rows.isStatic() && rows.value() > 0 && size.value() > 0 && factor.isSharded() &&
         size.value() < std::numeric_limits<int32_t>::max() &&
         rows.value() < std::numeric_limits<int32_t>::max() / (8 * factor.devices);
}

RowExchange::RowExchange(ShardedOp& op, Expr indices, Dim size, const ShardedFactor& factor, Own own)
    : op_(op), factor_(factor), rows_(op.typeOf(indices).dims[0].value()),
      capacity_(capacityFor(rows_, factor.devices, own == Own::MostStay)) {
  const int64_t n = factor.devices;
  // Shard i begins at ⌊i·size/n⌋: index p is in shard ⌊((p + 1)·n - 1) / size⌋.
  const Expr wide = op.convert(indices, DType::I64);
  const Expr inside = within(wide, size.value());
  Expr owner = floor_div(wide * n + (n - 1), size.value()).as(DType::I32);
  indices_ = select(inside, op.convert(indices, DType::I32), -1);
  Expr goes = inside;
  if (own != Own::Goes) goes = goes & ne(owner, op.index(factor.axes));
  goes_ = goes;
  owner = select(goes, owner, n);
  owner_ = owner;
  const Expr column = counted(op.b, {Dim(1), Dim(n)}, 1);
  const Expr hits = eq(expand_dims(owner, {1}), column).as(DType::I32);
  const Expr before = cumsum(hits, {.dim = 0, .exclusive = true});
  rank_ = sum(before * hits, {.dims = {1}});
  if (capacity_ < rows_)
    maxRows_ = op.allReduce(max(sum(hits, {.dims = {0}}), {.dims = {0}}), PendingKind::Max, factor.axes);
}

Expr RowExchange::picked(Builder& b, ValueId v, Expr numbers, int64_t dim) {
  return index_select(Expr(b, v), numbers, {.offset = 0, .dim = dim});
}

Expr RowExchange::exchanged(Expr rows, int64_t dim) const {
  std::vector<Dim> dims = rows.dims(), apart = dims;
  const auto at = apart.begin() + dim;
  *at = Dim(capacity_);
  apart.insert(apart.begin() + dim, {Dim(factor_.devices), Dim(1)});
  const Expr v =
      all_to_all(reshape(rows, apart), {.axes = factor_.axes, .split_dim = dim, .concat_dim = dim + 1});
  return reshape(v, dims);
}

RowExchange::Round RowExchange::round(Builder& b, ValueId number) {
  Round r;
  const Expr rank(b, rank_), slot = number.valid() ? rank - Expr(b, number) * capacity_ : rank;
  r.goes = Expr(b, goes_) & within(slot, capacity_);
  const Expr at = Expr(b, owner_) * capacity_ + slot;
  r.at = select(r.goes, at, room());
  // One extra slot, for the rows of other rounds.
  const Expr none(b, b.constant(-1, b.module.tensorType(DType::I32, std::array{Dim(room() + 1)})));
  const Expr all = scatter(none, r.at, counted(b, {Dim(rows_)}, 0), {.dim = 0});
  r.rows = slice(all, {.start = {0}, .limit = {room()}});
  const Expr given = r.rows >= 0;
  r.asked = exchanged(select(given, picked(b, indices_, r.rows, 0), -1), 0);
  return r;
}

Expr RowExchange::run(ValueId start, const Body& body) {
  Builder& b = op_.b;
  Module& m = b.module;
  const Expr first(b, body(b, round(b, {}), Expr(b, start)));
  if (capacity_ >= rows_) return first;
  const OpId loop = m.makeOp(m.registry->find(RegionKind::While),
                             std::array{b.literal(1, DType::I32), ValueId(first)}, 2, b.common, 2, b.loc);
  m[loop].parent = b.parent;
  const TypeId types[] = {m.tensorType(DType::I32, std::span<const Dim>()), m[first].type};
  for (uint32_t region : {0u, 1u}) {
    const BlockId block = m.region(loop, region);
    const ValueId arguments[] = {m.makeBlockArg(block, types[0]), m.makeBlockArg(block, types[1])};
    ops::writeBlock(b, block, [&](Builder& in) -> std::vector<ValueId> {
      const Expr number(in, arguments[0]), before(in, arguments[1]);
      if (region == 0) return {number * capacity_ < maxRows_};
      const ValueId after = body(in, round(in, number), before);
      return {number + 1, after};
    });
  }
  for (uint32_t r : {0u, 1u}) m[m.result(loop, r)].type = types[r];
  b.out.push_back(loop);
  return Expr(b, m.result(loop, 1));
}

Expr paddedShards(ShardedOp& op, Expr v, int64_t value, std::span<const size_t> dims) {
  for (size_t d : dims)
    if (isShardedDim(op.b.module, v.dims()[d])) v = fill_piece(v, {.dim = d, .value = op.b.integer(value)});
  return v;
}

Expr trimmedShards(ShardedOp& op, Expr v, TypeId like) {
  Module& m = op.b.module;
  for (size_t d = 0; d < op.typeOf(v).rank(); ++d) {
    const Dim want = m.types[like].dims[d];
    if (op.typeOf(v).dims[d] == want || !isShardedDim(m, want)) continue;
    v = trim_piece(v, {.dim = d, .size = m.dims.unsharded(want), .axes = m.dims.dynamic(want).axes});
  }
  return v;
}

static std::optional<int64_t> product(std::span<const Dim> dims) {
  int64_t n = 1;
  for (Dim d : dims) {
    const auto next = d.isStatic() ? checkedMul(n, d.value()) : std::nullopt;
    if (!next) return std::nullopt;
    n = *next;
  }
  return n;
}

// The `count` dims from `dim` on as one dim of `size`.
static Expr joined(Expr v, size_t dim, size_t count, int64_t size) {
  std::vector<Dim> dims = v.dims();
  const auto at = dims.begin() + static_cast<ptrdiff_t>(dim);
  dims.insert(dims.erase(at, at + static_cast<ptrdiff_t>(count)), Dim(size));
  return reshape(v, dims);
}

static std::vector<size_t> upTo(size_t begin, size_t end) {
  std::vector<size_t> out;
  for (size_t d = begin; d < end; ++d) out.push_back(d);
  return out;
}

// Each device requests rows from their owners, which reply.
bool shardSelect(ShardedOp& op, std::vector<ValueId>& results, size_t source, size_t indices, size_t dim) {
  Builder& b = op.b;
  Module& m = b.module;
  const Expr x = op.operand(source);
  const ShardedFactor& factor = op.operandFactor(source, dim);
  const Dim size = op.global.type(source).dims[dim];
  const size_t rank = op.typeOf(op.operands[indices]).rank();
  if (rank == 0 || isComplex(op.dtypeOf(x)) || op.dtypeOf(op.operands[indices]) == DType::U64) return false;
  Expr n = paddedShards(op, op.convert(op.operands[indices], DType::I64), -1, upTo(0, rank));
  const std::vector<Dim> filled = op.typeOf(n).dims;
  const auto count = product(filled);
  if (!count) return false;
  if (rank != 1) n = joined(n, 0, rank, *count);
  if (!RowExchange::possible(op, n, size, factor)) return false;
  const auto d = static_cast<int64_t>(dim);
  RowExchange exchange(op, n, size, factor);
  std::vector<Dim> dims = op.typeOf(x).dims;
  dims[dim] = Dim(*count);
  const Expr offset = op.shardOffset(size, factor.axes);
  const Expr zeros = op.value(b.constant(0, m.tensorType(op.dtypeOf(x), dims)));
  Expr y = exchange.run(zeros, [&](Builder& in, const RowExchange::Round& round, Expr before) {
    const Expr rows = index_select(Expr(in, x), round.asked, {.offset = offset, .dim = d});
    const Expr got = RowExchange::picked(in, exchange.exchanged(rows, d), round.at, d);
    std::vector<Dim> flags(dims.size(), Dim(1));
    flags[dim] = Dim(*count);
    return select(reshape(round.goes, flags), got, before);
  });
  if (rank != 1) {
    std::vector<Dim> shape = op.typeOf(y).dims;
    const auto at = shape.erase(shape.begin() + d);
    shape.insert(at, filled.begin(), filled.end());
    y = reshape(y, shape);
  }
  results.push_back(trimmedShards(op, y, op.results[0]));
  return true;
}

// Each device sends its updates to the owners of the rows.
bool shardScatterRows(ShardedOp& op, std::vector<ValueId>& results) {
  SliceDims s;
  const std::optional<int64_t> dim = sliceDims(op.global, s) ? scatteredRows(op.global, s) : std::nullopt;
  if (!dim) return false;
  const auto d = static_cast<size_t>(*dim);
  const ShardedFactor& factor = op.operandFactor(0, d);
  const Dim size = op.global.type(0).dims[d];
  const size_t rank = op.typeOf(op.operands[1]).rank();
  if (!factor.isSharded() || isComplex(op.dtypeOf(op.operands[0])) ||
      op.dtypeOf(op.operands[1]) == DType::U64)
    return false;
  Expr n = paddedShards(op, op.convert(op.operands[1], DType::I64), -1, upTo(0, rank));
  const size_t counted = static_cast<size_t>(s.vector) < rank ? rank - 1 : rank;
  const auto count = product(op.typeOf(n).dims);
  if (!count) return false;
  if (rank != 1) n = joined(n, 0, rank, *count);
  if (!RowExchange::possible(op, n, size, factor)) return false;
  Expr updates = paddedShards(op, op.operand(2), 0, upTo(d, d + counted));
  if (counted != 1) updates = joined(updates, d, counted, *count);
  RowExchange exchange(op, n, size, factor);
  const Expr offset = op.shardOffset(size, factor.axes);
  std::vector<int64_t> window;
  for (size_t e = 0; e < op.typeOf(updates).rank(); ++e)
    if (e != d) window.push_back(static_cast<int64_t>(e));
  const std::array at = {*dim};
  const ops::IntsAttr windowDims = window.empty() ? ops::IntsAttr(ops::kDefault) : window;
  // Sums of narrow floats are rounded once, at the end.
  const Expr y =
      exchange.run(op.wide(op.operand(0)), [&](Builder& in, const RowExchange::Round& round, Expr before) {
        const Expr rows = exchange.exchanged(RowExchange::picked(in, updates, round.rows, *dim), *dim);
        return scatter_slices(before, round.asked, rows.as(before.dtype()), {offset},
                              {.update_window_dims = windowDims,
                               .inserted_window_dims = at,
                               .scatter_dims_to_operand_dims = at,
                               .index_vector_dim = 1,
                               .reduce = op.global.textAttr("reduce")});
      });
  results.push_back(op.convert(y, op.dtypeOf(op.operands[0])));
  return true;
}

} // namespace dtc
