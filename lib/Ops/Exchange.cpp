#include "Exchange.h"
#include "IndexSlices.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Support/Result.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc {

namespace {

// Rows for one device, of `rows` that go to `devices`: an even share and twice its root, which evenly drawn places seldom pass. Of
// rows in the order of their places those that stay are the most: what goes is what evenly drawn places differ from even ones.
int64_t capacityFor(int64_t rows, int64_t devices, bool mostStay) {
  auto twiceRoot = [](int64_t n) {
    return static_cast<int64_t>(std::ceil(2 * std::sqrt(static_cast<double>(n))));
  };
  const int64_t share = (rows + devices - 1) / devices;
  const int64_t room = std::min(rows, share + twiceRoot(share));
  return mostStay ? std::min(room, twiceRoot(rows * devices)) : room;
}

ValueId whole(Builder& b, int64_t v, DType d) {
  return b.module.makeLiteral(b.module.attrs.integer(v), d, b.loc);
}
ValueId i32(Builder& b, int64_t v) { return whole(b, v, DType::I32); }

ValueId counted(Builder& b, std::vector<Dim> dims, int64_t along) {
  const TypeId type[] = {b.module.tensorType(DType::I32, dims)};
  return b.module.result(b.op("iota", {}, {{"dim", b.integer(along)}}, type));
}

ValueId within(Builder& b, ValueId v, int64_t end) {
  const DType d = b.module.typeOf(v).dtype;
  return b.value("and", {b.value("ge", {v, whole(b, 0, d)}), b.value("lt", {v, whole(b, end, d)})});
}

bool isCutDim(const Module& m, Dim d) { return !d.isStatic() && !m.dims.dynamic(d).cut.empty(); }

} // namespace

bool RowExchange::possible(const CutOp& op, ValueId places, Dim size, const CutFactor& cut) {
  const Dim rows = op.typeOf(places).dims[0];
  return size.isStatic() && rows.isStatic() && rows.value() > 0 && size.value() > 0 && cut.cut() &&
         size.value() < std::numeric_limits<int32_t>::max() &&
         rows.value() < std::numeric_limits<int32_t>::max() / (8 * cut.devices);
}

RowExchange::RowExchange(CutOp& op, ValueId places, Dim size, const CutFactor& cut, Own own)
    : op_(op), cut_(cut), rows_(op.typeOf(places).dims[0].value()),
      capacity_(capacityFor(rows_, cut.devices, own == Own::MostStay)) {
  Builder& b = op.b;
  const int64_t n = cut.devices;
  // Piece i begins at ⌊i·size/n⌋: a place p is of piece ⌊((p + 1)·n - 1) / size⌋.
  const ValueId wide = op.convert(places, DType::I64);
  const ValueId inside = within(b, wide, size.value());
  ValueId owner =
      b.value("add", {b.value("mul", {wide, whole(b, n, DType::I64)}), whole(b, n - 1, DType::I64)});
  owner = op.convert(b.value("floor_div", {owner, whole(b, size.value(), DType::I64)}), DType::I32);
  places_ = b.value("select", {inside, op.convert(places, DType::I32), i32(b, -1)});
  goes_ = inside;
  if (own != Own::Goes) goes_ = b.value("and", {goes_, b.value("ne", {owner, op.index(cut.axes)})});
  owner_ = b.value("select", {goes_, owner, i32(b, n)});
  const int64_t across[] = {1}, down[] = {0};
  const ValueId column = counted(b, {Dim(1), Dim(n)}, 1);
  const ValueId hits = op.convert(
      b.value("eq", {b.value("expand_dims", {owner_}, {{"dims", b.ints(across)}}), column}), DType::I32);
  const ValueId before = b.value("cumsum", {hits}, {{"dim", b.integer(0)}, {"exclusive", b.boolean(true)}});
  rank_ = op.over("sum", b.value("mul", {before, hits}), across, false);
  if (capacity_ < rows_)
    most_ = op.allReduce(op.over("max", op.over("sum", hits, down, false), down, false), PendingKind::Max,
                         cut.axes);
}

ValueId RowExchange::picked(Builder& b, ValueId v, ValueId numbers, int64_t dim) {
  return b.value("index_select", {v, numbers, i32(b, 0)}, {{"dim", b.integer(dim)}});
}

ValueId RowExchange::exchanged(Builder& b, ValueId rows, int64_t dim) const {
  Module& m = b.module;
  std::vector<Dim> dims = m.typeOf(rows).dims, apart = dims;
  const auto at = apart.begin() + dim;
  *at = Dim(capacity_);
  apart.insert(apart.begin() + dim, {Dim(cut_.devices), Dim(1)});
  ValueId v = b.value("reshape", {rows}, {{"shape", sizesAttr(m, apart)}});
  v = b.value(
      "all_to_all", {v},
      {{"axes", axesAttr(m, cut_.axes)}, {"split_dim", b.integer(dim)}, {"concat_dim", b.integer(dim + 1)}});
  return b.value("reshape", {v}, {{"shape", sizesAttr(m, dims)}});
}

