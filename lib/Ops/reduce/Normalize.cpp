// softmax log_softmax layer_norm rms_norm cross_entropy: several passes over rows. Evaluated in f64 or wider;
// kernels use the accumulation dtype. The normalized dims are unsharded. l2_normalize is a composition.
#include "record/CarriedSum.h"
#include "record/Precision.h"
#include "record/ShapeParts.h"
#include "reduce/Merge.h"
#include "reduce/SplitNorms.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc {
namespace {

// --- rows of a host tensor: kept dims outside, normalized dims inside ---

std::vector<int64_t> offsetsOver(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                                 const std::vector<int64_t>& dims) {
  std::vector<int64_t> sizes, out;
  for (int64_t d : dims) sizes.push_back(shape[d]);
  forEachElement(sizes, [&](std::span<const int64_t> at, int64_t) {
    int64_t offset = 0;
    for (size_t k = 0; k < dims.size(); ++k) offset += at[k] * strides[dims[k]];
    out.push_back(offset);
  });
  return out;
}

struct Rows {
  std::vector<int64_t> starts, steps; // element (row r, column c) is at starts[r] + steps[c]
  Rows(const Tensor& t, const std::vector<int64_t>& dims) {
    std::vector<int64_t> kept;
    for (int64_t d = 0; d < static_cast<int64_t>(t.rank()); ++d)
      if (!std::binary_search(dims.begin(), dims.end(), d)) kept.push_back(d);
    starts = offsetsOver(t.shape(), t.strides(), kept);
    steps = offsetsOver(t.shape(), t.strides(), dims);
  }
};

// Here and below: computed in double or long double.
template <class A> std::vector<A> rowOf(const Tensor& t, const Rows& rows, size_t r) {
  std::vector<A> row(rows.steps.size());
  for (size_t c = 0; c < row.size(); ++c) row[c] = t.getFloat(rows.starts[r] + rows.steps[c]);
  return row;
}

template <class A> A rowMaxOf(const std::vector<A>& row) {
  A m = -std::numeric_limits<A>::infinity();
  for (A v : row) m = std::isnan(v) || v > m ? v : m;
  return m;
}

std::vector<int64_t> normalized(const OpQuery& q, size_t rank) {
  return q.dimsAttr("dims", rank).value_or(std::vector<int64_t>{});
}

// --- rules ---

bool softmaxRule(const OpQuery& q, Rule& rule) {
  auto dims = q.dimsAttr("dims", q.type(0).rank());
  if (!dims) return false;
  addOperandFactors(q, 0, rule);
  for (int64_t d : *dims) rule.factors[static_cast<size_t>(d)].kind = FactorKind::Merge;
  rule.results.push_back(rule.operands[0]);
  return true;
}

// weight and bias have the normalized dims, in order.
bool normRule(const OpQuery& q, Rule& rule) {
  if (!softmaxRule(q, rule)) return false;
  std::vector<int64_t> dims = normalized(q, q.type(0).rank());
  for (size_t i = 1; i < q.operandTypes.size(); ++i) {
    const Type own = q.type(i);
    if (own.rank() != dims.size()) return reportRank(q, i, std::to_string(dims.size()));
    TensorMap map;
    for (size_t k = 0; k < dims.size(); ++k) {
      auto d = static_cast<size_t>(dims[k]);
      if (!(own.dims[k] == q.type(0).dims[d])) return reportDims(q, "needs dim", "equal to dim", 0, d, i, k);
      map.dims.push_back(rule.operands[0].dims[d]);
    }
    rule.operands.push_back(std::move(map));
  }
  return true;
}

bool crossEntropyRule(const OpQuery& q, Rule& rule) {
  auto dim = q.dimAttr("dim", q.type(0).rank());
  if (!dim) return false;
  const Type labels = q.type(1);
  if (labels.rank() + 1 != q.type(0).rank()) return reportRank(q, 1, std::to_string(q.type(0).rank() - 1));
  addOperandFactors(q, 0, rule);
  rule.factors[static_cast<size_t>(*dim)].kind = FactorKind::Merge;
  TensorMap map = rule.operands[0];
  map.dims.erase(map.dims.begin() + *dim);
  for (size_t k = 0; k < labels.rank(); ++k) {
    size_t d = static_cast<int64_t>(k) < *dim ? k : k + 1;
    if (!(labels.dims[k] == q.type(0).dims[d])) return reportDims(q, "needs dim", "equal to dim", 0, d, 1, k);
  }
  rule.operands.push_back(map);
  rule.results.push_back(std::move(map));
  return true;
}

// --- evaluation ---

template <class A>
bool softmaxIn(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  bool logarithm = std::string_view(q.record->name) == "log_softmax";
  Rows rows(*in[0], normalized(q, in[0]->rank()));
  for (size_t r = 0; r < rows.starts.size(); ++r) {
    std::vector<A> row = rowOf<A>(*in[0], rows, r);
    A m = rowMaxOf(row), sum = 0;
    for (A v : row) sum = static_cast<A>(carried(q, sum + std::exp(v - m)));
    for (size_t c = 0; c < row.size(); ++c)
      out[0]->setFloat(
          rows.starts[r] + rows.steps[c],
          static_cast<double>(logarithm ? row[c] - m - std::log(sum) : std::exp(row[c] - m) / sum));
  }
  return true;
}

bool softmaxEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  return isExtended(q) ? softmaxIn<long double>(q, in, out) : softmaxIn<double>(q, in, out);
}

