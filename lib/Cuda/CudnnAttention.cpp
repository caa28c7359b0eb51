#include "CudnnAttention.h"
#include "CudnnLibrary.h"
#include <limits>

namespace dtc {
namespace {

using Graph = CudnnGraph;

class AttentionWriter {
public:
  AttentionWriter(Graph& graph, const CudnnAttention& a) : g_(graph), a_(a) {}

  void forward() {
    const CudnnLayout q = layout(CudnnAttention::Q), k = layout(CudnnAttention::K),
                      v = layout(CudnnAttention::V);
    Graph::Tensor query = g_.memory(CudnnAttention::Q, q);
    Graph::Tensor scores = scored(query, g_.memory(CudnnAttention::K, k.transposed()));
    scores = banded(scores);
    const Graph::Tensor rowMax = g_.between(rows()), shifted = g_.between(pairs()), e = g_.between(pairs()),
                        sum = g_.between(rows());
    g_.reduce(kCudnnReduceMax, scores, rowMax);
    g_.pointwise(kCudnnSub, scores, shifted, rowMax);
    g_.pointwise(kCudnnExp, shifted, e);
    g_.reduce(kCudnnReduceAdd, e, sum);
    // The engines require the log-sum-exp operation whether its result is written or not.
    const Graph::Tensor log = g_.between(rows());
    g_.pointwise(kCudnnLog, sum, log);
    g_.pointwise(kCudnnAdd, rowMax, a_.lse ? g_.memory(CudnnAttention::Lse, rows()) : g_.between(rows()),
                 log);
    const Graph::Tensor weights = g_.between(pairs().as(type()));
    g_.pointwise(kCudnnDiv, e, weights, sum);
    g_.matmul(weights, g_.memory(CudnnAttention::V, v),
              g_.memory(CudnnAttention::Y, layout(CudnnAttention::Y)));
  }

