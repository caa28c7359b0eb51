// Parts of tensors, and updates of parts.
#include "aten/Aten.h"
#include "aten/Table.h"

#include <algorithm>
#include <numeric>

namespace dtc {
namespace aten::slices {
namespace {

struct Range {
  int64_t dim = 0, start = 0, step = 1;
  Dim end = 0;
};

// The slice of a dim. Python's rules: negative bounds count from the end, others are clamped.
Range rangeOf(const ImportContext& c, const Dims& dims, int64_t dim) {
  Range r{dim, 0, c.integer("step", 1), dims[static_cast<size_t>(dim)]};
  if (r.step < 1) c.fail("has a step below 1");
  const Dim whole = r.end;
  if (whole.isStatic()) {
    const int64_t n = whole.value();
    const auto clamped = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + n : at, 0, n); };
    r.start = clamped(c.integer("start", 0));
    r.end = std::max(clamped(c.integer("end", n)), r.start);
    return r;
  }
  r.start = c.integer("start", 0);
  if (r.start < 0) c.fail("has a negative start in a symbolic size: bind it with --dim");
  if (!c.has("end")) return r;
  const ImportInt end = c.sizes("end").at(0);
  constexpr int64_t kNoEnd = INT64_MAX;
  if (end.isNumber() && end.number == kNoEnd) return r;
  if (end.isNumber() && end.number < 0) c.fail("has a negative end in a symbolic size: bind it with --dim");
  r.end = c.size(end);
  return r;
}

ImportResults slice(ImportContext& c) {
  const Expr x = c.tensor("self");
  const Range r = rangeOf(c, x.dims(), aten::dim(c, "dim", x.rank(), 0));
  return sliceOf(x, r.dim, r.start, r.end, r.step);
}

ImportResults narrow(ImportContext& c) {
  const Expr x = c.tensor("self");
  const int64_t d = aten::dim(c, "dim", x.rank());
  int64_t start = c.integer("start");
  const Dim length = resultDims(c)[static_cast<size_t>(d)];
  if (start < 0) start += staticDims(c.b, {x.dims().at(static_cast<size_t>(d))})[0];
  const Dim end = start == 0 ? length : Dim(start + staticDims(c.b, {length})[0]);
  return sliceOf(x, d, start, end);
}

ImportResults select(ImportContext& c) {
  const Expr x = c.tensor("self");
  const int64_t d = aten::dim(c, "dim", x.rank());
  const Dim n = x.dims().at(static_cast<size_t>(d));
  const ImportInt i = c.sizes("index").at(0);
  if (!i.isNumber()) {
    const Expr at = indices(materialized(c.integerOperand(i, DType::I32)), n);
    return withoutDim(ops::index_select(x, reshapeTo(at, {1}), {.dim = d}), d);
  }
  const int64_t at = i.number < 0 ? i.number + staticDims(c.b, {n})[0] : i.number;
  return withoutDim(sliceOf(x, d, at, at + 1), d);
}

ImportResults parts(ImportContext& c, Expr x, int64_t d) {
  std::vector<Expr> out;
  int64_t at = 0;
  for (size_t i = 0; i < c.node.results.size(); ++i) {
    const Dim size = resultDims(c, i)[static_cast<size_t>(d)];
    if (c.node.results.size() == 1 && size == x.dims().at(static_cast<size_t>(d))) return x;
    const int64_t end = at + staticDims(c.b, {size})[0];
    out.push_back(sliceOf(x, d, at, end));
    at = end;
  }
  return out;
}

// split, chunk, tensor_split, hsplit: the sizes of the results say where.
ImportResults split(ImportContext& c) {
  const Expr x = c.tensor("self");
  const std::string& t = c.node.target;
  const bool h = t.find("hsplit") != t.npos, v = t.find("vsplit") != t.npos, d3 = t.find("dsplit") != t.npos;
  const int64_t d = h ? (x.rank() == 1 ? 0 : 1) : v ? 0 : d3 ? 2 : aten::dim(c, "dim", x.rank(), 0);
  return parts(c, x, d);
}

ImportResults unbind(ImportContext& c) {
  const Expr x = c.tensor("self");
  const int64_t d = aten::dim(c, "dim", x.rank(), 0);
  std::vector<Expr> out;
  for (size_t i = 0; i < c.node.results.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    out.push_back(withoutDim(sliceOf(x, d, at, at + 1), d));
  }
  return out;
}

// The elements of `part` at start, start + step, … of a dim, those of x elsewhere.
Expr updated(ImportContext& c, Expr x, Expr part, const Range& r) {
  Builder& b = c.b;
  const auto d = static_cast<size_t>(r.dim);
  if (r.step == 1) {
    std::vector<ops::Arg> starts;
    for (size_t i = 0; i < x.rank(); ++i) starts.emplace_back(i == d ? r.start : int64_t(0));
    return part.dims() == x.dims() ? part : ops::dynamic_update_slice(x, part, starts);
  }
  const int64_t n = staticDims(b, {x.dims().at(d)})[0], k = staticDims(b, {part.dims().at(d)})[0];
  if (k == 0) return x;
  std::vector<int64_t> low(x.rank(), 0), high(x.rank(), 0), interior(x.rank(), 0);
  low[d] = r.start, interior[d] = r.step - 1;
  high[d] = n - r.start - ((k - 1) * r.step + 1);
  const Expr spread =
      ops::pad(part, {.value = c.literal(0.0, x.dtype()), .low = low, .high = high, .interior = interior});
  const Expr ones = filled(b, DType::Bool, part.dims(), 1);
  const Expr here =
      ops::pad(ones, {.value = c.literal(0.0, DType::Bool), .low = low, .high = high, .interior = interior});
  return ops::select(here, spread, x);
}

ImportResults sliceScatter(ImportContext& c) {
  const Expr x = c.tensor("self");
  const Range r = rangeOf(c, x.dims(), aten::dim(c, "dim", x.rank(), 0));
  Dims dims = x.dims();
  if (r.end.isStatic()) dims[static_cast<size_t>(r.dim)] = (r.end.value() - r.start + r.step - 1) / r.step;
  return updated(c, x, broadcastTo(c.tensor("src").as(x.dtype()), dims), r);
}

ImportResults selectScatter(ImportContext& c) {
  const Expr x = c.tensor("self");
  const int64_t d = aten::dim(c, "dim", x.rank());
  const int64_t i = c.integer("index");
  const int64_t at = i < 0 ? i + staticDims(c.b, {x.dims().at(static_cast<size_t>(d))})[0] : i;
  return updated(c, x, withDim(c.tensor("src").as(x.dtype()), d), {d, at, 1, at + 1});
}

// --- diagonals ---

struct Diagonal {
  int64_t offset = 0, first = 0, second = 1, length = 0;
};

Diagonal diagonalOf(ImportContext& c, const Dims& dims, int64_t firstDefault, int64_t secondDefault) {
  Diagonal g;
  g.offset = c.integer("offset", 0);
  g.first = aten::dim(c, "dim1", dims.size(), firstDefault);
  g.second = aten::dim(c, "dim2", dims.size(), secondDefault);
  if (g.first == g.second) c.fail("takes the diagonal of one dim");
  const std::vector<int64_t> n =
      staticDims(c.b, {dims[static_cast<size_t>(g.first)], dims[static_cast<size_t>(g.second)]});
  g.length = std::max<int64_t>(
      0, std::min(n[0] + std::min<int64_t>(g.offset, 0), n[1] - std::max<int64_t>(g.offset, 0)));
  return g;
}

// The permutation that puts two dims last.
std::vector<int64_t> lastTwo(size_t rank, int64_t a, int64_t b) {
  std::vector<int64_t> perm;
  for (int64_t d : allDims(rank))
    if (d != a && d != b) perm.push_back(d);
  perm.push_back(a);
  perm.push_back(b);
  return perm;
}

std::vector<int64_t> inverse(const std::vector<int64_t>& perm) {
  std::vector<int64_t> out(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) out[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return out;
}

Expr diagonalIn(ImportContext& c, Expr x, const Diagonal& g) {
  const Expr y = permuted(x, lastTwo(x.rank(), g.first, g.second));
  const auto r = static_cast<int64_t>(y.rank());
  Dims dims(y.dims().begin(), y.dims().end() - 2);
  dims.emplace_back(g.length);
  if (g.length == 0) return filled(c.b, x.dtype(), dims, 0);
  // The square that has the diagonal, whose elements off it are dropped by a sum.
  const int64_t row = std::max<int64_t>(-g.offset, 0), column = std::max<int64_t>(g.offset, 0);
  const Expr square = sliceOf(sliceOf(y, r - 2, row, row + g.length), r - 1, column, column + g.length);
  Dims flat(dims.begin(), dims.end() - 1);
  flat.emplace_back(g.length * g.length);
  // Element i * (length + 1) of the flattened square.
  return sliceOf(reshapeTo(square, flat), r - 2, 0, g.length * g.length, g.length + 1);
}

ImportResults diagonal(ImportContext& c) {
  const Expr x = c.tensor("self");
  return diagonalIn(c, x, diagonalOf(c, x.dims(), 0, 1));
}

// A matrix with v on a diagonal, in the last two dims.
Expr embedded(ImportContext& c, Expr v, int64_t rows, int64_t columns, int64_t offset, Expr elsewhere) {
  const auto n = staticDims(c.b, {v.dims().back()})[0];
  const auto r = static_cast<int64_t>(v.rank());
  const int64_t row = std::max<int64_t>(-offset, 0), column = std::max<int64_t>(offset, 0);
  Dims wide = v.dims();
  wide.insert(wide.end() - 1, Dim(n));
  const Expr spread = broadcastTo(withDim(v, r - 1), wide); // [.., n, n]: column j has v[j]
  std::vector<int64_t> low(v.rank() + 1, 0), high(v.rank() + 1, 0);
  low[v.rank() - 1] = row, low[v.rank()] = column;
  high[v.rank() - 1] = rows - row - n, high[v.rank()] = columns - column - n;
  const Expr on = ops::eye(c.b, checkedType(c.b, DType::F32, {n, n})) > 0;
  const std::vector<int64_t> low2{row, column}, high2{rows - row - n, columns - column - n};
  const Expr here = ops::pad(on, {.value = c.literal(0.0, DType::Bool), .low = low2, .high = high2});
  const Expr padded = ops::pad(spread, {.value = c.literal(0.0, v.dtype()), .low = low, .high = high});
  return ops::select(broadcastTo(here, padded.dims()), padded, elsewhere);
}

ImportResults diagEmbed(ImportContext& c) {
  const Expr v = c.tensor("self");
  const size_t r = v.rank() + 1;
  const int64_t offset = c.integer("offset", 0);
  const int64_t first = aten::dim(c, "dim1", r, -2), second = aten::dim(c, "dim2", r, -1);
  const int64_t n = staticDims(c.b, {v.dims().back()})[0] + std::abs(offset);
  const Expr y = embedded(c, v, n, n, offset, c.literal(0.0, v.dtype()));
  return permuted(y, inverse(lastTwo(r, first, second)));
}

ImportResults diag(ImportContext& c) {
  const Expr x = c.tensor("self");
  const int64_t offset = c.integer("diagonal", 0);
  if (x.rank() == 1) {
    const int64_t n = staticDims(c.b, x.dims())[0] + std::abs(offset);
    return embedded(c, x, n, n, offset, c.literal(0.0, x.dtype()));
  }
  const std::vector<int64_t> n = staticDims(c.b, x.dims());
  const int64_t length = std::max<int64_t>(
      0, std::min(n.at(0) + std::min<int64_t>(offset, 0), n.at(1) - std::max<int64_t>(offset, 0)));
  return diagonalIn(c, x, {offset, 0, 1, length});
}

ImportResults diagonalScatter(ImportContext& c) {
  const Expr x = c.tensor("self");
  const Diagonal g = diagonalOf(c, x.dims(), 0, 1);
  const std::vector<int64_t> perm = lastTwo(x.rank(), g.first, g.second);
  const Expr y = permuted(x, perm);
  if (g.length == 0) return x;
  const std::vector<int64_t> n = staticDims(c.b, {y.dims().at(y.rank() - 2), y.dims().at(y.rank() - 1)});
  const Expr out = embedded(c, c.tensor("src").as(x.dtype()), n[0], n[1], g.offset, y);
  return permuted(out, inverse(perm));
}

ImportResults trace(ImportContext& c) {
  const Expr x = c.tensor("self");
  const std::vector<int64_t> n = staticDims(c.b, x.dims());
  const Expr d = diagonalIn(c, x, {0, 0, 1, std::min(n.at(0), n.at(1))});
  return ops::sum(d.as(c.result().dtype));
}

// --- windows ---

ImportResults unfoldDim(ImportContext& c) { // Tensor.unfold
  const Expr x = c.tensor("self");
  if (x.rank() == 0) return reshapeTo(x, resultDims(c));
  const int64_t d = aten::dim(c, "dimension", x.rank());
  const int64_t size = c.integer("size"), step = c.integer("step");
  const int64_t count = staticDims(c.b, {resultDims(c)[static_cast<size_t>(d)]})[0];
  constexpr int64_t kMost = 1 << 22;
  if (size < 0 || step < 1 || count > kMost || size > kMost || count * size > kMost)
    c.fail("has too many windows");
  Tensor at(DType::I32, {count * size});
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = 0; k < size; ++k) at.setInt(i * size + k, i * step + k);
  const Expr taken = step == size || count == 1 ? sliceOf(x, d, 0, count * size)
                                                : ops::index_select(x, constantOf(c.b, at), {.dim = d});
  Dims wide = x.dims();
  wide[static_cast<size_t>(d)] = count;
  wide.insert(wide.begin() + d + 1, Dim(size));
  return moved(reshapeTo(taken, wide), d + 1, static_cast<int64_t>(x.rank()));
}

// The dims of self from the outermost to the innermost in PyTorch's memory, which the strides of as_strided refer to.
std::vector<int64_t> memoryOrder(ImportContext& c, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  if (isRowMajor(c, "self")) return order;
  const auto* ref = std::get_if<ImportValueRef>(c.attribute("self"));
  const auto& strides = c.file.values[ref->index].strides;
  bool dense =
      strides && strides->size() == sizes.size() && std::ranges::all_of(*strides, &ImportInt::isNumber);
  const auto stride = [&](int64_t d) { return (*strides)[static_cast<size_t>(d)].number; };
  if (dense) std::ranges::sort(order, {}, [&](int64_t d) { return std::pair(-stride(d), d); });
  int64_t elements = 1;
  for (size_t i = order.size(); dense && i-- > 0;) {
    const int64_t size = sizes[static_cast<size_t>(order[i])];
    dense = size == 1 || stride(order[i]) == elements;
    elements *= size;
  }
  if (!dense)
    c.fail("needs an operand without gaps or repeated elements in memory, on which its strides are: "
           "call contiguous() first");
  return order;
}

// self as its memory, and the elements of it that sizes and strides name, in order.
struct Strided {
  Expr memory; // with the dims of self in `order`
  std::vector<int64_t> order;
  Expr flat;
  Expr places;
};

// Where the elements begin in the memory of self, which itself may begin within its storage.
int64_t beginOf(ImportContext& c) {
  if (!c.has("storage_offset")) return 0;
  const auto* ref = c.attribute("self") ? std::get_if<ImportValueRef>(c.attribute("self")) : nullptr;
  const int64_t begin = c.integer("storage_offset");
  if (!ref || !ref->valid()) return begin;
  const ImportInt& own = c.file.values[ref->index].storageOffset;
  if (!own.isNumber()) c.fail("has an operand that begins at a symbolic place of its storage");
  if (begin < 0 || own.number < 0) c.fail("has a negative offset");
  return begin - own.number;
}

Strided strided(ImportContext& c) {
  const Expr x = c.tensor("self");
  const std::vector<int64_t> size = c.ints("size"), stride = c.ints("stride");
  const int64_t offset = beginOf(c);
  const std::vector<int64_t> all = staticDims(c.b, x.dims());
  int64_t count = 1, elements = 1;
  constexpr int64_t kMost = 1 << 24;
  for (int64_t n : all) elements *= n;
  for (int64_t n : size) {
    if (n > 0 && count > kMost / n) c.fail("has more than 16 million elements");
    count *= std::max<int64_t>(n, 0);
  }
  if (size.size() != stride.size()) c.fail("has sizes and strides of different lengths");
  Tensor at(DType::I32, {count});
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, source = offset;
    for (size_t d = size.size(); d-- > 0; rest /= size[d]) source += rest % size[d] * stride[d];
    if (source < 0 || source >= elements)
      c.fail("reads beyond its operand: its memory is that of another tensor");
    at.setInt(i, source);
  }
  const std::vector<int64_t> order = memoryOrder(c, all);
  const Expr memory = permuted(x, order);
  return {memory, order, reshapeTo(memory, {elementsOf(c.b, x.dims())}), constantOf(c.b, at)};
}

