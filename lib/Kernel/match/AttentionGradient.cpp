#include "match/AttentionGradient.h"
#include "dtc/Ops/attention/AttentionKeys.h"
#include <algorithm>
#include <cmath>

namespace dtc {

using namespace loops;

namespace {

constexpr size_t kMask = 6; // the operand's number
class GradientMatcher {
public:
  GradientMatcher(Module& m, OpId fused) : m_(m), block_(m[m.region(fused)]), sizes_(m, fused) {}

  std::optional<Lowered> run() {
    if (block_.ops.size() != 1) return {};
    op_ = block_.ops[0];
    const AttentionForm form = attentionForm(m_.record(op_));
    g_.ofMask = form == AttentionForm::MaskGradient;
    if (!g_.ofMask && form != AttentionForm::Gradient) return {};
    Diagnostics quiet;
    const OpQuery q = queryOf(m_, op_, quiet);
    readSizes(q);
    for (uint32_t i = 0; i < block_.args.size(); ++i) // except for operands that only a library reads
      if (reads(block_.args[i])) addBuffer(block_.args[i], false), l_.inputs.push_back(i);
    l_.kernel.numInputs = static_cast<uint32_t>(l_.inputs.size());
    const uint32_t results = g_.ofMask ? 1 : 3;
    for (uint32_t i = 0; i < results; ++i) {
      if (block_.yields.size() != results || block_.yields[i] != m_.result(op_, i)) return {};
      addBuffer(block_.yields[i], true), l_.outputs.push_back(i);
    }
    for (size_t i = 0; i < kMask; ++i) {
      const auto number = bufferOf(m_.operand(op_, i));
      if (!number) return {};
      g_.operands[i] = *number;
    }
    if (!readRest(q)) return {};
    l_.kernel.attentionGradient = g_;
    for (const std::vector<ValueId>& values : {block_.args, block_.yields}) // to count their bytes
      for (ValueId v : values)
        for (Dim d : m_.typeOf(v).dims) static_cast<void>(sizes_.of(d));
    l_.sizes = sizes_.list;
    l_.kernel.numSizes = static_cast<uint32_t>(l_.sizes.size());
    return std::move(l_);
  }

private:
  void addBuffer(ValueId v, bool output) { l_.kernel.buffers.push_back({m_.typeOf(v).dtype, output}); }
  [[nodiscard]] bool reads(ValueId arg) const {
    const auto operands = m_.operands(op_);
    return std::find(operands.begin(), operands.end(), arg) != operands.end();
  }
  std::optional<uint32_t> bufferOf(ValueId v) const {
    for (uint32_t i = 0; i < l_.inputs.size(); ++i)
      if (block_.args[l_.inputs[i]] == v) return i;
    return {};
  }
  void readSizes(const OpQuery& q) {
    auto size = [&](size_t operand, size_t dim) { return sizes_.of(q.type(operand).dims[dim]); };
    g_.batch = size(0, 0), g_.heads = size(0, 1), g_.keyHeads = size(1, 1);
    g_.rows = size(0, 2), g_.keys = size(1, 2);
    g_.depth = q.type(0).dims[3].value(), g_.width = q.type(2).dims[3].value();
    g_.causal = q.boolAttr("causal"), g_.window = q.intAttr("window");
    g_.scale =
        q.rawAttr("scale").valid() ? q.floatAttr("scale") : 1 / std::sqrt(static_cast<double>(g_.depth));
  }
  // A mask, and the offset of the queries.
  bool readRest(const OpQuery& q) {
    for (size_t i = kMask; i < q.operandTypes.size(); ++i) {
      const Type& t = q.type(i);
      const auto number = bufferOf(m_.operand(op_, i));
      if (t.dtype == DType::I32 && t.rank() == 0) {
        const Value& v = m_[m_.operand(op_, i)];
        if (!number && v.kind != ValueKind::Literal) return false;
        if (number)
          g_.offset = static_cast<int32_t>(*number);
        else
          g_.offsetNumber = m_.attrs[v.literal].i;
        continue;
      }
      if (!number) return false;
      g_.mask = static_cast<int32_t>(*number);
      Size stride;
      for (Size& s : g_.maskStrides) s = {0, {}};
      for (size_t d = t.rank(); d-- > 0;) {
        const Size size = sizes_.of(t.dims[d]);
        if (!size.is(1)) g_.maskStrides[4 - t.rank() + d] = stride;
        stride = stride * size;
      }
    }
    return true;
  }