template <class A>
bool normIn(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  bool centered = std::string_view(q.record->name) == "layer_norm";
  double eps = q.floatAttr("eps");
  Rows rows(*in[0], normalized(q, in[0]->rank()));
  auto n = static_cast<A>(rows.steps.size());
  for (size_t r = 0; r < rows.starts.size(); ++r) {
    std::vector<A> row = rowOf<A>(*in[0], rows, r);
    A mean = 0, squares = 0;
    auto sum = [&](A& s, A term) { s = static_cast<A>(carried(q, s + term)); };
    for (A v : row) sum(mean, v);
    mean = centered ? static_cast<A>(carried(q, mean / n)) : 0;
    for (A v : row) sum(squares, (v - mean) * (v - mean));
    A scale = 1 / std::sqrt(squares / n + static_cast<A>(eps));
    for (size_t c = 0; c < row.size(); ++c) {
      A y = (row[c] - mean) * scale;
      if (in.size() > 1) y *= in[1]->getFloat(static_cast<int64_t>(c));
      if (in.size() > 2) y += in[2]->getFloat(static_cast<int64_t>(c));
      out[0]->setFloat(rows.starts[r] + rows.steps[c], static_cast<double>(y));
    }
  }
  return true;
}

bool normEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  return isExtended(q) ? normIn<long double>(q, in, out) : normIn<double>(q, in, out);
}

inline constexpr DiagKind kLabelRange{"label-out-of-range",
                                      "'{0}': label {1} is out of range for {2} classes, which count from 0"};

template <class A>
bool crossEntropyIn(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  int64_t dim = *q.dimAttr("dim", in[0]->rank()), ignored = q.intAttr("ignore_index");
  A smoothing = static_cast<A>(q.floatAttr("label_smoothing"));
  Rows rows(*in[0], {dim});
  for (size_t r = 0; r < rows.starts.size(); ++r) {
    int64_t label = in[1]->getInt(static_cast<int64_t>(r));
    A loss = 0;
    if (label != ignored) {
      std::vector<A> row = rowOf<A>(*in[0], rows, r);
      auto classes = static_cast<int64_t>(row.size());
      if (label < 0 || label >= classes)
        return q.diags->fail(kLabelRange, q.loc, q.record->name, label, classes);
      A m = rowMaxOf(row), sum = 0, all = 0;
      for (A v : row) {
        sum = static_cast<A>(carried(q, sum + std::exp(v - m)));
        all = static_cast<A>(carried(q, all + v));
      }
      A total = m + std::log(sum);
      loss = total - row[static_cast<size_t>(label)];
      if (smoothing != 0) loss = (1 - smoothing) * loss + smoothing * (total - all / static_cast<A>(classes));
    }
    out[0]->setFloat(static_cast<int64_t>(r), static_cast<double>(loss));
  }
  return true;
}

