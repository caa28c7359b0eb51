// Factorizations as library calls: in the library's layout, with what a library does not do around them.
#include "linear_algebra/PlaneMatrices.h"

namespace dtc {

namespace {

const char* lapackWord(const PlaneMatrix& x) { return x.complex() ? "parts" : "plain"; }

class FactorCalls {
public:
  explicit FactorCalls(Builder& b) : z(b), b(b) {}
  PlaneMatrices z;

  struct Pair {
    PlaneMatrix first, second;
  };
  // `taus`: not a matrix.
  Pair geqrf(const PlaneMatrix& x) {
    const auto [packed, taus] = ops::geqrf(z.packed(x), {.lapack = lapackWord(x)});
    const PlaneMatrix first = z.unpacked(packed, x.complex());
    return {first, z.unpacked(taus, x.complex(), false)};
  }
  PlaneMatrix householderProduct(const PlaneMatrix& packed, const PlaneMatrix& taus) {
    const Expr vectors = z.packed(packed), factors = z.packed(taus, false);
    return z.unpacked(householder_product(vectors, factors, {.lapack = lapackWord(packed)}),
                      packed.complex());
  }
  Pair qr(const PlaneMatrix& x, bool full) {
    const Pair factors = geqrf(x);
    const int64_t m = z.rows(x), n = z.columns(x), k = full ? m : std::min(m, n);
    const PlaneMatrix used = k < n ? z.sliced(factors.first, false, 0, k) : z.widened(factors.first, k);
    return {householderProduct(used, factors.second), z.upper(z.sliced(factors.first, true, 0, k))};
  }

  struct Spectrum {
    Expr values;
    PlaneMatrix left, right; // of svd: U and Vᴴ
  };
  Spectrum eigh(const PlaneMatrix& x, bool lower, bool vectors) {
    const auto [values, columns] =
        ops::eigh(z.packed(x), {.lower = lower, .vectors = vectors, .lapack = lapackWord(x)});
    Spectrum out{values, {}, {}};
    if (!vectors) return out;
    out.left = z.unpacked(columns, x.complex());
    out.left = z.times(out.left, phases(out.left));
    return out;
  }
  Spectrum svd(const PlaneMatrix& x, bool full, bool vectors) {
    const bool wide = z.rows(x) < z.columns(x); // xᵀ = u s vᴴ: x = (vᴴ)ᵀ s uᵀ
    const PlaneMatrix tall = wide ? z.transposed(x) : x;
    const auto [values, packedU, packedVh] =
        ops::svd(z.packed(tall), {.compute_uv = vectors, .lapack = lapackWord(x)});
    Spectrum out{values, {}, {}};
    if (!vectors) return out;
    const PlaneMatrix u = z.unpacked(packedU, x.complex()), vh = z.unpacked(packedVh, x.complex());
    out.left = wide ? z.transposed(vh) : u, out.right = wide ? z.transposed(u) : vh;
    const PlaneMatrix phase = phases(out.left);
    out.left = z.times(out.left, phase);
    out.right = z.times(out.right, z.conjugated(z.transposed(phase)));
    if (!full) return out;
    out.left = completed(out.left);
    out.right = z.adjoint(completed(z.adjoint(out.right)));
    return out;
  }

private:
  // [.., 1, n], of magnitude 1: times each column, its first component at least half as large as the largest
  // becomes real and positive.
  PlaneMatrix phases(const PlaneMatrix& x) {
    const int64_t dim = z.rank(x) - 2;
    if (z.rows(x) == 0) {
      const Expr one(b, b.constant(1, rowType(x)));
      return {one, x.complex() ? Expr(b, b.constant(0, rowType(x))) : Expr()};
    }
    const bool elements = isComplex(x.re.dtype()); // complex numbers that are not split
    Expr size = elements ? abs(x.re) : x.re;
    size = size * size;
    if (x.complex()) size = size + x.im * x.im;
    const Expr quarter = expand_dims(max(size, {.dims = {dim}}), {dim}) * 0.25;
    const Expr large = (size >= quarter).as(DType::F32);
    const Expr first = argmax(large, {.dim = dim});
    const PlaneMatrix chosen =
        z.each(x, [&](Expr v) { return gather(v, expand_dims(first, {dim}), {.dim = dim}); });
    if (elements) {
      const Expr length = abs(chosen.re).as(x.re.dtype());
      return {conj(chosen.re) / length, {}};
    }
    if (!x.complex()) return {select(chosen.re < 0, -1, x.re.literal(1)), {}};
    const Expr real = chosen.re * chosen.re;
    return z.conjugated(z.scaled(chosen, reciprocal(sqrt(real + chosen.im * chosen.im))));
  }
  TypeId rowType(const PlaneMatrix& x) {
    std::vector<Dim> dims = x.re.dims();
    dims[dims.size() - 2] = Dim(1);
    return b.module.tensorType(x.re.dtype(), dims);
  }

