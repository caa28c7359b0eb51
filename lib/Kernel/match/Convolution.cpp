#include "match/Convolution.h"
#include "dtc/Ops/window/Convolution.h"
#include "lower/Lower.h"
#include <algorithm>
#include <numeric>

namespace dtc {

using namespace loops;

namespace {

class ConvMatcher {
public:
  ConvMatcher(Module& m, OpId fused) : m_(m), block_(m[m.region(fused)]), sizes_(m, fused) {}

  std::optional<ConvCall> run(uint32_t dtypes) {
    if (block_.yields.size() != 1) return std::nullopt;
    for (OpId o : block_.ops) {
      if (!isConvolution(m_.record(o))) continue;
      if (conv_.valid()) return std::nullopt;
      conv_ = o;
    }
    if (!conv_.valid()) return std::nullopt;
    call_.dtype = m_.typeOf(m_.result(conv_)).dtype;
    if (!(dtypes >> static_cast<int>(call_.dtype) & 1)) return std::nullopt;
    Diagnostics quiet;
    const std::optional<ConvShape> shape = convolutionOf(queryOf(m_, conv_, quiet));
    if (!shape || shape->windows.empty() || shape->windows.size() > 3) return std::nullopt;
    View x, w, y;
    if (!operandView(0, x) || !operandView(1, w) || !resultView(y)) return std::nullopt;
    View bias;
    if (m_[conv_].numOperands > 2 && !operandView(2, bias)) return std::nullopt;
    if (visited_ != block_.ops.size()) return std::nullopt;
    if (m_[conv_].numOperands > 2) call_.bias = static_cast<int32_t>(bias.number);
    call_.groups = shape->groups;
    const std::vector<int64_t> order(w.order.begin(), w.order.end());
    const bool gradient = call_.bias < 0 && isWindowGradient(*shape, order);
    if (!(gradient ? window(*shape, x, w, y) : forward(*shape, x, w, y))) return std::nullopt;
    call_.sizes = sizes_.list;
    return std::move(call_);
  }

private:
  // One of the convolution's tensors, as a permutation of the dims of an operand or result of the region.
  struct View {
    uint32_t number = 0;
    std::vector<size_t> order; // dim d of the convolution's tensor is dim order[d] in memory
    std::vector<Size> strides; // by dim of the convolution's tensor
    std::vector<Dim> dims;
  };

  // from[i]: the operand's dim that dim i of the result is; nothing where the op does more than permute.
  std::optional<std::vector<size_t>> permutation(OpId o) {
    Diagnostics quiet;
    Rule rule;
    if (m_[o].numOperands != 1 || m_[o].numResults != 1 || !ruleOf(queryOf(m_, o, quiet), rule)) return {};
    const std::vector<DimMap>&operand = rule.operands[0].dims, &result = rule.results[0].dims;
    if (operand.size() != result.size()) return {};
    std::vector<size_t> from;
    for (const DimMap& d : result) {
      if (!d.plain()) return {};
      for (size_t i = 0; i < operand.size(); ++i)
        if (operand[i].plain() && operand[i].terms[0].factor == d.terms[0].factor) from.push_back(i);
    }
    if (from.size() != result.size()) return {};
    ++visited_;
    return from;
  }

  void lay(View& v, const Type& memory) {
    std::vector<Size> dense(memory.rank());
    Size stride;
    for (size_t d = memory.rank(); d-- > 0;) {
      dense[d] = stride;
      stride = stride * sizes_.of(memory.dims[d]);
    }
    for (size_t d : v.order) v.strides.push_back(dense[d]), v.dims.push_back(memory.dims[d]);
  }

  bool operandView(size_t operand, View& out) {
    ValueId v = m_.operand(conv_, operand);
    out.order.resize(m_.typeOf(v).rank());
    std::iota(out.order.begin(), out.order.end(), size_t(0));
    while (m_[v].kind == ValueKind::OpResult) {
      const OpId o(m_[v].owner);
      const auto from = permutation(o);
      if (!from) return false;
      for (size_t& d : out.order) d = (*from)[d];
      v = m_.operand(o, 0);
    }
    const auto at = std::find(block_.args.begin(), block_.args.end(), v);
    if (at == block_.args.end()) return false;
    out.number = static_cast<uint32_t>(at - block_.args.begin());
    lay(out, m_.typeOf(v));
    return true;
  }

