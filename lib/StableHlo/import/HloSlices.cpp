// gather, dynamic_slice, dynamic_update_slice: windows at dynamic offsets.
#include "import/HloSlices.h"
#include "import/HloImporter.h"
#include "import/HloRegions.h"
#include "import/HloTable.h"

#include <algorithm>

namespace dtc {

bool readSliceDims(HloContext& c, const char* attribute, std::span<const char* const> names,
                   HloSliceDims& d) {
  const MlirAttr* a = c.attr(attribute);
  if (!a) return c.fail(std::string("needs the attribute '") + attribute + "'");
  std::vector<int64_t>* lists[] = {&d.window, &d.dropped, &d.batching, &d.indicesBatching, &d.map};
  for (size_t i = 0; i < 5; ++i) {
    auto list = c.bodyInts(*a, names[i]);
    if (!list) return false;
    *lists[i] = *list;
  }
  auto vector = c.bodyInts(*a, "index_vector_dim");
  if (!vector) return false;
  d.vector = vector->empty() ? 0 : vector->front();
  return true;
}

namespace {

constexpr const char* kGatherNames[] = {"offset_dims", "collapsed_slice_dims", "operand_batching_dims",
                                        "start_indices_batching_dims", "start_index_map"};

AttrId listed(HloContext& c, const std::vector<int64_t>& v) { return v.empty() ? AttrId() : c.intsAttr(v); }

// The components of the single index, each a scalar.
std::vector<ValueId> components(HloContext& c, ValueId indices, size_t count) {
  std::vector<ValueId> out;
  for (size_t i = 0; i < count; ++i) {
    const ValueId one =
        c.rankOf(indices) == 0 ? indices : sliceAlong(c, indices, 0, static_cast<int64_t>(i), 1);
    out.push_back(c.reshape(one, {}));
  }
  return out;
}

// One window: a dynamic_slice.
ValueId oneWindow(HloContext& c, ValueId x, ValueId indices, const HloSliceDims& d,
                  const std::vector<int64_t>& sizes) {
  std::vector<ValueId> operands(sizes.size() + 1, c.literal(0, c.dtypeOf(indices)));
  operands[0] = x;
  const std::vector<ValueId> starts = components(c, indices, d.map.size());
  for (size_t i = 0; i < starts.size(); ++i) operands[static_cast<size_t>(d.map[i]) + 1] = starts[i];
  return c.reshape(c.emit("dynamic_slice", operands, {{"sizes", c.intsAttr(sizes)}}), c.resultShape());
}

// Clamps each index to 0 … n - 1.
ValueId clampedIndex(HloContext& c, ValueId indices, int64_t n) {
  const DType dtype = c.dtypeOf(indices);
  const int64_t last = std::min(n - 1, intMax(dtype));
  return c.emit("clamp", {indices, c.literal(0, dtype), c.literal(static_cast<double>(last), dtype)});
}

ValueId withoutVector(HloContext& c, ValueId indices, const HloSliceDims& d) {
  std::vector<int64_t> shape = c.shapeOf(indices);
  if (d.vector < static_cast<int64_t>(shape.size())) shape.erase(shape.begin() + d.vector);
  return c.reshape(indices, shape);
}

// Rows of one dim with all other dims whole: index_select.
bool isRowSelection(const HloSliceDims& d, const std::vector<int64_t>& shape,
                    const std::vector<int64_t>& sizes, size_t batch) {
  if (d.map.size() != 1 || d.dropped != d.map || !d.batching.empty()) return false;
  const auto dim = static_cast<size_t>(d.map[0]);
  std::vector<int64_t> window;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (k == dim) continue;
    if (sizes[k] != shape[k]) return false;
    window.push_back(static_cast<int64_t>(k < dim ? k : k - 1 + batch));
  }
  return window == d.window && shape[dim] > 0;
}

// One element along one dim, batched over all others: torch's gather.
bool isTakeAlong(const HloSliceDims& d, size_t rank, size_t batch) {
  if (d.map.size() != 1 || d.dropped != d.map || !d.window.empty() || batch != rank) return false;
  std::vector<int64_t> others;
  for (int64_t k = 0; k < static_cast<int64_t>(rank); ++k)
    if (k != d.map[0]) others.push_back(k);
  return d.batching == others && d.indicesBatching == others;
}

bool gatherSizes(HloContext& c, const std::vector<int64_t>& sizes) {
  HloSliceDims d;
  const ValueId x = c.operand(0), indices = c.operand(1);
  if (!x.valid() || !indices.valid() || !readSliceDims(c, "dimension_numbers", kGatherNames, d)) return false;
  const std::vector<int64_t> shape = c.shapeOf(x), result = c.resultShape();
  if (!c.resultType().valid()) return false;
  const size_t indicesRank = c.rankOf(indices);
  auto within = [&](const std::vector<int64_t>& list) {
    return std::all_of(list.begin(), list.end(),
                       [&](int64_t k) { return k >= 0 && k < static_cast<int64_t>(shape.size()); });
  };
  if (sizes.size() != shape.size() || !within(d.map) || !within(d.dropped))
    return c.fail("names dims in its dimension_numbers that the operand does not have");
  const size_t batch = indicesRank - (d.vector < static_cast<int64_t>(indicesRank));
  const bool one =
      batch == 0 && d.batching.empty() && std::is_sorted(d.window.begin(), d.window.end()) &&
      (indicesRank == 0 ? d.map.size() == 1 : c.shapeOf(indices)[0] == static_cast<int64_t>(d.map.size()));
  if (one) return c.setResult(oneWindow(c, x, indices, d, sizes));
  if (elementsOf(result) != 0 && isRowSelection(d, shape, sizes, batch)) {
    const ValueId rows = clampedIndex(c, withoutVector(c, indices, d), shape[static_cast<size_t>(d.map[0])]);
    return c.setResult(c.emit("index_select", {x, rows}, {{"dim", c.intAttr(d.map[0])}}));
  }
  if (elementsOf(result) != 0 && isTakeAlong(d, shape.size(), batch)) {
    const ValueId rows = clampedIndex(c, withoutVector(c, indices, d), shape[static_cast<size_t>(d.map[0])]);
    return c.setResult(c.emit("gather", {x, rows}, {{"dim", c.intAttr(d.map[0])}}));
  }
  return c.setResult(gatherSlices(c, x, indices, d, sizes));
}

bool gather(HloContext& c) {
  auto sizes = c.ints("slice_sizes", static_cast<int64_t>(c.rankOf(c.operand(0))));
  return sizes && gatherSizes(c, *sizes);
}

// The sizes are an operand; those of the result are the same.
bool dynamicGather(HloContext& c) {
  HloSliceDims d;
  if (!readSliceDims(c, "dimension_numbers", kGatherNames, d) || !c.resultType().valid()) return false;
  const std::vector<int64_t> result = c.resultShape();
  std::vector<int64_t> sizes(c.rankOf(c.operand(0)), 1);
  size_t next = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    const auto at = static_cast<int64_t>(k);
    if (std::count(d.dropped.begin(), d.dropped.end(), at) +
            std::count(d.batching.begin(), d.batching.end(), at) >
        0)
      continue;
    if (next >= d.window.size() || d.window[next] < 0 ||
        d.window[next] >= static_cast<int64_t>(result.size()))
      return c.fail("names dims in its dimension_numbers that the result does not have");
    sizes[k] = result[static_cast<size_t>(d.window[next++])];
  }
  return gatherSizes(c, sizes);
}