bool crossEntropyEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  return isExtended(q) ? crossEntropyIn<long double>(q, in, out) : crossEntropyIn<double>(q, in, out);
}

// --- decompositions and gradients ---

bool unitDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  const OpQuery q = queryOf(b.module, op, b.diags);
  const Expr x(b, b.module.operand(op, 0));
  const Expr size = norm(x, {.dims = b.module.attr(op, "dims"), .keepdim = true});
  const double eps = q.floatAttr("eps");
  results.push_back(dividedBy(x, max(withPrecision(size, eps), eps)));
  return true;
}

// The mean over the normalized dims of a row.
Expr rowMean(Expr x, AttrId dims) { return mean(x, {.dims = dims, .keepdim = true}); }

bool softmaxDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  const AttrId dims = b.module.attr(op, "dims");
  Expr x(b, b.module.operand(op, 0));
  bool logarithm = std::string_view(b.module.record(op).name) == "log_softmax";
  Expr shifted = x - max(x, {.dims = dims, .keepdim = true});
  Expr e = exp(shifted);
  const Expr total = sum(e, {.dims = dims, .keepdim = true});
  // One division per row: the sum is at least 1, so that its reciprocal is a normal number.
  results.push_back(logarithm ? shifted - log(total) : e * reciprocal(total));
  return true;
}

bool softmaxGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  const AttrId dims = b.module.attr(op, "dims");
  Expr y(b, b.module.result(op));
  dx.push_back(y * (dy[0] - sum(dy[0] * y, {.dims = dims, .keepdim = true})));
  return true;
}

bool logSoftmaxGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  const AttrId dims = b.module.attr(op, "dims");
  const Expr p = exp(Expr(b, b.module.result(op))), g(b, dy[0]);
  dx.push_back(g - p * sum(g, {.dims = dims, .keepdim = true}));
  return true;
}

// Normalized x and 1/deviation, before weight and bias.
struct Normed {
  Expr y, scale; // scale: withPrecision
};
Normed normOf(Builder& b, OpId op) {
  Diagnostics none;
  OpQuery q = queryOf(b.module, op, none);
  Expr x(b, b.module.operand(op, 0));
  const AttrId dims = b.module.attr(op, "dims");
  Expr c = std::string_view(q.record->name) == "layer_norm" ? x - rowMean(x, dims) : x;
  Expr variance = rowMean(c * c, dims);
  const double eps = q.floatAttr("eps");
  Expr scale = rsqrt(withPrecision(variance, eps) + eps);
  return {times(c, scale), scale};
}

// Broadcasts weight or bias against x; unchanged if the normalized dims are the last ones.
Expr alongRows(Builder& b, OpId op, size_t operand) {
  Diagnostics none;
  OpQuery q = queryOf(b.module, op, none);
  size_t rank = q.type(0).rank();
  std::vector<int64_t> dims = normalized(q, rank);
  Expr w(b, b.module.operand(op, operand));
  bool last = dims.empty() || dims.front() + static_cast<int64_t>(dims.size()) == static_cast<int64_t>(rank);
  if (last) return w;
  std::vector<Dim> shape(rank, Dim(1));
  for (int64_t d : dims) shape[static_cast<size_t>(d)] = q.type(0).dims[static_cast<size_t>(d)];
  return reshape(w, shape);
}

bool normDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Expr y = normOf(b, op).y;
  if (b.module[op].numOperands > 1) y = y * alongRows(b, op, 1);
  if (b.module[op].numOperands > 2) y = y + alongRows(b, op, 2);
  results.push_back(y);
  return true;
}