  bool resultView(View& out) {
    ++visited_; // the convolution itself
    ValueId v = m_.result(conv_);
    out.order.resize(m_.typeOf(v).rank());
    std::iota(out.order.begin(), out.order.end(), size_t(0));
    while (v != block_.yields[0]) {
      const auto reader = std::find_if(block_.ops.begin(), block_.ops.end(), [&](OpId o) {
        return m_[o].numOperands == 1 && m_.operand(o, 0) == v;
      });
      if (reader == block_.ops.end()) return false;
      const auto from = permutation(*reader);
      if (!from) return false;
      for (size_t& d : out.order)
        d = static_cast<size_t>(std::find(from->begin(), from->end(), d) - from->begin());
      v = m_.result(*reader);
    }
    lay(out, m_.typeOf(v));
    return true;
  }

  // Strides of a tensor whose channels, in dim `channel`, are contiguous groups of `each`, preceded by the
  // group's batch dims, or nothing.
  void put(ConvCall::Tensor& t, const View& v, bool result, size_t channel, const Size& each) {
    t.result = result;
    t.number = v.number;
    if (channel == 1) t.strides.push_back(formula(v.strides[0]));
    t.strides.push_back(formula(v.strides[channel] * each));
    t.strides.push_back(formula(v.strides[channel]));
    for (size_t d = channel + 1; d < v.strides.size(); ++d) t.strides.push_back(formula(v.strides[d]));
  }
  // The window [g o, c, …].
  void putWindow(const View& v, bool result, const Size& each) { put(call_.window, v, result, 0, each); }

  // The part of a dim for one group.
  std::optional<Size> each(Dim d) {
    if (call_.groups == 1) return sizes_.of(d);
    if (!d.isStatic() || d.value() % call_.groups != 0) return std::nullopt;
    return Size{d.value() / call_.groups, {}};
  }

  bool forward(const ConvShape& s, const View& x, const View& w, const View& y) {
    call_.kind = s.transposed ? ConvKind::Image : ConvKind::Forward;
    const View &image = s.transposed ? y : x, &result = s.transposed ? x : y;
    const auto o = each(result.dims[1]);
    if (!o) return false;
    const Size c = sizes_.of(w.dims[1]);
    call_.n = formula(sizes_.of(image.dims[0])), call_.c = formula(c), call_.o = formula(*o);
    put(call_.image, image, s.transposed, 1, c);
    put(call_.result, result, !s.transposed, 1, *o);
    putWindow(w, false, *o);
    for (const ConvWindow& v : s.windows)
      call_.spatial.push_back({s.transposed ? v.result : v.size, v.length, s.transposed ? v.size : v.result,
                               v.stride, v.dilation, v.low});
    return true;
  }

  // x is [c, g n, …] of images, w is [g o, n, …] of results, y is [c, g o, …] of the window.
  bool window(const ConvShape& s, const View& x, const View& w, const View& y) {
    call_.kind = ConvKind::Window;
    const auto n = each(x.dims[1]), o = each(w.dims[0]);
    if (!n || !o) return false;
    call_.n = formula(*n), call_.c = formula(sizes_.of(x.dims[0])), call_.o = formula(*o);
    const auto rest = [&](ConvCall::Tensor& t, const View& v) {
      for (size_t d = 2; d < v.strides.size(); ++d) t.strides.push_back(formula(v.strides[d]));
    };
    call_.image = {
        false, x.number, {formula(x.strides[1]), formula(x.strides[1] * *n), formula(x.strides[0])}};
    rest(call_.image, x);
    call_.result = {
        false, w.number, {formula(w.strides[1]), formula(w.strides[0] * *o), formula(w.strides[0])}};
    rest(call_.result, w);
    call_.window = {true, 0, {formula(y.strides[1] * *o), formula(y.strides[1]), formula(y.strides[0])}};
    rest(call_.window, y);
    for (const ConvWindow& v : s.windows)
      call_.spatial.push_back({v.size, v.result, v.length, v.dilation, v.stride, v.low});
    return true;
  }

  Module& m_;
  const Block& block_;
  SizeArgs sizes_;
  OpId conv_;
  size_t visited_ = 0; // ops of the region matched so far
  ConvCall call_;
};

} // namespace

std::optional<ConvCall> matchConvolution(Module& m, OpId fused, uint32_t dtypes) {
  return dtypes ? ConvMatcher(m, fused).run(dtypes) : std::nullopt;
}

} // namespace dtc
