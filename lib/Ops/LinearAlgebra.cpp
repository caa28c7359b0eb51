// cholesky and triangular_solve, each of many matrices at once: column by column in a `for`, whose steps are pointwise.
#include "ShapeParts.h"
#include <cmath>
#include <complex>

namespace dtc {

namespace {

// --- text of dims ---

std::string intsText(const std::vector<int64_t>& v) {
  std::string text;
  for (int64_t n : v) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return "[" + text + "]";
}
// 1, …, rank - 2 and these: the batch dims of what is stacked along a new dim 0.
std::string stackedPerm(size_t rank, int64_t second, int64_t last) {
  std::vector<int64_t> perm;
  for (size_t d = 1; d + 1 < rank; ++d) perm.push_back(static_cast<int64_t>(d));
  perm.push_back(second);
  perm.push_back(last);
  return intsText(perm);
}
std::string swapPerm(size_t rank) {
  std::vector<int64_t> perm;
  for (size_t d = 0; d < rank; ++d) perm.push_back(static_cast<int64_t>(d));
  std::swap(perm[rank - 1], perm[rank - 2]);
  return intsText(perm);
}

// Narrow floats would be rounded at each of n steps.
ValueId widened(Builder& b, ValueId x) {
  const DType own = b.module.typeOf(x).dtype, wide = accumulationType(own);
  return own == wide ? x : b.value("convert", {x}, {{"dtype", b.word(dtypeName(wide))}});
}
bool inlineOne(Builder& b, const std::string& text,
               std::span<const std::pair<std::string_view, ValueId>> bindings, DType dtype,
               std::vector<ValueId>& results) {
  if (!b.inlineText(text, bindings, results)) return false;
  if (b.module.typeOf(results[0]).dtype != dtype)
    results[0] = b.value("convert", {results[0]}, {{"dtype", b.word(dtypeName(dtype))}});
  return true;
}

// Are the last two dims of operand `i` equal numbers?
bool squareMatrix(const OpQuery& q, size_t i) {
  const Type& t = q.type(i);
  if (t.rank() < 2) return reportRank(q, i, "2 or more");
  const Dim n = t.dims[t.rank() - 1];
  if (n == t.dims[t.rank() - 2] && n.isStatic()) return true;
  return reportShape(q, "takes square matrices whose size is a number, not " +
                            typeText(*q.module, q.operandTypes[i]));
}

// --- cholesky ---

bool choleskyRule(const OpQuery& q, Rule& rule) {
  if (!squareMatrix(q, 0)) return false;
  const Type& t = q.type(0);
  TensorMap map;
  for (size_t d = 0; d + 2 < t.rank(); ++d)
    map.dims.push_back(plainDim(addFactor(rule, t.dims[d], "b" + std::to_string(d))));
  for (const char* name : {"i", "j"}) map.dims.push_back(plainDim(addWhole(rule, t.dims.back(), name)));
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

// The evaluators' numbers: real ones and complex ones, and the conjugate of either.
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

// The upper factor of x is the lower one of x conjugated and transposed, so transposed and conjugated.
template <class N>
bool choleskyEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  using Number = typename N::Number;
  const int64_t n = in[0]->shape().back(), count = n == 0 ? 0 : in[0]->numElements() / (n * n);
  const bool lower = q.boolAttr("lower");
  std::vector<Number> l(static_cast<size_t>(n * n));
  for (int64_t m = 0; m < count; ++m) {
    auto place = [&](int64_t i, int64_t j) { return m * n * n + (lower ? i * n + j : j * n + i); };
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < n; ++i) {
        auto at = [&](int64_t r, int64_t c) -> Number& { return l[static_cast<size_t>(r * n + c)]; };
        if (i < j) {
          at(i, j) = 0;
          continue;
        }
        Number sum = N::get(*in[0], place(i, j));
        if (!lower) sum = N::conj(sum);
        for (int64_t k = 0; k < j; ++k) sum -= at(i, k) * N::conj(at(j, k));
        at(i, j) = i == j ? Number(std::sqrt(std::real(sum))) : sum / at(j, j);
      }
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        N::set(*out[0], place(i, j),
               lower ? l[static_cast<size_t>(i * n + j)] : N::conj(l[static_cast<size_t>(i * n + j)]));
  }
  return true;
}

// Column j of what is left, over the root of its first element, and what is left without the column's square.
bool choleskyDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Module& m = b.module;
  const OpQuery q = queryOf(m, op, b.diags);
  const Type t = q.type(0);
  const size_t rank = t.rank();
  if (t.dims.back() == Dim(0)) { // no column to begin with
    results.push_back(m.operand(op, 0));
    return true;
  }
  const std::string n = std::to_string(t.dims.back().value()), last = std::to_string(rank - 1),
                    second = std::to_string(rank - 2);
  const bool lower = q.boolAttr("lower");
  const std::string text = "%rows = iota {dim = 0} : i32[" + n + "]\n" + "%rest, %cols = for %j in 0.." + n +
                           " (%a = %x) {\n"
                           "%col = index_select %a, %j {dim = " +
                           (lower ? last : second) +
                           "}\n"
                           "%pivot = index_select %col, %j {dim = " +
                           second +
                           "}\n"
                           "%root = sqrt %pivot\n%wide = expand_dims %root {dims = [" +
                           second +
                           "]}\n%all = div %col, %wide\n"
                           "%below = ge %rows, %j\n%c = select %below, %all, 0.0\n"
                           "%down = expand_dims %c {dims = [" +
                           last + "]}\n%across = expand_dims %c {dims = [" + second +
                           "]}\n"
                           "%product = mul %down, %across\n%left = sub %a, %product\nyield %left, %c\n}\n"
                           "%l = transpose %cols {perm = " +
                           (lower ? stackedPerm(rank, static_cast<int64_t>(rank) - 1, 0)
                                  : stackedPerm(rank, 0, static_cast<int64_t>(rank) - 1)) +
                           "}\nyield %l";
  const std::pair<std::string_view, ValueId> bindings[] = {{"x", widened(b, m.operand(op, 0))}};
  return inlineOne(b, text, bindings, t.dtype, results);
}

