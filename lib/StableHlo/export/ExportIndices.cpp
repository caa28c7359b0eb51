// Gather, scatter, slices, sorts, scans and arg reductions.
#include "export/ExportContext.h"
#include <cmath>

namespace dtc {

namespace {

std::string array(const Dims& d) {
  std::string text = "array<i64";
  for (size_t i = 0; i < d.size(); ++i) text += (i ? ", " : ": ") + std::to_string(d[i]);
  return text + ">";
}

Dims counted(size_t n) {
  Dims d(n);
  for (size_t i = 0; i < n; ++i) d[i] = static_cast<int64_t>(i);
  return d;
}

// Gathers rows of `x` along `dim`: in the result the indices' dims replace that dim.
ExportValue rows(ExportContext& c, const ExportValue& x, const ExportValue& indices, size_t dim) {
  Dims offsets, sizes = x.shape, shape(x.shape.begin(), x.shape.begin() + static_cast<ptrdiff_t>(dim));
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), x.shape.begin() + static_cast<ptrdiff_t>(dim) + 1, x.shape.end());
  for (size_t d = 0; d < shape.size(); ++d)
    if (d < dim || d >= dim + indices.rank()) offsets.push_back(static_cast<int64_t>(d));
  sizes[dim] = 1;
  const std::string at = std::to_string(dim);
  const ExportValue both[] = {x, indices};
  return c.w.generic("stablehlo.gather", both,
                     "dimension_numbers = #stablehlo.gather<offset_dims = " + hloList(offsets) +
                         ", collapsed_slice_dims = [" + at + "], start_index_map = [" + at +
                         "], index_vector_dim = " + std::to_string(indices.rank()) +
                         ">, indices_are_sorted = false, slice_sizes = " + array(sizes),
                     x.dtype, shape);
}

// The indices of operand i in 32 bits or more, since coordinates along other dims and shard offsets are added
// to them. A local op is told the offset of its shard of the dim and subtracts it.
ExportValue indicesOf(ExportContext& c, OpId o, size_t i, size_t offset) {
  ExportValue indices = c.operand(o, i);
  if (dtypeBytes(indices.dtype) < 4) indices = c.w.convert(indices, DType::I32);
  if (c.m[o].numOperands <= offset) return indices;
  const ExportValue begin = c.w.convert(c.operand(o, offset), indices.dtype);
  return c.w.binary("subtract", indices, c.w.broadcast(begin, {}, indices.shape));
}

// The gathered elements where the index lies within 0 … n-1, zeros elsewhere, since StableHLO's gather
// clamps; dim i of the indices (operand `at`) is dim dims[i] of the gathered tensor.
ExportValue zerosOutside(ExportContext& c, OpId o, size_t at, size_t offset, const ExportValue& indices,
                         int64_t n, const Dims& dims, const ExportValue& found) {
  const auto range = c.m[o].numOperands <= offset ? c.ranges(c.m.operand(o, at)) : std::nullopt;
  if (range && range->lo >= 0 && range->hi < n) return found;
  auto number = [&](int64_t v) { return c.w.splat(static_cast<double>(v), indices.dtype, indices.shape); };
  const ExportValue inside =
      c.w.binary("and", c.w.compare("GE", indices, number(0)), c.w.compare("LT", indices, number(n)));
  return c.w.select(c.w.broadcast(inside, dims, found.shape), found, c.w.splat(0, found.dtype, found.shape));
}

// Operand `of` gathered at the indices in operand `at`.
bool lookUp(ExportContext& c, OpId o, size_t of, size_t at, size_t dim) {
  const ExportValue x = c.operand(o, of), indices = indicesOf(c, o, at, 2);
  if (x.shape[dim] == 0) return c.setResult(o, c.w.splat(0, x.dtype, c.resultShape(o)));
  Dims dims(indices.rank());
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<int64_t>(dim + i);
  return c.setResult(o, zerosOutside(c, o, at, 2, indices, x.shape[dim], dims, rows(c, x, indices, dim)));
}

bool indexSelect(ExportContext& c, OpId o) {
  return lookUp(c, o, 0, 1, static_cast<size_t>(*c.query(o).dimAttr("dim", c.operand(o, 0).rank())));
}

bool embedding(ExportContext& c, OpId o) { return lookUp(c, o, 1, 0, 0); }

// The full coordinates of torch's gather and scatter: an index for each dim, one of them from the index
// operand.
ExportValue coordinates(ExportContext& c, const ExportValue& indices, size_t dim) {
  Dims wide = indices.shape, same(indices.rank());
  wide.push_back(1);
  for (size_t d = 0; d < same.size(); ++d) same[d] = static_cast<int64_t>(d);
  std::vector<ExportValue> parts;
  for (size_t d = 0; d < indices.rank(); ++d)
    parts.push_back(d == dim ? c.w.broadcast(indices, same, wide)
                             : c.w.iota(static_cast<int64_t>(d), indices.dtype, wide));
  return c.w.concatenate(parts, static_cast<int64_t>(indices.rank()));
}

