// grouped_matmul with its groups and its rows cut by the same axes (experts and their tokens): each device multiplies the rows that it
// has of its own groups, and the others go to the devices that have their groups' matrices, and come back as products. Rows are in
// the order of their groups, so that where groups are of one length few have to go.
#include "Exchange.h"
#include "dtc/IR/LocalShape.h"
#include <array>

namespace dtc {

namespace {

constexpr size_t kOffsets = 2;

class GroupedCut {
public:
  explicit GroupedCut(CutOp& op)
      : op_(op), b_(op.b), m_(op.b.module), spread_(op.whole.type(1).rank() == 3),
        rowsOf_{spread_ ? 0 : 1, 0}, rows_(op.whole.type(0).dims[static_cast<size_t>(rowsOf_[0])]),
        groups_(op.whole.type(kOffsets).dims[0]),
        groupCut_(spread_ ? op.operandCut(1, 0) : op.resultCut(0, 0)),
        rowCut_(op.operandCut(0, static_cast<size_t>(rowsOf_[0]))) {}

  [[nodiscard]] bool run(std::vector<ValueId>& results) {
    if (op_.operands.size() > kOffsets + 1 || !rows_.isStatic() || !groups_.isStatic()) return false;
    firstGroup_ = op_.pieceOffset(groups_, groupCut_.axes);
    const ValueId firstRow = op_.pieceOffset(rows_, rowCut_.axes);
    const std::array<size_t, 2> dims = {static_cast<size_t>(rowsOf_[0]), 0};
    travel_ = {filledPieces(op_, op_.operands[0], 0, {&dims[0], 1}), op_.operands[1]};
    if (!spread_) {
      // What is added up round by round is rounded once, at the end.
      travel_[1] = filledPieces(op_, op_.operands[1], 0, {&dims[1], 1});
      for (ValueId& v : travel_) v = op_.wide(v);
    }
    const ValueId groups = groupsOfRows(firstRow);
    if (!RowExchange::possible(op_, groups, groups_, groupCut_)) return false;
    RowExchange exchange(op_, groups, groups_, groupCut_,
                         rowCut_.axes == groupCut_.axes ? RowExchange::Own::MostStay
                                                        : RowExchange::Own::Stays);
    const ValueId own = product(b_, travel_, op_.operands[kOffsets], firstRow);
    const ValueId y = exchange.run(own, [&](Builder& in, const RowExchange::Round& round, ValueId before) {
      return spread_ ? spread(in, exchange, round, before) : gathered(in, exchange, round, before);
    });
    results.push_back(trimmedPieces(op_, op_.convert(y, op_.dtypeOf(op_.operands[0])), op_.results[0]));
    return true;
  }

private:
  ValueId number(Builder& b, int64_t v) { return m_.makeLiteral(m_.attrs.integer(v), DType::I32, b.loc); }
  ValueId counted(Builder& b, std::vector<Dim> dims, int64_t along) {
    const TypeId type[] = {m_.tensorType(DType::I32, dims)};
    return m_.result(b.op("iota", {}, {{"dim", b.integer(along)}}, type));
  }
  // For each of `many` numbers of a list (or of a row and a column), how often the comparison holds.
  ValueId times(Builder& b, const char* compare, ValueId x, ValueId y, int64_t over) {
    const ValueId holds = b.value("convert", {b.value(compare, {x, y})}, {{"dtype", b.word("i32")}});
    return b.value("sum", {holds}, {{"dims", b.ints({&over, 1})}});
  }
  ValueId asDim(Builder& b, ValueId v, int64_t newDim) {
    return b.value("expand_dims", {v}, {{"dims", b.ints({&newDim, 1})}});
  }

  // The group of each row of this device, -1 behind its last.
  ValueId groupsOfRows(ValueId firstRow) {
    const Dim size = op_.typeOf(travel_[0]).dims[static_cast<size_t>(rowsOf_[0])];
    const ValueId place = counted(b_, {size}, 0);
    const ValueId row = b_.value("add", {place, firstRow});
    const ValueId group = times(b_, "le", asDim(b_, op_.operands[kOffsets], 0), asDim(b_, row, 1), 1);
    const ValueId here = b_.value("lt", {place, op_.pieceSize(rows_, rowCut_.axes)});
    return b_.value("select", {here, group, number(b_, -1)});
  }

  // Of rows that begin at `firstRow`, those of this device's groups.
  ValueId product(Builder& b, const std::array<ValueId, 2>& factors, ValueId ends, ValueId firstRow) {
    const ValueId operands[] = {factors[0], factors[1], ends, firstRow, firstGroup_};
    if (spread_) return m_.result(b.op("grouped_matmul", operands));
    const Dim groups = m_.types[op_.results[0]].dims[0];
    return m_.result(b.op("grouped_matmul", operands, {{"groups", sizeAttr(m_, groups)}}));
  }

  // The ends of the groups among the rows that came. These are in order of their groups; a place without a row counts as of the
  // group before it.
  ValueId endsOf(Builder& b, ValueId groups) {
    const ValueId in[] = {groups};
    const ValueId sorted = m_.result(b.op("cummax", in, {{"dim", b.integer(0)}}), 0);
    return times(b, "le", asDim(b, sorted, 1), counted(b, {Dim(1), groups_}, 1), 0);
  }

  ValueId spread(Builder& b, const RowExchange& exchange, const RowExchange::Round& round, ValueId before) {
    const ValueId rows = exchange.exchanged(b, RowExchange::picked(b, travel_[0], round.rows, 0), 0);
    const ValueId made = product(b, {rows, travel_[1]}, endsOf(b, round.asked), number(b, 0));
    const ValueId back = RowExchange::picked(b, exchange.exchanged(b, made, 0), round.at, 0);
    return b.value("select", {asDim(b, round.goes, 1), back, before});
  }

  ValueId gathered(Builder& b, const RowExchange& exchange, const RowExchange::Round& round, ValueId before) {
    std::array<ValueId, 2> rows;
    for (size_t i : {size_t(0), size_t(1)})
      rows[i] = exchange.exchanged(b, RowExchange::picked(b, travel_[i], round.rows, rowsOf_[i]), rowsOf_[i]);
    return b.value("add", {before, product(b, rows, endsOf(b, round.asked), number(b, 0))});
  }

  CutOp& op_;
  Builder& b_;
  Module& m_;
  bool spread_;
  std::array<int64_t, 2> rowsOf_; // the dims of x and, where it has one, of w
  Dim rows_, groups_;
  const CutFactor &groupCut_, &rowCut_;
  std::array<ValueId, 2> travel_; // x and w; what of them has rows is of one length everywhere
  ValueId firstGroup_;
};

} // namespace

bool cutGroupedMatmul(CutOp& op, std::vector<ValueId>& results) { return GroupedCut(op).run(results); }

} // namespace dtc