  void backward() {
    using A = CudnnAttention;
    const Graph::Tensor q = g_.memory(A::Q, layout(A::Q)), kt = g_.memory(A::K, layout(A::K).transposed()),
                        vt = g_.memory(A::V, layout(A::V).transposed()), y = g_.memory(A::Y, layout(A::Y)),
                        lse = g_.memory(A::Lse, rows()), dy = g_.memory(A::DY, layout(A::DY));
    // The sum of dy y over each row.
    CudnnLayout result = layout(A::Y);
    result.type = kCudnnF32;
    const Graph::Tensor products = g_.between(CudnnLayout{result.dims, {}, kCudnnF32}),
                        reduced = g_.between(rows()), delta = g_.memory(A::Delta, rows());
    g_.pointwise(kCudnnMul, dy, products, y);
    g_.reduce(kCudnnReduceAdd, products, reduced);
    g_.pointwise(kCudnnMul, reduced, delta, g_.number(1));
    // Recomputes the weights, and dv.
    Graph::Tensor scores = scored(q, kt);
    const Graph::Tensor shifted = g_.between(pairs());
    g_.pointwise(kCudnnSub, scores, shifted, lse);
    const Graph::Tensor weights = g_.between(pairs());
    g_.pointwise(kCudnnExp, banded(shifted), weights);
    overKeys(weights, dy, A::DV, a_.width);
    // The cotangents of the scores, and dk and dq.
    const Graph::Tensor dp = g_.between(pairs()), less = g_.between(pairs()), ds = g_.between(pairs()),
                        scaled = g_.between(pairs());
    g_.matmul(dy, vt, dp);
    g_.pointwise(kCudnnSub, dp, less, delta);
    g_.pointwise(kCudnnMul, less, ds, weights);
    g_.pointwise(kCudnnMul, ds, scaled, g_.number(static_cast<float>(a_.scale)));
    overKeys(scaled, q, A::DK, a_.depth);
    const Graph::Tensor keys = g_.between(layout(A::K));
    g_.reshape(kt, keys);
    if (a_.deterministic) {
      g_.matmul(scaled, keys, g_.memory(A::DQ, layout(A::DQ)));
      return;
    }
    const Graph::Tensor wide = g_.memory(A::WideDQ, CudnnLayout{layout(A::DQ).dims, {}, kCudnnF32});
    g_.matmul(scaled, keys, wide);
    g_.pointwise(kCudnnIdentity, wide, g_.memory(A::DQ, layout(A::DQ)));
  }

private:
  [[nodiscard]] int type() const { return cudnnType(a_.dtype); }
  [[nodiscard]] CudnnLayout layout(CudnnAttention::Tensor which) const {
    using A = CudnnAttention;
    const bool key = which == A::K || which == A::V || which == A::DK || which == A::DV;
    const bool wide = which == A::V || which == A::Y || which == A::DY || which == A::DV;
    return {{a_.batch, key ? a_.keyHeads : a_.heads, key ? a_.keys : a_.rows, wide ? a_.width : a_.depth},
            {a_.strides[which].begin(), a_.strides[which].end()},
            type()};
  }
  [[nodiscard]] CudnnLayout rows() const { return {{a_.batch, a_.heads, a_.rows, 1}, {}, kCudnnF32}; }
  [[nodiscard]] CudnnLayout pairs(int dtype = kCudnnF32) const {
    return {{a_.batch, a_.heads, a_.rows, a_.keys}, {}, dtype};
  }
  Graph::Tensor scored(Graph::Tensor q, Graph::Tensor kt) {
    const Graph::Tensor products = g_.between(pairs()), scores = g_.between(pairs());
    g_.matmul(q, kt, products);
    g_.pointwise(kCudnnMul, products, scores, g_.number(static_cast<float>(a_.scale)));
    return scores;
  }
  // -inf for keys that a row does not attend to: the upper bound first, each with its own index operation
  // (cudnn-frontend, attn_score_modifiers.h). Where the last row attends to the last key, rows are counted
  // from the end of the keys, as there ("bottom right").
  Graph::Tensor banded(Graph::Tensor scores) {
    if (a_.after != CudnnAttention::kAll) scores = boundAbove(scores);
    return a_.before != CudnnAttention::kAll ? boundBelow(scores) : scores;
  }
  Graph::Tensor boundAbove(Graph::Tensor scores) {
    Graph::Tensor row = g_.between(pairs(kCudnnI32));
    const Graph::Tensor key = g_.between(pairs(kCudnnI32));
    g_.index(scores, row, 2);
    g_.index(scores, key, 3);
    int64_t after = a_.after;
    if (const int64_t last = a_.keys - a_.rows; last > 0 && after >= last) {
      row = moved(moved(row, kCudnnAdd, a_.keys), kCudnnSub, a_.rows);
      after -= last;
    }
    if (after != 0) row = moved(row, kCudnnAdd, after);
    return seenWhere(kCudnnGreaterEqual, row, key, scores);
  }
  Graph::Tensor moved(Graph::Tensor index, int mode, int64_t by) {
    const Graph::Tensor out = g_.between(pairs(kCudnnI32));
    g_.pointwise(mode, index, out, g_.integer(static_cast<int32_t>(by)), nullptr, kCudnnI32);
    return out;
  }
  Graph::Tensor boundBelow(Graph::Tensor scores) {
    const Graph::Tensor row = g_.between(pairs(kCudnnI32)), key = g_.between(pairs(kCudnnI32)),
                        reach = g_.between(pairs());
    g_.index(scores, row, 2);
    g_.index(scores, key, 3);
    g_.pointwise(kCudnnAdd, key, reach, g_.number(static_cast<float>(a_.before + 1)));
    return seenWhere(kCudnnGreater, reach, row, scores);
  }
  Graph::Tensor seenWhere(int comparison, Graph::Tensor a, Graph::Tensor b, Graph::Tensor scores) {
    const Graph::Tensor seen = g_.between(pairs(kCudnnBool)), out = g_.between(pairs());
    g_.pointwise(comparison, a, seen, b, nullptr, kCudnnBool);
    g_.pointwise(kCudnnSelect, scores, out, g_.number(-std::numeric_limits<float>::infinity()), seen);
    return out;
  }
  // Sums over the queries and over the heads that share keys: weightsᵀ x.
  void overKeys(Graph::Tensor weights, Graph::Tensor x, CudnnAttention::Tensor to, int64_t columns) {
    const CudnnLayout swapped = CudnnLayout{{a_.batch, a_.heads, a_.rows, a_.keys}, {}, type()}.transposed();
    const Graph::Tensor transposed = g_.between(swapped);
    g_.reshape(weights, transposed);
    const Graph::Tensor out = g_.memory(to, layout(to));
    if (a_.heads == a_.keyHeads) return g_.matmul(transposed, x, out);
    const Graph::Tensor ofHeads = g_.between({{a_.batch, a_.heads, a_.keys, columns}, {}, type()});
    g_.matmul(transposed, x, ofHeads);
    g_.reduce(kCudnnReduceAdd, ofHeads, out);
  }

