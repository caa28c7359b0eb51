// lu geqrf householder_product qr eigh svd: their records. FactorReference.cpp defines the results,
// FactorLower.cpp writes the library's calls, FactorGradient.cpp has the gradients.
#include "dtc/Ops/linear_algebra/Factorization.h"
#include "linear_algebra/FactorParts.h"
#include "linear_algebra/FactorReference.h"
#include <cmath>
#include <cstring>
#include <limits>

namespace dtc {

FactorLayout::FactorLayout(const OpQuery& q) {
  const std::string_view word = q.textAttr("lapack");
  library = !word.empty();
  planes = word == "parts";
}

namespace {

struct MatrixDims {
  Dim rows, columns;
  size_t batchDims;
};
MatrixDims matrixDims(const OpQuery& q) {
  const FactorLayout layout(q);
  const std::vector<Dim>& dims = q.type(0).dims;
  const size_t last = dims.size() - (layout.planes ? 2 : 1);
  return {dims[layout.library ? last : last - 1], dims[layout.library ? last - 1 : last], last - 1};
}

} // namespace

std::optional<FactorShape> factorShapeOf(const OpQuery& q) {
  const MatrixDims d = matrixDims(q);
  if (!d.rows.isStatic() || !d.columns.isStatic()) return std::nullopt;
  return FactorShape{d.rows.value(), d.columns.value(), d.batchDims};
}

bool staticMatrices(const OpQuery& q) {
  if (factorShapeOf(q)) return true;
  return reportShape(q, "needs matrices of a static size here, not " +
                            typeText(*q.module, q.operandTypes[0]) + ": bind the sizes with --dim");
}

namespace {

using Kind = FactorizationKind;

// --- shapes ---

bool isReal(const OpQuery& q, size_t result) { // the values of eigh and svd
  return result == 0 &&
         (q.record->name == std::string_view("eigh") || q.record->name == std::string_view("svd"));
}

// Adds the dims of a tensor: the batch, then these sizes, in the library's order and with its dim of 2.
class FactorDims {
public:
  FactorDims(const OpQuery& q, Rule& rule) : q(q), rule(rule) {}
  const OpQuery& q;
  Rule& rule;
  FactorLayout layout{q};
  Dim rows, columns, count; // count: the smaller one
  size_t batchDims = 0;

