// chlo.ragged_dot: rows in groups, each multiplied by the matrix of its group. Where it is not a plain
// grouped_matmul, one einsum over groups and rows with a mask of the groups.
#include "import/HloTable.h"

#include <algorithm>
#include <array>

namespace dtc {

namespace {

struct RaggedDims {
  std::vector<int64_t> batchA, batchB, contractA, contractB, ragged, group;
};

bool readRaggedDims(HloContext& c, RaggedDims& d) {
  const MlirAttr* numbers = c.attr("ragged_dot_dimension_numbers");
  if (!numbers) return c.fail("needs its ragged_dot_dimension_numbers");
  const std::pair<std::string_view, std::vector<int64_t>*> lists[] = {
      {"lhs_batching_dimensions", &d.batchA},       {"rhs_batching_dimensions", &d.batchB},
      {"lhs_contracting_dimensions", &d.contractA}, {"rhs_contracting_dimensions", &d.contractB},
      {"lhs_ragged_dimensions", &d.ragged},         {"rhs_group_dimensions", &d.group}};
  for (const auto& [name, to] : lists) {
    auto v = c.bodyInts(*numbers, name);
    if (!v) return false;
    *to = *v;
  }
  if (d.batchA.size() != d.batchB.size() || d.contractA.size() != d.contractB.size() ||
      d.ragged.size() != 1 || d.group.size() > 1)
    return c.fail("lists different numbers of dims for its two operands, or not exactly one ragged dim");
  return true;
}

// A letter per dim of the two operands; groups are g. Empty where the attribute names a dim twice, or one
// that does not exist.
struct Letters {
  std::string a, b, batch, freeA, freeB;
};
std::optional<Letters> lettersOf(const RaggedDims& d, size_t rankA, size_t rankB) {
  Letters l{std::string(rankA, '\0'), std::string(rankB, '\0'), {}, {}, {}};
  char next = 'a';
  bool good = rankA + rankB < 20;
  auto letter = [&] {
    if (next == 'g') ++next;
    return next++;
  };
  auto put = [&](std::string& side, int64_t dim, char with) {
    good = good && dim >= 0 && dim < static_cast<int64_t>(side.size()) && !side[static_cast<size_t>(dim)];
    if (good) side[static_cast<size_t>(dim)] = with;
  };
  for (size_t i = 0; i < d.batchA.size(); ++i) {
    l.batch.push_back(letter());
    put(l.a, d.batchA[i], l.batch.back());
    put(l.b, d.batchB[i], l.batch.back());
  }
  for (size_t i = 0; i < d.contractA.size(); ++i) {
    const char with = letter();
    put(l.a, d.contractA[i], with);
    put(l.b, d.contractB[i], with);
  }
  for (int64_t dim : d.group) put(l.b, dim, 'g');
  for (char& e : l.a)
    if (!e) l.freeA.push_back(e = letter());
  for (char& e : l.b)
    if (!e) l.freeB.push_back(e = letter());
  return good ? std::optional(l) : std::nullopt;
}

// The mask [batch…, g, r], 1 where row r belongs to group g, from the group sizes [batch…, g].
ValueId membership(HloContext& c, ValueId sizes, int64_t rows, DType dtype) {
  const auto last = static_cast<int64_t>(c.rankOf(sizes)) - 1;
  std::vector<int64_t> wide = c.shapeOf(sizes);
  wide.push_back(1);
  const ValueId ends = c.emit("cumsum", {sizes}, {{"dim", c.intAttr(last)}});
  const ValueId begins = c.emit("sub", {ends, sizes});
  const ValueId row = c.emitTyped("iota", {}, {{"dim", c.intAttr(0)}},
                                  c.tensorType(c.dtypeOf(sizes), std::array<int64_t, 1>{rows}));
  const ValueId after = c.emit("ge", {row, c.reshape(begins, wide)});
  const ValueId before = c.emit("lt", {row, c.reshape(ends, wide)});
  return c.convert(c.emit("and", {after, before}), dtype);
}

ValueId product(HloContext& c, ValueId a, ValueId b, const std::string& equation) {
  return c.emit("einsum", {a, b}, {{"equation", c.stringAttr(equation)}});
}

// Unbatched operands: a grouped_matmul of rows [rows, k] by [groups, k, n], or of columns [k, rows] by [rows,
// n] where the rows are contracted. Invalid without a report for other layouts.
ValueId groupedProduct(HloContext& c, const RaggedDims& d, ValueId a, ValueId b, ValueId sizes) {
  const bool contracted = d.group.empty();
  if (!d.batchA.empty() || d.contractA.size() != 1 || c.rankOf(a) != 2 ||
      c.rankOf(b) != (contracted ? 2 : 3) || c.rankOf(sizes) != 1)
    return {};
  const ValueId ends = c.emit("cumsum", {sizes}, {{"dim", c.intAttr(0)}});
  const int64_t ragged = d.ragged[0], theirs = d.contractB[0];
  const std::array<int64_t, 2> columns = {1 - ragged, ragged}, rows = {ragged, 1 - ragged},
                               across = {theirs, 1 - theirs};
  if (contracted) return c.emit("grouped_matmul", {c.transpose(a, columns), c.transpose(b, across), ends});
  const std::array<int64_t, 3> stack = {d.group[0], theirs, 3 - d.group[0] - theirs};
  return c.emit("grouped_matmul", {c.transpose(a, rows), c.transpose(b, stack), ends});
}

bool raggedDot(HloContext& c) {
  RaggedDims d;
  if (!c.expectOperands(3) || !readRaggedDims(c, d)) return false;
  ValueId a = c.operand(0), b = c.operand(1);
  const ValueId sizes = c.operand(2);
  if (!a.valid() || !b.valid() || !sizes.valid() || !c.resultType().valid()) return false;
  const auto l = lettersOf(d, c.rankOf(a), c.rankOf(b));
  const int64_t ragged = d.ragged[0];
  if (!l || ragged < 0 || ragged >= static_cast<int64_t>(c.rankOf(a)))
    return c.fail("names a dim that an operand does not have, or one twice");
  auto is = [&](const std::vector<int64_t>& list) { return std::ranges::count(list, ragged) > 0; };
  const bool contracted = is(d.contractA);
  if (is(d.batchA)) return c.fail("has groups of matrices along a batching dim: slice them first");
  if (contracted != d.group.empty())
    return c.fail("needs a group dim of its second operand unless the ragged dim is contracted");
  const bool batched = c.rankOf(sizes) == l->batch.size() + 1;
  if (c.rankOf(sizes) != 1 && !batched)
    return c.fail("needs group sizes per batch, or one list for all batches");
  const DType dtype = c.resultDType();
  a = c.convert(a, dtype);
  b = c.convert(b, dtype);
  if (const ValueId y = groupedProduct(c, d, a, b, sizes); y.valid()) return c.setResult(y);
  if (c.diags.hasErrors()) return false;
  const ValueId mask = membership(c, sizes, c.shapeOf(a)[static_cast<size_t>(ragged)], dtype);
  const std::string of = (batched ? l->batch : "") + "g" + l->a[static_cast<size_t>(ragged)];
  const ValueId rows = product(c, a, mask, l->a + "," + of + "->g" + l->a);
  return c.setResult(product(
      c, rows, b, "g" + l->a + "," + l->b + "->" + (contracted ? "g" : "") + l->batch + l->freeA + l->freeB));
}

const HloRow kRaggedRows[] = {{"chlo.ragged_dot", raggedDot}};

} // namespace

std::span<const HloRow> hloRaggedRows() { return kRaggedRows; }

} // namespace dtc