bool gather(ExportContext& c, OpId o) {
  const ExportValue x = c.operand(o, 0), indices = indicesOf(c, o, 1, 2);
  const auto dim = static_cast<size_t>(*c.query(o).dimAttr("dim", x.rank()));
  if (x.shape[dim] == 0) return c.setResult(o, c.w.splat(0, x.dtype, c.resultShape(o)));
  const std::string all = hloList(counted(x.rank()));
  const ExportValue both[] = {x, coordinates(c, indices, dim)};
  const ExportValue found = c.w.generic(
      "stablehlo.gather", both,
      "dimension_numbers = #stablehlo.gather<collapsed_slice_dims = " + all + ", start_index_map = " + all +
          ", index_vector_dim = " + std::to_string(indices.rank()) +
          ">, indices_are_sorted = false, slice_sizes = " + array(Dims(x.rank(), 1)),
      x.dtype, indices.shape);
  return c.setResult(o, zerosOutside(c, o, 1, 2, indices, x.shape[dim], counted(x.rank()), found));
}

// The nonempty list attributes of the op as they are written in #stablehlo.gather<…>.
std::string numbers(const OpQuery& q, std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names) {
    const Dims list = q.intsAttr(name);
    if (!list.empty()) text += std::string(name) + " = " + hloList(list) + ", ";
  }
  return text + "index_vector_dim = " + std::to_string(q.intAttr("index_vector_dim"));
}

bool gatherSlices(ExportContext& c, OpId o) {
  const OpQuery q = c.query(o);
  const ExportValue both[] = {c.operand(o, 0), c.operand(o, 1)};
  const std::string how = numbers(q, {"offset_dims", "collapsed_slice_dims", "operand_batching_dims",
                                      "start_indices_batching_dims", "start_index_map"});
  return c.setResult(
      o, c.w.generic("stablehlo.gather", both,
                     "dimension_numbers = #stablehlo.gather<" + how +
                         ">, indices_are_sorted = false, slice_sizes = " + array(q.intsAttr("slice_sizes")),
                     both[0].dtype, c.resultShape(o)));
}

// The block that combines the present element (%lhs) with an update (%rhs).
std::vector<std::string> combiner(std::string_view reduce, DType d) {
  const std::string type = hloType(d, {});
  std::vector<std::string> lines = {"^bb0(%lhs: " + type + ", %rhs: " + type + "):"};
  const bool isBits = isBool(d);
  const char* op = reduce == "sum"    ? isBits ? "or" : "add"
                   : reduce == "prod" ? isBits ? "and" : "multiply"
                   : reduce == "max"  ? "maximum"
                   : reduce == "min"  ? "minimum"
                   : reduce == "and"  ? "and"
                   : reduce == "or"   ? "or"
                   : reduce == "xor"  ? "xor"
                                      : nullptr;
  if (op) lines.push_back("  %out = stablehlo." + std::string(op) + " %lhs, %rhs : " + type);
  lines.push_back("  stablehlo.return " + std::string(op ? "%out" : "%rhs") + " : " + type);
  return lines;
}

bool scatter(ExportContext& c, OpId o) {
  const OpQuery q = c.query(o);
  const ExportValue x = c.operand(o, 0), indices = indicesOf(c, o, 1, 3), updates = c.operand(o, 2);
  const auto dim = static_cast<size_t>(*q.dimAttr("dim", x.rank()));
  const std::string all = hloList(counted(x.rank()));
  const ExportValue operands[] = {x, coordinates(c, indices, dim), updates};
  return c.setResult(o, c.w.generic("stablehlo.scatter", operands,
                                    "indices_are_sorted = false, scatter_dimension_numbers = "
                                    "#stablehlo.scatter<inserted_window_dims = " +
                                        all + ", scatter_dims_to_operand_dims = " + all +
                                        ", index_vector_dim = " + std::to_string(indices.rank()) +
                                        ">, unique_indices = false",
                                    x.dtype, x.shape, combiner(q.textAttr("reduce"), x.dtype)));
}

