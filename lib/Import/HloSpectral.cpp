// LAPACK's eigenvalues of symmetric matrices and singular values, which JAX calls on CPUs, as programs of ours: C. Jacobi's
// rotations (1846) of n/2 disjoint pairs of columns at a time, the pairs in the order of a tournament (R. Brent and F. Luk,
// 1985). All is computed in f64. Vectors may have other signs (phases) than LAPACK's.
#include "HloFactor.h"
#include "HloTable.h"

namespace dtc {

namespace {

constexpr int64_t kSweeps = 14; // convergence is quadratic: some 6 to 10 for hundreds of columns

// What the program of a matrix of n columns is made with: N is n made even, by a column in front that takes no part.
struct Rotations {
  std::string batch, rows, columns, half, bottom, all, trips, dtype, order;
  bool complex = false;
  Rotations(HloContext& c, ValueId x, int64_t rowsAbove) {
    const std::vector<int64_t> shape = c.shapeOf(x);
    const int64_t n = shape[2], h = n / 2;
    batch = std::to_string(shape[0]);
    rows = std::to_string(rowsAbove);
    columns = std::to_string(n);
    half = std::to_string(h);
    bottom = std::to_string(shape[1]);
    all = std::to_string(rowsAbove + n);
    trips = std::to_string(kSweeps * std::max<int64_t>(n - 1, 1));
    complex = isComplex(c.dtypeOf(x));
    dtype = complex ? "c128" : "f64";
    order = "[0";
    for (int64_t i = 1; i < n; ++i) { // place i of the next round comes from there
      int64_t from = i < h ? i - 1 : i + 1;
      if (i == 1 && h > 1) from = h;
      if (i == n - 1) from = h > 1 ? h - 1 : 1;
      order += ", " + std::to_string(from);
    }
    order += "]";
  }
  [[nodiscard]] std::vector<HloTextValue> values() const {
    return {{"B", batch}, {"m", rows},      {"N", columns}, {"h", half},
            {"M", all},   {"trips", trips}, {"T", dtype},   {"order", order}};
  }
};

// Of the pair's entries p, q and r of a Hermitian matrix, |r| and the phase of r: the rotation that makes r 0.
constexpr std::string_view kRealPhase = R"(%size = abs %r
  %flat = eq %size, 0.0
  %safe = select %flat, 1.0, %size
  %turn = div %r, %safe
  %w = select %flat, 1.0, %turn
  %wc = add %w, 0.0)";
constexpr std::string_view kComplexPhase = R"(%rre = real %r
  %rim = imag %r
  %size = abs %r
  %flat = eq %size, 0.0
  %safe = select %flat, 1.0, %size
  %ure = div %rre, %safe
  %wre = select %flat, 1.0, %ure
  %wim = div %rim, %safe
  %w = complex %wre, %wim
  %wc = conj %w)";
constexpr std::string_view kAngle = R"(%gap = sub %q, %p
  %twice = mul %safe, 2.0
  %theta = div %gap, %twice
  %atheta = abs %theta
  %theta2 = mul %theta, %theta
  %theta21 = add %theta2, 1.0
  %root = sqrt %theta21
  %longer = add %atheta, %root
  %t0 = reciprocal %longer
  %minus = neg %t0
  %up = ge %theta, 0.0
  %t1 = select %up, %t0, %minus
  %t = select %flat, 0.0, %t1
  %t2 = mul %t, %t
  %t21 = add %t2, 1.0
  %cos = rsqrt %t21
  %sin = mul %t, %cos
  %c = convert %cos {dtype = $T}
  %s = convert %sin {dtype = $T})";
// Columns [B, R, h] of x, by c and s of [B, 1, h].
constexpr std::string_view kTurnColumns = R"(%c1 = expand_dims %c {dims = [1]}
  %s1 = expand_dims %s {dims = [1]}
  %wc1 = expand_dims %wc {dims = [1]}
  %left = slice %x {start = [0, 0, 0], limit = [$B, $M, $h]}
  %right = slice %x {start = [0, 0, $h], limit = [$B, $M, $N]}
  %rightw = mul %right, %wc1
  %lc = mul %left, %c1
  %rs = mul %rightw, %s1
  %left2 = sub %lc, %rs
  %ls = mul %left, %s1
  %rc = mul %rightw, %c1
  %right2 = add %ls, %rc
  %turned = concat %left2, %right2 {dim = 2})";