RowExchange::Round RowExchange::round(Builder& b, ValueId number) {
  Module& m = b.module;
  Round r;
  const ValueId slot =
      number.valid() ? b.value("sub", {rank_, b.value("mul", {number, i32(b, capacity_)})}) : rank_;
  r.goes = b.value("and", {goes_, within(b, slot, capacity_)});
  const ValueId at = b.value("add", {b.value("mul", {owner_, i32(b, capacity_)}), slot});
  r.at = b.value("select", {r.goes, at, i32(b, room())});
  // One place more than there are, for the rows of other rounds.
  const ValueId none = b.constant(-1, m.tensorType(DType::I32, std::array{Dim(room() + 1)}));
  const ValueId all = b.value("scatter", {none, r.at, counted(b, {Dim(rows_)}, 0)}, {{"dim", b.integer(0)}});
  const int64_t start[] = {0}, limit[] = {room()};
  r.rows = b.value("slice", {all}, {{"start", b.ints(start)}, {"limit", b.ints(limit)}});
  const ValueId asked =
      b.value("select", {b.value("ge", {r.rows, i32(b, 0)}), picked(b, places_, r.rows, 0), i32(b, -1)});
  r.asked = exchanged(b, asked, 0);
  return r;
}

ValueId RowExchange::run(ValueId start, const Body& body) {
  Builder& b = op_.b;
  Module& m = b.module;
  const ValueId first = body(b, round(b, {}), start);
  if (capacity_ >= rows_) return first;
  const OpId loop = m.makeOp(m.registry->find("while"), std::array{i32(b, 1), first}, 2, b.common, 2, b.loc);
  m[loop].parent = b.parent;
  const TypeId types[] = {m.tensorType(DType::I32, std::span<const Dim>()), m[first].type};
  for (uint32_t region : {0u, 1u}) {
    const BlockId block = m.region(loop, region);
    m[block].parentFunc = m[b.parent].parentFunc;
    const ValueId number = m.makeBlockArg(block, types[0]), before = m.makeBlockArg(block, types[1]);
    std::vector<OpId> ops;
    Builder in(m, block, ops, b.diags);
    in.loc = b.loc, in.mesh = b.mesh, in.common = b.common;
    std::vector<ValueId> yields;
    if (region == 0) {
      yields = {in.value("lt", {in.value("mul", {number, i32(in, capacity_)}), most_})};
    } else {
      const ValueId after = body(in, round(in, number), before);
      yields = {in.value("add", {number, i32(in, 1)}), after};
    }
    m[block].ops = std::move(ops);
    m[block].yields = std::move(yields);
  }
  for (uint32_t r : {0u, 1u}) m[m.result(loop, r)].type = types[r];
  b.out.push_back(loop);
  return m.result(loop, 1);
}

ValueId filledPieces(CutOp& op, ValueId v, int64_t value, std::span<const size_t> dims) {
  for (size_t d : dims)
    if (isCutDim(op.b.module, op.typeOf(v).dims[d]))
      v = op.b.value("fill_piece", {v},
                     {{"dim", op.b.integer(static_cast<int64_t>(d))}, {"value", op.b.integer(value)}});
  return v;
}

ValueId trimmedPieces(CutOp& op, ValueId v, TypeId like) {
  Module& m = op.b.module;
  for (size_t d = 0; d < op.typeOf(v).rank(); ++d) {
    const Dim want = m.types[like].dims[d];
    if (op.typeOf(v).dims[d] == want || !isCutDim(m, want)) continue;
    v = op.b.value("trim_piece", {v},
                   {{"dim", op.b.integer(static_cast<int64_t>(d))},
                    {"size", sizeAttr(m, m.dims.uncut(want))},
                    {"axes", axesAttr(m, m.dims.dynamic(want).cut)}});
  }
  return v;
}

namespace {

std::optional<int64_t> product(std::span<const Dim> dims) {
  int64_t n = 1;
  for (Dim d : dims) {
    const auto next = d.isStatic() ? checkedMul(n, d.value()) : std::nullopt;
    if (!next) return std::nullopt;
    n = *next;
  }
  return n;
}

// The `count` dims from `dim` on as one, of `size`.
ValueId joined(Builder& b, ValueId v, size_t dim, size_t count, int64_t size) {
  std::vector<Dim> dims = b.module.typeOf(v).dims;
  const auto at = dims.begin() + static_cast<ptrdiff_t>(dim);
  dims.insert(dims.erase(at, at + static_cast<ptrdiff_t>(count)), Dim(size));
  return b.value("reshape", {v}, {{"shape", sizesAttr(b.module, dims)}});
}

std::vector<size_t> upTo(size_t begin, size_t end) {
  std::vector<size_t> out;
  for (size_t d = begin; d < end; ++d) out.push_back(d);
  return out;
}

} // namespace

