// grouped_matmul: rows that belong to groups, each with its own matrix (mixture of experts).
#include "dtc/Ops/contract/GroupedMatmul.h"
#include "index/Exchange.h"
#include "index/IndexParts.h"
#include "reduce/ReduceParts.h"

namespace dtc {

namespace {

// The group of row i is the number of offsets that are at most i: for ascending offsets, the group whose rows
// end after i, or none if that is the number of groups. `Spread`: x [rows, k], w [groups, k, n] -> y [rows,
// n]. `Gathered`, the gradient of the matrices: x [k, rows], w [rows, n] -> y [groups, k, n].
enum class Form : uint8_t { Spread, Gathered };
Form formOf(const OpQuery& q) { return q.type(1).rank() == 2 ? Form::Gathered : Form::Spread; }

constexpr size_t kOffsets = 2, kRowOffset = 3, kGroupOffset = 4;

bool meet(const OpQuery& q, const char* how, size_t dimOfX, size_t dimOfW) {
  return q.type(0).dims[dimOfX] == q.type(1).dims[dimOfW] ||
         reportDims(q, how, "with dim", 0, dimOfX, 1, dimOfW);
}

// The offsets are unsharded even if the groups are sharded: each device selects its own.
bool groupedRule(const OpQuery& q, Rule& rule) {
  const Type &x = q.type(0), &w = q.type(1), &offsets = q.type(kOffsets);
  if (x.rank() != 2) return reportRank(q, 0, "2");
  if (w.rank() != 2 && w.rank() != 3) return reportRank(q, 1, "2 or 3");
  if (offsets.rank() != 1) return reportRank(q, kOffsets, "1");
  const bool spread = formOf(q) == Form::Spread;
  if (!meet(q, "contracts dim", 1, spread ? 1 : 0)) return false;
  const bool sharded = q.operandTypes.size() > kGroupOffset; // of the groups
  if (spread && !sharded && !(w.dims[0] == offsets.dims[0]))
    return reportDims(q, "has one matrix per element of dim", "but one offset per element of dim", 1, 0,
                      kOffsets, 0);
  const uint16_t t =
      addFactor(rule, x.dims[spread ? 0 : 1], "t", spread ? FactorKind::Place : FactorKind::Reduce,
                spread ? PendingKind::None : PendingKind::Sum);
  const uint16_t k =
      addFactor(rule, x.dims[spread ? 1 : 0], "k", spread ? FactorKind::Reduce : FactorKind::Pass,
                spread ? PendingKind::Sum : PendingKind::None);
  const Dim groups = spread ? w.dims[0] : q.has("groups") ? q.sizeAttr("groups") : offsets.dims[0];
  const uint16_t g = addFactor(rule, groups, "g", spread ? FactorKind::Reduce : FactorKind::Place,
                               spread ? PendingKind::Sum : PendingKind::None);
  const uint16_t n = addFactor(rule, w.dims[spread ? 2 : 1], "n");
  rule.factors[t].placed = rule.factors[g].placed = true;
  if (!sharded) rule.factors[g].alongside = t;
  const TensorMap ends{{freeDim(addUnsharded(rule, offsets.dims[0], "e"))}};
  if (spread) {
    rule.operands = {{{plainDim(t), plainDim(k)}}, {{freeDim(g), plainDim(k), plainDim(n)}}, ends};
    rule.results.push_back({{plainDim(t), plainDim(n)}});
  } else {
    rule.operands = {{{plainDim(k), plainDim(t)}}, {{plainDim(t), plainDim(n)}}, ends};
    rule.results.push_back({{plainDim(g), plainDim(k), plainDim(n)}});
  }
  rule.operands.resize(q.operandTypes.size());
  return true;
}

void groupedLocalize(const OpQuery& q, std::span<const TypeId>, std::span<const TypeId> results,
                     AttrList& attrs) {
  Module& m = *q.module;
  if (formOf(q) == Form::Spread) return;
  const Dim groups = m.types[results[0]].dims[0];
  if (!(groups == q.type(kOffsets).dims[0]))
    setListed(attrs, m.strings.intern("groups"), sizeAttr(m, groups));
}

// --- evaluation ---

// The local group of row i of the shard, or -1.
class RowGroups {
public:
  RowGroups(std::span<const Tensor* const> in, int64_t groups) : offsets_(*in[kOffsets]), groups_(groups) {
    if (in.size() > kRowOffset) firstRow_ = in[kRowOffset]->getInt(0);
    if (in.size() > kGroupOffset) firstGroup_ = in[kGroupOffset]->getInt(0);
  }
  [[nodiscard]] int64_t of(int64_t row) const {
    int64_t group = 0;
    for (int64_t g = 0; g < offsets_.numElements(); ++g) group += offsets_.getInt(g) <= row + firstRow_;
    group -= firstGroup_;
    return group >= 0 && group < groups_ && group + firstGroup_ < offsets_.numElements() ? group : -1;
  }

private:
  const Tensor& offsets_;
  int64_t groups_, firstRow_ = 0, firstGroup_ = 0;
};

// Accumulates x * w over the contracted dim, in Sum; get(operand, element).
template <class Sum, class Get>
std::vector<Sum> contracted(Form form, std::span<const Tensor* const> in, const Tensor& y, Get&& get) {
  std::vector<Sum> sums(static_cast<size_t>(y.numElements()));
  const std::vector<int64_t>&xs = in[0]->shape(), &ws = in[1]->shape();
  const bool spread = form == Form::Spread;
  const int64_t rows = xs[spread ? 0 : 1], depth = xs[spread ? 1 : 0], width = ws.back();
  const RowGroups groups(in, spread ? ws[0] : y.shape()[0]);
  for (int64_t t = 0; t < rows; ++t) {
    const int64_t g = groups.of(t);
    for (int64_t k = 0; k < depth && g >= 0; ++k) {
      const Sum a = get(0, spread ? t * depth + k : k * rows + t);
      for (int64_t n = 0; n < width; ++n) {
        const int64_t matrix = (g * depth + k) * width + n, row = t * width + n;
        sums[static_cast<size_t>(spread ? row : matrix)] += a * get(1, spread ? matrix : row);
      }
    }
  }
  return sums;
}

bool groupedEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  Tensor& y = *out[0];
  if (isFloat(y.dtype())) {
    const auto sums = contracted<long double>(formOf(q), in, y, [&](size_t operand, int64_t i) {
      return static_cast<long double>(in[operand]->getFloat(i));
    });
    for (size_t i = 0; i < sums.size(); ++i)
      y.setFloat(static_cast<int64_t>(i), static_cast<double>(sums[i]));
    return true;
  }
  const auto sums = contracted<uint64_t>(formOf(q), in, y, [&](size_t operand, int64_t i) {
    return static_cast<uint64_t>(in[operand]->getInt(i));
  });
  for (size_t i = 0; i < sums.size(); ++i) y.setInt(static_cast<int64_t>(i), static_cast<int64_t>(sums[i]));
  return true;
}

// --- kernels ---

struct GroupNode {
  ElementNode group, valid; // the local group, and whether it is on this device
};
GroupNode groupOf(const OpQuery& q, ElementBuilder& b, ElementNode row) {
  const Dim ends = q.type(kOffsets).dims[0];
  auto offset = [&](size_t operand) { return b.convert(b.load(operand, {}, true), DType::I64); };
  if (q.operandTypes.size() > kRowOffset) row = b.add(row, offset(kRowOffset));
  const ElementNode g = b.loop(ends), loops[] = {g};
  const ElementNode end = b.convert(b.load(kOffsets, loops, true), DType::I64);
  const ElementNode passed = b.convert(b.call("le", {end, row}), DType::I64);
  const ElementNode all = b.sum(loops, passed), first = b.index(0);
  const ElementNode group = q.operandTypes.size() > kGroupOffset ? b.sub(all, offset(kGroupOffset)) : all;
  return {group, b.call("and", {b.call("ge", {group, first}), b.call("lt", {all, b.size(ends)})})};
}

uint32_t groupedElement(const OpQuery& q, ElementBuilder& b, size_t) {
  const DType sum = accumulationType(q.type(0).dtype);
  const ElementNode zero = b.number(0, sum);
  if (formOf(q) == Form::Spread) {
    const GroupNode of = groupOf(q, b, b.at(0));
    const ElementNode k = b.loop(q.type(0).dims[1]), loops[] = {k};
    const ElementNode xAt[] = {b.at(0), k}, wAt[] = {of.group, k, b.at(1)};
    const ElementNode product = b.call("mul", {b.load(0, xAt, true), b.load(1, wAt)});
    return b.call("select", {of.valid, b.sum(loops, product), zero});
  }
  const ElementNode t = b.loop(q.type(0).dims[1]), loops[] = {t};
  const ElementNode xAt[] = {b.at(1), t}, wAt[] = {t, b.at(2)};
  const GroupNode of = groupOf(q, b, t);
  const ElementNode own = b.call("and", {of.valid, b.call("eq", {of.group, b.at(0)})});
  const ElementNode product = b.call("mul", {b.load(0, xAt, true), b.load(1, wAt, true)});
  return b.sum(loops, b.call("select", {own, product, zero}));
}

// --- gradients: the other form ---

bool groupedGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  const Expr x(b, m.operand(op, 0)), w(b, m.operand(op, 1)), offsets(b, m.operand(op, kOffsets)), g(b, dy[0]);
  if (w.rank() == 3)
    dx.push_back(grouped_matmul(g, transpose(w, {0, 2, 1}), offsets));
  else
    dx.push_back(transpose(grouped_matmul(w, transpose(g, {0, 2, 1}), offsets), {1, 0}));
  dx.push_back(grouped_matmul(transpose(x, {1, 0}), g, offsets));
  return true;
}

} // namespace