  using Sizes = std::vector<std::pair<const char*, Dim>>;
  void result(Sizes sizes, bool real = false) { rule.results.push_back(of(std::move(sizes), real)); }
  void operand(Sizes sizes) { rule.operands.push_back(of(std::move(sizes))); }
  [[nodiscard]] bool addMatrix() {
    const size_t minRank = layout.planes ? 3 : 2;
    if (q.type(0).rank() < minRank) return reportRank(q, 0, std::to_string(minRank) + " or more");
    const MatrixDims matrix = matrixDims(q);
    rows = matrix.rows, columns = matrix.columns, batchDims = matrix.batchDims;
    const bool square = rows == columns;
    if (!square && !(rows.isStatic() && columns.isStatic()))
      return reportShape(q, "takes square matrices, or matrices of a static size, not " +
                                typeText(*q.module, q.operandTypes[0]));
    count = square ? rows : Dim(std::min(rows.value(), columns.value()));
    for (size_t d = 0; d < batchDims; ++d)
      batch_.push_back(plainDim(addFactor(rule, q.type(0).dims[d], "b" + std::to_string(d))));
    operand({{"m", rows}, {"n", columns}});
    return true;
  }

private:
  [[nodiscard]] TensorMap of(Sizes sizes, bool real = false) const {
    TensorMap map;
    for (const DimMap& d : batch_) map.dims.push_back(d);
    if (layout.library && sizes.size() == 2) std::swap(sizes[0], sizes[1]);
    for (auto [name, size] : sizes) map.dims.push_back(freeDim(addUnsharded(rule, size, name)));
    if (layout.planes && !real) map.dims.push_back(freeDim(addUnsharded(rule, Dim(2), "part")));
    return map;
  }
  std::vector<DimMap> batch_;
};

template <bool (*addResults)(FactorDims&)> bool factorRule(const OpQuery& q, Rule& rule) {
  FactorDims dims(q, rule);
  return dims.addMatrix() && addResults(dims);
}

bool luResults(FactorDims& d) {
  d.result({{"m", d.rows}, {"n", d.columns}});
  d.result({{"k", d.count}}, true);
  d.result({{"m", d.rows}}, true);
  d.result({}, true);
  return true;
}

bool geqrfResults(FactorDims& d) {
  d.result({{"m", d.rows}, {"n", d.columns}});
  d.result({{"k", d.count}});
  return true;
}

bool productResults(FactorDims& d) {
  const OpQuery& q = d.q;
  const Type& taus = q.type(1);
  if (taus.rank() != q.type(0).rank() - 1) return reportRank(q, 1, std::to_string(q.type(0).rank() - 1));
  for (size_t i = 0; i < d.batchDims; ++i)
    if (!(taus.dims[i] == q.type(0).dims[i])) return reportDims(q, "needs dim", "equal to dim", 0, i, 1, i);
  const Dim factors = taus.dims[d.batchDims];
  const bool fits = factors == d.columns ||
                    (factors.isStatic() && d.columns.isStatic() && factors.value() <= d.columns.value());
  if (!fits || d.count != d.columns)
    return reportShape(q, "needs at least as many rows as columns, and as many columns as factors");
  d.operand({{"t", factors}});
  d.result({{"m", d.rows}, {"n", d.columns}});
  return true;
}

bool qrResults(FactorDims& d) {
  const Dim k = d.q.boolAttr("full_matrices") ? d.rows : d.count;
  d.result({{"m", d.rows}, {"k", k}});
  d.result({{"k", k}, {"n", d.columns}});
  return true;
}

bool eighResults(FactorDims& d) {
  const Dim n = d.rows;
  if (n != d.columns)
    return reportShape(d.q, "takes square matrices, not " + typeText(*d.q.module, d.q.operandTypes[0]));
  d.result({{"n", n}}, true);
  if (d.q.boolAttr("vectors")) d.result({{"n", n}, {"n", n}});
  return true;
}

bool svdResults(FactorDims& d) {
  const bool full = d.q.boolAttr("full_matrices");
  if (d.layout.library && (d.count != d.columns || full))
    return reportShape(d.q,
                       "with {lapack} takes matrices with at least as many rows as columns, and returns as "
                       "many vectors as values");
  d.result({{"k", d.count}}, true);
  if (!d.q.boolAttr("compute_uv")) return true;
  d.result({{"m", d.rows}, {"k", full ? d.rows : d.count}});
  d.result({{"k", full ? d.columns : d.count}, {"n", d.columns}});
  return true;
}

bool factorInfer(const OpQuery& q, std::vector<TypeId>& results) {
  const std::string_view word = q.textAttr("lapack");
  const DType dtype = q.type(0).dtype;
  if (!word.empty() && !textChoice(q, "lapack", {"plain", "parts"})) return false;
  if (!word.empty() && (isNarrowFloat(dtype) || (word == "parts" && isComplex(dtype))))
    return reportShape(q, "with {lapack = \"" + std::string(word) + "\"} does not take " +
                              std::string(dtypeName(dtype)));
  Rule rule;
  if (!ruleOf(q, rule)) return false;
  const bool lu = q.record->name == std::string_view("lu");
  for (size_t i = 0; i < rule.results.size(); ++i) {
    std::vector<Dim> dims;
    for (const DimMap& d : rule.results[i].dims) dims.push_back(rule.factors[d.terms[0].factor].size);
    results.push_back(q.module->tensorType(lu && i > 0    ? DType::I32
                                           : isReal(q, i) ? partType(dtype)
                                                          : dtype,
                                           dims));
  }
  return true;
}

// --- definitions ---

// The matrices of a tensor, in either layout.
template <class T> class FactorTensors {
public:
  explicit FactorTensors(FactorLayout layout) : layout_(layout) {}
  HostMatrix<T> matrix(const Tensor& t, int64_t batch, int64_t rows, int64_t columns) const {
    HostMatrix<T> out(rows, columns);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) out(i, j) = get(t, at(batch, i, j, rows, columns));
    return out;
  }
  std::vector<T> vector(const Tensor& t, int64_t batch, int64_t n) const {
    std::vector<T> out;
    for (int64_t i = 0; i < n; ++i) out.push_back(get(t, batch * n + i));
    return out;
  }
  void put(Tensor& t, int64_t batch, const HostMatrix<T>& a) const {
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t j = 0; j < a.columns; ++j) set(t, at(batch, i, j, a.rows, a.columns), a(i, j));
  }
  void put(Tensor& t, int64_t batch, const std::vector<T>& v) const {
    for (size_t i = 0; i < v.size(); ++i)
      set(t, batch * static_cast<int64_t>(v.size()) + static_cast<int64_t>(i), v[i]);
  }

private:
  [[nodiscard]] int64_t at(int64_t batch, int64_t i, int64_t j, int64_t rows, int64_t columns) const {
    return batch * rows * columns + (layout_.library ? j * rows + i : i * columns + j);
  }
  T get(const Tensor& t, int64_t i) const {
    if constexpr (std::is_floating_point_v<T>)
      return static_cast<T>(t.getFloat(i));
    else
      return T(layout_.planes ? std::complex<double>(t.getFloat(2 * i), t.getFloat(2 * i + 1))
                              : t.getComplex(i));
  }
  void set(Tensor& t, int64_t i, T v) const {
    if constexpr (std::is_floating_point_v<T>) {
      t.setFloat(i, static_cast<double>(v));
    } else if (layout_.planes) {
      t.setFloat(2 * i, static_cast<double>(v.real())), t.setFloat(2 * i + 1, static_cast<double>(v.imag()));
    } else {
      t.setComplex(i, std::complex<double>(v));
    }
  }
  FactorLayout layout_;
};