// As choleskyDecompose, over planes: the square of a column c + id is (c + id)(c - id)ᵀ, of a row its conjugate.
bool choleskyPlanes(Builder& b, OpId op, std::span<const ValueId> planes, std::vector<ValueId>& results) {
  const OpQuery q = queryOf(b.module, op, b.diags);
  const Type& t = q.type(0);
  const size_t rank = t.rank();
  if (t.dims.back() == Dim(0)) {
    results.assign(planes.begin(), planes.begin() + 2);
    return true;
  }
  const std::string n = std::to_string(t.dims.back().value()), last = std::to_string(rank - 1),
                    second = std::to_string(rank - 2);
  const bool lower = q.boolAttr("lower");
  const auto end = static_cast<int64_t>(rank) - 1;
  const std::string dim = " {dim = " + (lower ? last : second) + "}\n", inner = " {dim = " + second + "}\n",
                    down = " {dims = [" + last + "]}\n", across = " {dims = [" + second + "]}\n",
                    perm =
                        " {perm = " + (lower ? stackedPerm(rank, end, 0) : stackedPerm(rank, 0, end)) + "}\n";
  const std::string text =
      "%rows = iota {dim = 0} : i32[" + n + "]\n%ra, %rb, %cs, %ds = for %j in 0.." + n +
      " (%a = %x, %b = %z) {\n%p = index_select %a, %j" + dim + "%q = index_select %b, %j" + dim +
      "%pivot = index_select %p, %j" + inner + "%root = sqrt %pivot\n%wide = expand_dims %root" + across +
      "%pw = div %p, %wide\n%qw = div %q, %wide\n%below = ge %rows, %j\n%above = gt %rows, %j\n"
      "%c = select %below, %pw, 0.0\n%d = select %above, %qw, 0.0\n%cd = expand_dims %c" +
      down + "%ca = expand_dims %c" + across + "%dd = expand_dims %d" + down + "%da = expand_dims %d" +
      across +
      "%cc = mul %cd, %ca\n%d2 = mul %dd, %da\n%re = add %cc, %d2\n%dc = mul %dd, %ca\n%cdd = mul %cd, "
      "%da\n" +
      (lower ? "%im = sub %dc, %cdd\n" : "%im = sub %cdd, %dc\n") +
      "%a2 = sub %a, %re\n%b2 = sub %b, %im\nyield %a2, %b2, %c, %d\n}\n%l = transpose %cs" + perm +
      "%m = transpose %ds" + perm + "yield %l, %m";
  const std::pair<std::string_view, ValueId> bindings[] = {{"x", planes[0]}, {"z", planes[1]}};
  return b.inlineText(text, bindings, results);
}

