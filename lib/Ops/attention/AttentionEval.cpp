// Reference definitions of attention and its gradient, on host tensors.
#include "attention/AttentionKeyParts.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc {

namespace {

// Maps [b, h, i, j] to an element of the mask.
int64_t maskIndex(const Tensor& mask, const int64_t (&at)[4]) {
  std::vector<int64_t> strides = mask.strides();
  int64_t flat = 0;
  for (size_t k = 0; k < mask.rank(); ++k)
    if (mask.shape()[k] != 1) flat += strides[k] * at[4 - mask.rank() + k];
  return flat;
}
double maskAt(const Tensor& mask, const int64_t (&at)[4]) { return mask.getFloat(maskIndex(mask, at)); }

template <class A> std::vector<A> widened(const Tensor& t) {
  std::vector<A> v(static_cast<size_t>(t.numElements()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<A>(t.getFloat(static_cast<int64_t>(i)));
  return v;
}

// Rows of scores, head by head. A: the accumulation type of the result's dtype, or a wider one if nothing is
// rounded.
template <class A> class AttentionRows {
public:
  AttentionRows(const OpQuery& q, std::span<const Tensor* const> in)
      : batch(in[0]->shape()[0]), heads(in[0]->shape()[1]), kvHeads(in[1]->shape()[1]), s(in[0]->shape()[2]),
        t(in[1]->shape()[2]), d(in[0]->shape()[3]), e(in[2]->shape()[3]), queries(widened<A>(*in[0])),
        keys(widened<A>(*in[1])), values(widened<A>(*in[2])), visible_(q),
        scale_(static_cast<A>(attentionScale(q))),
        mask_(hasAttentionMask(q) ? in[attentionOperands(q)] : nullptr),
        offset_(hasAttentionOffset(q) ? in.back()->getInt(0) : 0), transposed_(static_cast<size_t>(t * d)) {}

  const int64_t batch, heads, kvHeads, s, t, d, e;
  const std::vector<A> queries, keys, values;

  // fn(b * heads + h, i, b * kvHeads + the kv head, scores of query i, in which masked keys are -inf).
  template <class Fn> void forEach(Fn&& fn) {
    const int64_t groups = kvHeads ? heads / kvHeads : 1;
    std::vector<A> x(static_cast<size_t>(t));
    for (int64_t bh = 0; bh < batch * heads; ++bh) {
      const int64_t b = bh / heads, h = bh % heads, kv = b * kvHeads + h / groups;
      for (int64_t j = 0; j < t; ++j)
        for (int64_t c = 0; c < d; ++c) transposed_[c * t + j] = keys[(kv * t + j) * d + c];
      for (int64_t i = 0; i < s; ++i) {
        std::fill(x.begin(), x.end(), A(0));
        for (int64_t c = 0; c < d; ++c)
          for (int64_t j = 0; j < t; ++j) x[j] += queries[(bh * s + i) * d + c] * transposed_[c * t + j];
        score(b, h, i, x);
        fn(bh, i, kv, x);
      }
    }
  }

private:
  void score(int64_t b, int64_t h, int64_t i, std::vector<A>& scores) const {
    const A hidden = -std::numeric_limits<A>::infinity();
    for (size_t k = 0; k < scores.size(); ++k) {
      const auto j = static_cast<int64_t>(k);
      A x = scores[k] * scale_;
      if (mask_ && isFloat(mask_->dtype()))
        x += static_cast<A>(maskAt(*mask_, {b, h, i, j}));
      else if (mask_)
        x = maskAt(*mask_, {b, h, i, j}) != 0 ? x : hidden;
      if (!visible_(i + offset_, j)) x = hidden;
      scores[k] = x;
    }
  }

  AttentionVisible visible_;
  A scale_;
  const Tensor* mask_;
  int64_t offset_; // of the queries in the full sequence
  std::vector<A> transposed_;
};

template <class A>
bool attentionIn(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  AttentionRows<A> rows(q, in);
  std::vector<A> y(static_cast<size_t>(rows.e));
  std::vector<char> seen(static_cast<size_t>(rows.t));
  rows.forEach([&](int64_t bh, int64_t i, int64_t kv, std::vector<A>& p) {
    A rowMax = -std::numeric_limits<A>::infinity(), sum = 0;
    const A none = rowMax;
    for (A x : p) rowMax = std::isnan(x) || x > rowMax ? x : rowMax;
    // A masked key contributes nothing, whatever its value; if all are masked: 0 / 0.
    for (size_t j = 0; j < p.size(); ++j) seen[j] = p[j] != none || rowMax == none;
    for (A& x : p) sum += x = std::exp(x - rowMax);
    std::fill(y.begin(), y.end(), A(0));
    for (int64_t j = 0; j < rows.t; ++j)
      for (int64_t c = 0; c < rows.e && seen[j]; ++c)
        y[c] += p[j] / sum * rows.values[(kv * rows.t + j) * rows.e + c];
    for (int64_t c = 0; c < rows.e; ++c)
      out[0]->setFloat((bh * rows.s + i) * rows.e + c, static_cast<double>(y[c]));
    if (out.size() > 1)
      out[1]->setFloat(bh * rows.s + i, rowMax == none ? static_cast<double>(none)
                                                       : static_cast<double>(rowMax + std::log(sum)));
  });
  return true;
}

// y [batch, kv heads, groups * s, parts, e] and its log-sum-exp. Weights are rounded to the operands' dtype,
// as in the merged result.
template <class A>
bool partsIn(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  AttentionRows<A> rows(q, in);
  const int64_t parts = q.intAttr("parts"), offset = hasAttentionOffset(q) ? in.back()->getInt(0) : 0;
  const DType dtype = q.type(0).dtype;
  const bool rounds = !q.exact && dtypeBytes(dtype) == 2;
  std::vector<A> y(static_cast<size_t>(rows.e));
  rows.forEach([&](int64_t bh, int64_t i, int64_t kv, const std::vector<A>& x) {
    const A none = -std::numeric_limits<A>::infinity();
    for (int64_t part = 0; part < parts; ++part) {
      const KeyPart own = attentionPart(q, rows.s, rows.t, offset, part);
      A rowMax = none, sum = 0;
      for (int64_t j = own.begin; j < own.end; ++j)
        rowMax = std::isnan(x[j]) || x[j] > rowMax ? x[j] : rowMax;
      std::fill(y.begin(), y.end(), A(0));
      for (int64_t j = own.begin; j < own.end; ++j) {
        if (x[j] == none) continue;
        const A p = std::exp(x[j] - rowMax);
        const A kept = rounds ? static_cast<A>(roundToFloat(dtype, static_cast<double>(p))) : p;
        sum += p;
        for (int64_t c = 0; c < rows.e; ++c) y[c] += kept * rows.values[(kv * rows.t + j) * rows.e + c];
      }
      const int64_t at = (bh * rows.s + i) * parts + part;
      const A divisor = rows.t == 0 ? A(1) : sum; // 0 / 0 if no key is visible
      for (int64_t c = 0; c < rows.e; ++c)
        out[0]->setFloat(at * rows.e + c, static_cast<double>(y[c] / divisor));
      out[1]->setFloat(at, static_cast<double>(rowMax == none ? none : rowMax + std::log(sum)));
    }
  });
  return true;
}

// With p = exp(x - lse), 0 for a masked key: dv = pᵀ dy; ds = p (dy vᵀ - delta); dq = scale ds k; dk = scale
// dsᵀ q. Intermediates that an unfused program would store in the operands' dtype are rounded to it.
template <class A>
bool gradientIn(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  AttentionRows<A> rows(q, in);
  const std::vector<A> lse = widened<A>(*in[3]), delta = widened<A>(*in[4]), dy = widened<A>(*in[5]);
  const int64_t d = rows.d, e = rows.e;
  std::vector<A> dq(rows.queries.size()), dk(rows.keys.size()), dv(rows.values.size());
  const A scale = static_cast<A>(attentionScale(q));
  const DType dtype = q.type(0).dtype;
  const bool rounds = !q.exact && dtypeBytes(dtype) == 2;
  auto rounded = [&](A x) {
    return rounds ? static_cast<A>(roundToFloat(dtype, static_cast<double>(x))) : x;
  };
  rows.forEach([&](int64_t bh, int64_t i, int64_t kv, const std::vector<A>& x) {
    const int64_t row = bh * rows.s + i;
    for (int64_t j = 0; j < rows.t; ++j) {
      const int64_t key = kv * rows.t + j;
      if (x[j] == -std::numeric_limits<A>::infinity()) continue;
      const A p = std::exp(x[j] - lse[row]), kept = rounded(p);
      A dp = 0;
      for (int64_t c = 0; c < e; ++c) {
        dp += dy[row * e + c] * rows.values[key * e + c];
        dv[key * e + c] += kept * dy[row * e + c];
      }
      const A ds = rounded(p * (rounded(dp) - delta[row]));
      for (int64_t c = 0; c < d; ++c) {
        dq[row * d + c] += scale * ds * rows.keys[key * d + c];
        dk[key * d + c] += scale * ds * rows.queries[row * d + c];
      }
    }
  });
  size_t r = 0;
  for (const std::vector<A>* result : {&dq, &dk, &dv}) {
    for (size_t i = 0; i < result->size(); ++i)
      out[r]->setFloat(static_cast<int64_t>(i), static_cast<double>((*result)[i]));
    ++r;
  }
  return true;
}

// ds as above, reduced to the mask's shape.
template <class A>
bool maskGradientIn(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  AttentionRows<A> rows(q, in);
  const std::vector<A> lse = widened<A>(*in[3]), delta = widened<A>(*in[4]), dy = widened<A>(*in[5]);
  const DType dtype = q.type(0).dtype;
  const bool rounds = !q.exact && dtypeBytes(dtype) == 2;
  auto rounded = [&](A x) {
    return rounds ? static_cast<A>(roundToFloat(dtype, static_cast<double>(x))) : x;
  };
  Tensor& to = *out[0];
  std::vector<A> sums(static_cast<size_t>(to.numElements()));
  rows.forEach([&](int64_t bh, int64_t i, int64_t kv, const std::vector<A>& x) {
    const int64_t row = bh * rows.s + i;
    for (int64_t j = 0; j < rows.t; ++j) {
      if (x[j] == -std::numeric_limits<A>::infinity()) continue;
      A dp = 0;
      for (int64_t c = 0; c < rows.e; ++c)
        dp += dy[row * rows.e + c] * rows.values[(kv * rows.t + j) * rows.e + c];
      const A ds = std::exp(x[j] - lse[row]) * (rounded(dp) - delta[row]);
      sums[static_cast<size_t>(maskIndex(to, {bh / rows.heads, bh % rows.heads, i, j}))] += rounded(ds);
    }
  });
  for (size_t i = 0; i < sums.size(); ++i) to.setFloat(static_cast<int64_t>(i), static_cast<double>(sums[i]));
  return true;
}

} // namespace

bool attentionEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  if (q.exact && q.type(0).dtype == DType::F64) return attentionIn<long double>(q, in, out);
  return out[0]->dtype() == DType::F64 ? attentionIn<double>(q, in, out) : attentionIn<float>(q, in, out);
}

bool attentionPartsEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  if (q.exact && q.type(0).dtype == DType::F64) return partsIn<long double>(q, in, out);
  return out[0]->dtype() == DType::F64 ? partsIn<double>(q, in, out) : partsIn<float>(q, in, out);
}

bool attentionGradEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  if (q.exact && q.type(0).dtype == DType::F64) return gradientIn<long double>(q, in, out);
  return out[0]->dtype() == DType::F64 ? gradientIn<double>(q, in, out) : gradientIn<float>(q, in, out);
}

bool attentionGradMaskEval(const OpQuery& q, std::span<const Tensor* const> in,
                           std::span<Tensor* const> out) {
  const DType wide = accumulationType(q.type(0).dtype);
  if (q.exact && wide == DType::F64) return maskGradientIn<long double>(q, in, out);
  return wide == DType::F64 || q.exact ? maskGradientIn<double>(q, in, out)
                                       : maskGradientIn<float>(q, in, out);
}

} // namespace dtc