bool isGroupedMatmul(const OpRecord& record) { return record.rule == groupedRule; }

void addGroupedMatmulOps(OpRegistry& ops) {
  OpRecord& r = ops.add(
      {.name = "grouped_matmul",
       .family = "contract",
       .summary =
           "x [rows, k] times w [groups, k, n], each row with the matrix of its group: offsets are the "
           "ascending "
           "ends of the groups' rows; an empty group ends where the previous one does, and rows "
           "after the last end give 0. With x [k, rows] and w [rows, n], y [groups, k, n]: a matmul per "
           "group over its rows, 0 for an empty group"});
  r.operands = "x, w, offsets, row_offset?, group_offset?";
  r.operandTypes = "T, T, i32";
  r.operandClasses = kNumbers;
  r.attrs = {{"groups", AttrType::Size, "", "set by partition: the number of matmuls in the unsharded op"}};
  r.rule = groupedRule;
  r.localize = groupedLocalize;
  r.shard = shardGroupedMatmul;
  r.offsetOperand = static_cast<int>(kRowOffset);
  r.through = {{ThroughRow::Bilinear, 0b11}};
  r.eval = groupedEval;
  r.element = groupedElement;
  r.gradFn = groupedGrad;
  r.flopsPerPoint = 2;
  r.samples = "T[5, 3], T[2, 3, 4], i32[2] in 0..6\nT[7, 2], T[3, 2, 3], i32[3] in 0..8\n"
              "T[3, 5], T[5, 4], i32[2] in 0..6\n"
              "T[19, 2], T[5, 2, 3], i32[5] in 0..20\nT[2, 19], T[19, 3], i32[5] in 0..20";
}

} // namespace dtc
