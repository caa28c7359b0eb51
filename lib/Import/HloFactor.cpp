// LAPACK's factorisations, which JAX calls on CPUs: LU, QR. Each is a loop over columns, written in IR text.
#include "HloFactor.h"
#include "HloImporter.h"
#include "HloTable.h"
#include "dtc/IR/Builder.h"
#include "dtc/Support/Result.h"

#include <algorithm>
#include <cctype>

namespace dtc {

ValueId flatBatch(HloContext& c, ValueId x) {
  const std::vector<int64_t> shape = c.shapeOf(x);
  if (shape.size() < 2) {
    if (x.valid()) c.fail("takes matrices");
    return {};
  }
  int64_t batch = 1;
  for (size_t d = 0; d + 2 < shape.size(); ++d) batch *= shape[d];
  return c.reshape(x, std::array{batch, shape[shape.size() - 2], shape.back()});
}

// What is put in may have $names of its own.
static std::string substituted(std::string_view text, std::span<const HloTextValue> values, int depth = 0) {
  DTC_CHECK(depth < 8, "a text is made of itself");
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '$') {
      out.push_back(text[i++]);
      continue;
    }
    size_t end = i + 1;
    while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end]))) ++end;
    const std::string_view name = text.substr(i + 1, end - i - 1);
    const auto found = std::ranges::find(values, name, &HloTextValue::name);
    DTC_CHECK(found != values.end(), "a text has a $name without a value");
    out += substituted(found->value, values, depth + 1);
    i = end;
  }
  return out;
}

std::vector<ValueId> inlineProgram(HloContext& c, std::string_view text, std::span<const HloTextValue> values,
                                   std::span<const std::pair<std::string_view, ValueId>> bindings) {
  const std::string whole = substituted(text, values);
  for (const auto& [name, value] : bindings)
    if (!value.valid()) return {};
  std::vector<OpId> ops;
  std::vector<ValueId> yields;
  Builder b(c.module, c.importer.block(), ops, c.diags);
  b.loc = c.op.nameRange;
  if (!b.inlineText(whole, bindings, yields)) return {};
  const AttrList place = c.importer.placeOf(c.op.loc);
  for (OpId o : ops) {
    c.module[o].attrs.insert(c.module[o].attrs.end(), place.begin(), place.end());
    c.module[c.importer.block()].ops.push_back(o);
  }
  return yields;
}

namespace {

// What the text of a factorisation says of its matrix x [B, m, n].
struct Sizes {
  std::string batch, rows, columns, count, dtype, part;
  bool complex = false;
  Sizes(HloContext& c, ValueId x) {
    const std::vector<int64_t> shape = c.shapeOf(x);
    batch = std::to_string(shape[0]);
    rows = std::to_string(shape[1]);
    columns = std::to_string(shape[2]);
    count = std::to_string(std::min(shape[1], shape[2]));
    dtype = dtypeName(c.dtypeOf(x));
    part = dtypeName(partType(c.dtypeOf(x)));
    complex = isComplex(c.dtypeOf(x));
  }
  [[nodiscard]] std::vector<HloTextValue> values() const {
    return {{"B", batch}, {"m", rows}, {"n", columns}, {"t", count}, {"T", dtype}, {"P", part}};
  }
};

// --- LU ---

// Row k is swapped with that of the greatest element at or below it, the first of equals; then what is below is eliminated.
// Yields the factors, the rows counted from 1, and 1 + the first column without a pivot.
constexpr std::string_view kLu = R"(
%rows = iota {dim = 1} : i32[$B, $m]
%cols = iota {dim = 1} : i32[$B, $n]
%steps = iota {dim = 1} : i32[$B, $t]
%pivots0 = constant {value = 0} : i32[$B, $t]
%failed0 = constant {value = 0} : i32[$B]
%lu, %pivots, %failed = for %k in 0..$t (%a = %x, %p = %pivots0, %f = %failed0) {
  %column = index_select %a, %k {dim = 2}
  $size
  %open = ge %rows, %k
  %sizes = select %open, %size, -1.0
  %found = argmax %sizes {dim = 1}
  %at = convert %found {dtype = i32}
  %here = expand_dims %at {dims = [1]}
  %greatest = max %sizes {dims = [1]}
  %none = eq %greatest, 0.0
  %next = add %here, 1
  %now = eq %steps, %k
  %p2 = select %now, %next, %p
  %row = index_select %a, %k {dim = 1}
  %row3 = expand_dims %row {dims = [1]}
  %here3 = expand_dims %here {dims = [2]}
  %heres = broadcast %here3 {shape = [$B, 1, $n]}
  %pivotrow = gather %a, %heres {dim = 1}
  %isk = eq %rows, %k
  %isk3 = expand_dims %isk {dims = [2]}
  %isat = eq %rows, %here
  %isat3 = expand_dims %isat {dims = [2]}
  %half = select %isat3, %row3, %a
  %swapped = select %isk3, %pivotrow, %half
  %flat = reshape %pivotrow {shape = [$B, $n]}
  %pivot = index_select %flat, %k {dim = 1}
  %wide = expand_dims %pivot {dims = [1]}
  %nonewide = expand_dims %none {dims = [1]}
  %divisor = select %nonewide, 1.0, %wide
  %moved = index_select %swapped, %k {dim = 2}
  %ratio = div %moved, %divisor
  %below = gt %rows, %k
  %below3 = expand_dims %below {dims = [2]}
  %right = gt %cols, %k
  %u = select %right, %flat, 0.0
  %l3 = expand_dims %ratio {dims = [2]}
  %u3 = expand_dims %u {dims = [1]}
  %product = mul %l3, %u3
  %gone = select %below3, %product, 0.0
  %rest = sub %swapped, %gone
  %iscol = eq %cols, %k
  %iscol3 = expand_dims %iscol {dims = [1]}
  %isl = and %iscol3, %below3
  %a2 = select %isl, %l3, %rest
  %sofar = eq %f, 0
  %fails = and %sofar, %none
  %number = add %k, 1
  %f2 = select %fails, %number, %f
  yield %a2, %p2, %f2
}
yield %lu, %pivots, %failed
)";
// LAPACK takes |re| + |im| for the size of a complex number here.
constexpr std::string_view kRealSize = "%size = abs %column";
constexpr std::string_view kComplexSize =
    "%re = real %column\n%im = imag %column\n%are = abs %re\n%aim = abs %im\n"
    "%size = add %are, %aim";

