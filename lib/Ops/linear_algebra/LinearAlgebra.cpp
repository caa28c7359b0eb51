// Batched cholesky and triangular_solve: column by column in a `for`, with pointwise steps.
#include "dtc/Ops/Loop.h"
#include "linear_algebra/PlaneMatrices.h"
#include <cmath>
#include <complex>
#include <numeric>

namespace dtc {

namespace {

using As = PlaneMatrices::As;

// Narrow floats would be rounded in each of n steps.
PlaneMatrix widened(Builder& b, ValueId x) {
  const Expr v(b, x);
  return {v.as(accumulationType(v.dtype())), {}};
}
PlaneMatrix inBlock(Builder& b, std::span<const ValueId> planes) {
  return {Expr(b, planes[0]), planes.size() > 1 ? Expr(b, planes[1]) : Expr()};
}
std::vector<ValueId> planesOf(std::initializer_list<PlaneMatrix> matrices) {
  std::vector<ValueId> out;
  for (const PlaneMatrix& x : matrices) {
    out.push_back(x.re);
    if (x.complex()) out.push_back(x.im);
  }
  return out;
}
// A loop stacks lines of a matrix along a new dim 0, which becomes the last dim but one, or the last one.
PlaneMatrix unstacked(PlaneMatrices& z, const PlaneMatrix& lines, bool last) {
  std::vector<int64_t> perm(static_cast<size_t>(z.rank(lines)));
  std::iota(perm.begin(), perm.end(), 1);
  perm.back() = 0;
  if (!last) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return z.each(lines, [&](Expr v) { return transpose(v, perm); });
}

// Whether the last two dims of operand `i` are equal.
bool squareMatrix(const OpQuery& q, size_t i) {
  const Type& t = q.type(i);
  if (t.rank() < 2) return reportRank(q, i, "2 or more");
  if (t.dims[t.rank() - 1] == t.dims[t.rank() - 2]) return true;
  return reportShape(q, "takes square matrices, not " + typeText(*q.module, q.operandTypes[i]));
}

// --- cholesky ---

bool choleskyRule(const OpQuery& q, Rule& rule) {
  if (!squareMatrix(q, 0)) return false;
  const Type& t = q.type(0);
  TensorMap map;
  for (size_t d = 0; d + 2 < t.rank(); ++d)
    map.dims.push_back(plainDim(addFactor(rule, t.dims[d], "b" + std::to_string(d))));
  for (const char* name : {"i", "j"}) map.dims.push_back(plainDim(addUnsharded(rule, t.dims.back(), name)));
  rule.operands.push_back(map);
  rule.results.push_back(std::move(map));
  return true;
}

bool choleskyFollow(const OpQuery& q, Rule& rule) {
  if (!choleskyRule(q, rule)) return false;
  for (Factor& f : rule.factors)
    if (f.kind == FactorKind::Whole) f.kind = FactorKind::Exchange;
  return true;
}

// The element types of the evaluators, real and complex, and the conjugate of either.
struct Real {
  using Number = long double;
  static Number get(const Tensor& t, int64_t i) { return t.getFloat(i); }
  static void set(Tensor& t, int64_t i, Number v) { t.setFloat(i, static_cast<double>(v)); }
  static Number conj(Number v) { return v; }
};
struct Complex {
  using Number = std::complex<long double>;
  static Number get(const Tensor& t, int64_t i) { return Number(t.getComplex(i)); }
  static void set(Tensor& t, int64_t i, Number v) { t.setComplex(i, std::complex<double>(v)); }
  static Number conj(Number v) { return std::conj(v); }
};

// The upper factor of x is the conjugate transpose of the lower factor of the conjugate transpose of x.
template <class N>
bool choleskyEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  using Number = typename N::Number;
  const int64_t n = in[0]->shape().back(), count = n == 0 ? 0 : in[0]->numElements() / (n * n);
  const bool lower = q.boolAttr("lower");
  std::vector<Number> l(static_cast<size_t>(n * n));
  for (int64_t m = 0; m < count; ++m) {
    auto offsetOf = [&](int64_t i, int64_t j) { return m * n * n + (lower ? i * n + j : j * n + i); };
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < n; ++i) {
        auto at = [&](int64_t r, int64_t c) -> Number& { return l[static_cast<size_t>(r * n + c)]; };
        if (i < j) {
          at(i, j) = 0;
          continue;
        }
        Number sum = N::get(*in[0], offsetOf(i, j));
        if (!lower) sum = N::conj(sum);
        for (int64_t k = 0; k < j; ++k) sum -= at(i, k) * N::conj(at(j, k));
        at(i, j) = i == j ? Number(std::sqrt(std::real(sum))) : sum / at(j, j);
      }
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        N::set(*out[0], offsetOf(i, j),
               lower ? l[static_cast<size_t>(i * n + j)] : N::conj(l[static_cast<size_t>(i * n + j)]));
  }
  return true;
}