// Of [A; V], A Hermitian: A becomes diagonal, V the product of the rotations.
constexpr std::string_view kEigen = R"(
%order = constant {value = $order} : i32[$N]
%i = iota {dim = 1} : i32[1, $N, $N]
%j = iota {dim = 2} : i32[1, $N, $N]
%diagonal = eq %i, %j
%ih = iota {dim = 1} : i32[1, $h, $h]
%jh = iota {dim = 2} : i32[1, $h, $h]
%diagonalh = eq %ih, %jh
%y = for %trip in 0..$trips (%x = %start) {
  %a = slice %x {start = [0, 0, 0], limit = [$B, $N, $N]}
  %only = select %diagonal, %a, 0.0
  %sum = sum %only {dims = [2]}
  $real
  %p = slice %d {start = [0, 0], limit = [$B, $h]}
  %q = slice %d {start = [0, $h], limit = [$B, $N]}
  %block = slice %a {start = [0, 0, $h], limit = [$B, $h, $N]}
  %onlyh = select %diagonalh, %block, 0.0
  %r = sum %onlyh {dims = [2]}
  $phase
  $angle
  $turn
  %c2 = expand_dims %c {dims = [2]}
  %s2 = expand_dims %s {dims = [2]}
  %w2 = expand_dims %w {dims = [2]}
  %upper = slice %turned {start = [0, 0, 0], limit = [$B, $h, $N]}
  %lower = slice %turned {start = [0, $h, 0], limit = [$B, $N, $N]}
  %vectors = slice %turned {start = [0, $N, 0], limit = [$B, $M, $N]}
  %lowerw = mul %lower, %w2
  %uc = mul %upper, %c2
  %lws = mul %lowerw, %s2
  %upper2 = sub %uc, %lws
  %us = mul %upper, %s2
  %lwc = mul %lowerw, %c2
  %lower2 = add %us, %lwc
  %both = concat %upper2, %lower2 {dim = 1}
  %rowsmoved = index_select %both, %order {dim = 1}
  %whole = concat %rowsmoved, %vectors {dim = 1}
  %x2 = index_select %whole, %order {dim = 2}
  yield %x2
}
%a = slice %y {start = [0, 0, 0], limit = [$B, $N, $N]}
%only = select %diagonal, %a, 0.0
%sum = sum %only {dims = [2]}
$real
%v = slice %y {start = [0, $N, 0], limit = [$B, $M, $N]}
yield %d, %v
)";

// Of [G; V]: the columns of G become orthogonal (M. Hestenes, 1958); yields their lengths, G and V.
constexpr std::string_view kSingular = R"(
%order = constant {value = $order} : i32[$N]
%y = for %trip in 0..$trips (%x = %start) {
  %g = slice %x {start = [0, 0, 0], limit = [$B, $m, $N]}
  %gp = slice %g {start = [0, 0, 0], limit = [$B, $m, $h]}
  %gq = slice %g {start = [0, 0, $h], limit = [$B, $m, $N]}
  $conjugate
  %pp = mul %gpc, %gp
  %pps = sum %pp {dims = [1]}
  %qq = mul %gqc, %gq
  %qqs = sum %qq {dims = [1]}
  %pq = mul %gpc, %gq
  %r = sum %pq {dims = [1]}
  $lengths
  $phase
  $angle
  $turn
  %x2 = index_select %turned, %order {dim = 2}
  yield %x2
}
%g = slice %y {start = [0, 0, 0], limit = [$B, $m, $N]}
%v = slice %y {start = [0, $m, 0], limit = [$B, $M, $N]}
%size = abs %g
%size2 = mul %size, %size
%length2 = sum %size2 {dims = [1]}
%d = sqrt %length2
yield %d, %g, %v
)";

// x [B, m, n] over the unit matrix of n rows, n made even by a column in front.
ValueId stacked(HloContext& c, ValueId x, bool square) {
  const std::vector<int64_t> shape = c.shapeOf(x);
  const int64_t more = shape[2] % 2, n = shape[2] + more;
  const DType part = DType::F64, whole = c.dtypeOf(x);
  const std::array<int64_t, 3> low = {0, square ? more : 0, more}, none = {0, 0, 0};
  if (more)
    x = c.emit("pad", {x, c.literal(0, whole)}, {{"low", c.intsAttr(low)}, {"high", c.intsAttr(none)}});
  ValueId unit = c.emitTyped("eye", {}, {}, c.tensorType(part, std::array{n, n}));
  unit = c.broadcastTo(c.reshape(c.convert(unit, whole), std::array<int64_t, 3>{1, n, n}),
                       std::array{shape[0], n, n});
  return c.emit("concat", {x, unit}, {{"dim", c.intAttr(1)}});
}

ValueId part3(HloContext& c, ValueId x, std::array<int64_t, 3> start, std::array<int64_t, 3> limit) {
  return c.emit("slice", {x}, {{"start", c.intsAttr(start)}, {"limit", c.intsAttr(limit)}});
}

