// scatter and select_and_scatter, with any region.
#include "import/HloImporter.h"
#include "import/HloRegions.h"
#include "import/HloSlices.h"
#include "import/HloTable.h"

#include <algorithm>

namespace dtc {

namespace {

constexpr const char* kScatterNames[] = {"update_window_dims", "inserted_window_dims", "input_batching_dims",
                                         "scatter_indices_batching_dims", "scatter_dims_to_operand_dims"};

ValueId scatterSlices(HloContext& c, ValueId x, ValueId indices, ValueId updates, const HloSliceDims& d,
                      std::string_view reduce) {
  return emitSlices(c, "scatter_slices", {x, indices, updates}, kScatterNames, d, "reduce",
                    c.stringAttr(reduce));
}

// How the region combines an element with one update: "" where dtc's scatter has no such mode.
std::string_view scatterWord(HloContext& c, const MlirRegion& region, DType dtype) {
  if (region.args.size() == 2 && region.ops.size() == 1 && region.ops[0].operands.size() == 1 &&
      region.ops[0].operands[0].name == region.args[1].name)
    return "set";
  const HloFold* fold = foldOf(c, region, dtype);
  if (!fold) return "";
  const std::string_view word = fold->scatter;
  return isComplex(dtype) && word != "sum" ? "" : word; // for complex numbers scatter only adds
}

// --- sequential updates, for any region ---

// The linear index in x of each element of the updates; -1 where it is out of bounds.
ValueId linearIndices(HloContext& c, const std::vector<int64_t>& shape, ValueId indices,
                      const std::vector<int64_t>& updates, const HloSliceDims& d) {
  std::vector<int64_t> sizes(shape.size(), 1), margin(shape.size(), 0), by, low, high;
  size_t next = 0;
  for (size_t k = 0; k < shape.size(); ++k) {
    const auto at = static_cast<int64_t>(k);
    const bool absent = std::count(d.dropped.begin(), d.dropped.end(), at) +
                            std::count(d.batching.begin(), d.batching.end(), at) >
                        0;
    if (absent) continue;
    if (next >= d.window.size() || d.window[next] < 0 ||
        d.window[next] >= static_cast<int64_t>(updates.size())) {
      c.fail("names dims in its dimension numbers that the updates do not have");
      return {};
    }
    sizes[k] = updates[static_cast<size_t>(d.window[next++])];
  }
  for (int64_t k : d.map) {
    if (k < 0 || k >= static_cast<int64_t>(shape.size())) {
      c.fail("names dims in its dimension numbers that the operand does not have");
      return {};
    }
    const auto at = static_cast<size_t>(k);
    margin[at] = sizes[at];
    by.push_back(sizes[at]);
    low.push_back(-sizes[at]);
    high.push_back(shape[at]);
  }
  const int64_t flat[] = {elementsOf(shape)};
  ValueId numbers = c.emitTyped("iota", {}, {{"dim", c.intAttr(0)}}, c.tensorType(DType::I32, flat));
  numbers = padWith(c, c.reshape(numbers, shape), c.literal(-1, DType::I32), margin, margin,
                    std::vector<int64_t>(shape.size(), 0));
  std::vector<int64_t> thin(c.rankOf(indices), 1);
  if (d.vector < static_cast<int64_t>(thin.size()))
    thin[static_cast<size_t>(d.vector)] = static_cast<int64_t>(by.size());
  auto list = [&](const std::vector<int64_t>& v) {
    const int64_t n[] = {static_cast<int64_t>(v.size())};
    return c.reshape(c.emitTyped("constant", {}, {{"value", c.intsAttr(v)}}, c.tensorType(DType::I64, n)),
                     thin);
  };
  ValueId where = c.convert(indices, DType::I64);
  if (!by.empty()) where = c.emit("add", {c.emit("clamp", {where, list(low), list(high)}), list(by)});
  return gatherSlices(c, numbers, where, d, sizes);
}

// Reshapes the updates, or a tensor of their shape, to [window, element].
ValueId byWindow(HloContext& c, ValueId v, const HloSliceDims& d) {
  const std::vector<int64_t> shape = c.shapeOf(v);
  std::vector<int64_t> perm, rows = {1, 1};
  for (const bool window : {false, true})
    for (size_t k = 0; k < shape.size(); ++k) {
      const bool is = std::count(d.window.begin(), d.window.end(), static_cast<int64_t>(k)) > 0;
      if (is != window) continue;
      perm.push_back(static_cast<int64_t>(k));
      rows[window] *= shape[k];
    }
  return c.reshape(c.transpose(v, perm), rows);
}

// for i in 0..rows (y = x…): applies row i's updates to y, each combined with the present element by the
// region.
std::vector<ValueId> updateInOrder(HloContext& c, const MlirRegion& region, std::vector<ValueId> x,
                                   ValueId linear, const std::vector<ValueId>& updates) {
  Module& m = c.module;
  const std::vector<int64_t> rows = c.shapeOf(linear), window = {rows[1]};
  std::vector<ValueId> operands = {c.literal(0, DType::I32),
                                   c.literal(static_cast<double>(rows[0]), DType::I32)};
  std::vector<TypeId> types;
  for (ValueId v : x) types.push_back(m[v].type);
  operands.insert(operands.end(), x.begin(), x.end());
  const OpId loop =
      c.importer.appendOp("for", operands, c.importer.locationOf(c.op.loc), types, c.op.nameRange, 1);
  if (!loop.valid()) return {};
  const BlockId body = m.region(loop, 0);
  const ValueId i = m.makeBlockArg(body, c.tensorType(DType::I32, {}));
  std::vector<ValueId> held, now, next, out;
  for (TypeId t : types) held.push_back(m.makeBlockArg(body, t));
  const BlockId outer = c.importer.enter(body);
  const ValueId position = c.emit("index_select", {linear, i}, {{"dim", c.intAttr(0)}});
  const ValueId safe = c.emit("max", {position, c.literal(0, DType::I32)});
  for (size_t k = 0; k < x.size(); ++k) {
    now.push_back(c.emit("index_select", {held[k], safe}, {{"dim", c.intAttr(0)}}));
    next.push_back(c.emit("index_select", {updates[k], i}, {{"dim", c.intAttr(0)}}));
  }
  const std::vector<ValueId> made = foldRegion(c, region, now, next, window);
  const HloSliceDims elements{.dropped = {0}, .map = {0}, .vector = 1};
  for (size_t k = 0; k < made.size(); ++k)
    out.push_back(scatterSlices(c, held[k], position, made[k], elements, "set"));
  c.importer.enter(outer);
  if (out.empty() || std::any_of(out.begin(), out.end(), [](ValueId v) { return !v.valid(); })) return {};
  m[body].yields = out;
  m[body].terminatorLoc = c.op.nameRange;
  std::vector<ValueId> results;
  for (uint32_t k = 0; k < m[loop].numResults; ++k) results.push_back(m.result(loop, k));
  return results;
}

// The same for x of any shape.
std::vector<ValueId> scatterInOrder(HloContext& c, const MlirRegion& region, const std::vector<ValueId>& x,
                                    ValueId linear, const std::vector<ValueId>& updates) {
  std::vector<ValueId> flat;
  const std::vector<int64_t> shape = c.shapeOf(x[0]);
  const int64_t count[] = {elementsOf(shape)};
  for (ValueId v : x) flat.push_back(c.reshape(v, count));
  std::vector<ValueId> out = updateInOrder(c, region, flat, linear, updates);
  for (ValueId& v : out) v = c.reshape(v, shape);
  return out;
}

bool scatter(HloContext& c) {
  if (c.lifted()) return c.fail("moves elements, but an elementwise function is expected here");
  HloSliceDims d;
  const size_t n = c.numOperands() / 2;
  if (c.numOperands() != 2 * n + 1 || n == 0) return c.fail("needs as many updates as operands");
  if (!c.expectRegions(1) || !readSliceDims(c, "scatter_dimension_numbers", kScatterNames, d)) return false;
  const ValueId indices = c.operand(n);
  std::vector<ValueId> x, updates;
  for (size_t i = 0; i < n; ++i) {
    x.push_back(c.operand(i));
    updates.push_back(c.operand(n + 1 + i));
    if (!x[i].valid() || !indices.valid() || !updates[i].valid()) return false;
  }
  const std::vector<int64_t> shape = c.shapeOf(x[0]), updated = c.shapeOf(updates[0]);
  if (elementsOf(updated) == 0 || elementsOf(shape) == 0) return c.setResults(x);
  const MlirRegion& region = c.op.regions[0];
  const std::string_view word = n == 1 ? scatterWord(c, region, c.dtypeOf(x[0])) : "";
  if (!word.empty()) return c.setResult(scatterSlices(c, x[0], indices, updates[0], d, word));
  const ValueId linear = linearIndices(c, shape, indices, updated, d);
  if (!linear.valid()) return false;
  for (ValueId& u : updates) u = byWindow(c, u, d);
  const std::vector<ValueId> out = scatterInOrder(c, region, x, byWindow(c, linear, d), updates);
  return !out.empty() && c.setResults(out);
}

// --- select_and_scatter ---

struct Windows {
  std::vector<int64_t> shape, source, size, stride, low;
};

bool readWindows(HloContext& c, Windows& w) {
  w.shape = c.shapeOf(c.operand(0));
  w.source = c.shapeOf(c.operand(1));
  const size_t rank = w.shape.size();
  const auto n = static_cast<int64_t>(rank);
  auto size = c.intsOr("window_dimensions", std::vector<int64_t>(rank, 1), n),
       stride = c.intsOr("window_strides", std::vector<int64_t>(rank, 1), n),
       padding = c.intsOr("padding", std::vector<int64_t>(2 * rank, 0), 2 * n);
  if (!size || !stride || !padding) return false;
  constexpr int64_t maxCandidates = 4096; // candidates of a window: number of ops
  int64_t candidates = 1;
  for (size_t d = 0; d < rank; ++d) {
    if ((*size)[d] < 1 || (*stride)[d] < 1 || (*size)[d] > maxCandidates)
      return c.fail("has a window or stride that is out of range");
    candidates *= (*size)[d];
    if (candidates > maxCandidates)
      return c.fail("has windows of more than " + std::to_string(maxCandidates) + " elements");
    const int64_t length = w.shape[d] + (*padding)[2 * d] + (*padding)[2 * d + 1];
    const int64_t count = length < (*size)[d] ? 0 : (length - (*size)[d]) / (*stride)[d] + 1;
    if (w.source.size() != rank || w.source[d] != count)
      return c.fail("needs a source with one element per window");
    w.low.push_back((*padding)[2 * d]);
  }
  w.size = *size;
  w.stride = *stride;
  return true;
}

// The linear index in the operand of candidate `offset` of each window, and whether it is in bounds.
struct Candidate {
  ValueId number, inside;
};
Candidate candidateAt(HloContext& c, const Windows& w, std::span<const int64_t> offset) {
  Candidate at;
  const TypeId type = c.tensorType(DType::I32, w.source);
  int64_t weight = 1;
  for (size_t d = w.shape.size(); d-- > 0;) {
    auto i32 = [&](int64_t v) { return c.literal(static_cast<double>(v), DType::I32); };
    const ValueId window = c.emitTyped("iota", {}, {{"dim", c.intAttr(static_cast<int64_t>(d))}}, type);
    const ValueId position =
        c.emit("add", {c.emit("mul", {window, i32(w.stride[d])}), i32(offset[d] - w.low[d])});
    const ValueId inside =
        c.emit("and", {c.emit("ge", {position, i32(0)}), c.emit("lt", {position, i32(w.shape[d])})});
    const ValueId part = c.emit("mul", {position, i32(weight)});
    at.number = at.number.valid() ? c.emit("add", {at.number, part}) : part;
    at.inside = at.inside.valid() ? c.emit("and", {at.inside, inside}) : inside;
    weight *= w.shape[d];
  }
  at.number = c.emit("select", {at.inside, at.number, c.literal(0, DType::I32)});
  return at;
}

// The linear index of the element that each window selects, candidate by candidate; -1 where a window is out
// of bounds.
ValueId selected(HloContext& c, const Windows& w) {
  const int64_t count[] = {elementsOf(w.shape)};
  const ValueId x = c.reshape(c.operand(0), count);
  ValueId value, number;
  std::vector<int64_t> offset(w.size.size(), 0);
  const int64_t candidates = elementsOf(w.size);
  for (int64_t k = 0; k < candidates; ++k) {
    int64_t rest = k;
    for (size_t d = offset.size(); d-- > 0;) {
      offset[d] = rest % w.size[d];
      rest /= w.size[d];
    }
    const Candidate at = candidateAt(c, w, offset);
    const ValueId own = c.emit("index_select", {x, at.number}, {{"dim", c.intAttr(0)}});
    if (k == 0) {
      value = own;
      number = c.emit("select", {at.inside, at.number, c.literal(-1, DType::I32)});
      continue;
    }
    const ValueId args[] = {value, own};
    const std::vector<ValueId> keeps = c.inlineRegion(c.op.regions[0], args, w.source);
    if (keeps.size() != 1) return {};
    const ValueId none = c.emit("lt", {number, c.literal(0, DType::I32)});
    const ValueId taken = c.emit("and", {at.inside, c.emit("or", {none, c.emit("not", {keeps[0]})})});
    value = c.emit("select", {taken, own, value});
    number = c.emit("select", {taken, at.number, number});
  }
  return number;
}

bool selectAndScatter(HloContext& c) {
  if (c.lifted()) return c.fail("moves elements, but an elementwise function is expected here");
  Windows w;
  if (!c.expectOperands(3) || !c.expectRegions(2) || !readWindows(c, w)) return false;
  const ValueId source = c.operand(1), init = c.operand(2);
  if (!source.valid() || !init.valid()) return false;
  const ValueId start = c.broadcastTo(init, w.shape);
  if (elementsOf(w.source) == 0 || elementsOf(w.shape) == 0) return c.setResult(start);
  if (w.shape.empty()) {
    const std::vector<ValueId> out = foldRegion(c, c.op.regions[1], std::array{init}, std::array{source}, {});
    return !out.empty() && c.setResult(out[0]);
  }
  const ValueId number = selected(c, w);
  if (!number.valid()) return false;
  const int64_t updates[] = {elementsOf(w.source)}, count[] = {elementsOf(w.shape)};
  const ValueId linear = c.reshape(number, updates), values = c.reshape(source, updates);
  const std::string_view word = scatterWord(c, c.op.regions[1], c.dtypeOf(source));
  if (!word.empty()) {
    const HloSliceDims elements{.dropped = {0}, .map = {0}, .vector = 1};
    const ValueId y = scatterSlices(c, c.reshape(start, count), linear, values, elements, word);
    return c.setResult(c.reshape(y, w.shape));
  }
  const int64_t rows[] = {updates[0], 1};
  const std::vector<ValueId> out =
      scatterInOrder(c, c.op.regions[1], {start}, c.reshape(linear, rows), {c.reshape(values, rows)});
  return !out.empty() && c.setResult(out[0]);
}

const HloRow kScatterRows[] = {
    {"stablehlo.scatter", scatter},
    {"stablehlo.select_and_scatter", selectAndScatter},
};

} // namespace

std::span<const HloRow> hloScatterRows() { return kScatterRows; }

} // namespace dtc