template <class T> HostMatrix<T> transposedMatrix(const HostMatrix<T>& a, bool conjugated) {
  HostMatrix<T> out(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) {
      out(j, i) = a(i, j);
      if constexpr (!std::is_floating_point_v<T>)
        if (conjugated) out(j, i) = std::conj(a(i, j));
    }
  return out;
}

// The Hermitian matrix of which a triangle is read, and the real part of the diagonal.
template <class T> HostMatrix<T> hermitian(const HostMatrix<T>& a, bool lower) {
  HostMatrix<T> out = transposedMatrix(a, true);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) {
      if (lower ? i > j : i < j) out(i, j) = a(i, j);
      if (i == j) out(i, j) = std::real(a(i, j));
    }
  return out;
}

// Rows [0, rows) of the upper triangle.
template <class T> HostMatrix<T> upperOf(const HostMatrix<T>& a, int64_t rows) {
  HostMatrix<T> out(rows, a.columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i; j < a.columns; ++j) out(i, j) = a(i, j);
  return out;
}

// Further orthonormal columns, from the reflections of the given ones.
template <class T> HostMatrix<T> completed(HostMatrix<T> a) {
  const std::vector<T> taus = reflect(a);
  return reflectorProduct(a, taus, a.rows);
}
template <class T> HostMatrix<T> withFurtherColumns(HostMatrix<T> a) {
  HostMatrix<T> out = completed(a);
  std::copy(a.elements.begin(), a.elements.end(), out.elements.begin());
  return out;
}

struct FactorRequest {
  std::string_view op;
  FactorShape shape;
  FactorLayout layout;
  int64_t taus = 0;
  bool lower = true, vectors = true, full = false;
  bool rounded = false; // eigh, svd: with the backward error of a library
};

// LAPACK's eigenvalues and singular values are those of a matrix that differs by some units of the largest
// element, a number that grows modestly with the size (LAPACK Users' Guide, 4.7 and 4.9); rotations are more
// accurate.
template <class T> void roundToLargest(HostMatrix<T>& a) {
  using Part = PartOfElement<T>;
  Part largest = 0;
  for (T v : a.elements) largest = std::max(largest, std::abs(v));
  const auto size = static_cast<Part>(std::max(a.rows, a.columns));
  const Part unit = 2 * size * std::numeric_limits<Part>::epsilon() * largest;
  if (!(unit > 0) || !std::isfinite(unit)) return;
  for (T& v : a.elements) {
    if constexpr (std::is_floating_point_v<T>)
      v = std::round(v / unit) * unit;
    else
      v = T(std::round(v.real() / unit), std::round(v.imag() / unit)) * unit;
  }
}

