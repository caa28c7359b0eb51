// reduce and map: functions of elements, applied along dims.
#include "import/HloRegions.h"
#include "import/HloTable.h"

#include "dtc/Support/Checked.h"

#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

// One operand and a region with a dtc reduction: the reduction, combined with the initial value.
ValueId known(HloContext& c, const std::vector<int64_t>& dims) {
  ValueId x = c.operand(0), start = c.operand(1);
  if (!x.valid() || !start.valid()) return {};
  const HloFold* fold = foldOf(c, c.op.regions[0], c.dtypeOf(x));
  if (!fold || !fold->reduce) return {};
  ValueId y = c.emit(fold->reduce, {x}, {{"dims", c.intsAttr(dims)}});
  return isNeutral(c, start, *fold) ? y : c.emit(fold->binary, {y, start});
}

// The max (min) along a dim and its index, as JAX writes it: NaN before all, the lowest index among ties.
bool argReduction(HloContext& c, const std::vector<int64_t>& dims, bool& matched) {
  matched = false;
  const MlirRegion& region = c.op.regions[0];
  if (c.numOperands() != 4 || dims.size() != 1 || region.args.size() != 4 || region.ops.empty() ||
      c.shapeOf(c.operand(0))[static_cast<size_t>(dims[0])] == 0)
    return true;
  const ValueId numbered = c.operand(1);
  if (!numbered.valid()) return false;
  const OpId numbers = c.module.definingOp(numbered);
  if (!numbers.valid() || std::string_view(c.module.record(numbers).name) != "iota") return true;
  const AttrId along = c.module.attr(numbers, "dim");
  if ((along.valid() ? c.module.attrs[along].i : 0) != dims[0]) return true;
  const std::vector<MlirUse>& returned = region.ops.back().operands;
  const std::string names[] = {"a0", "a1", "b0", "b1"};
  if (returned.size() != 2) return true;
  const std::string value = regionExpression(c, region, returned[0], names);
  const std::string index = regionExpression(c, region, returned[1], names);
  for (const std::string_view direction : {"GT", "LT"}) {
    const std::string better = "or(compare " + std::string(direction) + "(a0,b0),compare NE(a0,a0))";
    if (value != "select(" + better + ",a0,b0)" ||
        index != "select(or(" + better + ",and(compare EQ(a0,b0),compare LT(a1,b1))),a1,b1)")
      continue;
    matched = true;
    const bool isMax = direction == "GT";
    const bool bits = isBool(c.dtypeOf(c.operand(0)));
    const ValueId x = bits ? c.convert(c.operand(0), DType::U8) : c.operand(0);
    const ValueId at =
        c.emit(isMax ? OpName("argmax") : OpName("argmin"), {x}, {{"dim", c.intAttr(dims[0])}});
    ValueId best = c.emit(isMax ? OpName("max") : OpName("min"), {x}, {{"dims", c.intsAttr(dims)}});
    if (bits) best = c.convert(best, DType::Bool);
    return c.setResult(0, best) && c.setResult(1, c.convert(at, c.dtypeOf(numbered)));
  }
  return true;
}

// --- any region ---

// Moves the reduced dims to the front, as one.
ValueId toFront(HloContext& c, ValueId x, const std::vector<int64_t>& dims, int64_t count) {
  std::vector<int64_t> perm = dims, shape{count}, from = c.shapeOf(x);
  for (int64_t d = 0; d < static_cast<int64_t>(from.size()); ++d) {
    if (std::find(dims.begin(), dims.end(), d) != dims.end()) continue;
    perm.push_back(d);
    shape.push_back(from[static_cast<size_t>(d)]);
  }
  return c.reshape(c.transpose(x, perm), shape);
}

ValueId rows(HloContext& c, ValueId x, int64_t start, int64_t limit, int64_t stride) {
  std::vector<int64_t> from(c.rankOf(x), 0), to = c.shapeOf(x), by(c.rankOf(x), 1);
  if (!x.valid()) return x;
  from[0] = start;
  to[0] = limit;
  by[0] = stride;
  return c.emit("slice", {x},
                {{"start", c.intsAttr(from)}, {"limit", c.intsAttr(to)}, {"stride", c.intsAttr(by)}});
}

