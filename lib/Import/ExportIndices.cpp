// Ops whose elements are chosen by number.
#include "ExportContext.h"
#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

std::string array(const Dims& d) {
  std::string text = "array<i64";
  for (size_t i = 0; i < d.size(); ++i) text += (i ? ", " : ": ") + std::to_string(d[i]);
  return text + ">";
}

// Rows of `x` along `dim` by the indices: the result has the indices' dims in that dim's place.
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

bool indexSelect(ExportContext& c, OpId o) {
  const ExportValue x = c.operand(o, 0), indices = c.operand(o, 1);
  return c.give(o, rows(c, x, indices, static_cast<size_t>(*c.query(o).dimAttr("dim", x.rank()))));
}

bool embedding(ExportContext& c, OpId o) {
  const ExportValue indices = c.operand(o, 0), table = c.operand(o, 1);
  return c.give(o, rows(c, table, indices, 0));
}

// The whole coordinates that torch's gather and scatter mean: an index for each dim, of which one is looked up.
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

Dims counted(size_t n) {
  Dims d(n);
  for (size_t i = 0; i < n; ++i) d[i] = static_cast<int64_t>(i);
  return d;
}

bool gather(ExportContext& c, OpId o) {
  const ExportValue x = c.operand(o, 0), indices = c.operand(o, 1);
  const auto dim = static_cast<size_t>(*c.query(o).dimAttr("dim", x.rank()));
  const std::string all = hloList(counted(x.rank()));
  const ExportValue both[] = {x, coordinates(c, indices, dim)};
  return c.give(o, c.w.generic("stablehlo.gather", both,
                               "dimension_numbers = #stablehlo.gather<collapsed_slice_dims = " + all +
                                   ", start_index_map = " + all +
                                   ", index_vector_dim = " + std::to_string(indices.rank()) +
                                   ">, indices_are_sorted = false, slice_sizes = " + array(Dims(x.rank(), 1)),
                               x.dtype, indices.shape));
}

// The block that combines what stands there (%lhs) with an update (%rhs).
std::vector<std::string> combiner(std::string_view reduce, DType d) {
  const std::string type = hloType(d, {});
  std::vector<std::string> lines = {"^bb0(%lhs: " + type + ", %rhs: " + type + "):"};
  const bool isBits = isBool(d);
  const char* op = reduce == "sum"    ? isBits ? "or" : "add"
                   : reduce == "prod" ? isBits ? "and" : "multiply"
                   : reduce == "max"  ? "maximum"
                   : reduce == "min"  ? "minimum"
                                      : nullptr;
  if (op) lines.push_back("  %out = stablehlo." + std::string(op) + " %lhs, %rhs : " + type);
  lines.push_back("  stablehlo.return " + std::string(op ? "%out" : "%rhs") + " : " + type);
  return lines;
}

bool scatter(ExportContext& c, OpId o) {
  const OpQuery q = c.query(o);
  const ExportValue x = c.operand(o, 0), indices = c.operand(o, 1), updates = c.operand(o, 2);
  const auto dim = static_cast<size_t>(*q.dimAttr("dim", x.rank()));
  const std::string all = hloList(counted(x.rank()));
  const ExportValue operands[] = {x, coordinates(c, indices, dim), updates};
  return c.give(o, c.w.generic("stablehlo.scatter", operands,
                               "indices_are_sorted = false, scatter_dimension_numbers = "
                               "#stablehlo.scatter<inserted_window_dims = " +
                                   all + ", scatter_dims_to_operand_dims = " + all + ", index_vector_dim = " +
                                   std::to_string(indices.rank()) + ">, unique_indices = false",
                               x.dtype, x.shape, combiner(q.textAttr("reduce"), x.dtype)));
}

bool dynamicSlice(ExportContext& c, OpId o) {
  std::vector<ExportValue> all;
  for (uint32_t i = 0; i < c.m[o].numOperands; ++i) all.push_back(c.operand(o, i));
  const Dims shape = c.resultShape(o);
  return c.give(o, c.w.typed("dynamic_slice", all, ", sizes = " + hloList(shape), all[0].dtype, shape));
}

bool dynamicUpdateSlice(ExportContext& c, OpId o) {
  if (c.query(o).has("limits")) return c.refuse(o, "it writes to a piece of a cut value");
  std::vector<ExportValue> all;
  for (uint32_t i = 0; i < c.m[o].numOperands; ++i) all.push_back(c.operand(o, i));
  return c.give(o, c.w.typed("dynamic_update_slice", all, "", all[0].dtype, all[0].shape));
}

// Greatest or least with its index, the first of equals, NaN before all: the comparator that JAX prints.
bool argReduce(ExportContext& c, OpId o, bool greatest) {
  const ExportValue x = c.operand(o, 0);
  const auto dim = *c.query(o).dimAttr("dim", x.rank());
  const ExportValue at = c.w.iota(dim, DType::I32, x.shape);
  const bool real = isFloat(x.dtype);
  const ExportValue start =
      real ? c.w.splat(greatest ? -HUGE_VAL : HUGE_VAL, x.dtype, {})
           : c.w.dense(std::to_string(greatest ? intMin(x.dtype) : intMax(x.dtype)), x.dtype, {});
  const ExportValue first = c.w.splat(0, DType::I32, {});
  Dims shape = x.shape;
  shape.erase(shape.begin() + dim);
  const std::string scalar = hloType(x.dtype, {}), index = hloType(DType::I32, {});
  const std::string value = c.w.fresh(), place = c.w.fresh(c.nameOf(c.m.result(o)));
  c.w.open(value + ", " + place + " = \"stablehlo.reduce\"(" + x.name + ", " + at.name + ", " + start.name +
           ", " + first.name + ") <{dimensions = " + array({dim}) + "}> ({");
  c.w.line("^bb0(%lhs: " + scalar + ", %lhs_at: " + index + ", %rhs: " + scalar + ", %rhs_at: " + index +
           "):");
  const ExportValue a{"%lhs", x.dtype, {}}, i{"%lhs_at", DType::I32, {}}, b{"%rhs", x.dtype, {}},
      j{"%rhs_at", DType::I32, {}};
  const ExportValue more = c.w.compare(greatest ? "GT" : "LT", a, b),
                    before = c.w.binary("or", more, c.w.compare("NE", a, a));
  const ExportValue tie = c.w.binary("and", c.w.compare("EQ", a, b), c.w.compare("LT", i, j));
  const ExportValue keep = c.w.binary("or", before, tie);
  const ExportValue best = c.w.select(before, a, b), where = c.w.select(keep, i, j);
  c.w.line("stablehlo.return " + best.name + ", " + where.name + " : " + scalar + ", " + index);
  c.w.close("}) : (" + hloType(x) + ", " + hloType(at) + ", " + scalar + ", " + index + ") -> (" +
            hloType(x.dtype, shape) + ", " + hloType(DType::I32, shape) + ")");
  return c.give(o, c.w.reshape({place, DType::I32, shape}, c.resultShape(o)));
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
      {"dynamic_slice", dynamicSlice},
      {"dynamic_update_slice", dynamicUpdateSlice},
      {"argmax", argMax},
      {"argmin", argMin},
  };
  return table;
}

} // namespace dtc
