#include "dtc/Import/rows/Shapes.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/Import/rows/Context.h"
#include "dtc/Support/Checked.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>

namespace dtc {

// The maximum number of elements of a constant written as a list; longer ones are written as bytes.
static constexpr int64_t kListedElements = 32;

TypeId checkedType(Builder& b, DType dtype, const Dims& dims) {
  int64_t bytes = dtypeBytes(dtype);
  for (const Dim& d : dims) {
    const auto product = checkedMul(bytes, std::max<int64_t>(d.isStatic() ? d.value() : 1, 1));
    if (!product) b.mismatch("a tensor of more than 2^63-1 bytes");
    bytes = *product;
  }
  return b.module.tensorType(dtype, dims);
}

bool isStatic(const Dims& dims) { return std::ranges::all_of(dims, &Dim::isStatic); }

std::vector<int64_t> staticDims(Builder& b, const Dims& dims) {
  std::vector<int64_t> out;
  for (const Dim& d : dims) {
    if (!d.isStatic()) {
      const std::string size = printDim(d, b.module.dims, b.module.strings);
      const bool symbol =
          std::ranges::all_of(size, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
      throw ImportError{"needs the size " + size + " as a number; bind " +
                        (symbol ? "it with --dim " + size + "=NUMBER" : "its symbols with --dim")};
    }
    out.push_back(d.value());
  }
  return out;
}

Dim elementsOf(Builder& b, const Dims& dims) {
  Dim n = 1;
  for (const Dim& d : dims) {
    const auto product = b.module.dims.mul(n, d);
    if (!product) b.mismatch("a shape with more than 2^63-1 elements");
    n = *product;
  }
  return n;
}

int64_t dimOf(Builder& b, int64_t dim, size_t rank) {
  const auto r = static_cast<int64_t>(std::max<size_t>(rank, 1));
  if (dim < -r || dim >= r)
    b.mismatch("dim " + std::to_string(dim) + " of a tensor of rank " + std::to_string(rank));
  return dim < 0 ? dim + r : dim;
}

std::vector<int64_t> dimsOf(Builder& b, std::span<const int64_t> dims, size_t rank) {
  std::vector<int64_t> out;
  for (int64_t d : dims) out.push_back(dimOf(b, d, rank));
  return out;
}

std::vector<int64_t> allDims(size_t rank, size_t first) {
  std::vector<int64_t> out;
  for (size_t i = first; i < rank; ++i) out.push_back(static_cast<int64_t>(i));
  return out;
}

Dims broadcastDims(Builder& b, const Dims& x, const Dims& y) {
  Dims out(std::max(x.size(), y.size()), Dim(1));
  for (size_t i = 0; i < out.size(); ++i) {
    const Dim p = i < x.size() ? x[x.size() - 1 - i] : Dim(1),
              q = i < y.size() ? y[y.size() - 1 - i] : Dim(1);
    if (p != q && p != Dim(1) && q != Dim(1)) b.mismatch("shapes that do not broadcast");
    out[out.size() - 1 - i] = p == Dim(1) ? q : p;
  }
  return out;
}

Expr reshapeTo(Expr x, const Dims& dims) { return x.dims() == dims ? x : ops::reshape(x, dims); }

Expr broadcastTo(Expr x, const Dims& dims) { return x.dims() == dims ? x : ops::broadcast(x, dims); }

Expr permuted(Expr x, std::span<const int64_t> perm) {
  return std::ranges::equal(perm, allDims(perm.size())) ? x : ops::transpose(x, perm);
}

Expr swapped(Expr x, int64_t a, int64_t b) {
  std::vector<int64_t> perm = allDims(x.rank());
  std::swap(perm[static_cast<size_t>(a)], perm[static_cast<size_t>(b)]);
  return permuted(x, perm);
}

Expr moved(Expr x, int64_t from, int64_t to) {
  std::vector<int64_t> perm = allDims(x.rank());
  perm.erase(perm.begin() + from);
  perm.insert(perm.begin() + to, from);
  return permuted(x, perm);
}

Expr withDim(Expr x, int64_t dim) {
  Dims dims = x.dims();
  dims.insert(dims.begin() + dim, Dim(1));
  return reshapeTo(x, dims);
}

Expr withoutDim(Expr x, int64_t dim) {
  Dims dims = x.dims();
  dims.erase(dims.begin() + dim);
  return reshapeTo(x, dims);
}

Expr withRank(Expr x, size_t rank) {
  Dims dims = x.dims();
  while (dims.size() < rank) dims.insert(dims.begin(), Dim(1));
  return reshapeTo(x, dims);
}

Expr sliceOf(Expr x, int64_t dim, int64_t start, Dim limit, int64_t stride) {
  const auto d = static_cast<size_t>(dim);
  if (start == 0 && stride == 1 && limit == x.dims()[d]) return x;
  std::vector<int64_t> starts(x.rank(), 0), strides(x.rank(), 1);
  Dims limits = x.dims();
  starts[d] = start, limits[d] = limit, strides[d] = stride;
  if (stride == 1) return ops::slice(x, {.start = starts, .limit = limits});
  return ops::slice(x, {.start = starts, .limit = limits, .stride = strides});
}

Expr concatOf(Builder& b, const std::vector<Expr>& parts, int64_t dim) {
  return parts.size() == 1 ? parts[0] : ops::concat(b, parts, dim);
}

Expr wrappedIndices(Expr i, Dim size) {
  Builder& b = i.builder();
  if (size.isStatic()) return ops::select(i < 0, i + size.value(), i);
  const Expr n(b, b.module.makeSymbol(size, i.dtype(), b.loc));
  const Expr wrapped = i + n;
  return ops::select(i < 0, wrapped, i);
}

Expr counted(Builder& b, Dim size, DType dtype) {
  return ops::iota(b, checkedType(b, dtype, {size}), {.dim = 0});
}

static AttrId elementAttr(Module& m, const Tensor& t, int64_t i) {
  if (isFloat(t.dtype())) return m.attrs.real(t.getFloat(i));
  if (isBool(t.dtype())) return m.attrs.boolean(t.getInt(i) != 0);
  const int64_t v = t.getInt(i);
  return m.attrs.intern({.isUnsigned = t.dtype() == DType::U64 && v < 0, .i = v});
}

static AttrId nestedAttr(Module& m, const Tensor& t, size_t dim, int64_t& at) {
  if (dim == t.rank()) return elementAttr(m, t, at++);
  std::vector<AttrId> list;
  for (int64_t i = 0; i < t.shape()[dim]; ++i) list.push_back(nestedAttr(m, t, dim + 1, at));
  return m.attrs.list(std::move(list));
}

// Whether each element can be written as a number that reads back to the same bits.
static bool hasNumbers(const Tensor& t) {
  if (!isFloat(t.dtype())) return !isComplex(t.dtype());
  for (int64_t i = 0; i < t.numElements(); ++i)
    if (std::isnan(t.getFloat(i))) return false;
  return true;
}

static std::string hexText(std::span<const std::byte> bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out = "0x";
  out.reserve(2 + bytes.size() * 2);
  for (std::byte b : bytes) {
    out.push_back(digits[static_cast<unsigned>(b) >> 4]);
    out.push_back(digits[static_cast<unsigned>(b) & 15]);
  }
  return out;
}

AttrId tensorAttr(Module& m, const Tensor& t) {
  const int64_t count = t.numElements();
  const auto one = static_cast<size_t>(dtypeBytes(t.dtype()));
  const std::span<const std::byte> bytes = t.bytes();
  if (count == 0)
    return isFloat(partType(t.dtype())) ? m.attrs.real(0)
           : isBool(t.dtype())          ? m.attrs.boolean(false)
                                        : m.attrs.integer(0);
  const bool same = std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(one), bytes.end(), bytes.begin());
  int64_t at = 0;
  if (hasNumbers(t) && same) return elementAttr(m, t, 0);
  if (hasNumbers(t) && count <= kListedElements) return nestedAttr(m, t, 0, at);
  return m.attrs.string(m.strings.intern(hexText(same ? bytes.first(one) : bytes)));
}

Expr materialized(Expr x) {
  Builder& b = x.builder();
  const Value& v = b.module[x];
  if (v.kind == ValueKind::Literal) return ops::full(b, x.typeId(), v.literal);
  if (v.kind != ValueKind::Symbol) return x;
  const Expr zero = filled(b, x.dtype(), {}, 0);
  return zero + x;
}

Expr constantOf(Builder& b, const Tensor& t) {
  const Dims dims(t.shape().begin(), t.shape().end());
  return ops::constant(b, checkedType(b, t.dtype(), dims), tensorAttr(b.module, t));
}

Expr filled(Builder& b, DType dtype, const Dims& dims, double v) {
  Module& m = b.module;
  const AttrId value = isBool(dtype)      ? m.attrs.boolean(v != 0)
                       : isInteger(dtype) ? m.attrs.integer(floatToInt(dtype, v))
                                          : m.attrs.real(roundToFloat(partType(dtype), v));
  return ops::full(b, checkedType(b, dtype, dims), value);
}

Expr filledInt(Builder& b, DType dtype, const Dims& dims, int64_t v) {
  if (!isInteger(dtype)) return filled(b, dtype, dims, static_cast<double>(v));
  if (!fitsInteger(dtype, v, false))
    b.mismatch(std::to_string(v) + " is out of the range of " + std::string(dtypeName(dtype)));
  return ops::full(b, checkedType(b, dtype, dims), b.module.attrs.integer(v));
}

} // namespace dtc
