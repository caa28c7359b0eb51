// Shapes, views and constants.
#include "import/OnnxContext.h"

#include <algorithm>

namespace dtc::onnx {

namespace {

ImportInt sizeOf(Dim d) {
  ImportInt v;
  if (d.isStatic())
    v.number = d.value();
  else
    v.size = d;
  return v;
}

// i64 elements of which some are symbolic sizes.
Expr materialized(OnnxContext& c, const std::vector<ImportInt>& sizes) {
  if (std::ranges::all_of(sizes, &ImportInt::isNumber)) {
    Tensor t(DType::I64, {static_cast<int64_t>(sizes.size())});
    for (size_t i = 0; i < sizes.size(); ++i) t.setInt(static_cast<int64_t>(i), sizes.at(i).number);
    return constantOf(c.b, t);
  }
  std::vector<Expr> parts;
  for (const ImportInt& v : sizes) {
    Expr one = filledInt(c.b, DType::I64, {}, v.number);
    if (v.size) one = one + Expr(c.b, c.module.makeSymbol(*v.size, DType::I64, c.b.loc));
    parts.push_back(one);
  }
  return stack(c.b, parts, 0);
}

ImportResults shape(OnnxContext& c) {
  const Expr x = c.in(0);
  const auto rank = static_cast<int64_t>(x.rank());
  const auto clamped = [&](int64_t v) { return std::clamp(v < 0 ? v + rank : v, int64_t(0), rank); };
  const int64_t start = clamped(c.integer("start", 0)), end = clamped(c.integer("end", rank));
  std::vector<ImportInt> sizes;
  for (int64_t i = start; i < end; ++i) sizes.push_back(sizeOf(x.dims().at(static_cast<size_t>(i))));
  const Expr y = materialized(c, sizes);
  c.setSizes(std::move(sizes));
  return y;
}

ImportResults sizeRow(OnnxContext& c) {
  const std::vector<ImportInt> one{sizeOf(elementsOf(c.b, c.in(0).dims()))};
  const Expr y = reshapeTo(materialized(c, one), {});
  c.setSizes(one);
  return y;
}

ImportResults reshapeRow(OnnxContext& c) {
  const Expr x = c.in(0);
  std::vector<ImportInt> wanted;
  if (auto sizes = c.sizesIf(1))
    wanted = *sizes;
  else
    for (int64_t v : c.knownInts(1, "the shape")) wanted.emplace_back(v);
  const bool allowZero = c.integer("allowzero", 0);
  Dims out;
  std::optional<size_t> inferred;
  Dim known = 1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const ImportInt& v = wanted.at(i);
    if (v.isNumber() && v.number == -1) {
      if (inferred) c.fail("has a shape with two sizes of -1");
      inferred = i;
      out.emplace_back(1);
      continue;
    }
    if (v.isNumber() && v.number == 0 && !allowZero) {
      if (i >= x.rank())
        c.fail("copies size " + std::to_string(i) + " of an operand that has rank " +
               std::to_string(x.rank()));
      out.push_back(x.dims().at(i));
    } else {
      out.push_back(c.size(v));
    }
    const auto product = c.module.dims.mul(known, out.back());
    if (!product) c.fail("has a shape of more than 2^63-1 elements");
    known = *product;
  }
  if (inferred) {
    const auto rest = c.module.dims.divExact(elementsOf(c.b, x.dims()), known);
    if (!rest) c.fail("has a shape into which its elements do not fit");
    out[*inferred] = *rest;
  }
  if (const auto sizes = c.sizesIf(0); sizes && out.size() <= 1) c.setSizes(*sizes);
  return c.moving(reshapeTo(x, out));
}

ImportResults flatten(OnnxContext& c) {
  const Expr x = c.in(0);
  const auto rank = static_cast<int64_t>(x.rank());
  int64_t axis = c.integer("axis", 1);
  if (axis < -rank || axis > rank) c.fail("has an axis that is out of range");
  if (axis < 0) axis += rank;
  const Dims &d = x.dims(), rows(d.begin(), d.begin() + axis), columns(d.begin() + axis, d.end());
  return c.moving(reshapeTo(x, {elementsOf(c.b, rows), elementsOf(c.b, columns)}));
}

ImportResults squeezeRow(OnnxContext& c) {
  const Expr x = c.in(0);
  const auto axes = c.axes(1, "axes");
  std::vector<int64_t> dims;
  if (axes)
    dims = dimsOf(c.b, *axes, x.rank());
  else
    for (size_t i = 0; i < x.rank(); ++i)
      if (x.dims().at(i) == Dim(1)) dims.push_back(static_cast<int64_t>(i));
  if (const auto sizes = c.sizesIf(0)) c.setSizes(*sizes);
  return c.moving(dims.empty() ? x : squeeze(x, dims));
}

ImportResults unsqueezeRow(OnnxContext& c) {
  const Expr x = c.in(0);
  const auto axes = c.axes(1, "axes");
  if (!axes) c.fail("has no axes");
  if (const auto sizes = c.sizesIf(0)) c.setSizes(*sizes);
  if (axes->empty()) return c.moving(x);
  std::vector<int64_t> dims = dimsOf(c.b, *axes, x.rank() + axes->size());
  std::ranges::sort(dims);
  return c.moving(expand_dims(x, dims));
}

ImportResults transposeRow(OnnxContext& c) {
  const Expr x = c.in(0);
  std::vector<int64_t> perm = allDims(x.rank());
  std::ranges::reverse(perm);
  return c.moving(permuted(x, c.ints("perm", perm)));
}

ImportResults expand(OnnxContext& c) {
  const Expr x = c.in(0);
  return c.moving(broadcastTo(x, broadcastDims(c.b, x.dims(), c.knownSizes(1, "the shape"))));
}

ImportResults tileRow(OnnxContext& c) {
  const Expr x = c.in(0);
  const Dims repeats = c.knownSizes(1, "the repeats");
  return c.moving(repeats.empty() ? x : tile(x, repeats));
}

ImportResults concatRow(OnnxContext& c) {
  const std::vector<Expr> all = c.operands();
  if (all.empty()) c.fail("has no operands");
  std::vector<ImportInt> sizes;
  bool known = all[0].rank() == 1;
  for (size_t i = 0; known && i < all.size(); ++i) {
    const auto part = c.sizesIf(static_cast<int>(i));
    if (part)
      sizes.insert(sizes.end(), part->begin(), part->end());
    else
      known = false;
  }
  if (known) c.setSizes(std::move(sizes));
  return c.moving(concatOf(c.b, all, c.dim(c.integer("axis"), all[0].rank())));
}

ImportResults splitRow(OnnxContext& c) {
  const Expr x = c.in(0);
  const int64_t axis = c.dim(c.integer("axis", 0), x.rank());
  const auto count = static_cast<int64_t>(c.numResults());
  Dims sizes;
  if (c.has("split")) { // before opset 13
    for (int64_t v : c.ints("split")) sizes.push_back(c.size(v));
  } else if (c.has(1)) {
    sizes = c.knownSizes(1, "the sizes of the parts");
  } else if (const Dim size = x.dims().at(static_cast<size_t>(axis)); size.isStatic()) {
    // Equal parts, the last one smaller.
    const int64_t parts = c.integer("num_outputs", count);
    if (parts < 1 || parts > 1 << 20) c.fail("has a number of parts that is out of range");
    const int64_t part = (size.value() + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i)
      sizes.emplace_back(std::clamp(size.value() - i * part, int64_t(0), part));
  } else {
    const auto part = c.module.dims.divExact(size, count);
    if (!part) c.fail("splits a symbolic size into parts that are not equal");
    sizes.assign(static_cast<size_t>(count), *part);
  }
  if (sizes.size() == 1) return x;
  const std::vector<Expr> parts = split(x, {.sizes = sizes, .dim = axis});
  if (isNarrow(c.element(0)))
    for (size_t i = 0; i < parts.size(); ++i) c.setElement(i, c.element(0));
  return parts;
}

ImportResults identity(OnnxContext& c) {
  if (const auto sizes = c.sizesIf(0)) c.setSizes(*sizes);
  return c.moving(c.in(0));
}

// [n, c, h * b, w * b] <-> [n, c * b * b, h, w]; DCR: the block's dims are major to the channels, CRD: minor.
ImportResults depthToSpace(OnnxContext& c) {
  const Expr x = c.in(0);
  if (x.rank() != 4) c.fail("has an operand that is not [n, channels, height, width]");
  const int64_t block = c.integer("blocksize");
  const std::string mode = c.text("mode", "DCR");
  const auto channels =
      c.module.dims.divExact(x.dims().at(1), Dim(std::max<int64_t>(block, 0) * std::max<int64_t>(block, 0)));
  if (block < 1 || block > 1 << 15 || !channels)
    c.fail("has channels that the squared block size does not divide");
  const Dim n = x.dims().at(0), h = x.dims().at(2), w = x.dims().at(3);
  const auto high = c.module.dims.mul(h, block), wide = c.module.dims.mul(w, block);
  if (!high || !wide) c.fail("has a result that is too large");
  const Dims split =
      mode == "CRD" ? Dims{n, *channels, block, block, h, w} : Dims{n, block, block, *channels, h, w};
  const std::vector<int64_t> perm =
      mode == "CRD" ? std::vector<int64_t>{0, 1, 4, 2, 5, 3} : std::vector<int64_t>{0, 3, 4, 1, 5, 2};
  return reshapeTo(permuted(reshapeTo(x, split), perm), {n, *channels, *high, *wide});
}

ImportResults spaceToDepth(OnnxContext& c) {
  const Expr x = c.in(0);
  if (x.rank() != 4) c.fail("has an operand that is not [n, channels, height, width]");
  const int64_t block = c.integer("blocksize");
  if (block < 1 || block > 1 << 15) c.fail("has a block size that is out of range");
  const Dim n = x.dims().at(0), channels = x.dims().at(1);
  const auto h = c.module.dims.divExact(x.dims().at(2), block),
             w = c.module.dims.divExact(x.dims().at(3), block);
  const auto deep = c.module.dims.mul(channels, block * block);
  if (!h || !w || !deep) c.fail("has a height or width that the block size does not divide");
  const std::vector<int64_t> perm = c.text("mode", "DCR") == "CRD" ? std::vector<int64_t>{0, 1, 3, 5, 2, 4}
                                                                   : std::vector<int64_t>{0, 3, 5, 1, 2, 4};
  return reshapeTo(permuted(reshapeTo(x, {n, channels, *h, block, *w, block}), perm), {n, *deep, *h, *w});
}

// --- constants ---

ImportResults constantRow(OnnxContext& c) {
  if (c.is<Tensor>("value")) return constantOf(c.b, c.as<Tensor>("value", "a tensor"));
  if (c.has("value_int")) return filledInt(c.b, DType::I64, {}, c.integer("value_int"));
  if (c.has("value_float")) return filled(c.b, DType::F32, {}, c.real("value_float"));
  if (c.has("value_ints")) {
    const auto list = c.ints("value_ints");
    Tensor t(DType::I64, {static_cast<int64_t>(list.size())});
    for (size_t i = 0; i < list.size(); ++i) t.setInt(static_cast<int64_t>(i), list[i]);
    return constantOf(c.b, t);
  }
  if (c.has("value_floats")) {
    const auto list = c.reals("value_floats");
    Tensor t(DType::F32, {static_cast<int64_t>(list.size())});
    for (size_t i = 0; i < list.size(); ++i) t.setFloat(static_cast<int64_t>(i), list[i]);
    return constantOf(c.b, t);
  }
  c.fail("has a value that is not a dense tensor of numbers");
}

ImportResults constantOfShape(OnnxContext& c) {
  const Dims shape = c.knownSizes(0, "the shape");
  if (!c.is<Tensor>("value")) return filled(c.b, DType::F32, shape, 0);
  const Tensor& t = c.as<Tensor>("value", "a tensor");
  if (t.numElements() != 1) c.fail("has a value that is not one element");
  for (const AttributeProto& a : c.state.program.nodes.at(&c.node).proto->attributes)
    if (a.name == "value" && a.t && isNarrow(a.t->dataType)) c.setElement(0, a.t->dataType);
  return broadcastTo(constantOf(c.b, t.reshaped({})), shape);
}

ImportResults eyeLike(OnnxContext& c) {
  const Expr x = c.in(0);
  if (x.rank() != 2) c.fail("has an operand that is not a matrix");
  const DType dtype = c.has("dtype") ? c.heldBy(c.integer("dtype")) : x.dtype();
  if (c.has("dtype")) c.setElement(0, static_cast<int32_t>(c.integer("dtype")));
  const int64_t k = c.integer("k", 0);
  const Expr rows = withDim(counted(c.b, x.dims().at(0)), 1),
             columns = withDim(counted(c.b, x.dims().at(1)), 0);
  if (k < INT32_MIN || k > INT32_MAX) return filled(c.b, dtype, x.dims(), 0);
  return eq(columns.as(DType::I64), rows.as(DType::I64) + k).as(dtype);
}

ImportResults range(OnnxContext& c) {
  const Tensor &start = c.known(0, "the start"), &limit = c.known(1, "the limit"),
               &delta = c.known(2, "the delta");
  const DType dtype = start.dtype();
  for (const Tensor* t : {&start, &limit, &delta})
    if (t->numElements() != 1 || t->dtype() != dtype || isComplex(dtype) || isBool(dtype))
      c.fail("has operands that are not numbers of one dtype");
  int64_t count = 0;
  if (isFloat(dtype)) {
    const double n = std::ceil((limit.getFloat(0) - start.getFloat(0)) / delta.getFloat(0));
    if (!(n < 1e9)) c.fail("has a length that is not known or larger than 1e9");
    count = std::max<int64_t>(0, static_cast<int64_t>(n));
  } else {
    const auto by = static_cast<__int128>(delta.getInt(0));
    if (by == 0) c.fail("has a delta of 0");
    const auto span = static_cast<__int128>(limit.getInt(0)) - start.getInt(0);
    const __int128 n = span / by + (span % by != 0 && (span < 0) == (by < 0) ? 1 : 0);
    if (n > 1000000000) c.fail("has a length of more than 1e9");
    count = std::max<int64_t>(0, static_cast<int64_t>(n));
  }
  const Expr steps = counted(c.b, count, isNarrowFloat(dtype) ? DType::F32 : dtype);
  const Expr first = constantOf(c.b, start.reshaped({})), by = constantOf(c.b, delta.reshaped({}));
  return (steps * by.as(steps.dtype()) + first.as(steps.dtype())).as(dtype);
}

ImportResults trilu(OnnxContext& c) {
  const Expr x = c.in(0);
  const int64_t k = c.has(1) ? c.knownInt(1, "the diagonal") : 0;
  const int64_t bounded = std::clamp<int64_t>(k, -(int64_t(1) << 40), int64_t(1) << 40);
  return c.moving(c.integer("upper", 1) ? triu(x, {.diagonal = bounded}) : tril(x, {.diagonal = bounded}));
}

// Of an optional that is a tensor or absent.
ImportResults hasElement(OnnxContext& c) { return filled(c.b, DType::Bool, {}, c.has(0) ? 1 : 0); }

constexpr OnnxRow kShape[] = {
    {"Shape", shape, 1},
    {"Size", sizeRow, 1},
    {"Reshape", reshapeRow, 5},
    {"Flatten", flatten, 1},
    {"Squeeze", squeezeRow, 1},
    {"Unsqueeze", unsqueezeRow, 1},
    {"Transpose", transposeRow, 1},
    {"Expand", expand, 8},
    {"Tile", tileRow, 6},
    {"Concat", concatRow, 4},
    {"Split", splitRow, 2},
    {"Identity", identity, 1},
    {"OptionalGetElement", identity},
    {"OptionalHasElement", hasElement},
    {"DepthToSpace", depthToSpace, 11},
    {"SpaceToDepth", spaceToDepth, 1},
};
constexpr OnnxRow kConstants[] = {
    {"Constant", constantRow, 0},
    {"ConstantOfShape", constantOfShape, 9},
    {"EyeLike", eyeLike, 9},
    {"Range", range, 11},
    {"Trilu", trilu},
};

} // namespace

std::span<const OnnxRow> shapeRows() { return kShape; }
std::span<const OnnxRow> constantRows() { return kConstants; }

} // namespace dtc::onnx