// The indices of a local scatter_slices, relative to its shard of x in each sharded dim: the offsets follow
// the rule's placed factors.
ExportValue shardRelativeStarts(ExportContext& c, OpId o) {
  const OpQuery q = c.query(o);
  ExportValue indices = c.operand(o, 1);
  Rule rule;
  if (c.m[o].numOperands <= 3 || !ruleOf(q, rule)) return indices;
  const Dims map = q.intsAttr("scatter_dims_to_operand_dims");
  const auto vector = static_cast<size_t>(q.intAttr("index_vector_dim"));
  size_t next = 3;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (!rule.factors[f].needsOffset() || next >= c.m[o].numOperands) continue;
    const ExportValue begin = c.w.convert(c.operand(o, next++), indices.dtype);
    for (size_t k = 0; k < map.size(); ++k) {
      if (rule.factorOf(rule.operands[0], static_cast<size_t>(map[k])) != static_cast<int>(f)) continue;
      // The offset in component k of each index, 0 in the others.
      ExportValue by = c.w.broadcast(begin, {}, indices.shape);
      if (vector < indices.rank()) {
        const ExportValue component = c.w.iota(static_cast<int64_t>(vector), indices.dtype, indices.shape);
        const ExportValue mine =
            c.w.compare("EQ", component, c.w.splat(static_cast<double>(k), indices.dtype, indices.shape));
        by = c.w.select(mine, by, c.w.splat(0, indices.dtype, indices.shape));
      }
      indices = c.w.binary("subtract", indices, by);
    }
  }
  return indices;
}

bool scatterSlices(ExportContext& c, OpId o) {
  const OpQuery q = c.query(o);
  const ExportValue operands[] = {c.operand(o, 0), shardRelativeStarts(c, o), c.operand(o, 2)};
  const std::string how = numbers(q, {"update_window_dims", "inserted_window_dims", "input_batching_dims",
                                      "scatter_indices_batching_dims", "scatter_dims_to_operand_dims"});
  return c.setResult(
      o,
      c.w.generic("stablehlo.scatter", operands,
                  "indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<" + how +
                      ">, unique_indices = false",
                  operands[0].dtype, operands[0].shape, combiner(q.textAttr("reduce"), operands[0].dtype)));
}

// A stable sort of elements with their indices: NaN compares as the maximum.
bool argsort(ExportContext& c, OpId o) {
  const OpQuery q = c.query(o);
  const ExportValue x = c.operand(o, 0);
  const int64_t dim = *q.dimAttr("dim", x.rank());
  const bool down = q.boolAttr("descending");
  const ExportValue at = c.w.iota(dim, DType::I32, x.shape);
  const std::string scalar = hloType(x.dtype, {}), index = hloType(DType::I32, {});
  const std::string values = c.w.fresh(), order = c.w.fresh(c.nameOf(c.m.result(o)));
  c.w.open(values + ", " + order + " = \"stablehlo.sort\"(" + x.name + ", " + at.name +
           ") <{dimension = " + std::to_string(dim) + " : i64, is_stable = true}> ({");
  c.w.line("^bb0(%lhs: " + scalar + ", %rhs: " + scalar + ", %lhs_at: " + index + ", %rhs_at: " + index +
           "):");
  const ExportValue a{"%lhs", x.dtype, {}}, b{"%rhs", x.dtype, {}};
  ExportValue before = c.w.compare(down ? "GT" : "LT", a, b);
  if (isFloat(x.dtype)) {
    const ExportValue &greater = down ? a : b, &less = down ? b : a;
    const ExportValue nan =
        c.w.binary("and", c.w.compare("NE", greater, greater), c.w.compare("EQ", less, less));
    before = c.w.binary("or", before, nan);
  }
  c.w.line("stablehlo.return " + before.name + " : " + hloType(before));
  const std::string types = hloType(x) + ", " + hloType(at);
  c.w.close("}) : (" + types + ") -> (" + types + ")");
  return c.setResult(o, {order, DType::I32, x.shape});
}

// A window over all elements so far; exclusive scans end one element earlier.
bool scan(ExportContext& c, OpId o) {
  const OpQuery q = c.query(o);
  const ExportValue given = c.operand(o, 0);
  const ExportValue x = isNarrowFloat(given.dtype) ? c.w.convert(given, DType::F32) : given;
  const auto dim = static_cast<size_t>(*q.dimAttr("dim", x.rank()));
  const bool product = c.m.record(o).combines == PendingKind::Prod;
  const int64_t n = x.shape[dim], later = q.boolAttr("exclusive") ? 1 : 0;
  if (n == 0) return c.setResult(o, given);
  Dims window(x.rank(), 1);
  window[dim] = n;
  std::string pads;
  for (size_t d = 0; d < x.rank(); ++d) {
    Dims pad = {0, 0};
    if (d == dim) pad = {n - 1 + later, -later};
    if (q.boolAttr("reverse")) std::swap(pad[0], pad[1]);
    pads += (d ? ", " : "") + hloList(pad);
  }
  const std::string type = hloType(x.dtype, {}), op = product ? "multiply" : "add";
  const ExportValue both[] = {x, c.w.splat(product ? 1 : 0, x.dtype, {})};
  const ExportValue y = c.w.generic(
      "stablehlo.reduce_window", both,
      "padding = dense<[" + pads + "]> : tensor<" + std::to_string(x.rank()) +
          "x2xi64>, window_dimensions = " + array(window),
      x.dtype, x.shape,
      {"^bb0(%lhs: " + type + ", %rhs: " + type + "):", "  %out = stablehlo." + op + " %lhs, %rhs : " + type,
       "  stablehlo.return %out : " + type});
  return c.setResult(o, c.w.convert(y, given.dtype));
}