// Column j of the remainder over the square root of its first element, and the remainder minus the product of
// the column and its conjugate transpose.
PlaneMatrix choleskyOf(Builder& b, const PlaneMatrix& x, bool lower) {
  PlaneMatrices z(b);
  const int64_t n = z.columns(x), last = z.rank(x) - 1, second = last - 1;
  if (n == 0) return x;
  const Expr rows = ops::iota(b, b.module.tensorType(DType::I32, {n}), {.dim = 0});
  const std::vector<ValueId> start = planesOf({x});
  const auto step = [&](Builder& in, Expr j, std::span<const ValueId> carried) {
    PlaneMatrices y(in);
    const PlaneMatrix rest = inBlock(in, carried);
    const PlaneMatrix column =
        y.each(rest, [&](Expr v) { return index_select(v, j, {.dim = lower ? last : second}); });
    const Expr root = sqrt(index_select(column.re, j, {.dim = second}));
    const PlaneMatrix all = y.over(column, expand_dims(root, {second}));
    const Expr row(in, rows), below = row >= j;
    PlaneMatrix c{select(below, all.re, 0), {}};
    if (all.complex()) c.im = select(row > j, all.im, 0);
    const PlaneMatrix down = y.expanded(c, last), across = y.expanded(c, second);
    const PlaneMatrix product =
        y.times(down, across, lower ? As::Is : As::Adjoint, lower ? As::Adjoint : As::Is);
    return planesOf({y.difference(rest, product), c});
  };
  const std::vector<Expr> made = ops::forLoop(b, 0, n, start, step);
  return unstacked(z, {made[start.size()], x.complex() ? made[3] : Expr()}, lower);
}

bool choleskyDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  const OpQuery q = queryOf(b.module, op, b.diags);
  if (!staticMatrices(q)) return false;
  const PlaneMatrix x = widened(b, b.module.operand(op, 0));
  results.push_back(choleskyOf(b, x, q.boolAttr("lower")).re.as(q.type(0).dtype));
  return true;
}

bool choleskyPlanes(Builder& b, OpId op, std::span<const ValueId> planes, std::vector<ValueId>& results) {
  const OpQuery q = queryOf(b.module, op, b.diags);
  if (!staticMatrices(q)) return false;
  const bool lower = q.boolAttr("lower");
  results = planesOf({choleskyOf(b, inBlock(b, planes), lower)});
  return true;
}

// I. Murray, "Differentiation of the Cholesky decomposition", 2016: with S = L^-T Φ(Lᵀ dL) L^-1, where Φ is
// the lower triangle with half of its diagonal, an element below the diagonal gets S + Sᵀ, because the one
// above it is not read.
bool choleskyGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  PlaneMatrices z(b);
  const OpQuery q = queryOf(b.module, op, b.diags);
  if (!staticMatrices(q)) return false;
  const bool lower = q.boolAttr("lower");
  const auto flipped = [&](Expr v) { return lower ? v : z.transposed({v, {}}).re; };
  const Expr y = flipped(Expr(b, b.module.result(op))), d = flipped(Expr(b, dy[0]));
  const Expr low = tril(matmul(y, d, {.transpose_a = true}));
  const Expr half = z.identity(y.dims().back().value(), y.dtype()) * -0.5 + 1;
  const Expr r = triangular_solve(y, low * half, {.transpose_a = true});
  const Expr s = triangular_solve(y, r, {.left_side = false});
  dx.push_back(flipped(tril(s + z.transposed({s, {}}).re) * half));
  return true;
}

// --- triangular_solve ---

TriangularSystem systemOf(const OpQuery& q) {
  return {q.boolAttr("left_side"), q.boolAttr("lower"), q.boolAttr("unit_diagonal"),
          q.boolAttr("transpose_a")};
}