// Each device asks those that have its rows, and they answer.
bool cutSelect(CutOp& op, std::vector<ValueId>& results, size_t source, size_t indices, size_t dim) {
  Builder& b = op.b;
  Module& m = b.module;
  const ValueId x = op.operands[source];
  const CutFactor& cut = op.operandCut(source, dim);
  const Dim size = op.whole.type(source).dims[dim];
  const size_t rank = op.typeOf(op.operands[indices]).rank();
  if (rank == 0 || isComplex(op.dtypeOf(x)) || op.dtypeOf(op.operands[indices]) == DType::U64) return false;
  ValueId n = filledPieces(op, op.convert(op.operands[indices], DType::I64), -1, upTo(0, rank));
  const std::vector<Dim> filled = op.typeOf(n).dims;
  const auto count = product(filled);
  if (!count) return false;
  if (rank != 1) n = joined(b, n, 0, rank, *count);
  if (!RowExchange::possible(op, n, size, cut)) return false;
  const auto d = static_cast<int64_t>(dim);
  RowExchange exchange(op, n, size, cut);
  std::vector<Dim> dims = op.typeOf(x).dims;
  dims[dim] = Dim(*count);
  const ValueId offset = op.pieceOffset(size, cut.axes);
  const ValueId zeros = b.constant(0, m.tensorType(op.dtypeOf(x), dims));
  ValueId y = exchange.run(zeros, [&](Builder& in, const RowExchange::Round& round, ValueId before) {
    const ValueId rows = in.value("index_select", {x, round.asked, offset}, {{"dim", in.integer(d)}});
    const ValueId got = RowExchange::picked(in, exchange.exchanged(in, rows, d), round.at, d);
    std::vector<Dim> flags(dims.size(), Dim(1));
    flags[dim] = Dim(*count);
    const ValueId goes = in.value("reshape", {round.goes}, {{"shape", sizesAttr(m, flags)}});
    return in.value("select", {goes, got, before});
  });
  if (rank != 1) {
    std::vector<Dim> shape = op.typeOf(y).dims;
    const auto at = shape.erase(shape.begin() + d);
    shape.insert(at, filled.begin(), filled.end());
    y = b.value("reshape", {y}, {{"shape", sizesAttr(m, shape)}});
  }
  results.push_back(trimmedPieces(op, y, op.results[0]));
  return true;
}

// Each device sends its updates to those that have the rows.
bool cutScatterRows(CutOp& op, std::vector<ValueId>& results) {
  SliceDims s;
  const std::optional<int64_t> dim = sliceDims(op.whole, s) ? scatteredRows(op.whole, s) : std::nullopt;
  if (!dim) return false;
  Builder& b = op.b;
  Module& m = b.module;
  const auto d = static_cast<size_t>(*dim);
  const CutFactor& cut = op.operandCut(0, d);
  const Dim size = op.whole.type(0).dims[d];
  const size_t rank = op.typeOf(op.operands[1]).rank();
  if (!cut.cut() || isComplex(op.dtypeOf(op.operands[0])) || op.dtypeOf(op.operands[1]) == DType::U64)
    return false;
  ValueId n = filledPieces(op, op.convert(op.operands[1], DType::I64), -1, upTo(0, rank));
  const size_t counted = static_cast<size_t>(s.vector) < rank ? rank - 1 : rank;
  const auto count = product(op.typeOf(n).dims);
  if (!count) return false;
  if (rank != 1) n = joined(b, n, 0, rank, *count);
  if (!RowExchange::possible(op, n, size, cut)) return false;
  ValueId updates = filledPieces(op, op.operands[2], 0, upTo(d, d + counted));
  if (counted != 1) updates = joined(b, updates, d, counted, *count);
  RowExchange exchange(op, n, size, cut);
  const ValueId offset = op.pieceOffset(size, cut.axes);
  std::vector<int64_t> window;
  for (size_t e = 0; e < op.typeOf(updates).rank(); ++e)
    if (e != d) window.push_back(static_cast<int64_t>(e));
  const AttrId at = b.ints(std::array{*dim});
  const AttrId reduce = m.attrs.string(m.strings.intern(op.whole.textAttr("reduce")));
  // Sums of narrow floats are rounded once, at the end.
  const ValueId y = exchange.run(
      op.wide(op.operands[0]), [&](Builder& in, const RowExchange::Round& round, ValueId before) {
        ValueId rows = exchange.exchanged(in, RowExchange::picked(in, updates, round.rows, *dim), *dim);
        if (const DType wide = m.typeOf(before).dtype; m.typeOf(rows).dtype != wide)
          rows = in.value("convert", {rows}, {{"dtype", in.word(dtypeName(wide))}});
        const ValueId operands[] = {before, round.asked, rows, offset};
        const OpId made = window.empty() ? in.op("scatter_slices", operands,
                                                 {{"inserted_window_dims", at},
                                                  {"scatter_dims_to_operand_dims", at},
                                                  {"index_vector_dim", in.integer(1)},
                                                  {"reduce", reduce}})
                                         : in.op("scatter_slices", operands,
                                                 {{"update_window_dims", in.ints(window)},
                                                  {"inserted_window_dims", at},
                                                  {"scatter_dims_to_operand_dims", at},
                                                  {"index_vector_dim", in.integer(1)},
                                                  {"reduce", reduce}});
        return m.result(made);
      });
  results.push_back(op.convert(y, op.dtypeOf(op.operands[0])));
  return true;
}

} // namespace dtc