// --- QR ---

// Column k becomes beta times the unit vector by H = 1 - tau v vᴴ, v_k = 1; norms are taken in f64.
constexpr std::string_view kQr = R"(
%rows = iota {dim = 1} : i32[$B, $m]
%cols = iota {dim = 1} : i32[$B, $n]
%steps = iota {dim = 1} : i32[$B, $t]
%factors0 = constant {value = 0.0} : $T[$B, $t]
%qr, %factors = for %k in 0..$t (%a = %x, %taus = %factors0) {
  %column = index_select %a, %k {dim = 2}
  %alpha = index_select %column, %k {dim = 1}
  %below = gt %rows, %k
  %tail = select %below, %column, 0.0
  $norms
  %nothing = eq %others, 0.0
  %square = mul %ar, %ar
  %all = add %square, %others
  %norm = sqrt %all
  %minus = neg %norm
  %up = ge %ar, 0.0
  %beta = select %up, %minus, %norm
  %safe = select %nothing, 1.0, %beta
  %difference = sub %beta, %ar
  %part = div %difference, %safe
  %taur = select %nothing, 0.0, %part
  %away = sub %ar, %beta
  %awayr = select %nothing, 1.0, %away
  %diagr = select %nothing, %ar, %beta
  $assemble
  %divisor1 = expand_dims %divisor {dims = [1]}
  %scaled = div %tail, %divisor1
  %isk = eq %rows, %k
  %v = select %isk, 1.0, %scaled
  $conjugate
  %vc3 = expand_dims %vc {dims = [1]}
  %w = matmul %vc3, %a
  %right = gt %cols, %k
  %right3 = expand_dims %right {dims = [1]}
  %wr = select %right3, %w, 0.0
  %tau3 = expand_dims %tauc {dims = [1, 2]}
  %tw = mul %wr, %tau3
  %v3 = expand_dims %v {dims = [2]}
  %gone = mul %v3, %tw
  %rest = sub %a, %gone
  %kept = select %below, %scaled, %column
  %diag1 = expand_dims %diag {dims = [1]}
  %new = select %isk, %diag1, %kept
  %new3 = expand_dims %new {dims = [2]}
  %iscol = eq %cols, %k
  %iscol3 = expand_dims %iscol {dims = [1]}
  %a2 = select %iscol3, %new3, %rest
  %tau1 = expand_dims %tau {dims = [1]}
  %now = eq %steps, %k
  %taus2 = select %now, %tau1, %taus
  yield %a2, %taus2
}
yield %qr, %factors
)";
constexpr std::string_view kRealNorms = R"(%ar = convert %alpha {dtype = f64}
  %wide = convert %tail {dtype = f64}
  %squares = mul %wide, %wide
  %others = sum %squares {dims = [1]})";
constexpr std::string_view kRealAssemble = R"(%tau = convert %taur {dtype = $T}
  %divisor = convert %awayr {dtype = $T}
  %diag = convert %diagr {dtype = $T})";