// Combines neighbors, which keeps the order: a tree of log2(n) levels. `xs` are [n, …] each.
std::vector<ValueId> tree(HloContext& c, std::vector<ValueId> xs, int64_t n) {
  const MlirRegion& region = c.op.regions[0];
  while (n > 1) {
    std::vector<ValueId> pairs;
    int64_t half = n / 2;
    for (int64_t odd : {0, 1})
      for (ValueId x : xs) pairs.push_back(rows(c, x, odd, 2 * half, 2));
    if (!pairs.back().valid()) return {};
    std::vector<ValueId> combined = c.inlineRegion(region, pairs, c.shapeOf(pairs[0]));
    if (combined.size() != xs.size()) return {};
    for (size_t i = 0; n % 2 && i < xs.size(); ++i)
      combined[i] = c.emit("concat", {combined[i], rows(c, xs[i], n - 1, n, 1)}, {{"dim", c.intAttr(0)}});
    xs = std::move(combined);
    n = half + n % 2;
  }
  return xs;
}

bool general(HloContext& c, const std::vector<int64_t>& dims) {
  size_t count = c.numOperands() / 2;
  std::vector<int64_t> shape = c.shapeOf(c.operand(0)), rest, reduced;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
    (std::find(dims.begin(), dims.end(), d) != dims.end() ? reduced : rest)
        .push_back(shape[static_cast<size_t>(d)]);
  auto product = checkedProduct(reduced);
  if (!product) return c.fail("reduces more than 2^63-1 elements");
  int64_t n = *product;
  std::vector<ValueId> xs, starts;
  for (size_t i = 0; i < count; ++i) {
    if (c.shapeOf(c.operand(i)) != shape) return c.fail("needs tensors of one shape");
    xs.push_back(toFront(c, c.operand(i), dims, n));
    starts.push_back(c.operand(count + i));
    if (n == 0) xs[i] = c.broadcastTo(starts[i], rest);
  }
  if (n == 0) return c.setResults(xs);
  xs = tree(c, std::move(xs), n);
  if (xs.empty()) return false;
  std::vector<ValueId> both = starts;
  for (ValueId x : xs) both.push_back(c.reshape(x, rest));
  std::vector<ValueId> out = c.inlineRegion(c.op.regions[0], both, rest);
  return !out.empty() && c.setResults(out);
}

bool reduce(HloContext& c) {
  if (!c.expectRegions(1)) return false;
  if (c.numOperands() < 2 || c.numOperands() % 2) return c.fail("needs as many initial values as tensors");
  if (c.lifted()) return c.fail("reduces, but an elementwise function is expected here");
  auto dims = c.ints("dimensions");
  if (!dims || !c.operand(0).valid()) return false;
  std::sort(dims->begin(), dims->end());
  auto rank = static_cast<int64_t>(c.rankOf(c.operand(0)));
  for (size_t i = 0; i < dims->size(); ++i)
    if ((*dims)[i] < 0 || (*dims)[i] >= rank || (i > 0 && (*dims)[i] == (*dims)[i - 1]))
      return c.failAttr("dimensions", "names a dim that the operand does not have, or one twice");
  if (c.numOperands() == 2)
    if (ValueId y = known(c, *dims); y.valid()) return c.setResult(y);
  bool matched = false;
  if (!argReduction(c, *dims, matched)) return false;
  return matched || (!c.diags.hasErrors() && general(c, *dims));
}

// map: the region applied elementwise.
bool map(HloContext& c) {
  if (!c.expectRegions(1) || c.lifted()) return false;
  std::vector<ValueId> xs = c.tensors();
  if (xs.empty()) return c.fail("needs an operand");
  std::vector<ValueId> out = c.inlineRegion(c.op.regions[0], xs, c.shapeOf(xs[0]));
  return !out.empty() && c.setResults(out);
}

const HloRow kReduceRows[] = {
    {"stablehlo.map", map},
    {"stablehlo.reduce", reduce},
};

} // namespace

std::span<const HloRow> hloReduceRows() { return kReduceRows; }

} // namespace dtc