template <class T>
void defineSvd(const FactorRequest& r, const FactorTensors<T>& io, int64_t batch,
               std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  HostMatrix<T> a = io.matrix(*in[0], batch, r.shape.rows, r.shape.columns);
  if (r.rounded) roundToLargest(a);
  const bool wide = a.rows < a.columns; // aᵀ = u s vᴴ: a = (vᴴ)ᵀ s uᵀ
  HostSpectrum<T> s = singularOf(wide ? transposedMatrix(a, false) : a);
  for (int64_t i = 0; i < r.shape.count(); ++i)
    out[0]->setFloat(batch * r.shape.count() + i, static_cast<double>(s.values[static_cast<size_t>(i)]));
  if (!r.vectors) return;
  HostMatrix<T> u = wide ? transposedMatrix(transposedMatrix(s.right, true), false) : s.left,
                v = wide ? transposedMatrix(transposedMatrix(s.left, true), false) : s.right;
  fixPhases(u, &v);
  if (r.full) u = withFurtherColumns(std::move(u)), v = withFurtherColumns(std::move(v));
  io.put(*out[1], batch, u);
  io.put(*out[2], batch, transposedMatrix(v, true));
}

template <class T>
void defineFactors(const FactorRequest& r, const FactorTensors<T>& io, int64_t batch,
                   std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  if (r.op == "svd") return defineSvd(r, io, batch, in, out);
  HostMatrix<T> a = io.matrix(*in[0], batch, r.shape.rows, r.shape.columns);
  const auto putInts = [&](size_t result, const std::vector<int64_t>& v) {
    for (size_t i = 0; i < v.size(); ++i)
      out[result]->setInt(batch * static_cast<int64_t>(v.size()) + static_cast<int64_t>(i), v[i]);
  };
  if (r.op == "lu") {
    const HostLu<T> lu = luOf(a);
    io.put(*out[0], batch, a);
    putInts(1, lu.pivots), putInts(2, lu.permutation), putInts(3, {lu.info});
  } else if (r.op == "geqrf") {
    const std::vector<T> taus = reflect(a);
    io.put(*out[0], batch, a), io.put(*out[1], batch, taus);
  } else if (r.op == "householder_product") {
    io.put(*out[0], batch, reflectorProduct(a, io.vector(*in[1], batch, r.taus), a.columns));
  } else if (r.op == "qr") {
    const std::vector<T> taus = reflect(a);
    const int64_t k = r.full ? a.rows : r.shape.count();
    io.put(*out[0], batch, reflectorProduct(a, taus, k));
    io.put(*out[1], batch, upperOf(a, k));
  } else {
    if (r.rounded) roundToLargest(a);
    HostSpectrum<T> s = eigenOf(hermitian(a, r.lower));
    fixPhases<T>(s.left, nullptr);
    for (int64_t i = 0; i < a.rows; ++i)
      out[0]->setFloat(batch * a.rows + i, static_cast<double>(s.values[static_cast<size_t>(i)]));
    if (r.vectors) io.put(*out[1], batch, s.left);
  }
}

template <class P>
void defineIn(const FactorRequest& r, int64_t count, bool complex, std::span<const Tensor* const> in,
              std::span<Tensor* const> out) {
  for (int64_t batch = 0; batch < count; ++batch)
    if (complex)
      defineFactors(r, FactorTensors<std::complex<P>>(r.layout), batch, in, out);
    else
      defineFactors(r, FactorTensors<P>(r.layout), batch, in, out);
}

bool factorEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(q.record->attrs, [&](const AttrSpec& a) { return a.name == name; });
  };
  FactorRequest r{q.record->name, *factorShapeOf(q), FactorLayout(q)};
  r.rounded = !q.exact;
  if (in.size() > 1) r.taus = in[1]->shape()[r.shape.batchDims];
  if (has("lower")) r.lower = q.boolAttr("lower");
  for (const char* name : {"vectors", "compute_uv"})
    if (has(name)) r.vectors = q.boolAttr(name);
  if (has("full_matrices")) r.full = q.boolAttr("full_matrices");
  int64_t count = 1;
  for (size_t d = 0; d < r.shape.batchDims; ++d) count *= in[0]->shape()[d];
  const bool complex = r.layout.planes || isComplex(in[0]->dtype());
  // Without `exact`, rounding is that of the dtype: --check compares with it.
  if (q.exact)
    defineIn<long double>(r, count, complex, in, out);
  else if (partType(q.type(0).dtype) == DType::F64)
    defineIn<double>(r, count, complex, in, out);
  else
    defineIn<float>(r, count, complex, in, out);
  return true;
}

// --- records ---