// With g = dy * weight: dx = scale * (g - mean(g) - y * mean(g * y)), without mean(g) if x was not centered.
bool normGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  const AttrId normed = b.module.attr(op, "dims");
  Diagnostics none;
  OpQuery q = queryOf(b.module, op, none);
  size_t rank = q.type(0).rank(), count = b.module[op].numOperands;
  bool centered = std::string_view(q.record->name) == "layer_norm";
  std::vector<int64_t> dims = normalized(q, rank), kept;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (!std::binary_search(dims.begin(), dims.end(), d)) kept.push_back(d);
  Normed n = normOf(b, op);
  const Expr cotangent(b, dy[0]);
  Expr g = count > 1 ? cotangent * alongRows(b, op, 1) : cotangent;
  Expr inner = centered ? g - rowMean(g, normed) : g;
  dx.push_back(times(inner - n.y * rowMean(g * n.y, normed), n.scale));
  auto overKept = [&](Expr v) { return kept.empty() ? v : sum(v, {.dims = kept}); };
  if (count > 1) dx.push_back(overKept(cotangent * n.y));
  if (count > 2) dx.push_back(overKept(cotangent));
  return true;
}

struct Labels {
  Expr safe;    // labels, 0 if ignored
  Expr ignored; // bool; invalid where the dtype cannot hold ignore_index
};
Labels labelsOf(Builder& b, OpId op, const OpQuery& q) {
  Expr labels(b, b.module.operand(op, 1));
  DType dtype = q.type(1).dtype;
  int64_t ignore = q.intAttr("ignore_index");
  if (wrapToInt(dtype, ignore) != ignore) return {labels, {}};
  Expr ignored = eq(labels, ignore);
  return {select(ignored, 0, labels), ignored};
}

bool crossEntropyDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Diagnostics none;
  OpQuery q = queryOf(b.module, op, none);
  int64_t dim = *q.dimAttr("dim", q.type(0).rank());
  double smoothing = q.floatAttr("label_smoothing");
  const std::array dims = {dim};
  Labels labels = labelsOf(b, op, q);
  Expr p = log_softmax(Expr(b, b.module.operand(op, 0)), dims);
  Expr index = expand_dims(labels.safe, dims);
  Expr picked = squeeze(gather(p, index, {.dim = dim}), dims);
  Expr loss = -picked;
  if (smoothing != 0) {
    Expr all = mean(p, {.dims = dims}) * smoothing;
    loss = loss * (1 - smoothing) - all;
  }
  results.push_back(labels.ignored.valid() ? select(labels.ignored, 0, loss) : loss);
  return true;
}

// (softmax - target) * dy, where target is 1 at the label, smoothed.
bool crossEntropyGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  Module& m = b.module;
  OpQuery q = queryOf(m, op, none);
  const Type logits = q.type(0);
  int64_t dim = *q.dimAttr("dim", logits.rank());
  const std::array dims = {dim};
  double smoothing = q.floatAttr("label_smoothing");
  const Dim classes = logits.dims[static_cast<size_t>(dim)];
  if (smoothing != 0 && !classes.isStatic()) return false;
  Labels labels = labelsOf(b, op, q);
  Expr p = softmax(Expr(b, m.operand(op, 0)), dims);
  if (smoothing != 0) p = withPrecision(p);
  Expr target = one_hot(labels.safe, {.depth = classes, .dtype = p.dtype()});
  // move the class dim from the last position to its own
  if (dim + 1 != static_cast<int64_t>(logits.rank())) {
    std::vector<int64_t> perm;
    for (int64_t d = 0; d < static_cast<int64_t>(logits.rank()); ++d)
      perm.push_back(d < dim ? d : d == dim ? static_cast<int64_t>(logits.rank()) - 1 : d - 1);
    target = transpose(target, perm);
  }
  if (smoothing != 0) {
    target = target * (1 - smoothing);
    target = target + smoothing / static_cast<double>(classes.value());
  }
  Expr g(b, dy[0]);
  if (labels.ignored.valid()) g = select(labels.ignored, 0, g);
  g = expand_dims(g, dims);
  dx.resize(2);
  dx[0] = times(g, p - target);
  return true;
}

OpRecord rowsOp(const char* name, const char* summary, double flops) {
  OpRecord r{.name = name, .family = "normalize", .summary = summary};
  r.operandClasses = kFloats;
  r.lowering = Lowering::Rows;
  r.flopsPerPoint = flops;
  return r;
}