  Graph& g_;
  const CudnnAttention& a_;
};

} // namespace

void writeAttention(CudnnGraph& graph, const CudnnAttention& attention) {
  AttentionWriter writer(graph, attention);
  attention.gradient ? writer.backward() : writer.forward();
}

// The earliest version with which these graphs were tested; the gradient is wrong in 9.10.0 (cudnn-frontend,
// scaled_dot_product_flash_attention.h).
constexpr size_t kFirstVersion = 91100;
// Up to this version the gradient needs a mask of its own after keys that are not a multiple of this number
// (the same source).
constexpr size_t kLastWithMask = 91500;
constexpr int64_t kMaskedKeys = 128;
// This version is known to be wrong for windows over more keys than this, where they are not causal (the same
// source).
constexpr size_t kWrongWindows = 91400;
constexpr int64_t kKeysRight = 1024;
// From this version on, a deterministic engine must be selected by knobs, which differ between versions (the
// same source).
constexpr int kBlackwell = 10;

static std::string describe(const CudnnAttention& a) {
  const auto n = [](int64_t v) { return std::to_string(v); };
  std::string text = a.gradient ? "the gradient of " : "";
  text += a.dtype == DType::F16 ? "f16 attention" : "bf16 attention";
  if (a.after != CudnnAttention::kAll)
    text += a.after == 0 ? ", causal" : ", up to " + n(a.after) + " keys after its own";
  if (a.before != CudnnAttention::kAll) text += ", from " + n(a.before) + " keys before its own";
  text += ", " + n(a.batch) + " x " + n(a.heads) + " heads on " + n(a.keyHeads) + ", " + n(a.rows) +
          " queries and " + n(a.keys) + " keys of " + n(a.depth);
  return a.width == a.depth ? text : text + " and " + n(a.width);
}

Result<CudnnRequest> requestOf(const CudnnAttention& attention, size_t version,
                               const CudaDeviceInfo& device) {
  if (version < kFirstVersion)
    return machineError("cuDNN " + cudnnVersionText(version) + " is older than " +
                        cudnnVersionText(kFirstVersion) + ", which attention needs");
  if (attention.gradient && version <= kLastWithMask && attention.keys % kMaskedKeys != 0)
    return machineError("cuDNN " + cudnnVersionText(version) +
                        " supports gradients of attention only for multiples of " +
                        std::to_string(kMaskedKeys) + " keys");
  if (attention.gradient && attention.rows == 1 &&
      attention.keys == 1) // rejected by cudnn-frontend, the same source
    return machineError("cuDNN does not support the gradient of attention of one query to one key");
  if (version == kWrongWindows && attention.before != CudnnAttention::kAll && attention.keys > kKeysRight)
    return machineError("cuDNN " + cudnnVersionText(version) + " computes windows wrongly over more than " +
                        std::to_string(kKeysRight) + " keys");
  if (attention.gradient && attention.deterministic && device.major >= kBlackwell)
    return machineError("cuDNN's gradient of attention is not known to be deterministic on " + device.name);
  const uint32_t refused = attention.deterministic ? 1u << kCudnnNoteNondeterministic : 0;
  return CudnnRequest{describe(attention), refused,
                      [attention](CudnnGraph& graph) { writeAttention(graph, attention); }};
}

} // namespace dtc