constexpr std::string_view kRealConjugate = "%vc = add %v, 0.0\n  %tauc = add %tau, 0.0";
constexpr std::string_view kComplexNorms = R"(%are = real %alpha
  %ar = convert %are {dtype = f64}
  %aim = imag %alpha
  %ai = convert %aim {dtype = f64}
  %tre = real %tail
  %tr = convert %tre {dtype = f64}
  %tr2 = mul %tr, %tr
  %tim = imag %tail
  %ti = convert %tim {dtype = f64}
  %ti2 = mul %ti, %ti
  %squares = add %tr2, %ti2
  %sum = sum %squares {dims = [1]}
  %ai2 = mul %ai, %ai
  %others = add %sum, %ai2)";
constexpr std::string_view kComplexAssemble = R"(%ratio = div %ai, %safe
  %taui = neg %ratio
  %taure = convert %taur {dtype = $P}
  %tauim = convert %taui {dtype = $P}
  %tau = complex %taure, %tauim
  %awayre = convert %awayr {dtype = $P}
  %awayim = convert %ai {dtype = $P}
  %divisor = complex %awayre, %awayim
  %diagre = convert %diagr {dtype = $P}
  %diagim = mul %diagre, 0.0
  %diag = complex %diagre, %diagim)";
constexpr std::string_view kComplexConjugate = "%vc = conj %v\n  %tauc = conj %tau";

constexpr std::string_view kQ = R"(
%rows = iota {dim = 1} : i32[$B, $m]
%ones = eye : $P[$m, $q]
%one = convert %ones {dtype = $T}
%one3 = expand_dims %one {dims = [0]}
%start = broadcast %one3 {shape = [$B, $m, $q]}
%y = for %i in 0..$t (%s = %start) {
  %k = sub $last, %i
  %column = index_select %x, %k {dim = 2}
  %tau = index_select %taus, %k {dim = 1}
  %below = gt %rows, %k
  %tail = select %below, %column, 0.0
  %isk = eq %rows, %k
  %v = select %isk, 1.0, %tail
  $conjugate
  %vc3 = expand_dims %vc {dims = [1]}
  %w = matmul %vc3, %s
  %tau3 = expand_dims %tau {dims = [1, 2]}
  %tw = mul %w, %tau3
  %v3 = expand_dims %v {dims = [2]}
  %gone = mul %v3, %tw
  %s2 = sub %s, %gone
  yield %s2
}
yield %y
)";

} // namespace

HloReflectors householderQr(HloContext& c, ValueId matrix) {
  if (!matrix.valid()) return {};
  const Sizes sizes(c, matrix);
  std::vector<HloTextValue> values = sizes.values();
  values.insert(values.end(), {{"norms", sizes.complex ? kComplexNorms : kRealNorms},
                               {"assemble", sizes.complex ? kComplexAssemble : kRealAssemble},
                               {"conjugate", sizes.complex ? kComplexConjugate : kRealConjugate}});
  const std::pair<std::string_view, ValueId> bindings[] = {{"x", matrix}};
  const std::vector<ValueId> made = inlineProgram(c, kQr, values, bindings);
  return made.size() == 2 ? HloReflectors{made[0], made[1]} : HloReflectors{};
}

ValueId householderProduct(HloContext& c, const HloReflectors& r, int64_t columns) {
  if (!r.matrix.valid() || !r.factors.valid()) return {};
  const Sizes sizes(c, r.matrix);
  const std::vector<int64_t> factors = c.shapeOf(r.factors);
  if (factors.size() != 2 || factors[1] > c.shapeOf(r.matrix)[2] || factors[1] > columns) {
    c.fail("has more factors than columns");
    return {};
  }
  const std::string count = std::to_string(factors[1]), last = std::to_string(factors[1] - 1),
                    q = std::to_string(columns);
  const HloTextValue values[] = {
      {"last", last},     {"conjugate", sizes.complex ? "%vc = conj %v" : "%vc = add %v, 0.0"},
      {"B", sizes.batch}, {"m", sizes.rows},
      {"q", q},           {"t", count},
      {"T", sizes.dtype}, {"P", sizes.part}};
  const std::pair<std::string_view, ValueId> bindings[] = {{"x", r.matrix}, {"taus", r.factors}};
  const std::vector<ValueId> made = inlineProgram(c, kQ, values, bindings);
  return made.size() == 1 ? made[0] : ValueId();
}

// Older calls have sizes before them.
std::optional<char> letterOf(HloContext& c, std::string_view name) {
  const MlirAttr* config = c.attr("mhlo.backend_config");
  if (config && config->kind == MlirAttr::Dict)
    for (const MlirNamedAttr& a : config->dict)
      if (a.name == name && a.value.kind == MlirAttr::Int) return static_cast<char>(a.value.integer);
  c.fail("needs '" + std::string(name) + "' in its mhlo.backend_config");
  return std::nullopt;
}

