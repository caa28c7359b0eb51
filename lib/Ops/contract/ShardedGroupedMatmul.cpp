// grouped_matmul with groups and rows sharded by the same axes (experts and their tokens): each device
// multiplies the rows of its own groups; other rows are sent to the owners of their groups' matrices, and the
// products come back. Rows are sorted by group, so that few rows are sent if groups have equal sizes.
#include "dtc/IR/LocalShape.h"
#include "index/Exchange.h"
#include <array>

namespace dtc {

namespace {

constexpr size_t kGroupEnds = 2;

class ShardedGroupedMatmul {
public:
  explicit ShardedGroupedMatmul(ShardedOp& op)
      : op_(op), b_(op.b), m_(op.b.module), spread_(op.global.type(1).rank() == 3),
        rowsOf_{spread_ ? 0 : 1, 0}, rows_(op.global.type(0).dims[static_cast<size_t>(rowsOf_[0])]),
        groups_(op.global.type(kGroupEnds).dims[0]),
        groupFactor_(spread_ ? op.operandFactor(1, 0) : op.resultFactor(0, 0)),
        rowFactor_(op.operandFactor(0, static_cast<size_t>(rowsOf_[0]))) {}

  [[nodiscard]] bool run(std::vector<ValueId>& results) {
    if (op_.operands.size() > kGroupEnds + 1 || !rows_.isStatic() || !groups_.isStatic()) return false;
    firstGroup_ = op_.shardOffset(groups_, groupFactor_.axes);
    const Expr firstRow = op_.shardOffset(rows_, rowFactor_.axes);
    const std::array<size_t, 2> dims = {static_cast<size_t>(rowsOf_[0]), 0};
    travel_ = {paddedShards(op_, op_.operand(0), 0, {&dims[0], 1}), op_.operand(1)};
    if (!spread_) {
      // Sums over rounds are rounded once, at the end.
      travel_[1] = paddedShards(op_, op_.operand(1), 0, {&dims[1], 1});
      for (ValueId& v : travel_) v = op_.wide(v);
    }
    const Expr groups = groupsOfRows(firstRow);
    if (!RowExchange::possible(op_, groups, groups_, groupFactor_)) return false;
    RowExchange exchange(op_, groups, groups_, groupFactor_,
                         rowFactor_.axes == groupFactor_.axes ? RowExchange::Own::MostStay
                                                              : RowExchange::Own::Stays);
    const Expr own = product(b_, travel_, op_.operand(kGroupEnds), firstRow);
    const Expr y = exchange.run(own, [&](Builder& in, const RowExchange::Round& round, Expr before) {
      return spread_ ? spread(in, exchange, round, before) : gathered(in, exchange, round, before);
    });
    results.push_back(trimmedShards(op_, op_.convert(y, op_.dtypeOf(op_.operands[0])), op_.results[0]));
    return true;
  }

private:
  Expr counted(Builder& b, std::vector<Dim> dims, int64_t along) {
    return ops::iota(b, m_.tensorType(DType::I32, dims), {.dim = along});
  }
  // The number of elements along dim `over` for which the comparison holds.
  static Expr times(Expr holds, int64_t over) { return sum(convert(holds, DType::I32), {.dims = {over}}); }

  // The group of each row of this device, -1 after the last.
  Expr groupsOfRows(Expr firstRow) {
    const Dim size = op_.typeOf(travel_[0]).dims[static_cast<size_t>(rowsOf_[0])];
    const Expr position = counted(b_, {size}, 0);
    const Expr row = position + firstRow;
    const Expr ends = expand_dims(op_.operand(kGroupEnds), {0});
    const Expr group = times(ends <= expand_dims(row, {1}), 1);
    const Expr here = position < op_.shardSize(rows_, rowFactor_.axes);
    return select(here, group, -1);
  }

  // Of the rows from `firstRow` on, those of this device's groups.
  Expr product(Builder& b, const std::array<ValueId, 2>& factors, ValueId ends, ops::Arg firstRow) {
    const ops::SizeAttr groups = spread_ ? ops::SizeAttr(ops::kDefault) : m_.types[op_.results[0]].dims[0];
    return grouped_matmul(Expr(b, factors[0]), factors[1], ends,
                          {.row_offset = firstRow, .group_offset = firstGroup_, .groups = groups});
  }

  // The ends of the groups among the received rows. These are sorted by group; an empty slot counts as the
  // group of the slot before it.
  Expr endsOf(Builder& b, Expr groups) {
    const Expr sorted = expand_dims(cummax(groups, {.dim = 0})[0], {1});
    return times(sorted <= counted(b, {Dim(1), groups_}, 1), 0);
  }

  Expr spread(Builder& b, const RowExchange& exchange, const RowExchange::Round& round, Expr before) {
    const Expr rows = exchange.exchanged(RowExchange::picked(b, travel_[0], round.rows, 0), 0);
    const Expr made = product(b, {rows, travel_[1]}, endsOf(b, round.asked), 0);
    const Expr back = RowExchange::picked(b, exchange.exchanged(made, 0), round.at, 0);
    return select(expand_dims(round.goes, {1}), back, before);
  }

  Expr gathered(Builder& b, const RowExchange& exchange, const RowExchange::Round& round, Expr before) {
    std::array<ValueId, 2> rows;
    for (size_t i : {size_t(0), size_t(1)})
      rows[i] = exchange.exchanged(RowExchange::picked(b, travel_[i], round.rows, rowsOf_[i]), rowsOf_[i]);
    return before + product(b, rows, endsOf(b, round.asked), 0);
  }

  ShardedOp& op_;
  Builder& b_;
  Module& m_;
  bool spread_;
  std::array<int64_t, 2> rowsOf_; // the row dims of x and, if it has one, of w
  Dim rows_, groups_;
  const ShardedFactor &groupFactor_, &rowFactor_;
  std::array<ValueId, 2> travel_; // x and w; tensors with rows have equal sizes on all devices
  ValueId firstGroup_;
};

} // namespace

bool shardGroupedMatmul(ShardedOp& op, std::vector<ValueId>& results) {
  return ShardedGroupedMatmul(op).run(results);
}

} // namespace dtc