// I. Murray, "Differentiation of the Cholesky decomposition", 2016: with S = L^-T Φ(Lᵀ dL) L^-1, Φ the lower triangle with half of
// its diagonal, an element below the diagonal gets S + Sᵀ, since the one above it is never read.
bool choleskyGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  const OpQuery q = queryOf(m, op, b.diags);
  const Type& t = q.type(0);
  const std::string n = std::to_string(t.dims.back().value()),
                    swap = " {perm = " + swapPerm(t.rank()) + "}\n";
  const bool lower = q.boolAttr("lower");
  const std::string text = (lower ? "" : "%y = transpose %z" + swap + "%d = transpose %dz" + swap) +
                           "%p = matmul %y, %d {transpose_a = true}\n%low = tril %p\n%e = eye : " +
                           std::string(dtypeName(t.dtype)) + "[" + n + ", " + n +
                           "]\n%f = mul %e, -0.5\n%g = add %f, 1.0\n%phi = mul %low, %g\n"
                           "%r = triangular_solve %y, %phi {transpose_a = true}\n"
                           "%s = triangular_solve %y, %r {left_side = false}\n%st = transpose %s" +
                           swap + "%sum = add %s, %st\n%tl = tril %sum\n%da = mul %tl, %g\n" +
                           (lower ? "yield %da" : "%dt = transpose %da" + swap + "yield %dt");
  const std::pair<std::string_view, ValueId> bindings[] = {{lower ? "y" : "z", m.result(op)},
                                                           {lower ? "d" : "dz", dy[0]}};
  return b.inlineText(text, bindings, dx);
}

// --- triangular_solve ---

// What is solved, as T X = B with T below or above its diagonal.
struct Solve {
  bool left, lower, unit, transposed;
  explicit Solve(const OpQuery& q)
      : left(q.boolAttr("left_side")), lower(q.boolAttr("lower")), unit(q.boolAttr("unit_diagonal")),
        transposed(q.boolAttr("transpose_a")) {}
  // X op(A) = B is op(A)ᵀ Xᵀ = Bᵀ.
  [[nodiscard]] bool flipped() const { return transposed == left; }
  [[nodiscard]] bool forward() const { return lower != flipped(); }
};

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
  const uint16_t n = addWhole(rule, a.dims.back(), "n");
  mb.dims[along] = plainDim(n);
  mb.dims[across] = plainDim(addFactor(rule, b.dims[across], "m"));
  ma.dims.push_back(freeDim(addWhole(rule, a.dims.back(), "i")));
  ma.dims.push_back(freeDim(addWhole(rule, a.dims.back(), "j")));
  rule.operands = {std::move(ma), mb};
  rule.results.push_back(std::move(mb));
  return true;
}

// a [i, j] takes x [j, …] to b [i, …].
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
  const Solve s(q);
  const std::vector<int64_t>& shape = in[1]->shape();
  const size_t rank = shape.size();
  const int64_t n = in[0]->shape().back(), m = shape[rank - (s.left ? 1 : 2)];
  const int64_t count = n * m == 0 ? 0 : in[1]->numElements() / (n * m);
  using Number = typename N::Number;
  std::vector<Number> x(static_cast<size_t>(n));
  for (int64_t batch = 0; batch < count; ++batch)
    for (int64_t column = 0; column < m; ++column) {
      auto place = [&](int64_t i) { return batch * n * m + (s.left ? i * m + column : column * n + i); };
      auto element = [&](int64_t i, int64_t j) {
        return N::get(*in[0], batch * n * n + (s.flipped() ? j * n + i : i * n + j));
      };
      for (int64_t step = 0; step < n; ++step) {
        const int64_t i = s.forward() ? step : n - 1 - step;
        Number sum = N::get(*in[1], place(i));
        for (int64_t k = 0; k < step; ++k) {
          const int64_t j = s.forward() ? k : n - 1 - k;
          sum -= element(i, j) * x[static_cast<size_t>(j)];
        }
        x[static_cast<size_t>(i)] = s.unit ? sum : sum / element(i, i);
      }
      for (int64_t i = 0; i < n; ++i) N::set(*out[0], place(i), x[static_cast<size_t>(i)]);
    }
  return true;
}

