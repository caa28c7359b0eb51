// Attention and position embeddings.
#include "dtc/Ops/Loop.h"
#include "import/OnnxContext.h"

#include <cmath>
#include <limits>

namespace dtc::onnx {

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// [batch, seq, heads * size] <-> [batch, heads, seq, size]
Expr splitHeads(OnnxContext& c, Expr x, int64_t heads) {
  const auto size = heads > 0 ? c.module.dims.divExact(x.dims().at(2), heads) : std::nullopt;
  if (!size) c.fail("has a hidden size that the number of heads does not divide");
  return swapped(reshapeTo(x, {x.dims().at(0), x.dims().at(1), heads, *size}), 1, 2);
}

Expr mergeHeads(OnnxContext& c, Expr x) {
  const Expr y = swapped(x, 1, 2);
  return reshapeTo(y, {y.dims().at(0), y.dims().at(1), elementsOf(c.b, {y.dims().at(2), y.dims().at(3)})});
}

class AttentionNode {
public:
  explicit AttentionNode(OnnxContext& c) : c_(c) {}
  ImportResults run();

private:
  void readOperands();
  [[nodiscard]] Expr mask();
  [[nodiscard]] std::optional<Expr> fused();
  [[nodiscard]] Expr scores();
  [[nodiscard]] Expr allowed();
  [[nodiscard]] Expr weights(Expr biased) const;

