#include "match/AttentionGradient.h"
#include "dtc/Ops/attention/AttentionKeys.h"
#include <algorithm>
#include <cmath>

namespace dtc {

using namespace loops;

namespace {

constexpr size_t kDelta = 4, kMask = 6; // operands of the op

// The layout of a tensor's rows in a buffer: `own` is its row-major address over the nest's axes, `at` that of
// the same element in the buffer. Nothing if a dim has no single stride, or the rows are not contiguous.
std::optional<AttentionGradient::Rows> rowsOf(const Kernel& k, AffineId own, AffineId at, const Type& t,
                                              SizeArgs& sizes) {
  AttentionGradient::Rows rows;
  for (const AffineTerm& term : k[at].terms) {
    if (term.kind == AffineTerm::OfNode) return std::nullopt;
    if (term.kind == AffineTerm::One) rows.offset.push_back(term.coefficient);
  }
  Size* const strides[] = {&rows.batch, &rows.head, &rows.row};
  Size inner; // elements of the following dims
  for (size_t d = t.rank(); d-- > 0;) {
    const Size extent = sizes.of(t.dims[d]);
    std::optional<Size> stride;
    Size next;
    for (Size covered; !extent.is(0) && covered != extent;) { // by one axis or several
      AxisId a = 0;
      while (a < k.axes.size() && (k.axes[a].extent.is(1) || k.strideOf(own, a).mixed ||
                                   k.strideOf(own, a).size != inner * covered))
        ++a;
      if (a == k.axes.size()) return std::nullopt;
      const Kernel::Stride s = k.strideOf(at, a);
      if (s.mixed || (stride && s.size != next)) return std::nullopt;
      if (!stride) stride = s.size;
      next = s.size * k.axes[a].extent, covered = covered * k.axes[a].extent;
    }
    if (d == 3 && stride && !stride->is(1)) return std::nullopt;
    if (d < 3) *strides[d] = stride.value_or(Size{0, {}});
    if (!extent.is(0)) inner = inner * extent;
  }
  return rows;
}

class GradientMatcher {
public:
  GradientMatcher(Module& m, OpId fused)
      : m_(m), fused_(fused), block_(m[m.region(fused)]), sizes_(m, fused) {}