OpRecord factorOp(const char* name, const char* summary, bool (*rule)(const OpQuery&, Rule&)) {
  OpRecord r{.name = name, .family = "linear algebra", .summary = summary};
  r.rule = rule;
  r.infer = factorInfer;
  r.operandClasses = kFloats;
  r.resultType = OpRecord::ResultType::Custom;
  r.lowering = Lowering::Library;
  r.eval = r.complexEval = factorEval;
  r.complex = OpRecord::ComplexForm::Own;
  r.complexFn = factorPlanes;
  r.decompose = factorDecompose;
  r.gradNone = r.name == std::string_view("geqrf") || r.name == std::string_view("householder_product");
  if (!r.gradNone) r.gradFn = factorGrad;
  return r;
}

const AttrSpec kLapack = {
    "lapack", AttrType::String, "",
    "plain or parts: operands and results have the library's layout, as `decompose` and "
    "`split-complex` write it (matrices transposed; parts: real and imaginary parts along "
    "a last dim of 2)"};
const AttrSpec kFull = {"full_matrices", AttrType::Bool, "false", "complete the vectors to square matrices"};

} // namespace

void addFactorizationOps(OpRegistry& ops) {
  OpRecord& lu =
      ops.add(factorOp("lu",
                       "P x = L U with partial pivoting: L (unit diagonal, not stored) below U; pivots: row "
                       "k was swapped with row pivots[k], counted from 0; permutation: the row of x in each "
                       "row of L U; info: 0, or 1 + the first column without a pivot",
                       factorRule<luResults>));
  lu.results = "lu, pivots, permutation, info";
  lu.attrs = {kLapack};
  lu.samples = "T[3, 3]\nT[2, 4, 3]\nT[2, 3]";

  OpRecord& geqrf =
      ops.add(factorOp("geqrf",
                       "QR factorization as LAPACK stores it: R on and above the diagonal, Householder's "
                       "vectors below it, and their factors; Q is their householder_product",
                       factorRule<geqrfResults>));
  geqrf.results = "packed, taus";
  geqrf.attrs = {kLapack};
  geqrf.samples = "T[3, 3]\nT[2, 4, 3]\nT[2, 3]";

  OpRecord& product =
      ops.add(factorOp("householder_product",
                       "the first n columns of (1 - tau_0 v_0 v_0ᴴ) (1 - tau_1 v_1 v_1ᴴ) …, for the "
                       "vectors and factors of geqrf",
                       factorRule<productResults>));
  product.operands = "packed, taus";
  product.results = "q";
  product.attrs = {kLapack};
  product.samples = "T[3, 3], T[3]\nT[2, 4, 3], T[2, 2]";

  OpRecord& qr =
      ops.add(factorOp("qr",
                       "x = Q R with orthonormal columns in Q and an upper triangular R, by Householder's "
                       "reflections: R's diagonal is real, of either sign",
                       factorRule<qrResults>));
  qr.results = "q, r";
  qr.attrs = {kFull, kLapack};
  qr.samples = "T[3, 3]\nT[2, 4, 3]\nT[2, 3]\nT[3, 2] {full_matrices = true}";

  OpRecord& eigh =
      ops.add(factorOp("eigh",
                       "eigenvalues of a symmetric (Hermitian) matrix, ascending, and its orthonormal "
                       "eigenvectors as columns; in each, the first component at least half as large as "
                       "the largest is positive (of complex vectors: up to rounding)",
                       factorRule<eighResults>));
  eigh.results = "values, vectors?";
  eigh.attrs = {{"lower", AttrType::Bool, "true", "read x's lower triangle; false: the upper one"},
                {"vectors", AttrType::Bool, "true", "also return the vectors"},
                kLapack};
  eigh.samples = "T[3, 3]\nT[2, 2, 2] {lower = false}\nT[3, 3] {vectors = false}";

  OpRecord& svd =
      ops.add(factorOp("svd",
                       "x = U diag(s) Vᴴ with orthonormal columns in U and V, singular values descending; "
                       "in each column of U, the first component at least half as large as the largest is "
                       "positive (of complex vectors: up to rounding)",
                       factorRule<svdResults>));
  svd.results = "s, u?compute_uv, vh?compute_uv";
  svd.attrs = {kFull, {"compute_uv", AttrType::Bool, "true", "also return U and Vᴴ"}, kLapack};
  svd.samples = "T[3, 3]\nT[2, 4, 3]\nT[2, 3]\nT[3, 2] {full_matrices = true}\nT[3, 2] {compute_uv = false}";
}

// --- the library's calls ---

size_t Factorization::numResults() const {
  if (kind == Kind::Lu) return 4;
  if (kind == Kind::Qr) return 2;
  if (kind == Kind::Reflectors) return 1;
  return !vectors ? 1 : kind == Kind::Eigen ? 2 : 3;
}