bool solveRule(const OpQuery& q, Rule& rule) {
  if (!squareMatrix(q, 0)) return false;
  const Type &a = q.type(0), &b = q.type(1);
  const size_t rank = a.rank();
  if (b.rank() != rank) return reportRank(q, 1, std::to_string(rank));
  const size_t along = rank - (q.boolAttr("left_side") ? 2 : 1),
               across = rank - (q.boolAttr("left_side") ? 1 : 2);
  if (!(b.dims[along] == a.dims.back()))
    return reportDims(q, "solves for dim", "as long as dim", 1, along, 0, rank - 1);
  TensorMap ma, mb;
  for (size_t d = 0; d + 2 < rank; ++d) {
    if (!(a.dims[d] == b.dims[d])) return reportDims(q, "needs dim", "equal to dim", 0, d, 1, d);
    ma.dims.push_back(plainDim(addFactor(rule, a.dims[d], "b" + std::to_string(d))));
  }
  mb.dims = ma.dims;
  mb.dims.resize(rank);
  const uint16_t n = addUnsharded(rule, a.dims.back(), "n");
  mb.dims[along] = plainDim(n);
  mb.dims[across] = plainDim(addFactor(rule, b.dims[across], "m"));
  ma.dims.push_back(freeDim(addUnsharded(rule, a.dims.back(), "i")));
  ma.dims.push_back(freeDim(addUnsharded(rule, a.dims.back(), "j")));
  rule.operands = {std::move(ma), mb};
  rule.results.push_back(std::move(mb));
  return true;
}

// The equation that maps x [j, …] to b [i, …] by a [i, j].
bool solveFollow(const OpQuery& q, Rule& rule) {
  if (!solveRule(q, rule)) return false;
  const size_t rank = q.type(0).rank();
  const bool left = q.boolAttr("left_side"), across = q.boolAttr("transpose_a");
  const size_t along = rank - (left ? 2 : 1);
  const Dim n = q.type(0).dims.back();
  const uint16_t from = addFactor(rule, n, "b", FactorKind::Exchange),
                 to = addFactor(rule, n, "x", FactorKind::Exchange);
  rule.operands[1].dims[along] = plainDim(from);
  rule.results[0].dims[along] = plainDim(to);
  rule.operands[0].dims[rank - 2] = plainDim(left == across ? to : from);
  rule.operands[0].dims[rank - 1] = plainDim(left == across ? from : to);
  return true;
}

template <class N>
bool solveEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const TriangularSystem s = systemOf(q);
  const std::vector<int64_t>& shape = in[1]->shape();
  const size_t rank = shape.size();
  const int64_t n = in[0]->shape().back(), m = shape[rank - (s.left ? 1 : 2)];
  const int64_t count = n * m == 0 ? 0 : in[1]->numElements() / (n * m);
  using Number = typename N::Number;
  std::vector<Number> x(static_cast<size_t>(n));
  for (int64_t batch = 0; batch < count; ++batch)
    for (int64_t column = 0; column < m; ++column) {
      auto offsetOf = [&](int64_t i) { return batch * n * m + (s.left ? i * m + column : column * n + i); };
      auto element = [&](int64_t i, int64_t j) {
        return N::get(*in[0], batch * n * n + (s.flipped() ? j * n + i : i * n + j));
      };
      for (int64_t step = 0; step < n; ++step) {
        const int64_t i = s.forward() ? step : n - 1 - step;
        Number sum = N::get(*in[1], offsetOf(i));
        for (int64_t k = 0; k < step; ++k) {
          const int64_t j = s.forward() ? k : n - 1 - k;
          sum -= element(i, j) * x[static_cast<size_t>(j)];
        }
        x[static_cast<size_t>(i)] = s.unit ? sum : sum / element(i, i);
      }
      for (int64_t i = 0; i < n; ++i) N::set(*out[0], offsetOf(i), x[static_cast<size_t>(i)]);
    }
  return true;
}

bool solveDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  const OpQuery q = queryOf(b.module, op, b.diags);
  if (!staticMatrices(q)) return false;
  const PlaneMatrix a = widened(b, b.module.operand(op, 0)), x = widened(b, b.module.operand(op, 1));
  PlaneMatrices z(b);
  results.push_back(triangularSolution(z, systemOf(q), a, x).re.as(q.type(1).dtype));
  return true;
}

bool solvePlanes(Builder& b, OpId op, std::span<const ValueId> planes, std::vector<ValueId>& results) {
  const OpQuery q = queryOf(b.module, op, b.diags);
  if (!staticMatrices(q)) return false;
  const TriangularSystem s = systemOf(q);
  PlaneMatrices z(b);
  results = planesOf({triangularSolution(z, s, inBlock(b, planes.first(2)), inBlock(b, planes.subspan(2)))});
  return true;
}

// dB solves the transposed system; for A, in the triangle that is read, -dB Xᵀ if T is A itself.
bool solveGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  const TriangularSystem s = systemOf(queryOf(m, op, b.diags));
  const Expr a(b, m.operand(op, 0)), x(b, m.result(op));
  const Expr db = triangular_solve(
      a, dy[0],
      {.left_side = s.left, .lower = s.lower, .unit_diagonal = s.unit, .transpose_a = !s.transposed});
  // left: dT = -dB Xᵀ; right: dT = -Xᵀ dB; transposed if A was.
  const bool first = s.left != s.transposed; // whether dB is the first factor
  const Expr da = -matmul(first ? db : x, first ? x : db, {.transpose_a = !s.left, .transpose_b = s.left});
  dx = {s.lower ? tril(da, {.diagonal = s.unit ? -1 : 0}) : triu(da, {.diagonal = s.unit ? 1 : 0}), db};
  return true;
}