  Module& m_;
  const Block& block_;
  SizeArgs sizes_;
  OpId op_;
  AttentionGradient g_;
  Lowered l_;
};

} // namespace

std::optional<Lowered> matchAttentionGradient(Module& m, OpId fused) {
  return GradientMatcher(m, fused).run();
}

std::optional<AttentionCall> attentionGradientCall(const Module& m, OpId fused, const Lowered& lowered,
                                                   uint32_t dtypes) {
  const AttentionGradient& g = *lowered.kernel.attentionGradient;
  if (g.ofMask) return std::nullopt;
  AttentionCall call;
  call.gradient = true;
  call.dtype = lowered.kernel.buffers[g.operands[0]].dtype;
  if (!(dtypes >> static_cast<int>(call.dtype) & 1) || g.mask >= 0) return std::nullopt;
  if (lowered.kernel.buffers[g.operands[3]].dtype != DType::F32) return std::nullopt;
  if ((g.causal || g.window) && g.offset >= 0) return std::nullopt;
  if (g.window) call.before = g.window - 1 - g.offsetNumber, call.after = g.window - 1 + g.offsetNumber;
  if (g.causal) call.after = g.offsetNumber;
  call.scale = g.scale;
  const auto size = [](const Size& s) { return s.is(0) ? SizeFormula{} : SizeFormula{{factorsOf(s)}}; };
  const Size depth{g.depth, {}}, width{g.width, {}}, one;
  call.batch = size(g.batch), call.heads = size(g.heads), call.keyHeads = size(g.keyHeads);
  call.rows = size(g.rows), call.keys = size(g.keys), call.depth = size(depth), call.width = size(width);
  call.sizes = lowered.sizes;
  const auto put = [&](AttentionCall::Which which, bool result, uint32_t number, const Size& heads,
                       const Size& rows, const Size& columns) {
    AttentionCall::Tensor& t = call.tensors[which];
    t.used = true, t.result = result, t.number = number;
    t.strides = {size(heads * rows * columns), size(rows * columns), size(columns), size(one)};
  };
  const auto operand = [&](size_t i) { return lowered.inputs[g.operands[i]]; };
  put(AttentionCall::Q, false, operand(0), g.heads, g.rows, depth);
  put(AttentionCall::K, false, operand(1), g.keyHeads, g.keys, depth);
  put(AttentionCall::V, false, operand(2), g.keyHeads, g.keys, width);
  put(AttentionCall::Lse, false, operand(3), g.heads, g.rows, one);
  put(AttentionCall::DY, false, operand(5), g.heads, g.rows, width);
  put(AttentionCall::DQ, true, 0, g.heads, g.rows, depth);
  put(AttentionCall::DK, true, 1, g.keyHeads, g.keys, depth);
  put(AttentionCall::DV, true, 2, g.keyHeads, g.keys, width);
  // The operand that no op of the region reads is y (lib/Passes/fuse/AttentionResult.cpp).
  for (uint32_t i = 0; i < m[fused].numOperands; ++i)
    if (std::find(lowered.inputs.begin(), lowered.inputs.end(), i) == lowered.inputs.end())
      put(AttentionCall::Y, false, i, g.heads, g.rows, width);
  return call;
}

std::vector<SizeFormula::Factor> flopsOf(const AttentionGradient& g) {
  const int64_t products = g.ofMask ? 2 * g.depth + 2 * g.width : 6 * g.depth + 4 * g.width;
  return factorsOf(g.batch * g.heads * g.rows * g.keys * Size{products, {}});
}

} // namespace dtc