// A row of X at a time; its part of all further rows is taken off at once.
bool solveDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Module& m = b.module;
  const OpQuery q = queryOf(m, op, b.diags);
  const Solve s(q);
  const Type t = q.type(1);
  const size_t rank = t.rank();
  if (q.type(0).dims.back() == Dim(0)) {
    results.push_back(m.operand(op, 1));
    return true;
  }
  const int64_t n = q.type(0).dims.back().value(), end = static_cast<int64_t>(rank) - 1;
  const std::string last = std::to_string(rank - 1), second = std::to_string(rank - 2);
  std::string text = s.left ? "" : "%b = transpose %x {perm = " + swapPerm(rank) + "}\n";
  text += "%rest, %found = for %j in 0.." + std::to_string(n) + " (%r = %b) {\n";
  if (!s.forward()) text += "%k = sub " + std::to_string(n - 1) + ", %j\n";
  const std::string k = s.forward() ? "%j" : "%k";
  text += "%row = index_select %r, " + k + " {dim = " + second + "}\n%col = index_select %a, " + k +
          " {dim = " + (s.flipped() ? second : last) + "}\n";
  if (!s.unit)
    text += "%pivot = index_select %col, " + k + " {dim = " + second +
            "}\n%wide = expand_dims %pivot {dims = [" + second + "]}\n%own = div %row, %wide\n";
  const std::string own = s.unit ? "%row" : "%own";
  text += "%down = expand_dims %col {dims = [" + last + "]}\n%across = expand_dims " + own + " {dims = [" +
          second + "]}\n%product = mul %down, %across\n%left = sub %r, %product\nyield %left, " + own +
          "\n}\n";
  if (!s.forward()) text += "%order = flip %found {dims = [0]}\n";
  text += std::string("%y = transpose ") + (s.forward() ? "%found" : "%order") +
          " {perm = " + (s.left ? stackedPerm(rank, 0, end) : stackedPerm(rank, end, 0)) + "}\nyield %y";
  const std::pair<std::string_view, ValueId> bindings[] = {
      {"a", widened(b, m.operand(op, 0))}, {s.left ? "b" : "x", widened(b, m.operand(op, 1))}};
  return inlineOne(b, text, bindings, t.dtype, results);
}

// As solveDecompose, over planes.
bool solvePlanes(Builder& b, OpId op, std::span<const ValueId> planes, std::vector<ValueId>& results) {
  const OpQuery q = queryOf(b.module, op, b.diags);
  const Solve s(q);
  const Type& t = q.type(1);
  const size_t rank = t.rank();
  if (q.type(0).dims.back() == Dim(0)) {
    results.assign(planes.begin() + 2, planes.end());
    return true;
  }
  const int64_t n = q.type(0).dims.back().value(), end = static_cast<int64_t>(rank) - 1;
  const std::string last = std::to_string(rank - 1), second = std::to_string(rank - 2),
                    at = (s.forward() ? std::string("%j") : std::string("%k")) + " {dim = ",
                    across = " {dims = [" + second + "]}\n", down = " {dims = [" + last + "]}\n",
                    along = s.flipped() ? second : last, swap = " {perm = " + swapPerm(rank) + "}\n",
                    perm = " {perm = " + (s.left ? stackedPerm(rank, 0, end) : stackedPerm(rank, end, 0)) +
                           "}\n";
  std::string text = s.left ? "" : "%b = transpose %x" + swap + "%bi = transpose %xi" + swap;
  text += "%rest, %resti, %found, %foundi = for %j in 0.." + std::to_string(n) + " (%r = %b, %ri = %bi) {\n";
  if (!s.forward()) text += "%k = sub " + std::to_string(n - 1) + ", %j\n";
  text += "%row = index_select %r, " + at + second + "}\n%rowi = index_select %ri, " + at + second +
          "}\n%col = index_select %a, " + at + along + "}\n%coli = index_select %ai, " + at + along + "}\n";
  if (!s.unit) // the quotient by p + iq: times its conjugate, over its size squared
    text +=
        "%p1 = index_select %col, " + at + second + "}\n%q1 = index_select %coli, " + at + second +
        "}\n%p = expand_dims %p1" + across + "%q = expand_dims %q1" + across +
        "%pp = mul %p, %p\n%qq = mul %q, %q\n%size = add %pp, %qq\n%rp = mul %row, %p\n%iq = mul %rowi, %q\n"
        "%ip = mul %rowi, %p\n%rq = mul %row, %q\n%nr = add %rp, %iq\n%ni = sub %ip, %rq\n"
        "%own = div %nr, %size\n%owni = div %ni, %size\n";
  const std::string own = s.unit ? "%row" : "%own", owni = own + "i";
  text += "%cd = expand_dims %col" + down + "%cdi = expand_dims %coli" + down + "%xa = expand_dims " + own +
          across + "%xai = expand_dims " + owni + across +
          "%m1 = mul %cd, %xa\n%m2 = mul %cdi, %xai\n%m3 = mul %cd, %xai\n%m4 = mul %cdi, %xa\n"
          "%re = sub %m1, %m2\n%im = add %m3, %m4\n%left = sub %r, %re\n%lefti = sub %ri, %im\nyield %left, "
          "%lefti, " +
          own + ", " + owni + "\n}\n";
  if (!s.forward()) text += "%order = flip %found {dims = [0]}\n%orderi = flip %foundi {dims = [0]}\n";
  const std::string order = s.forward() ? "%found" : "%order";
  text += "%y = transpose " + order + perm + "%yi = transpose " + order + "i" + perm + "yield %y, %yi";
  const std::pair<std::string_view, ValueId> bindings[] = {{"a", planes[0]},
                                                           {"ai", planes[1]},
                                                           {s.left ? "b" : "x", planes[2]},
                                                           {s.left ? "bi" : "xi", planes[3]}};
  return b.inlineText(text, bindings, results);
}

