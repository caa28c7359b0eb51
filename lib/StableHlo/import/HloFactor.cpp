// LAPACK's factorizations, which JAX calls on CPUs, and cuSOLVER's, on GPUs: ops of their own.
#include "import/HloFactor.h"
#include "import/HloTable.h"

#include <algorithm>

namespace dtc {

static const MlirAttr* configOf(HloContext& c, std::string_view name) {
  const MlirAttr* config = c.attr("mhlo.backend_config"); // as JAX prints it
  if (!config) config = c.attr("backend_config");
  if (!config || config->kind != MlirAttr::Dict) return nullptr;
  const auto found = std::ranges::find(config->dict, name, &MlirNamedAttr::name);
  return found == config->dict.end() ? nullptr : &found->value;
}

std::optional<char> letterOf(HloContext& c, std::string_view name) {
  if (const MlirAttr* a = configOf(c, name); a && a->kind == MlirAttr::Int)
    return static_cast<char>(a->integer);
  c.fail("needs '" + std::string(name) + "' in its mhlo.backend_config");
  return std::nullopt;
}

namespace {

// A flag of cuSOLVER's calls; false if it is absent.
bool flagOf(HloContext& c, std::string_view name) {
  const MlirAttr* a = configOf(c, name);
  return a && a->kind == MlirAttr::Bool && a->integer != 0;
}

// The floating-point tensors among the operands: older calls pass sizes first.
std::vector<ValueId> matricesOf(HloContext& c, size_t count, size_t results) {
  std::vector<ValueId> out;
  for (ValueId v : c.tensors())
    if (isFloat(partType(c.dtypeOf(v))) && c.rankOf(v) > 0) out.push_back(v);
  if (out.size() == count && c.numResults() >= results) return out;
  c.fail("needs " + std::to_string(count) + (count == 1 ? " matrix and " : " matrices and ") +
         std::to_string(results) + (results == 1 ? " result or more" : " results or more"));
  return {};
}

ValueId resultOf(HloContext& c, OpId op, size_t r) { return op.valid() ? c.module.result(op, r) : ValueId(); }

// Sets result i, converted to its shape and dtype.
bool setResultAs(HloContext& c, size_t i, ValueId v) {
  if (!v.valid() || !c.resultType(i).valid()) return false;
  return c.setResult(i, c.reshape(c.convert(v, c.resultDType(i)), c.resultShape(i)));
}

// Sets status results, unspecified ones, and the workspace of older calls, to 0.
bool setZeroResults(HloContext& c, size_t from) {
  for (size_t i = from; i < c.numResults(); ++i)
    if (!c.setResult(i, c.splat(0, c.resultDType(i), c.resultShape(i)))) return false;
  return true;
}

// The factors, the rows counted from 1, and the first column without a pivot.
bool getrf(HloContext& c) {
  const std::vector<ValueId> in = matricesOf(c, 1, 3);
  if (in.empty()) return false;
  const OpId lu = c.emitOp("lu", in);
  if (!lu.valid()) return false;
  const ValueId pivots = c.emit("add", {resultOf(c, lu, 1), c.literal(1, DType::I32)});
  return setResultAs(c, 0, resultOf(c, lu, 0)) && setResultAs(c, 1, pivots) &&
         setResultAs(c, 2, resultOf(c, lu, 3));
}

bool geqrf(HloContext& c) {
  const std::vector<ValueId> in = matricesOf(c, 1, 2);
  if (in.empty()) return false;
  const OpId qr = c.emitOp("geqrf", in);
  return setResultAs(c, 0, resultOf(c, qr, 0)) && setResultAs(c, 1, resultOf(c, qr, 1)) &&
         setZeroResults(c, 2);
}

bool orgqr(HloContext& c) {
  const std::vector<ValueId> in = matricesOf(c, 2, 1);
  return !in.empty() && setResultAs(c, 0, c.emit("householder_product", in)) && setZeroResults(c, 1);
}

// The vectors, the values, and the failure flag: failures are NaN here.
bool eigh(HloContext& c, bool lower) {
  const std::vector<ValueId> in = matricesOf(c, 1, 3);
  if (in.empty()) return false;
  const OpId eigh = c.emitOp("eigh", in, {{"lower", c.boolAttr(lower)}});
  return setResultAs(c, 0, resultOf(c, eigh, 1)) && setResultAs(c, 1, resultOf(c, eigh, 0)) &&
         setZeroResults(c, 2);
}
bool syevd(HloContext& c) {
  const auto half = letterOf(c, "uplo");
  return half && eigh(c, *half == 'L');
}
bool cusolverSyevd(HloContext& c) { return eigh(c, flagOf(c, "lower")); }

struct SingularCall {
  bool full = false, vectors = true;
  size_t u = 2, vh = 3; // results
  bool adjoint = false; // result `vh` is V
};
// The matrix, the values, the vectors, and the failure flag. Without vectors these are unspecified.
bool svd(HloContext& c, const SingularCall& call) {
  const std::vector<ValueId> in = matricesOf(c, 1, 5);
  if (in.empty()) return false;
  const OpId svd = c.emitOp(
      "svd", in, {{"full_matrices", c.boolAttr(call.full)}, {"compute_uv", c.boolAttr(call.vectors)}});
  if (!setResultAs(c, 0, in[0]) || !setResultAs(c, 1, resultOf(c, svd, 0))) return false;
  if (!call.vectors) return setZeroResults(c, 2);
  ValueId vh = resultOf(c, svd, 2);
  if (call.adjoint) {
    std::vector<int64_t> perm;
    for (size_t d = 0; d < c.rankOf(vh); ++d) perm.push_back(static_cast<int64_t>(d));
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    vh = c.transpose(isComplex(c.dtypeOf(vh)) ? c.emit("conj", {vh}) : vh, perm);
  }
  return setResultAs(c, call.u, resultOf(c, svd, 1)) && setResultAs(c, call.vh, vh) && setZeroResults(c, 4);
}
bool gesdd(HloContext& c) {
  const auto mode = letterOf(c, "mode");
  return mode && svd(c, {.full = *mode == 'A', .vectors = *mode != 'N'});
}
bool cusolverGesvd(HloContext& c) {
  const bool transposed = flagOf(c, "transposed"); // the vectors are exchanged
  return svd(
      c, {flagOf(c, "full_matrices"), flagOf(c, "compute_uv"), transposed ? 3u : 2u, transposed ? 2u : 3u});
}
bool cusolverGesvdj(HloContext& c) {
  return svd(c, {.full = flagOf(c, "full_matrices"), .vectors = flagOf(c, "compute_uv"), .adjoint = true});
}

const HloRow kFactorRows[] = {
    {"custom_call @lapack_?geqrf", geqrf},
    {"custom_call @lapack_?geqrf_ffi", geqrf},
    {"custom_call @lapack_?getrf", getrf},
    {"custom_call @lapack_?getrf_ffi", getrf},
    {"custom_call @lapack_?orgqr", orgqr},
    {"custom_call @lapack_?orgqr_ffi", orgqr},
    {"custom_call @lapack_?ungqr", orgqr},
    {"custom_call @lapack_?ungqr_ffi", orgqr},
    {"custom_call @lapack_?gesdd_ffi", gesdd},
    {"custom_call @lapack_?gesvd_ffi", gesdd}, // another algorithm for the same values
    {"custom_call @lapack_?syevd_ffi", syevd},
    {"custom_call @lapack_?heevd_ffi", syevd},
    {"custom_call @cusolver_getrf_ffi", getrf},
    {"custom_call @cusolver_geqrf_ffi", geqrf},
    {"custom_call @cusolver_orgqr_ffi", orgqr},
    {"custom_call @cusolver_syevd_ffi", cusolverSyevd},
    {"custom_call @cusolver_gesvd_ffi", cusolverGesvd},
    {"custom_call @cusolver_gesvdj_ffi", cusolverGesvdj},
};

} // namespace

std::span<const HloRow> hloFactorRows() { return kFactorRows; }

} // namespace dtc