// --- dynamic slices ---

bool dynamicSlice(HloContext& c) {
  const ValueId x = c.operand(0);
  auto sizes = c.ints("slice_sizes", static_cast<int64_t>(c.rankOf(x)));
  if (!x.valid() || !sizes || !c.expectOperands(sizes->size() + 1)) return false;
  if (sizes->empty()) return c.setResult(x);
  return c.setResult(c.emit("dynamic_slice", c.tensors(), {{"sizes", c.intsAttr(*sizes)}}));
}

bool dynamicUpdateSlice(HloContext& c) {
  const ValueId x = c.operand(0);
  if (!x.valid() || !c.expectOperands(c.rankOf(x) + 2)) return false;
  if (c.rankOf(x) == 0) return c.setResult(c.operand(1));
  return c.setResult(c.emit("dynamic_update_slice", c.tensors()));
}

const HloRow kSliceRows[] = {
    {"stablehlo.dynamic_gather", dynamicGather, 3},
    {"stablehlo.dynamic_slice", dynamicSlice},
    {"stablehlo.dynamic_update_slice", dynamicUpdateSlice},
    {"stablehlo.gather", gather, 2},
};

} // namespace

// Empty lists are omitted.
ValueId emitSlices(HloContext& c, OpName name, std::initializer_list<ValueId> operands,
                   std::span<const char* const> names, const HloSliceDims& d, const char* more,
                   AttrId value) {
  for (ValueId v : operands)
    if (!v.valid()) return {};
  AttrList attrs = c.importer.locationOf(c.op.loc);
  const std::vector<int64_t>* lists[] = {&d.window, &d.dropped, &d.batching, &d.indicesBatching, &d.map};
  for (size_t i = 0; i < 5; ++i)
    if (const AttrId list = listed(c, *lists[i]); list.valid())
      attrs.push_back({c.module.strings.intern(names[i]), list});
  attrs.push_back({c.module.strings.intern("index_vector_dim"), c.intAttr(d.vector)});
  attrs.push_back({c.module.strings.intern(more), value});
  const OpId o = c.importer.appendOp(name, std::span<const ValueId>(operands.begin(), operands.size()),
                                     std::move(attrs), {}, c.op.nameRange);
  return o.valid() ? c.module.result(o) : ValueId();
}

ValueId gatherSlices(HloContext& c, ValueId x, ValueId indices, const HloSliceDims& d,
                     std::span<const int64_t> sizes) {
  return emitSlices(c, "gather_slices", {x, indices}, kGatherNames, d, "slice_sizes", c.intsAttr(sizes));
}

std::span<const HloRow> hloSliceRows() { return kSliceRows; }

} // namespace dtc