// Columns of x [B, r, n] in the order of indices [B, n].
ValueId columnsInOrder(HloContext& c, ValueId x, ValueId order) {
  const std::vector<int64_t> shape = c.shapeOf(x);
  if (!order.valid()) return {};
  const ValueId wide = c.broadcastTo(c.reshape(order, std::array<int64_t, 3>{shape[0], 1, shape[2]}), shape);
  return c.emit("gather", {x, wide}, {{"dim", c.intAttr(2)}});
}

// The first `from` columns left away, of [B, n].
ValueId without(HloContext& c, ValueId x, int64_t from) {
  const std::vector<int64_t> shape = c.shapeOf(x);
  if (!x.valid() || from == 0) return x;
  return c.emit("slice", {x},
                {{"start", c.intsAttr(std::array<int64_t, 2>{0, from})}, {"limit", c.intsAttr(shape)}});
}

ValueId adjoint(HloContext& c, ValueId x) {
  if (x.valid() && isComplex(c.dtypeOf(x))) x = c.emit("conj", {x});
  return c.transpose(x, std::array<int64_t, 3>{0, 2, 1});
}

ValueId widened(HloContext& c, ValueId x) {
  return x.valid() ? c.convert(x, isComplex(c.dtypeOf(x)) ? DType::C128 : DType::F64) : x;
}

// --- eigenvalues ---

struct Spectrum {
  ValueId values, vectors;
};

Spectrum eigen(HloContext& c, ValueId x) { // [B, n, n], Hermitian, of f64
  if (!x.valid()) return {};
  const int64_t n = c.shapeOf(x)[2], more = n % 2, batch = c.shapeOf(x)[0];
  const ValueId start = stacked(c, x, true);
  if (!start.valid()) return {};
  const Rotations r(c, start, n + more);
  std::vector<HloTextValue> values = r.values();
  values.insert(values.end(), {{"real", r.complex ? "%d = real %sum" : "%d = add %sum, 0.0"},
                               {"phase", r.complex ? kComplexPhase : kRealPhase},
                               {"angle", kAngle},
                               {"turn", kTurnColumns}});
  const std::pair<std::string_view, ValueId> bindings[] = {{"start", start}};
  const std::vector<ValueId> made = inlineProgram(c, kEigen, values, bindings);
  if (made.size() != 2) return {};
  const ValueId d = without(c, made[0], more);
  const ValueId v = part3(c, made[1], {0, more, more}, {batch, n + more, n + more});
  const ValueId order = c.emit("argsort", {d}, {{"dim", c.intAttr(1)}});
  return {c.emit("gather", {d, order}, {{"dim", c.intAttr(1)}}), columnsInOrder(c, v, order)};
}

// Vectors, values, and whether it failed, which rotations do not.
bool syevd(HloContext& c) {
  const std::vector<ValueId> in = matricesOf(c);
  if (in.size() != 1 || c.numResults() != 3) return c.fail("has one matrix and three results");
  auto half = letterOf(c, "uplo");
  if (!half) return false;
  if (isEmptyMatrix(c, in[0])) return giveAs(c, 0, in[0]) && giveZeros(c, 1);
  ValueId x = widened(c, flatBatch(c, in[0]));
  if (!x.valid()) return false;
  if (c.shapeOf(x)[1] != c.shapeOf(x)[2]) return c.fail("takes square matrices");
  // Only one triangle is read, and of the diagonal the real parts.
  const bool lower = *half == 'L';
  const ValueId strict = c.emit(lower ? "tril" : "triu", {x}, {{"diagonal", c.intAttr(lower ? -1 : 1)}});
  ValueId diagonal = c.emit("tril", {c.emit("triu", {x})});
  if (isComplex(c.dtypeOf(x))) diagonal = c.convert(c.emit("real", {diagonal}), DType::C128);
  const ValueId full = c.emit("add", {c.emit("add", {strict, adjoint(c, strict)}), diagonal});
  const Spectrum s = eigen(c, full);
  return giveAs(c, 0, s.vectors) && giveAs(c, 1, s.values) && giveZeros(c, 2);
}

// --- singular values ---

struct Singular {
  ValueId left, values,
      right; // [B, m, n], [B, n], [B, n, n], the greatest value first; columns of left may be 0
};

