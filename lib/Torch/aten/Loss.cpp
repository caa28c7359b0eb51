// Losses and similarities.
#include "aten/Aten.h"
#include "aten/Table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace dtc {
namespace aten::losses {
namespace {

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

Expr reduced(ImportContext& c, Expr x, int64_t reduction) {
  if (reduction == kNone || x.rank() == 0) return x;
  if (reduction == kMean) return ops::mean(x);
  if (reduction == kSum) return ops::sum(x);
  c.fail("has the reduction " + std::to_string(reduction));
}

Expr reduced(ImportContext& c, Expr x) { return reduced(c, x, c.integer("reduction", kMean)); }

struct Pair {
  Expr x, target;
};

Pair operands(ImportContext& c, DType d) {
  const Expr x = in(c, "self", d), y = in(c, "target", d);
  const Dims dims = broadcastDims(c.b, x.dims(), y.dims());
  return {broadcastTo(x, dims), broadcastTo(y, dims)};
}

Pair operands(ImportContext& c) { return operands(c, c.result().dtype); }

ImportResults mseLoss(ImportContext& c) {
  const auto [x, y] = operands(c);
  return reduced(c, ops::square(x - y));
}

ImportResults l1Loss(ImportContext& c) { // also of complex numbers
  const auto [x, y] = operands(c, floatOf(promoted(c, {"self", "target"})));
  return reduced(c, ops::abs(x - y));
}

// Quadratic below the threshold, linear above.
ImportResults smoothL1(ImportContext& c) {
  const auto [x, y] = operands(c);
  const double beta = c.real("beta", 1);
  const Expr away = ops::abs(x - y);
  if (beta == 0) return reduced(c, away);
  const Expr inner = ops::square(away) * (0.5 / beta);
  return reduced(c, ops::select(away < beta, inner, away - 0.5 * beta));
}

ImportResults huber(ImportContext& c) {
  const auto [x, y] = operands(c);
  const double delta = c.real("delta", 1);
  const Expr away = ops::abs(x - y);
  const Expr inner = ops::square(away) * 0.5;
  return reduced(c, ops::select(away <= delta, inner, (away - 0.5 * delta) * delta));
}

ImportResults binaryCrossEntropy(ImportContext& c) {
  const auto [x, y] = operands(c);
  const Expr log = ops::max(ops::log(x), -100.0), rest = ops::max(ops::log1p(-x), -100.0); // as PyTorch
  const Expr first = (y - 1.0) * rest, second = y * log;
  Expr loss = first - second;
  if (c.has("weight")) loss = loss * c.tensor("weight");
  return reduced(c, loss);
}

ImportResults binaryCrossEntropyWithLogits(ImportContext& c) {
  const auto [x, y] = operands(c);
  const Expr log = ops::log_sigmoid(x);
  Expr loss;
  if (c.has("pos_weight")) {
    const Expr scale = (c.tensor("pos_weight") - 1.0) * y + 1.0;
    loss = (1.0 - y) * x - scale * log;
  } else {
    loss = (1.0 - y) * x - log;
  }
  if (c.has("weight")) loss = loss * c.tensor("weight");
  return reduced(c, loss);
}

ImportResults klDiv(ImportContext& c) {
  const auto [x, y] = operands(c);
  if (c.flag("log_target", false)) {
    const Expr loss = ops::exp(y) * (y - x);
    return reduced(c, loss);
  }
  const Expr product = y * ops::log(y), zero = ops::eq(y, 0.0);
  const Expr entropy = ops::select(zero, 0.0, product);
  return reduced(c, entropy - y * x);
}

ImportResults softMargin(ImportContext& c) {
  const auto [x, y] = operands(c);
  return reduced(c, ops::softplus(-(y * x)));
}

ImportResults marginRanking(ImportContext& c) {
  const DType d = c.result().dtype; // a float, also of integers
  const Expr a = in(c, "input1", d), b = in(c, "input2", d), y = in(c, "target", d);
  const Expr loss = -y * (a - b) + c.real("margin", 0);
  return reduced(c, ops::relu(loss));
}

ImportResults hingeEmbedding(ImportContext& c) {
  const auto [x, y] = operands(c);
  const Expr far = ops::relu(c.real("margin", 1) - x);
  const Expr negative = ops::select(ops::eq(y, 1.0), 0.0, far),
             positive = ops::select(ops::eq(y, -1.0), 0.0, x);
  return reduced(c, negative + positive);
}

Expr cosine(Expr a, Expr b, int64_t d, double eps) {
  if (a.rank() == 0) a = withDim(a, 0), b = withDim(b, 0);
  const std::vector<int64_t> over{d};
  const Expr product = ops::sum(a * b, {.dims = over});
  const Expr na = ops::max(ops::sum(ops::square(a), {.dims = over}), eps * eps);
  const Expr nb = ops::max(ops::sum(ops::square(b), {.dims = over}), eps * eps);
  return product / (ops::sqrt(na) * ops::sqrt(nb));
}

ImportResults cosineSimilarity(ImportContext& c) {
  const DType dt = c.result().dtype;
  const Expr a = in(c, "x1", dt), b = in(c, "x2", dt);
  const Dims dims = broadcastDims(c.b, a.dims(), b.dims());
  return cosine(broadcastTo(a, dims), broadcastTo(b, dims), dimOf(c.b, c.integer("dim", 1), dims.size()),
                c.real("eps", 1e-8));
}

ImportResults cosineEmbedding(ImportContext& c) {
  const DType d = c.result().dtype;
  const Expr a = in(c, "input1", d), b = in(c, "input2", d), y = c.tensor("target");
  const std::vector<int64_t> over{static_cast<int64_t>(a.rank()) - 1};
  constexpr double eps = 1e-12;
  const Expr product = ops::sum(a * b, {.dims = over});
  const Expr na = ops::sum(ops::square(a), {.dims = over}) + eps,
             nb = ops::sum(ops::square(b), {.dims = over}) + eps;
  const Expr similarity = product / ops::sqrt(na * nb);
  const Expr near = 1.0 - similarity, far = ops::relu(similarity - c.real("margin", 0));
  const Expr positive = ops::select(ops::eq(y, y.literal(1)), near, 0.0);
  const Expr negative = ops::select(ops::eq(y, y.literal(-1)), far, 0.0);
  return reduced(c, positive + negative);
}

Expr pairNorm(Expr a, Expr b, double p, double eps, bool keep) {
  const Expr difference = a - b + eps;
  const Expr away = isComplex(difference.dtype()) ? ops::abs(difference) : difference;
  const std::vector<int64_t> over{static_cast<int64_t>(away.rank()) - 1};
  return ops::norm(away, {.dims = over, .keepdim = keep, .p = p});
}

ImportResults pairwiseDistance(ImportContext& c) {
  const DType d = floatOf(promoted(c, {"x1", "x2"}));
  const Expr a = in(c, "x1", d), b = in(c, "x2", d);
  return pairNorm(a, b, c.real("p", 2), c.real("eps", 1e-6), c.flag("keepdim", false));
}

ImportResults tripletMargin(ImportContext& c) {
  const DType d = floatOf(promoted(c, {"anchor", "positive", "negative"}));
  const Expr a = in(c, "anchor", d), p = in(c, "positive", d), n = in(c, "negative", d);
  const double power = c.real("p", 2), eps = c.real("eps", 1e-6);
  const Expr near = pairNorm(a, p, power, eps, false);
  Expr far = pairNorm(a, n, power, eps, false);
  if (c.flag("swap", false)) far = ops::min(far, pairNorm(p, n, power, eps, false));
  return reduced(c, ops::relu(near - far + c.real("margin", 1)));
}

ImportResults poissonNll(ImportContext& c) {
  const DType d = c.result().dtype;
  const Expr x = in(c, "input", d), y = in(c, "target", d);
  Expr loss;
  if (c.flag("log_input", true))
    loss = ops::exp(x) - y * x;
  else
    loss = x - y * ops::log(x + c.real("eps", 1e-8));
  if (c.flag("full", false)) {
    const Expr stirling = y * ops::log(y) - y + ops::log(y * (2 * std::numbers::pi)) * 0.5;
    loss = loss + ops::select(y > 1.0, stirling, 0.0);
  }
  return reduced(c, loss);
}

// --- class indices ---

struct Classes {
  Expr logProbabilities; // [n, classes, rest]
  Expr labels;           // [n, rest], i32; 0 where ignored
  Expr counted;          // [n, rest]: not ignored
};

Classes classesOf(ImportContext& c, Expr x, Expr target, int64_t ignored) {
  const Expr wide = x.rank() == 1 ? withDim(x, 0) : x;
  const Expr y = x.rank() == 1 ? reshapeTo(target, {1}) : target;
  const Dims& d = wide.dims();
  const Dim rest = elementsOf(c.b, Dims(d.begin() + 2, d.end()));
  const Expr labels = reshapeTo(y, {d.at(0), rest}).as(DType::I32);
  const Expr counted = ops::ne(labels, ignored < INT32_MIN || ignored > INT32_MAX ? int64_t(-1) : ignored);
  return {reshapeTo(wide, {d.at(0), d.at(1), rest}), ops::select(counted, labels, 0), counted};
}

struct Nll {
  Expr loss, total; // the total weight
};

// A mean over weights: NaN without weights, with gradient 0, as in PyTorch.
Expr overTotal(Expr sum, Expr total) {
  const Expr none = ops::eq(total, 0.0);
  const Expr mean = sum / ops::select(none, 1.0, total);
  return ops::select(none, std::numeric_limits<double>::quiet_NaN(), mean);
}

Nll nll(ImportContext& c, const Classes& k, Dims noneDims) {
  const Expr picked = withoutDim(ops::gather(k.logProbabilities, withDim(k.labels, 1), {.dim = 1}), 1);
  Expr weights = k.counted.as(picked.dtype());
  if (c.has("weight")) {
    const Expr flat = reshapeTo(k.labels, {elementsOf(c.b, k.labels.dims())});
    const Expr own = ops::index_select(c.tensor("weight"), flat, {.dim = 0});
    weights = weights * reshapeTo(own, k.labels.dims());
  }
  const Expr loss = -(ops::select(k.counted, picked, 0.0) * weights);
  const Expr total = ops::sum(weights);
  const int64_t reduction = c.integer("reduction", kMean);
  if (reduction == kNone) return {reshapeTo(loss, noneDims), filled(c.b, loss.dtype(), {}, 0)};
  const Expr sum = ops::sum(loss);
  return {reduction == kMean ? overTotal(sum, total) : sum, total};
}

ImportResults nllLoss(ImportContext& c) {
  const Expr x = c.tensor("self");
  const Classes k = classesOf(c, x, c.tensor("target"), c.integer("ignore_index", -100));
  const Nll out = nll(c, k, resultDims(c));
  if (c.node.results.size() < 2) return out.loss;
  return {out.loss, out.total};
}

ImportResults crossEntropy(ImportContext& c) {
  const Expr x = c.tensor("self"), target = c.tensor("target");
  const int64_t axis = x.rank() == 1 ? 0 : 1;
  const std::vector<int64_t> over{axis};
  const Expr log = ops::log_softmax(x, over);
  const double smoothing = c.real("label_smoothing", 0);
  const int64_t reduction = c.integer("reduction", kMean);
  Dims weightDims(x.rank(), Dim(1));
  weightDims.at(static_cast<size_t>(axis)) = x.dims().at(static_cast<size_t>(axis));
  if (isFloat(target.dtype())) { // probabilities
    const auto classes = static_cast<double>(staticDims(c.b, {x.dims().at(static_cast<size_t>(axis))})[0]);
    Expr y = target;
    if (smoothing > 0) y = y * (1 - smoothing) + smoothing / classes;
    Expr product = log * y;
    if (c.has("weight")) product = product * reshapeTo(c.tensor("weight"), weightDims);
    const Expr loss = -ops::sum(product, {.dims = over});
    if (reduction != kMean) return reduced(c, loss, reduction);
    Dims samples = x.dims();
    samples.erase(samples.begin() + axis);
    return ops::sum(loss) / static_cast<double>(staticDims(c.b, {elementsOf(c.b, samples)})[0]);
  }
  const Classes k = classesOf(c, log, target, c.integer("ignore_index", -100));
  const Nll hard = nll(c, k, resultDims(c));
  if (smoothing == 0) return hard.loss;
  // The mean over classes, weighted.
  Expr all = k.logProbabilities;
  const auto classes = static_cast<double>(staticDims(c.b, {all.dims().at(1)})[0]);
  if (c.has("weight")) all = all * reshapeTo(c.tensor("weight"), {1, all.dims().at(1), 1});
  const std::vector<int64_t> one{1};
  const Expr each = -ops::select(k.counted, ops::sum(all, {.dims = one}), 0.0);
  Expr smooth;
  if (reduction == kNone)
    smooth = reshapeTo(each, resultDims(c));
  else if (reduction == kSum)
    smooth = ops::sum(each);
  else
    smooth = overTotal(ops::sum(each), c.has("weight") ? hard.total : ops::sum(k.counted.as(x.dtype())));
  return hard.loss * (1 - smoothing) + smooth * (smoothing / classes);
}

ImportResults multiMargin(ImportContext& c) {
  const Expr given = c.tensor("self"), x = withRank(given, 2);
  const Expr y = reshapeTo(c.tensor("target"), {x.dims().at(0), 1}).as(DType::I32);
  const Expr own = ops::gather(x, y, {.dim = 1});
  const double margin = c.real("margin", 1), p = c.real("p", 1);
  const auto classes = static_cast<double>(staticDims(c.b, {x.dims().at(1)})[0]);
  Expr loss = ops::relu(x - own + margin);
  if (p == 2) loss = ops::square(loss);
  if (c.has("weight"))
    loss = loss * reshapeTo(ops::index_select(c.tensor("weight"), reshapeTo(y, {x.dims().at(0)}), {.dim = 0}),
                            y.dims());
  const Expr position = ops::iota(c.b, checkedType(c.b, DType::I32, x.dims()), {.dim = 1});
  const std::vector<int64_t> one{1};
  const Expr each = ops::sum(ops::select(ops::eq(position, y), 0.0, loss), {.dims = one}) / classes;
  const int64_t reduction = c.integer("reduction", kMean);
  return reduction == kNone ? reshapeTo(each, resultDims(c)) : reduced(c, each, reduction);
}

ImportResults multilabelSoftMargin(ImportContext& c) {
  const auto [x, y] = operands(c);
  const Expr loss = -(y * ops::log_sigmoid(x) + (1.0 - y) * ops::log_sigmoid(-x));
  const std::vector<int64_t> over{static_cast<int64_t>(x.rank()) - 1};
  return reduced(c, ops::mean(c.has("weight") ? loss * c.tensor("weight") : loss, {.dims = over}));
}

// torch_nn._linear_cross_entropy_batch_chunked: the cross entropy of a linear layer's results, and its gradients,
// which PyTorch computes beside it. Chunks only bound memory.
ImportResults linearCrossEntropy(ImportContext& c) {
  const Expr x = c.tensor("input"), w = c.tensor("linear_weight"), target = c.tensor("target");
  const bool each = c.node.target.find("no_reduction") != std::string::npos;
  const std::string how = each ? "none" : c.text("reduction", "mean");
  if (x.rank() != 2 || w.rank() != 2) c.fail("has an input or a weight that is not a matrix");
  if (c.real("label_smoothing", 0) != 0) c.fail("smooths labels");
  const DType d = accumulationType(x.dtype());
  const Expr matrix = w.as(x.dtype());
  Expr logits = ops::matmul(x, matrix, {.transpose_b = true}).as(d);
  if (c.has("linear_bias")) logits = logits + c.tensor("linear_bias").as(d);
  const bool probabilities = isFloat(target.dtype());
  if (target.rank() != (probabilities ? 2 : 1))
    c.fail("has a target of rank " + std::to_string(target.rank()));
  const int64_t classes = staticDims(c.b, {w.dims().at(0)})[0];
  const Dim n = x.dims().at(0);
  Expr t = probabilities ? target.as(d) : ops::one_hot(target.as(DType::I32), {.depth = classes, .dtype = d});
  if (!probabilities) {
    const Expr counts = ops::ne(target, c.integer("ignore_index", -100));
    t = ops::select(broadcastTo(withDim(counts, 1), t.dims()), t, 0.0);
  }
  if (c.has("weight")) t = t * c.tensor("weight").as(d);
  const std::vector<int64_t> over{1}, rows{0};
  const Expr mass = ops::sum(t, {.dims = over, .keepdim = true});
  const Expr loss = -ops::sum(t * ops::log_softmax(logits, over), {.dims = over});
  if (how == "none") return loss.as(c.result().dtype);
  Expr scale = filled(c.b, d, {}, 1);
  if (how == "mean") scale = 1.0 / (probabilities ? ops::sum(filled(c.b, d, {n}, 1)) : ops::sum(mass));
  const Expr g = (ops::softmax(logits, over) * mass - t) * scale;
  const auto wanted = [&](const char* flag, Expr value, size_t i) {
    return c.flag(flag, true) ? value.as(c.result(i).dtype)
                              : filled(c.b, c.result(i).dtype, resultDims(c, i), 0);
  };
  std::vector<Expr> out{(ops::sum(loss) * scale).as(c.result().dtype)};
  if (c.declared(1)) out.push_back(wanted("compute_input_grad", ops::matmul(g, matrix.as(d)), 1));
  if (out.size() == 2 && c.declared(2))
    out.push_back(wanted("compute_linear_weight_grad", ops::matmul(g, x.as(d), {.transpose_a = true}), 2));
  if (out.size() == 3 && c.declared(3))
    out.push_back(wanted("compute_linear_bias_grad", ops::sum(g, {.dims = rows}), 3));
  return out;
}

const ImportRow kRows[] = {
    {"torch_nn._linear_cross_entropy_batch_chunked", linearCrossEntropy},
    {"torch_nn._linear_cross_entropy_batch_chunked_no_reduction", linearCrossEntropy},
    {"aten.mse_loss", mseLoss},
    {"aten.l1_loss", l1Loss},
    {"aten.smooth_l1_loss", smoothL1},
    {"aten.huber_loss", huber},
    {"aten.binary_cross_entropy", binaryCrossEntropy},
    {"aten.binary_cross_entropy_with_logits", binaryCrossEntropyWithLogits},
    {"aten.kl_div", klDiv},
    {"aten.soft_margin_loss", softMargin},
    {"aten.margin_ranking_loss", marginRanking},
    {"aten.hinge_embedding_loss", hingeEmbedding},
    {"aten.cosine_similarity", cosineSimilarity},
    {"aten.cosine_embedding_loss", cosineEmbedding},
    {"aten.pairwise_distance", pairwiseDistance},
    {"aten.triplet_margin_loss", tripletMargin},
    {"aten.poisson_nll_loss", poissonNll},
    {"aten.nll_loss", nllLoss},
    {"aten.nll_loss_nd", nllLoss},
    {"aten.nll_loss2d", nllLoss},
    {"aten.nll_loss_forward", nllLoss},
    {"aten.nll_loss2d_forward", nllLoss},
    {"aten.cross_entropy_loss", crossEntropy},
    {"aten.multi_margin_loss", multiMargin},
    {"aten.multilabel_soft_margin_loss", multilabelSoftMargin},
};

} // namespace
} // namespace aten::losses

ImportRows torchLossRows() { return aten::losses::kRows; }

} // namespace dtc
