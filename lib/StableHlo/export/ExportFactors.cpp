// Factorizations as the LAPACK calls that JAX registers for CPUs (jaxlib/cpu/lapack.cc).
#include "dtc/Ops/linear_algebra/Factorization.h"
#include "export/ExportContext.h"
#include <limits>
#include <numeric>

namespace dtc {

namespace {

using Kind = FactorizationKind;

class FactorExport {
public:
  FactorExport(ExportContext& c, OpId o, const Factorization& f) : c_(c), w_(c.w), op_(o), f_(f) {}

  bool run() {
    batch_ = c_.operand(op_, 0).shape;
    batch_.resize(batch_.size() - (f_.complex() ? 3 : 2));
    const int64_t m = f_.rows, n = f_.columns, k = f_.count();
    const DType real = partType(f_.dtype);
    switch (f_.kind) {
    case Kind::Lu: {
      const auto y = call("getrf", {matrix(0)}, "", {tensor({m, n}), tensor({k}, DType::I32), info()});
      const ExportValue pivots = w_.binary("subtract", y[1], w_.splat(1, DType::I32, y[1].shape));
      return setMatrix(0, y[0]) && c_.setResult(op_, 1, pivots) &&
             c_.setResult(op_, 2, w_.iota(static_cast<int64_t>(batch_.size()), DType::I32, shaped({m}))) &&
             c_.setResult(op_, 3, y[2]);
    }
    case Kind::Qr: {
      const auto y = call("geqrf", {matrix(0)}, "", {tensor({m, n}), tensor({k})});
      return setMatrix(0, y[0]) && c_.setResult(op_, 1, parts(y[1]));
    }
    case Kind::Reflectors:
      return setMatrix(0, call(f_.complex() ? "ungqr" : "orgqr",
                               {matrix(0), complexValue(c_.operand(op_, 1))}, "", {tensor({m, n})})[0]);
    case Kind::Eigen: {
      const auto y = call(f_.complex() ? "heevd" : "syevd", {matrix(0)},
                          std::string("mode = ") + (f_.vectors ? "86" : "78") +
                              " : ui8, uplo = " + (f_.lower ? "76" : "85") + " : ui8",
                          {tensor({n, n}), tensor({n}, real), info()});
      return c_.setResult(op_, 0, checked(y[1], y[2])) && (!f_.vectors || setMatrix(1, y[0], y[2]));
    }
    case Kind::Singular: {
      const auto y =
          call("gesdd", {matrix(0)}, std::string("mode = ") + (f_.vectors ? "83" : "78") + " : ui8",
               {tensor({m, n}), tensor({k}, real), tensor({m, n}), tensor({n, n}), info()});
      return c_.setResult(op_, 0, checked(y[1], y[4])) &&
             (!f_.vectors || (setMatrix(1, y[2], y[4]) && setMatrix(2, y[3], y[4])));
    }
    }
    return false;
  }

private:
  // --- types ---
  Dims shaped(const Dims& last) const {
    Dims out = batch_;
    out.insert(out.end(), last.begin(), last.end());
    return out;
  }
  ExportValue tensor(const Dims& last, std::optional<DType> dtype = {}) const {
    return {"", dtype.value_or(f_.dtype), shaped(last)};
  }
  ExportValue info() const { return tensor({}, DType::I32); }
  // Column-major if it is a matrix.
  std::string layout(const ExportValue& v) const {
    Dims order(v.rank());
    std::iota(order.rbegin(), order.rend(), 0);
    if (v.rank() == batch_.size() + 2) std::swap(order[0], order[1]);
    return "dense<" + (order.empty() ? "" : hloList(order)) + "> : tensor<" + std::to_string(v.rank()) +
           "xindex>";
  }