std::vector<ValueId> matricesOf(HloContext& c) {
  std::vector<ValueId> out;
  for (ValueId v : c.tensors())
    if (isFloat(partType(c.dtypeOf(v))) && c.rankOf(v) > 0) out.push_back(v);
  return out;
}

bool giveAs(HloContext& c, size_t i, ValueId v) {
  if (!v.valid() || !c.resultType(i).valid()) return false;
  return c.give(i, c.reshape(c.convert(v, c.resultDType(i)), c.resultShape(i)));
}

bool giveZeros(HloContext& c, size_t from) {
  for (size_t i = from; i < c.numResults(); ++i)
    if (!c.give(i, c.splat(0, c.resultDType(i), c.resultShape(i)))) return false;
  return true;
}

bool isEmptyMatrix(HloContext& c, ValueId x) {
  for (int64_t d : c.shapeOf(x))
    if (d == 0) return true;
  return false;
}

namespace {

bool getrf(HloContext& c) {
  const std::vector<ValueId> in = matricesOf(c);
  if (in.size() != 1 || c.numResults() != 3) return c.fail("has one matrix and three results");
  if (isEmptyMatrix(c, in[0])) return giveAs(c, 0, in[0]) && giveZeros(c, 1);
  const ValueId x = flatBatch(c, in[0]);
  if (!x.valid()) return false;
  const Sizes sizes(c, x);
  std::vector<HloTextValue> values = sizes.values();
  values.push_back({"size", sizes.complex ? kComplexSize : kRealSize});
  const std::pair<std::string_view, ValueId> bindings[] = {{"x", x}};
  const std::vector<ValueId> made = inlineProgram(c, kLu, values, bindings);
  return made.size() == 3 && giveAs(c, 0, made[0]) && giveAs(c, 1, made[1]) && giveAs(c, 2, made[2]);
}

bool geqrf(HloContext& c) {
  const std::vector<ValueId> in = matricesOf(c);
  if (in.size() != 1 || c.numResults() < 2) return c.fail("has one matrix, and two results at least");
  if (isEmptyMatrix(c, in[0])) return giveAs(c, 0, in[0]) && giveZeros(c, 1);
  const HloReflectors r = householderQr(c, flatBatch(c, in[0]));
  return giveAs(c, 0, r.matrix) && giveAs(c, 1, r.factors) && giveZeros(c, 2);
}

bool orgqr(HloContext& c) {
  const std::vector<ValueId> in = matricesOf(c);
  if (in.size() != 2 || c.numResults() < 1) return c.fail("has a matrix and its factors");
  if (!c.resultType(0).valid()) return false;
  if (isEmptyMatrix(c, in[0])) return giveAs(c, 0, in[0]) && giveZeros(c, 1);
  const ValueId x = flatBatch(c, in[0]);
  if (!x.valid()) return false;
  const int64_t batch = c.shapeOf(x)[0], count = c.shapeOf(in[1]).back();
  const HloReflectors r{x, c.reshape(in[1], std::array{batch, count})};
  return giveAs(c, 0, householderProduct(c, r, c.shapeOf(x)[2])) && giveZeros(c, 1);
}

const HloRow kRows[] = {
    {"custom_call @lapack_cgeqrf", geqrf}, {"custom_call @lapack_cgeqrf_ffi", geqrf},
    {"custom_call @lapack_cgetrf", getrf}, {"custom_call @lapack_cgetrf_ffi", getrf},
    {"custom_call @lapack_cungqr", orgqr}, {"custom_call @lapack_cungqr_ffi", orgqr},
    {"custom_call @lapack_dgeqrf", geqrf}, {"custom_call @lapack_dgeqrf_ffi", geqrf},
    {"custom_call @lapack_dgetrf", getrf}, {"custom_call @lapack_dgetrf_ffi", getrf},
    {"custom_call @lapack_dorgqr", orgqr}, {"custom_call @lapack_dorgqr_ffi", orgqr},
    {"custom_call @lapack_sgeqrf", geqrf}, {"custom_call @lapack_sgeqrf_ffi", geqrf},
    {"custom_call @lapack_sgetrf", getrf}, {"custom_call @lapack_sgetrf_ffi", getrf},
    {"custom_call @lapack_sorgqr", orgqr}, {"custom_call @lapack_sorgqr_ffi", orgqr},
    {"custom_call @lapack_zgeqrf", geqrf}, {"custom_call @lapack_zgeqrf_ffi", geqrf},
    {"custom_call @lapack_zgetrf", getrf}, {"custom_call @lapack_zgetrf_ffi", getrf},
    {"custom_call @lapack_zungqr", orgqr}, {"custom_call @lapack_zungqr_ffi", orgqr},
};

} // namespace

std::span<const HloRow> hloFactorRows() { return kRows; }

} // namespace dtc