  OnnxContext& c_;
  Expr q_, k_, v_, presentK_, presentV_;
  Expr raw_; // the fourth result
  int64_t past_ = 0, left_ = -1, right_ = -1, mode_ = 0;
  bool flat_ = false, causal_ = false;
  double scale_ = 1, softcap_ = 0;
};

void AttentionNode::readOperands() {
  q_ = c_.in(0), k_ = c_.in(1), v_ = c_.in(2);
  flat_ = q_.rank() == 3;
  if (flat_) {
    q_ = splitHeads(c_, q_, c_.integer("q_num_heads"));
    k_ = splitHeads(c_, k_, c_.integer("kv_num_heads"));
    v_ = splitHeads(c_, v_, c_.integer("kv_num_heads"));
  }
  if (q_.rank() != 4 || k_.rank() != 4 || v_.rank() != 4)
    c_.fail("has operands that are of neither rank 3 nor 4");
  if (c_.has(4)) {
    const Expr past = c_.in(4);
    if (past.rank() != 4 || !past.dims().at(2).isStatic()) c_.fail("has past keys of a symbolic length");
    past_ = past.dims().at(2).value();
    k_ = concatOf(c_.b, {past, k_}, 2);
    v_ = concatOf(c_.b, {c_.in(5), v_}, 2);
  }
  presentK_ = k_, presentV_ = v_;
  causal_ = c_.integer("is_causal", 0) != 0;
  left_ = c_.integer("left_window_size", -1), right_ = c_.integer("right_window_size", -1);
  mode_ = c_.integer("qk_matmul_output_mode", 0);
  softcap_ = c_.real("softcap", 0);
  const Dim size = q_.dims().at(3);
  if (!c_.has("scale") && !size.isStatic()) c_.fail("has heads of a symbolic size");
  scale_ = c_.has("scale") ? c_.real("scale") : 1 / std::sqrt(static_cast<double>(size.value()));
}

// With a last dim of all keys; what is missing is masked.
Expr AttentionNode::mask() {
  if (!c_.has(3)) return {};
  Expr m = c_.in(3);
  const Dim have = m.rank() ? m.dims().back() : Dim(1), want = k_.dims().at(2);
  if (have == want || have == Dim(1) || !have.isStatic() || !want.isStatic()) return m;
  std::vector<int64_t> low(m.rank()), high(m.rank());
  high.back() = want.value() - have.value();
  const Expr value =
      isBool(m.dtype()) ? filled(c_.b, DType::Bool, {}, 0) : filled(c_.b, m.dtype(), {}, kMinusInfinity);
  return pad(m, {.value = value, .low = low, .high = high});
}

// dtc's own op, where it has the form; it fuses.
std::optional<Expr> AttentionNode::fused() {
  if (softcap_ != 0 || c_.has("softmax_precision") || c_.wants(3) || left_ >= 0 || right_ >= 0 || c_.has(6) ||
      (causal_ && past_ > 0) || isNarrowFloat(q_.dtype()))
    return std::nullopt;
  const Expr m = mask();
  const Expr y =
      attention(q_, k_, v_, {.mask = m.valid() ? Arg(m) : Arg(), .causal = causal_, .scale = scale_})[0];
  if (!m.valid()) return y;
  // Queries without a key have the result 0.
  Expr open = isBool(m.dtype()) ? m : gt(m, kMinusInfinity);
  if (causal_) open = open & allowed();
  return select(any(open, {.dims = {-1}, .keepdim = true}), y, 0.0);
}

// Keys and values of a group of heads are those of one head.
Expr repeatedHeads(OnnxContext& c, Expr x, Dim heads) {
  if (x.dims().at(1) == heads) return x;
  const auto times = c.module.dims.divExact(heads, x.dims().at(1));
  if (!times) c.fail("has a number of query heads that is not a multiple of that of keys");
  const Dims wide{x.dims().at(0), x.dims().at(1), *times, x.dims().at(2), x.dims().at(3)};
  return reshapeTo(broadcastTo(withDim(x, 2), wide), {x.dims().at(0), heads, x.dims().at(2), x.dims().at(3)});
}

Expr AttentionNode::scores() {
  const double root = std::sqrt(scale_);
  const Expr keys = repeatedHeads(c_, k_, q_.dims().at(1));
  const Expr raw = matmul(q_ * root, keys * root, {.transpose_b = true});
  if (mode_ == 0) raw_ = raw;
  const Expr capped = softcap_ != 0 ? tanh(raw / softcap_) * softcap_ : raw;
  if (mode_ == 1) raw_ = capped;
  return capped;
}

// Whether query i may attend to key j, by position; absent: all.
Expr AttentionNode::allowed() {
  const Dims square{q_.dims().at(2), k_.dims().at(2)};
  const TypeId type = checkedType(c_.b, DType::I64, square);
  const Expr j = iota(c_.b, type, {.dim = 1});
  Expr i = iota(c_.b, type, {.dim = 0}) + past_, open;
  const auto add = [&](Expr p) { open = open.valid() ? open & p : p; };
  if (c_.has(6)) { // the number of valid keys of each sequence
    const Expr lengths = reshapeTo(c_.in(6).as(DType::I64), {q_.dims().at(0), 1, 1, 1});
    add(lt(j, lengths));
    if (!q_.dims().at(2).isStatic()) c_.fail("has queries of a symbolic length");
    i = i + lengths - q_.dims().at(2).value();
  }
  if (causal_) add(le(j, i));
  if (left_ >= 0) add(ge(j, i - left_));
  if (right_ >= 0) add(le(j, i + right_));
  return open;
}

// The softmax; rows without a key are 0.
Expr AttentionNode::weights(Expr biased) const {
  const DType own = biased.dtype();
  const Expr wide = biased.as(c_.has("softmax_precision") ? c_.heldBy(c_.integer("softmax_precision")) : own);
  const Expr top = ops::max(wide, {.dims = {3}, .keepdim = true});
  return select(eq(top, kMinusInfinity), 0.0, softmax(wide, {3})).as(own);
}

ImportResults AttentionNode::run() {
  readOperands();
  Expr y;
  if (const auto own = fused()) {
    y = *own;
  } else {
    Expr biased = scores();
    const Expr open = allowed();
    const Expr m = mask();
    if (m.valid()) biased = isBool(m.dtype()) ? select(m, biased, kMinusInfinity) : biased + m;
    if (open.valid()) biased = select(open, biased, kMinusInfinity);
    if (mode_ == 2) raw_ = biased;
    const Expr p = weights(biased);
    if (mode_ == 3) raw_ = p;
    y = matmul(p, repeatedHeads(c_, v_, q_.dims().at(1)));
  }
  return {flat_ ? mergeHeads(c_, y) : y, presentK_, presentV_, raw_};
}

ImportResults attentionRow(OnnxContext& c) { return AttentionNode(c).run(); }

// Rotates pairs of the first `rotary_embedding_dim` elements of each head.
ImportResults rotaryEmbedding(OnnxContext& c) {
  Expr x = c.in(0);
  const bool flat = x.rank() == 3;
  x = flat ? splitHeads(c, x, c.integer("num_heads")) : x; // [batch, heads, seq, size]
  if (x.rank() != 4 || !x.dims().at(3).isStatic()) c.fail("has an operand of neither rank 3 nor 4");
  const int64_t size = x.dims().at(3).value();
  int64_t rotated = c.integer("rotary_embedding_dim", 0);
  if (rotated == 0) rotated = size;
  if (rotated < 0 || rotated > size || rotated % 2)
    c.fail("has an odd rotary_embedding_dim, or one that is out of range");
  const auto cache = [&](int i) {
    Expr table = c.in(i);
    if (c.has(3)) {
      const Expr ids = c.in(3);
      const Expr rows = index_select(table, reshapeTo(ids, {elementsOf(c.b, ids.dims())}), {.dim = 0});
      table = reshapeTo(rows, {ids.dims().at(0), ids.dims().at(1), table.dims().at(1)});
    }
    return withDim(table, 1); // one for all heads
  };
  const Expr cosine = cache(1), sine = cache(2);
  const Expr turned = sliceOf(x, 3, 0, rotated);
  const bool interleaved = c.integer("interleaved", 0);
  const Expr first = interleaved ? sliceOf(turned, 3, 0, rotated, 2) : sliceOf(turned, 3, 0, rotated / 2);
  const Expr second =
      interleaved ? sliceOf(turned, 3, 1, rotated, 2) : sliceOf(turned, 3, rotated / 2, rotated);
  const Expr real = first * cosine - second * sine, imaginary = first * sine + second * cosine;
  Expr y = interleaved ? reshapeTo(stack(c.b, {real, imaginary}, 4), turned.dims())
                       : concatOf(c.b, {real, imaginary}, 3);
  if (rotated < size) y = concatOf(c.b, {y, sliceOf(x, 3, rotated, size)}, 3);
  return flat ? mergeHeads(c, y) : y;
}

// The recurrence, one token after the other.
ImportResults linearAttention(OnnxContext& c) {
  const int64_t qHeads = c.integer("q_num_heads"), heads = c.integer("kv_num_heads");
  const std::string rule = c.text("update_rule", "gated_delta");
  const bool gated = rule.starts_with("gated"), delta = rule.ends_with("delta");
  if (heads < 1 || qHeads < 1 || qHeads % heads)
    c.fail("has a number of query heads that is not a multiple of that of keys");
  const DType own = c.in(0).dtype(), wide = isNarrowFloat(own) ? DType::F32 : own; // of the state
  const auto perStep = [&](Expr x, int64_t h) {
    return permuted(splitHeads(c, x.as(wide), h), std::vector<int64_t>{2, 0, 1, 3});
  };
  const Expr q = perStep(c.in(0), qHeads), k = perStep(c.in(1), heads),
             v = perStep(c.in(2), heads); // [t, b, h, d]
  const Dim batch = k.dims().at(1);
  const int64_t steps = c.shapeOf(k).at(0), size = c.shapeOf(k).at(3);
  double scale = c.real("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(size));
  const Expr start =
      c.has(3) ? c.in(3).as(wide) : filled(c.b, v.dtype(), {batch, heads, size, v.dims().at(3)}, 0);
  const Expr decay = gated ? perStep(c.in(4), heads) : Expr();
  Expr rate = delta ? c.in(5).as(wide) : Expr(); // [b, t, h] or [b, t, 1]
  if (delta) rate = withDim(moved(rate, 1, 0), 3);
  const Expr group = reshapeTo(q, {steps, batch, heads, qHeads / heads, size});
  auto results = forLoop(c.b, 0, steps, {start}, [&](Builder& in, Expr t, std::span<const ValueId> carried) {
    const auto at = [&](Expr x) { return index_select(Expr(in, x), t, {.dim = 0}); };
    Expr state(in, carried[0]);
    const Expr key = withDim(at(k), 3), value = at(v);
    if (gated) state = state * exp(withDim(at(decay), 3));
    Expr update = value;
    if (delta) update = at(rate) * (value - sum(state * key, {.dims = {2}}));
    state = state + key * withDim(update, 2);
    const Expr y = matmul(at(group), state) * scale; // [b, h, group, d_v]
    return std::vector<ValueId>{state, y};
  });
  const Expr y = moved(results[1], 0, 1); // [b, t, h, group, d_v]
  const Dims flat{batch, steps, elementsOf(c.b, {Dim(qHeads), v.dims().at(3)})};
  return {reshapeTo(y, flat).as(own), results[0].as(c.has(3) ? c.in(3).dtype() : own)};
}

// A graph of the node, which maps a tensor to one of the same type.
Expr modified(OnnxContext& c, const char* name, Expr x) {
  if (!c.has(name)) return x;
  const std::vector<ValueId> inputs{x};
  const std::vector<ValueId> out = c.scope.inlined(c.graph(name), inputs, c.b);
  if (out.size() != 1) c.fail(std::string("has a ") + name + " without exactly one result");
  const Expr y(c.b, out[0]);
  if (y.dims() != x.dims()) c.fail(std::string("has a ") + name + " that changes the shape");
  return y;
}

// The preview op: attention whose scores and weights are modified by graphs.
ImportResults flexAttention(OnnxContext& c) {
  const Expr q = c.in(0), v = c.in(2);
  if (q.rank() != 4 || c.in(1).rank() != 4 || v.rank() != 4) c.fail("has operands that are not of rank 4");
  const Dim heads = q.dims().at(1), size = q.dims().at(3);
  if (!c.has("scale") && !size.isStatic()) c.fail("has heads of a symbolic size");
  const double scale = c.has("scale") ? c.real("scale") : 1 / std::sqrt(static_cast<double>(size.value()));
  if (!c.has("score_mod") && !c.has("prob_mod") && !c.has("softmax_precision") && !isNarrowFloat(q.dtype()))
    return attention(q, c.in(1), v, {.scale = scale})[0];
  const DType wide = c.has("softmax_precision") ? c.heldBy(c.integer("softmax_precision"))
                     : isNarrowFloat(q.dtype()) ? DType::F32
                                                : q.dtype();
  const double root = std::sqrt(scale);
  const Expr keys = repeatedHeads(c, c.in(1), heads) * root;
  const Expr scores = modified(c, "score_mod", matmul(q * root, keys, {.transpose_b = true}).as(wide));
  const Expr weights = modified(c, "prob_mod", softmax(scores, {3}));
  return matmul(weights, repeatedHeads(c, v, heads).as(wide)).as(v.dtype());
}

constexpr OnnxRow kAttentionRows[] = {
    {"Attention", attentionRow},
    {"ai.onnx.preview.FlexAttention", flexAttention, 1},
    {"RotaryEmbedding", rotaryEmbedding},
    {"LinearAttention", linearAttention},
};

} // namespace

std::span<const OnnxRow> attentionRows() { return kAttentionRows; }

} // namespace dtc::onnx