bool dynamicSlice(ExportContext& c, OpId o) {
  std::vector<ExportValue> all;
  for (uint32_t i = 0; i < c.m[o].numOperands; ++i) all.push_back(c.operand(o, i));
  const Dims shape = c.resultShape(o);
  return c.setResult(o, c.w.typed("dynamic_slice", all, ", sizes = " + hloList(shape), all[0].dtype, shape));
}

bool dynamicUpdateSlice(ExportContext& c, OpId o) {
  if (c.query(o).has("limits"))
    return c.refuse(o,
                    "it writes to one device's shard of a value; export the program before partitioning it");
  std::vector<ExportValue> all;
  for (uint32_t i = 0; i < c.m[o].numOperands; ++i) all.push_back(c.operand(o, i));
  return c.setResult(o, c.w.typed("dynamic_update_slice", all, "", all[0].dtype, all[0].shape));
}

// The max or min with its index, the lowest index among ties, NaN before all: the comparator that JAX prints.
bool argReduce(ExportContext& c, OpId o, bool isMax) {
  const ExportValue x = c.operand(o, 0);
  const auto dim = *c.query(o).dimAttr("dim", x.rank());
  const ExportValue at = c.w.iota(dim, DType::I32, x.shape);
  const bool real = isFloat(x.dtype);
  const ExportValue start =
      real ? c.w.splat(isMax ? -HUGE_VAL : HUGE_VAL, x.dtype, {})
           : c.w.dense(std::to_string(isMax ? intMin(x.dtype) : intMax(x.dtype)), x.dtype, {});
  const ExportValue first = c.w.splat(0, DType::I32, {});
  Dims shape = x.shape;
  shape.erase(shape.begin() + dim);
  const std::string scalar = hloType(x.dtype, {}), index = hloType(DType::I32, {});
  const std::string value = c.w.fresh(), position = c.w.fresh(c.nameOf(c.m.result(o)));
  c.w.open(value + ", " + position + " = \"stablehlo.reduce\"(" + x.name + ", " + at.name + ", " +
           start.name + ", " + first.name + ") <{dimensions = " + array({dim}) + "}> ({");
  c.w.line("^bb0(%lhs: " + scalar + ", %lhs_at: " + index + ", %rhs: " + scalar + ", %rhs_at: " + index +
           "):");
  const ExportValue a{"%lhs", x.dtype, {}}, i{"%lhs_at", DType::I32, {}}, b{"%rhs", x.dtype, {}},
      j{"%rhs_at", DType::I32, {}};
  const ExportValue more = c.w.compare(isMax ? "GT" : "LT", a, b),
                    before = c.w.binary("or", more, c.w.compare("NE", a, a));
  const ExportValue tie = c.w.binary("and", c.w.compare("EQ", a, b), c.w.compare("LT", i, j));
  const ExportValue keep = c.w.binary("or", before, tie);
  const ExportValue best = c.w.select(before, a, b), where = c.w.select(keep, i, j);
  c.w.line("stablehlo.return " + best.name + ", " + where.name + " : " + scalar + ", " + index);
  c.w.close("}) : (" + hloType(x) + ", " + hloType(at) + ", " + scalar + ", " + index + ") -> (" +
            hloType(x.dtype, shape) + ", " + hloType(DType::I32, shape) + ")");
  return c.setResult(o, c.w.reshape({position, DType::I32, shape}, c.resultShape(o)));
}
bool argMax(ExportContext& c, OpId o) { return argReduce(c, o, true); }
bool argMin(ExportContext& c, OpId o) { return argReduce(c, o, false); }

} // namespace

std::span<const ExportRow> exportsOfIndices() {
  static constexpr ExportRow table[] = {
      {"index_select", indexSelect},
      {"embedding", embedding},
      {"gather", gather},
      {"scatter", scatter},
      {"gather_slices", gatherSlices},
      {"scatter_slices", scatterSlices},
      {"argsort", argsort},
      {"cumsum", scan},
      {"cumprod", scan},
      {"dynamic_slice", dynamicSlice},
      {"dynamic_update_slice", dynamicUpdateSlice},
      {"argmax", argMax},
      {"argmin", argMin},
  };
  return table;
}

} // namespace dtc