  // The columns of a square matrix with orthonormal columns, of which the first are given.
  PlaneMatrix completed(const PlaneMatrix& x) {
    const int64_t m = z.rows(x), k = z.columns(x);
    if (k == m) return x;
    return z.joined(x, z.sliced(qr(x, true).first, false, k, m), false);
  }

  Builder& b;
};

// The results of an op on planes: one value per plane of each.
bool lowerFactors(Builder& b, const OpQuery& q, PlaneMatrix x, PlaneMatrix taus, std::vector<ValueId>& out) {
  FactorCalls calls(b);
  const std::string_view name = q.record->name;
  const auto put = [&](const PlaneMatrix& y) {
    out.push_back(y.re);
    if (y.complex()) out.push_back(y.im);
  };
  if (name == "lu") {
    const std::array made = lu(calls.z.packed(x), {.lapack = lapackWord(x)});
    put(calls.z.unpacked(made[0], x.complex()));
    out.insert(out.end(), made.begin() + 1, made.end());
  } else if (name == "geqrf") {
    const FactorCalls::Pair made = calls.geqrf(x);
    put(made.first), put(made.second);
  } else if (name == "householder_product") {
    put(calls.householderProduct(x, taus));
  } else if (name == "qr") {
    const FactorCalls::Pair made = calls.qr(x, q.boolAttr("full_matrices"));
    put(made.first), put(made.second);
  } else {
    const bool eigh = name == "eigh", vectors = q.boolAttr(eigh ? "vectors" : "compute_uv");
    const FactorCalls::Spectrum made = eigh ? calls.eigh(x, q.boolAttr("lower"), vectors)
                                            : calls.svd(x, q.boolAttr("full_matrices"), vectors);
    out.push_back(made.values);
    if (vectors) put(made.left);
    if (vectors && !eigh) put(made.right);
  }
  return true;
}

} // namespace

bool factorPlanes(Builder& b, OpId op, std::span<const ValueId> planes, std::vector<ValueId>& results) {
  const OpQuery q = queryOf(b.module, op, b.diags);
  if (FactorLayout(q).library)
    return reportShape(q, "with {lapack = \"plain\"} has no form over real and imaginary planes");
  if (!staticMatrices(q)) return false;
  const PlaneMatrix x{Expr(b, planes[0]), Expr(b, planes[1])},
      taus = planes.size() > 2 ? PlaneMatrix{Expr(b, planes[2]), Expr(b, planes[3])} : PlaneMatrix();
  if (q.record->name != std::string_view("qr")) return lowerFactors(b, q, x, taus, results);
  // One op until `decompose`, so that it has a gradient.
  PlaneMatrices z(b);
  for (Expr made : qr(z.packed(x), {.full_matrices = q.boolAttr("full_matrices"), .lapack = "parts"})) {
    const PlaneMatrix y = z.unpacked(made, true);
    results.insert(results.end(), {y.re, y.im});
  }
  return true;
}

// Narrow floats are factorized in f32.
bool factorDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Module& m = b.module;
  const OpQuery q = queryOf(m, op, b.diags);
  const FactorLayout layout(q);
  PlaneMatrices z(b);
  if (layout.library && q.record->name != std::string_view("qr")) return true; // a library call
  if (!staticMatrices(q)) return false;
  const DType own = q.type(0).dtype, wide = accumulationType(own);
  const auto converted = [&](ValueId v, DType to) {
    return isFloat(m.typeOf(v).dtype) ? Expr(b, v).as(to) : Expr(b, v);
  };
  const auto operand = [&](size_t i) { return PlaneMatrix{converted(m.operand(op, i), wide), {}}; };
  if (!layout.library) {
    if (!lowerFactors(b, q, operand(0), q.operandTypes.size() > 1 ? operand(1) : PlaneMatrix(), results))
      return false;
    for (ValueId& v : results) v = converted(v, own);
    return true;
  }
  const FactorCalls::Pair made =
      FactorCalls(b).qr(z.unpacked(Expr(b, m.operand(op, 0)), layout.planes), q.boolAttr("full_matrices"));
  results = {z.packed(made.first), z.packed(made.second)};
  return true;
}

} // namespace dtc