  std::optional<Lowered> run() {
    for (OpId o : block_.ops)
      if (const AttentionForm form = attentionForm(m_.record(o));
          form == AttentionForm::Gradient || form == AttentionForm::MaskGradient)
        op_ = o, g_.ofMask = form == AttentionForm::MaskGradient;
    if (!op_.valid()) return {};
    if (!readRows()) return {};
    Diagnostics quiet;
    const OpQuery q = queryOf(m_, op_, quiet);
    readSizes(q);
    for (uint32_t i = 0; i < block_.args.size(); ++i)
      addBuffer(block_.args[i], false), l_.inputs.push_back(i);
    l_.kernel.numInputs = static_cast<uint32_t>(l_.inputs.size());
    for (uint32_t i = 0; i < block_.yields.size(); ++i)
      addBuffer(block_.yields[i], true), l_.outputs.push_back(i);
    for (size_t i = 0; i < kMask; ++i) {
      if (isRowsOperand(i) || (i == kDelta && g_.ofResult)) {
        g_.operands[i] = arg_[i];
        continue;
      }
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
  std::optional<uint32_t> bufferOf(ValueId v) const {
    const auto at = std::find(block_.args.begin(), block_.args.end(), v);
    return at == block_.args.end() ? std::nullopt
                                   : std::optional(static_cast<uint32_t>(at - block_.args.begin()));
  }
  // The layouts of q, k, v, dy, perhaps y, and the results.
  bool readRows() {
    std::vector<ValueId> values;
    std::vector<AttentionGradient::Rows*> rows;
    AttentionGradient::Rows* const operands[] = {&g_.q, &g_.k, &g_.v, nullptr, &g_.y, &g_.dy};
    std::vector<size_t> numbers; // of the op's operands
    const std::optional<AttentionDelta> delta =
        g_.ofMask ? std::optional<AttentionDelta>() : attentionDelta(m_, op_);
    g_.ofResult = delta.has_value();
    for (size_t i = 0; i < kMask; ++i) {
      const bool y = i == kDelta && delta;
      if (!isRowsOperand(i) && !y) continue;
      values.push_back(y ? delta->y : m_.operand(op_, i));
      rows.push_back(operands[i]), numbers.push_back(i);
    }
    const size_t firstResult = values.size();
    AttentionGradient::Rows* const results[] = {&g_.dq, &g_.dk, &g_.dv};
    for (uint32_t r = 0; r < 3 && !g_.ofMask; ++r)
      values.push_back(m_.result(op_, r)), rows.push_back(results[r]);
    if (block_.yields.size() != m_[op_].numResults || (g_.ofMask && block_.yields[0] != m_.result(op_)))
      return false;
    const std::optional<Lowered> around = RegionLowering(m_, fused_).around(op_, values);
    if (!around) return false;
    sizes_.list = around->sizes;
    const Kernel& k = around->kernel;
    for (size_t i = 0; i < values.size(); ++i) {
      const Store& store = k.nests[i].stores[0];
      const Node& load = k[store.value];
      const bool result = i >= firstResult;
      const auto found = result ? rowsOf(k, load.affine, store.address, m_.typeOf(values[i]), sizes_)
                                : rowsOf(k, store.address, load.affine, m_.typeOf(values[i]), sizes_);
      if (!found) return false;
      *rows[i] = *found;
      if (result) {
        if (store.buffer != around->inputs.size() + (i - firstResult)) return false; // in their order
        continue;
      }
      arg_[numbers[i]] = around->inputs[load.buffer];
    }
    return true;
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
  OpId fused_;
  const Block& block_;
  SizeArgs sizes_;
  OpId op_;
  uint32_t arg_[kMask] = {}; // by operand of the op, if it is rows: the region's argument that has it
  AttentionGradient g_;
  Lowered l_;
};

} // namespace

std::optional<Lowered> matchAttentionGradient(Module& m, OpId fused) {
  return GradientMatcher(m, fused).run();
}

std::optional<AttentionCall> attentionGradientCall(const Lowered& lowered, uint32_t dtypes) {
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
  const auto put = [&](AttentionCall::Which which, bool result, uint32_t number,
                       const AttentionGradient::Rows& rows) {
    AttentionCall::Tensor& t = call.tensors[which];
    t.used = true, t.result = result, t.number = number;
    for (const Size& s : rows.offset) t.offset.terms.push_back(factorsOf(s));
    t.strides = {size(rows.batch), size(rows.head), size(rows.row), size(one)};
  };
  const auto operand = [&](size_t i) { return lowered.inputs[g.operands[i]]; };
  put(AttentionCall::Q, false, operand(0), g.q);
  put(AttentionCall::K, false, operand(1), g.k);
  put(AttentionCall::V, false, operand(2), g.v);
  put(AttentionCall::Lse, false, operand(3), {{}, g.heads * g.rows, g.rows, one});
  put(AttentionCall::DY, false, operand(5), g.dy);
  put(AttentionCall::DQ, true, 0, g.dq);
  put(AttentionCall::DK, true, 1, g.dk);
  put(AttentionCall::DV, true, 2, g.dv);
  if (g.ofResult) put(AttentionCall::Y, false, operand(kDelta), g.y);
  return call;
}

std::vector<SizeFormula::Factor> flopsOf(const AttentionGradient& g) {
  const int64_t products = g.ofMask ? 2 * g.depth + 2 * g.width : 6 * g.depth + 4 * g.width;
  return factorsOf(g.batch * g.heads * g.rows * g.keys * Size{products, {}});
}

} // namespace dtc