  // --- values ---
  ExportValue complexValue(const ExportValue& v) { // of real and imaginary parts
    if (!f_.complex()) return v;
    const auto plane = [&](int64_t i) {
      Dims start(v.rank()), limit = v.shape, shape = v.shape;
      start.back() = i, limit.back() = i + 1;
      shape.pop_back();
      return w_.reshape(w_.slice(v, start, limit, Dims(v.rank(), 1)), shape);
    };
    const ExportValue planes[] = {plane(0), plane(1)};
    return w_.plain("complex", planes, hloType(f_.dtype, planes[0].shape), f_.dtype, planes[0].shape);
  }
  ExportValue parts(const ExportValue& v) {
    if (!isComplex(v.dtype)) return v;
    Dims shape = v.shape;
    shape.push_back(1);
    std::vector<ExportValue> planes;
    for (const char* name : {"real", "imag"})
      planes.push_back(w_.reshape(w_.elementwise(name, {&v, 1}, partType(v.dtype)), shape));
    return w_.concatenate(planes, static_cast<int64_t>(v.rank()));
  }
  ExportValue transposed(const ExportValue& v) {
    Dims perm(v.rank());
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return w_.transpose(v, perm);
  }
  ExportValue matrix(size_t i) { return transposed(complexValue(c_.operand(op_, i))); }
  bool setMatrix(uint32_t result, const ExportValue& v, const std::optional<ExportValue>& info = {}) {
    const ExportValue y = parts(transposed(v));
    return c_.setResult(op_, result, info ? checked(y, *info) : y);
  }
  // NaN where the call has failed.
  ExportValue checked(const ExportValue& v, const ExportValue& info) {
    Dims dims(info.rank());
    std::iota(dims.begin(), dims.end(), 0);
    const ExportValue good = w_.compare("EQ", info, w_.splat(0, DType::I32, info.shape));
    return w_.select(w_.broadcast(good, dims, v.shape), v,
                     w_.splat(std::numeric_limits<double>::quiet_NaN(), v.dtype, v.shape));
  }

  std::vector<ExportValue> call(const char* name, const std::vector<ExportValue>& operands,
                                const std::string& config, std::vector<ExportValue> results) {
    const char letter = f_.dtype == DType::F32   ? 's'
                        : f_.dtype == DType::F64 ? 'd'
                        : f_.dtype == DType::C64 ? 'c'
                                                 : 'z';
    const std::string made = w_.fresh();
    std::string arguments, layouts, out;
    for (const ExportValue& v : operands) {
      arguments += (arguments.empty() ? "" : ", ") + v.name;
      layouts += (layouts.empty() ? "" : ", ") + layout(v);
    }
    for (const ExportValue& v : results) out += (out.empty() ? "" : ", ") + layout(v);
    w_.line(made + (results.size() > 1 ? ":" + std::to_string(results.size()) : "") +
            " = stablehlo.custom_call @lapack_" + letter + name + "_ffi(" + arguments +
            ") {api_version = 4 : i32, backend_config = {" + config + "}, operand_layouts = [" + layouts +
            "], result_layouts = [" + out + "]} : (" + hloTypes(operands) + ") -> " +
            (results.size() > 1 ? "(" + hloTypes(results) + ")" : hloTypes(results)));
    for (size_t i = 0; i < results.size(); ++i)
      results[i].name = results.size() > 1 ? made + "#" + std::to_string(i) : made;
    return results;
  }

  ExportContext& c_;
  ExportWriter& w_;
  OpId op_;
  const Factorization& f_;
  Dims batch_;
};

bool isRead(const Module& m, BlockId block, ValueId v) {
  bool read = std::ranges::find(m[block].yields, v) != m[block].yields.end();
  for (OpId o : m[block].ops) {
    read |= std::ranges::find(m.operands(o), v) != m.operands(o).end();
    for (uint32_t r = 0; r < m[o].numRegions; ++r) read |= isRead(m, m.region(o, r), v);
  }
  return read;
}

bool factors(ExportContext& c, OpId o) {
  const std::optional<Factorization> f = factorizationOf(c.query(o));
  return f ? FactorExport(c, o, *f).run() : c.decomposed(o);
}

// The parts of a decomposition are in no block: the permutation is looked for at the op itself.
bool luFactors(ExportContext& c, OpId o) {
  if (isRead(c.m, c.m[o].parent, c.m.result(o, 2)))
    return c.refuse(o, "StableHLO has no op for its permutation; use its pivots");
  return factors(c, o);
}

const ExportRow kFactorRows[] = {{"lu", luFactors},
                                 {"geqrf", factors},
                                 {"householder_product", factors},
                                 {"eigh", factors},
                                 {"svd", factors}};

} // namespace

std::span<const ExportRow> exportsOfFactors() { return kFactorRows; }

} // namespace dtc