ImportResults asStrided(ImportContext& c) {
  const Strided s = strided(c);
  return reshapeTo(ops::index_select(s.flat, s.places, {.dim = 0}), resultDims(c));
}
ImportResults asStridedScatter(ImportContext& c) {
  const Strided s = strided(c);
  const DType d = s.flat.dtype(), moved = isBool(d) ? DType::U8 : d;
  const Expr u = reshapeTo(c.tensor("src").as(d), s.places.dims()).as(moved), flat = s.flat.as(moved);
  const Expr written = ops::scatter(flat, s.places, u, {.dim = 0, .reduce = "set"}).as(d);
  std::vector<int64_t> back(s.order.size());
  for (size_t i = 0; i < back.size(); ++i) back[static_cast<size_t>(s.order[i])] = static_cast<int64_t>(i);
  return permuted(reshapeTo(written, s.memory.dims()), back);
}

const ImportRow kRows[] = {
    {"aten.slice", slice},
    {"aten.slice_copy", slice},
    {"aten.narrow", narrow},
    {"aten.narrow_copy", narrow},
    {"aten.select", select},
    {"aten.select_copy", select},
    {"aten.split", split},
    {"aten.split_with_sizes", split},
    {"aten.split_copy", split},
    {"aten.split_with_sizes_copy", split},
    {"aten.chunk", split},
    {"aten.unsafe_chunk", split},
    {"aten.unsafe_split", split},
    {"aten.tensor_split", split},
    {"aten.hsplit", split},
    {"aten.vsplit", split},
    {"aten.dsplit", split},
    {"aten.unbind", unbind},
    {"aten.unbind_copy", unbind},
    {"aten.slice_scatter", sliceScatter},
    {"aten.select_scatter", selectScatter},
    {"aten.diagonal", diagonal},
    {"aten.diagonal_copy", diagonal},
    {"aten.linalg_diagonal",
     [](ImportContext& c) {
       const Expr x = c.tensor("A");
       Diagonal g = diagonalOf(c, x.dims(), -2, -1);
       return ImportResults(diagonalIn(c, x, g));
     }},
    {"aten.diag_embed", diagEmbed},
    {"aten.diag", diag},
    {"aten.diagonal_scatter", diagonalScatter},
    {"aten.trace", trace},
    {"aten.unfold", unfoldDim},
    {"aten.unfold_copy", unfoldDim},
    {"aten.as_strided", asStrided},
    {"aten.as_strided_copy", asStrided},
    {"aten.as_strided_scatter", asStridedScatter},
};

} // namespace
} // namespace aten::slices

ImportRows torchSliceRows() { return aten::slices::kRows; }

} // namespace dtc