OpRecord matrixOp(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "linear algebra", .summary = summary};
  r.operandClasses = kFloats;
  r.lowering = Lowering::Decompose;
  return r;
}

} // namespace

// Solves for one row of X at a time, and subtracts its contribution from all further rows.
PlaneMatrix triangularSolution(PlaneMatrices& z, const TriangularSystem& s, const PlaneMatrix& a,
                               const PlaneMatrix& given) {
  const int64_t n = z.columns(a), last = z.rank(a) - 1, second = last - 1;
  if (n == 0) return given;
  const std::vector<ValueId> start = planesOf({s.left ? given : z.transposed(given)});
  const auto step = [&](Builder& in, Expr j, std::span<const ValueId> carried) {
    PlaneMatrices y(in);
    const PlaneMatrix rest = inBlock(in, carried), matrix = inBlock(in, planesOf({a}));
    const Expr k = s.forward() ? j : n - 1 - j;
    const auto line = [&](const PlaneMatrix& x, int64_t dim) {
      return y.each(x, [&](Expr v) { return index_select(v, k, {.dim = dim}); });
    };
    PlaneMatrix own = line(rest, second);
    const PlaneMatrix column = line(matrix, s.flipped() ? second : last);
    if (!s.unit) own = y.quotient(own, y.expanded(line(column, second), second));
    const PlaneMatrix down = y.expanded(column, last), across = y.expanded(own, second);
    return planesOf({y.difference(rest, y.times(down, across)), own});
  };
  const std::vector<Expr> made = ops::forLoop(z.b, 0, n, start, step);
  PlaneMatrix found{made[start.size()], a.complex() ? made[3] : Expr()};
  if (!s.forward()) found = z.each(found, [](Expr v) { return flip(v, {0}); });
  return unstacked(z, found, !s.left);
}

void addLinearAlgebraOps(OpRegistry& ops) {
  OpRecord& cholesky = ops.add(
      matrixOp("cholesky", "L with L Lᵀ = x over the last two dims; NaN if x is not positive definite"));
  cholesky.attrs = {{"lower", AttrType::Bool, "true",
                     "read x's lower triangle and return L; false: read the upper one and return Lᵀ"}};
  cholesky.rule = choleskyRule;
  cholesky.follow = choleskyFollow;
  cholesky.checks.coincidences = {{"P(min) -> P(min)", "of a 1 by 1 matrix it is the square root: as sqrt"}};
  cholesky.eval = choleskyEval<Real>;
  cholesky.complex = OpRecord::ComplexForm::Own;
  cholesky.complexEval = choleskyEval<Complex>;
  cholesky.complexFn = choleskyPlanes;
  cholesky.decompose = choleskyDecompose;
  cholesky.gradFn = choleskyGrad;
  cholesky.samples = "T[3, 1, 1]\nT[2, 2] {lower = false}\nT[5, 2, 2]";

  OpRecord& solve = ops.add(
      matrixOp("triangular_solve", "y with a y = b for a triangular a; the other triangle is not read"));
  solve.operands = "a, b";
  solve.attrs = {{"left_side", AttrType::Bool, "true", "false: y a = b"},
                 {"lower", AttrType::Bool, "true", "read the lower triangle of a; false: the upper one"},
                 {"unit_diagonal", AttrType::Bool, "false", "assume that a's diagonal is 1; it is not read"},
                 {"transpose_a", AttrType::Bool, "false", "use aᵀ instead of a"}};
  solve.rule = solveRule;
  solve.follow = solveFollow;
  solve.through = {linear(0b10)};
  solve.eval = solveEval<Real>;
  solve.complex = OpRecord::ComplexForm::Own;
  solve.complexEval = solveEval<Complex>;
  solve.complexFn = solvePlanes;
  solve.decompose = solveDecompose;
  solve.gradFn = solveGrad;
  solve.samples = "T[3, 3], T[3, 5]\nT[2, 3, 3], T[2, 5, 3] {left_side = false}\nT[3, 3], T[3, 1] {lower = "
                  "false, transpose_a = true}\n"
                  "T[3, 3], T[2, 3] {left_side = false, lower = false, unit_diagonal = true}\nT[3, 3], T[3, "
                  "2] {transpose_a = true, unit_diagonal = true}";
  addFactorizationOps(ops);
}

} // namespace dtc