Singular singular(HloContext& c, ValueId x) { // [B, m, n], m >= n
  const int64_t batch = c.shapeOf(x)[0], m = c.shapeOf(x)[1], n = c.shapeOf(x)[2], more = n % 2;
  const ValueId start = stacked(c, x, false);
  if (!start.valid()) return {};
  const Rotations r(c, start, m);
  std::vector<HloTextValue> values = r.values();
  values.insert(values.end(), {{"conjugate", r.complex ? "%gpc = conj %gp\n  %gqc = conj %gq"
                                                       : "%gpc = add %gp, 0.0\n  %gqc = add %gq, 0.0"},
                               {"lengths", r.complex ? "%p = real %pps\n  %q = real %qqs"
                                                     : "%p = add %pps, 0.0\n  %q = add %qqs, 0.0"},
                               {"phase", r.complex ? kComplexPhase : kRealPhase},
                               {"angle", kAngle},
                               {"turn", kTurnColumns}});
  const std::pair<std::string_view, ValueId> bindings[] = {{"start", start}};
  const std::vector<ValueId> made = inlineProgram(c, kSingular, values, bindings);
  if (made.size() != 3) return {};
  const ValueId d = without(c, made[0], more);
  const ValueId g = part3(c, made[1], {0, 0, more}, {batch, m, n + more}),
                v = part3(c, made[2], {0, more, more}, {batch, n + more, n + more});
  const ValueId order = c.emit("argsort", {d}, {{"dim", c.intAttr(1)}, {"descending", c.boolAttr(true)}});
  const ValueId sorted = c.emit("gather", {d, order}, {{"dim", c.intAttr(1)}});
  const ValueId safe =
      c.emit("select", {c.emit("eq", {sorted, c.literal(0, DType::F64)}), c.literal(1, DType::F64), sorted});
  const ValueId length = c.convert(c.reshape(safe, std::array<int64_t, 3>{batch, 1, n}), c.dtypeOf(g));
  return {c.emit("div", {columnsInOrder(c, g, order), length}), sorted, columnsInOrder(c, v, order)};
}

// Orthonormal columns, as many as asked for, of which the first are those of u where these are not 0: Q of u = QR, whose R has
// a phase on its diagonal where u has a column.
ValueId completed(HloContext& c, ValueId u, int64_t columns) {
  if (!u.valid()) return {};
  const int64_t batch = c.shapeOf(u)[0], n = c.shapeOf(u)[2];
  const HloReflectors r = householderQr(c, u);
  const ValueId q = householderProduct(c, r, columns);
  if (!q.valid()) return {};
  const ValueId square = part3(c, r.matrix, {0, 0, 0}, {batch, n, n});
  const ValueId diagonal = c.emit("sum", {c.emit("tril", {c.emit("triu", {square})})},
                                  {{"dims", c.intsAttr(std::array<int64_t, 1>{1})}});
  const ValueId is = c.emit("gt", {c.emit("abs", {diagonal}), c.literal(0.5, DType::F64)});
  ValueId phase = c.reshape(c.emit("select", {is, diagonal, c.literal(1, c.dtypeOf(u))}),
                            std::array<int64_t, 3>{batch, 1, n});
  if (columns > n)
    phase = c.emit("concat", {phase, c.splat(1, c.dtypeOf(u), std::array<int64_t, 3>{batch, 1, columns - n})},
                   {{"dim", c.intAttr(2)}});
  return c.emit("mul", {q, phase});
}

// The matrix, the values, U, Vᴴ, and whether it failed. Mode N: values alone, and nothing is said of U and Vᴴ.
bool gesdd(HloContext& c) {
  const std::vector<ValueId> in = matricesOf(c);
  if (in.size() != 1 || c.numResults() != 5) return c.fail("has one matrix and five results");
  auto mode = letterOf(c, "mode");
  if (!mode) return false;
  if (isEmptyMatrix(c, in[0])) return c.fail("factors a matrix without elements");
  ValueId x = widened(c, flatBatch(c, in[0]));
  if (!x.valid()) return false;
  const bool wide = c.shapeOf(x)[2] > c.shapeOf(x)[1];
  if (wide) x = adjoint(c, x);
  const Singular s = singular(c, x);
  if (!giveAs(c, 0, in[0]) || !giveAs(c, 1, s.values)) return false;
  if (*mode == 'N') return giveZeros(c, 2);
  const int64_t m = c.shapeOf(x)[1], n = c.shapeOf(x)[2];
  const ValueId left = completed(c, s.left, *mode == 'A' ? m : n);
  const ValueId u = wide ? s.right : left, v = wide ? left : s.right;
  return giveAs(c, 2, u) && giveAs(c, 3, adjoint(c, v)) && giveZeros(c, 4);
}

const HloRow kRows[] = {
    {"custom_call @lapack_cgesdd_ffi", gesdd}, {"custom_call @lapack_cheevd_ffi", syevd},
    {"custom_call @lapack_dgesdd_ffi", gesdd}, {"custom_call @lapack_dsyevd_ffi", syevd},
    {"custom_call @lapack_sgesdd_ffi", gesdd}, {"custom_call @lapack_ssyevd_ffi", syevd},
    {"custom_call @lapack_zgesdd_ffi", gesdd}, {"custom_call @lapack_zheevd_ffi", syevd},
};

} // namespace

std::span<const HloRow> hloSpectralRows() { return kRows; }

} // namespace dtc