// dB solves the transposed system; of A, in the triangle that is read: -dB Xᵀ where T is A itself.
bool solveGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  const OpQuery q = queryOf(m, op, b.diags);
  const Solve s(q);
  auto flag = [](bool v) { return v ? std::string("true") : std::string("false"); };
  std::string text = "%db = triangular_solve %a, %dy {left_side = " + flag(s.left) +
                     ", lower = " + flag(s.lower) + ", unit_diagonal = " + flag(s.unit) +
                     ", transpose_a = " + flag(!s.transposed) + "}\n";
  // left: dT = -dB Xᵀ; right: dT = -Xᵀ dB; and transposed where A was.
  const bool first = s.left != s.transposed; // is the first factor dB?
  text += std::string("%p = matmul ") + (first ? "%db, %x" : "%x, %db") +
          (s.left ? " {transpose_b = true}\n" : " {transpose_a = true}\n") +
          "%n = neg %p\n%da = " + (s.lower ? "tril" : "triu") + " %n" +
          (s.unit ? std::string(" {diagonal = ") + (s.lower ? "-1" : "1") + "}" : std::string()) +
          "\nyield %da, %db";
  const std::pair<std::string_view, ValueId> bindings[] = {
      {"a", m.operand(op, 0)}, {"dy", dy[0]}, {"x", m.result(op)}};
  return b.inlineText(text, bindings, dx);
}

OpRecord matrixOp(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "linear algebra", .summary = summary};
  r.operandClasses = kFloats;
  r.lowering = Lowering::Decompose;
  return r;
}

} // namespace

void addLinearAlgebraOps(OpRegistry& ops) {
  OpRecord cholesky =
      matrixOp("cholesky", "L with L Lᵀ = x, of the last two dims; NaN where x is not positive definite");
  cholesky.attrs = {{"lower", AttrType::Bool, "true",
                     "x's lower triangle is read and L given; false: the upper one, and Lᵀ"}};
  cholesky.rule = choleskyRule;
  cholesky.follow = choleskyFollow;
  cholesky.throughNone = true;
  cholesky.eval = choleskyEval<Real>;
  cholesky.complex = OpRecord::ComplexForm::Own;
  cholesky.complexEval = choleskyEval<Complex>;
  cholesky.complexFn = choleskyPlanes;
  cholesky.decompose = choleskyDecompose;
  cholesky.gradFn = choleskyGrad;
  cholesky.samples = "T[3, 1, 1]\nT[2, 2] {lower = false}\nT[5, 2, 2]";
  ops.add(std::move(cholesky));

  OpRecord solve =
      matrixOp("triangular_solve", "y with a y = b, a triangular: the other triangle is not read");
  solve.operands = "a, b";
  solve.attrs = {{"left_side", AttrType::Bool, "true", "false: y a = b"},
                 {"lower", AttrType::Bool, "true", "which triangle of a is read"},
                 {"unit_diagonal", AttrType::Bool, "false", "a's diagonal is taken to be 1, and not read"},
                 {"transpose_a", AttrType::Bool, "false", "aᵀ instead of a"}};
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
  ops.add(std::move(solve));
}

} // namespace dtc