int64_t Factorization::operandBytes(size_t i) const {
  return dtypeBytes(dtype) * (i == 1 ? taus : rows * columns);
}

int64_t Factorization::resultBytes(size_t i) const {
  const int64_t each = dtypeBytes(dtype), part = dtypeBytes(partType(dtype));
  if (kind == Kind::Lu && i > 0) return 4 * (i == 1 ? count() : i == 2 ? rows : 1);
  if (kind == Kind::Qr && i > 0) return each * count();
  if (kind == Kind::Eigen || kind == Kind::Singular) {
    if (i == 0) return part * count();
    if (i == 2) return each * columns * columns;
  }
  return each * rows * columns;
}

int64_t Factorization::bytes() const {
  int64_t sum = 0;
  for (size_t i = 0; i < numOperands(); ++i) sum += operandBytes(i);
  for (size_t i = 0; i < numResults(); ++i) sum += resultBytes(i);
  return sum;
}

int64_t Factorization::flops() const {
  const int64_t m = std::max(rows, columns), n = count(), each = complex() ? 4 : 1;
  switch (kind) {
  case Kind::Lu: return each * (m * n * n - n * n * n / 3);
  case Kind::Qr: return each * (2 * m * n * n - 2 * n * n * n / 3);
  case Kind::Reflectors:
    return each * (4 * m * n * taus - 2 * (m + n) * taus * taus + 4 * taus * taus * taus / 3);
  case Kind::Eigen: return each * (vectors ? 9 : 4) * n * n * n / (vectors ? 1 : 3);
  case Kind::Singular: return each * (vectors ? 6 * m * n * n + 20 * n * n * n : 4 * m * n * n);
  }
  return 0;
}

// By FactorizationKind.
static constexpr std::string_view kKindNames[] = {"lu", "geqrf", "householder_product", "eigh", "svd"};

const char* Factorization::name() const { return kKindNames[static_cast<size_t>(kind)].data(); }

std::optional<Factorization> factorizationOf(const OpQuery& q) {
  const auto found = std::ranges::find(kKindNames, std::string_view(q.record->name));
  if (found == std::end(kKindNames)) return std::nullopt;
  Factorization f;
  f.kind = static_cast<Kind>(found - std::begin(kKindNames));
  const FactorLayout layout(q);
  if (!layout.library) return std::nullopt;
  const auto shape = factorShapeOf(q);
  if (!shape) return std::nullopt;
  f.rows = shape->rows, f.columns = shape->columns;
  f.dtype = layout.planes ? *complexType(q.type(0).dtype) : q.type(0).dtype;
  if (f.kind == Kind::Reflectors) f.taus = q.type(1).dims[shape->batchDims].value();
  if (f.kind == Kind::Eigen) f.lower = q.boolAttr("lower"), f.vectors = q.boolAttr("vectors");
  if (f.kind == Kind::Singular) f.vectors = q.boolAttr("compute_uv");
  return f;
}

void computeFactorization(const Factorization& f, int64_t batch, std::span<std::byte* const> buffers) {
  std::vector<Tensor> tensors;
  const size_t operands = f.numOperands(), results = f.numResults();
  for (size_t i = 0; i < operands + results; ++i) {
    const bool integers = f.kind == Kind::Lu && i > operands;
    const DType part = integers ? DType::I32 : partType(f.dtype);
    const int64_t bytes = batch * (i < operands ? f.operandBytes(i) : f.resultBytes(i - operands));
    Tensor& t = tensors.emplace_back(part, std::vector<int64_t>{bytes / dtypeBytes(part)});
    if (i < operands && bytes > 0) std::memcpy(t.bytes().data(), buffers[i], t.bytes().size());
  }
  std::vector<const Tensor*> in;
  std::vector<Tensor*> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i < operands) in.push_back(&tensors[i]);
    if (i >= operands) out.push_back(&tensors[i]);
  }
  defineIn<long double>({f.name(), {f.rows, f.columns, 1}, {true, f.complex()}, f.taus, f.lower, f.vectors},
                        batch, f.complex(), in, out);
  for (size_t i = operands; i < tensors.size(); ++i)
    if (!tensors[i].bytes().empty())
      std::memcpy(buffers[i], tensors[i].bytes().data(), tensors[i].bytes().size());
}

} // namespace dtc