OpRecord softmaxOp(const char* name, const char* summary) {
  OpRecord r = rowsOp(name, summary, 5);
  r.attrs = {{"dims", AttrType::Dims}};
  r.rule = softmaxRule;
  r.samples = "T[5, 3] {dims = [1]}\nT[5, 3] {dims = [0]}\nT[2, 3, 4] {dims = [1, 2]}";
  r.eval = softmaxEval;
  r.decompose = softmaxDecompose;
  r.shard = shardSoftmax;
  r.splitRows = splitSoftmax;
  r.gradFn = softmaxGrad;
  return r;
}

OpRecord normOp(const char* name, const char* summary) {
  OpRecord r = rowsOp(name, summary, 8);
  r.operands = "x, weight?, bias?";
  r.attrs = {{"dims", AttrType::Dims}, {"eps", AttrType::Float, "1e-5"}};
  r.rule = normRule;
  r.samples = "T[5, 3] {dims = [1]}\nT[5, 3], T[3] {dims = [-1]}\nT[5, 3], T[5], T[5] {dims = [0]}\n"
              "T[2, 3, 4], T[3, 4], T[3, 4] {dims = [1, 2], eps = 0.1}";
  // Linear in weight and bias together; the bias alone is added.
  r.through = {{ThroughRow::Linear, 0b110},
               {ThroughRow::Linear, 0b010, false, ~0u, kindBit(PendingKind::Avg)},
               {ThroughRow::Affine, 0b100}};
  r.eval = normEval;
  r.decompose = normDecompose;
  r.shard = shardLayerNorm;
  r.splitRows = splitNorm;
  r.gradFn = normGrad;
  return r;
}

inline constexpr DiagKind kSmoothing{"attribute-value", "'{0}' takes a label_smoothing from 0 to 1"};
bool smoothingVerify(const OpQuery& q) {
  double s = q.floatAttr("label_smoothing");
  if (s >= 0 && s <= 1) return true;
  return q.diags->fail(kSmoothing, q.loc, q.record->name);
}

} // namespace

void addNormalizeOps(OpRegistry& ops) {
  ops.add(softmaxOp("softmax", "exp(x) over its sum along `dims`"));
  OpRecord& logSoftmax = ops.add(softmaxOp("log_softmax", "logarithm of softmax along `dims`"));
  logSoftmax.gradFn = logSoftmaxGrad;
  ops.add(normOp("layer_norm", "(x - mean) / sqrt(variance + eps) along `dims`, times weight, plus bias"));
  ops.add(normOp("rms_norm", "x / sqrt(mean(x²) + eps) along `dims`, times weight, plus bias"));

  OpRecord& unit =
      ops.add({.name = "l2_normalize", .family = "normalize", .summary = "x over its L2 norm along `dims`"});
  unit.operandClasses = kFloats;
  unit.attrs = {{"dims", AttrType::Dims},
                {"eps", AttrType::Float, "1e-12", "the smallest norm that x is divided by"}};
  unit.rule = softmaxRule;
  unit.decompose = unitDecompose;
  unit.samples = "T[5, 3] {dims = [1]}\nT[2, 3, 4] {dims = [0, 2]}";

  OpRecord& loss = ops.add(rowsOp(
      "cross_entropy",
      "-log softmax(logits) at the label along `dim`, per item; 0 where the label is ignore_index", 6));
  loss.operands = "logits, labels";
  loss.operandTypes = "T, int";
  loss.attrs = {{"dim", AttrType::Dim, "-1"},
                {"label_smoothing", AttrType::Float, "0"},
                {"ignore_index", AttrType::Int, "-100"}};
  loss.rule = crossEntropyRule;
  loss.verify = smoothingVerify;
  loss.eval = crossEntropyEval;
  loss.decompose = crossEntropyDecompose;
  loss.splitRows = splitCrossEntropy;
  loss.shard = shardCrossEntropy;
  loss.gradFn = crossEntropyGrad;
  loss.samples = "T[5, 3], i32[5] in 0..3\nT[3, 5], i64[5] in 0..3 {dim = 0, label_smoothing = 0.2}\n"
                 "T[2, 3, 4], u8[2, 3] in 0..4 {ignore_index = 1}";
  addChannelNormOps(ops);
}

} // namespace dtc
