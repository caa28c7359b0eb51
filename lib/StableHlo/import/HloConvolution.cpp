// stablehlo.convolution as `conv`: dims are transposed to its order. A reversed window that slides by one element
// is a transposed convolution, whose stride is the dilation of the input (as gradients are written). Otherwise
// dilation of the input and reversal are done before it.
#include "import/HloConvolution.h"
#include "import/HloTable.h"
#include "mlir/MlirLexer.h"

#include <algorithm>
#include <numeric>

namespace dtc {

namespace {

// The roles of a tensor's dims: `first` is the batch of input and result, the kernel's outputs; `second` are
// channels.
struct DimOrder {
  int64_t first = -1, second = -1;
  std::vector<int64_t> spatial;
  [[nodiscard]] std::vector<int64_t> perm() const {
    std::vector<int64_t> p = {first, second};
    p.insert(p.end(), spatial.begin(), spatial.end());
    return p;
  }
  // True if each dim is named once.
  [[nodiscard]] bool complete() const {
    std::vector<int64_t> p = perm();
    std::sort(p.begin(), p.end());
    for (size_t i = 0; i < p.size(); ++i)
      if (p[i] != static_cast<int64_t>(i)) return false;
    return true;
  }
};
struct DimNumbers {
  DimOrder input, kernel, output;
};

// "[b, 0, 1, f]": letters for batch and feature, numbers for the spatial dims.
bool readOrder(MlirLexer& lex, std::string_view first, std::string_view second, DimOrder& out) {
  if (!lex.accept('[')) return false;
  std::vector<std::pair<int64_t, int64_t>> spatial;
  for (int64_t dim = 0; !lex.accept(']'); ++dim) {
    if (dim > 0 && !lex.accept(',')) return false;
    const MlirToken t = lex.next();
    const auto number = t.kind == MlirTok::Int ? mlirInteger(t.text) : std::nullopt;
    if (t.isWord(first))
      out.first = dim;
    else if (t.isWord(second))
      out.second = dim;
    else if (number)
      spatial.emplace_back(*number, dim);
    else
      return false;
  }
  std::sort(spatial.begin(), spatial.end());
  for (size_t i = 0; i < spatial.size(); ++i) {
    if (spatial[i].first != static_cast<int64_t>(i)) return false;
    out.spatial.push_back(spatial[i].second);
  }
  return true;
}

// The short form "[b, f, 0]x[o, i, 0]->[b, f, 0]".
bool readShort(HloContext& c, const MlirAttr& a, DimNumbers& out) {
  MlirLexer lex(c.module.source.text, a.body);
  if (!readOrder(lex, "b", "f", out.input)) return false;
  if (!lex.acceptWord("x") || !readOrder(lex, "o", "i", out.kernel)) return false;
  if (lex.peek().kind != MlirTok::Arrow) return false;
  lex.next();
  return readOrder(lex, "b", "f", out.output) && lex.atEnd();
}

// The long form "input_batch_dimension = 0, …".
bool readLong(HloContext& c, const MlirAttr& a, DimNumbers& out) {
  auto one = [&](const char* name, int64_t& to) {
    auto v = c.bodyInts(a, name);
    if (!v || v->size() > 1) return false;
    to = v->empty() ? 0 : v->front(); // 0 may be omitted
    return true;
  };
  auto list = [&](const char* name, std::vector<int64_t>& to) {
    auto v = c.bodyInts(a, name);
    if (v) to = *v;
    return v.has_value();
  };
  return one("input_batch_dimension", out.input.first) && one("input_feature_dimension", out.input.second) &&
         list("input_spatial_dimensions", out.input.spatial) &&
         one("kernel_output_feature_dimension", out.kernel.first) &&
         one("kernel_input_feature_dimension", out.kernel.second) &&
         list("kernel_spatial_dimensions", out.kernel.spatial) &&
         one("output_batch_dimension", out.output.first) &&
         one("output_feature_dimension", out.output.second) &&
         list("output_spatial_dimensions", out.output.spatial);
}

bool readDims(HloContext& c, size_t rank, DimNumbers& out) {
  const MlirAttr* a = c.attr("dimension_numbers");
  if (!a) return c.fail("needs dimension_numbers");
  const bool isLong = a->body.find("input_") != std::string_view::npos;
  if (!(isLong ? readLong(c, *a, out) : readShort(c, *a, out)))
    return !c.diags.hasErrors() &&
           c.failAttr("dimension_numbers", "do not have the form [b, f, 0]x[o, i, 0]->[b, f, 0]");
  for (const DimOrder* o : {&out.input, &out.kernel, &out.output})
    if (o->spatial.size() + 2 != rank || !o->complete())
      return c.failAttr("dimension_numbers", "do not name each of " + std::to_string(rank) + " dims once");
  return true;
}

struct WindowAttrs {
  std::vector<int64_t> stride, padding, inputDilation, kernelDilation, reversal;
};
bool readWindow(HloContext& c, size_t spatial, WindowAttrs& w) {
  const auto count = static_cast<int64_t>(spatial);
  const std::vector<int64_t> ones(spatial, 1), zeros(spatial, 0);
  auto stride = c.intsOr("window_strides", ones, count), input = c.intsOr("lhs_dilation", ones, count),
       kernel = c.intsOr("rhs_dilation", ones, count), reversal = c.intsOr("window_reversal", zeros, count),
       padding = c.intsOr("padding", std::vector<int64_t>(2 * spatial, 0), 2 * count);
  if (!stride || !input || !kernel || !reversal || !padding) return false;
  w = {*stride, *padding, *input, *kernel, *reversal};
  return true;
}

// Inserts zeros between the elements of the spatial dims of x [n, c, spatial…].
ValueId spread(HloContext& c, ValueId x, const std::vector<int64_t>& dilation) {
  if (std::all_of(dilation.begin(), dilation.end(), [](int64_t d) { return d == 1; })) return x;
  std::vector<int64_t> none(c.rankOf(x), 0), interior = {0, 0};
  for (int64_t d : dilation) interior.push_back(d - 1);
  return c.emit("pad", {x},
                {{"low", c.intsAttr(none)}, {"high", c.intsAttr(none)}, {"interior", c.intsAttr(interior)}});
}

// Splits the batch into groups and makes each a group of channels: [(g n), c, …] as [n, (g c), …].
ValueId batchToChannels(HloContext& c, ValueId x, int64_t groups) {
  const std::vector<int64_t> own = c.shapeOf(x);
  if (own.size() < 2) return x;
  std::vector<int64_t> parts = {groups, own[0] / groups}, perm = {1, 0, 2},
                       joined = {own[0] / groups, groups * own[1]};
  for (size_t d = 1; d < own.size(); ++d) parts.push_back(own[d]);
  for (size_t d = 2; d < own.size(); ++d) {
    perm.push_back(static_cast<int64_t>(d) + 1);
    joined.push_back(own[d]);
  }
  return c.reshape(c.transpose(c.reshape(x, parts), perm), joined);
}

// True if the window is reversed along each spatial dim (or has one element there) and slides by one.
bool isTransposed(HloContext& c, ValueId x, ValueId w, const WindowAttrs& a) {
  const std::vector<int64_t> own = c.shapeOf(w), in = c.shapeOf(x);
  bool any = false, all = true;
  for (size_t i = 0; i < a.stride.size(); ++i) {
    any |= a.reversal[i] != 0 || a.inputDilation[i] != 1;
    all &= a.stride[i] == 1 && (a.reversal[i] != 0 || own[i + 2] == 1) && own[i + 2] > 0 && in[i + 2] > 0;
  }
  return any && all;
}

// Exchanges inputs and outputs of a window [(g o), c, …] of groups: [(g c), o, …].
ValueId exchanged(HloContext& c, ValueId w, int64_t groups) {
  const std::vector<int64_t> own = c.shapeOf(w);
  std::vector<int64_t> perm(own.size());
  std::iota(perm.begin(), perm.end(), int64_t{0});
  std::swap(perm[0], perm[1]);
  if (groups == 1) return c.transpose(w, perm);
  std::vector<int64_t> parts = {groups, own[0] / groups}, joined = {groups * own[1], own[0] / groups};
  parts.insert(parts.end(), own.begin() + 1, own.end());
  joined.insert(joined.end(), own.begin() + 2, own.end());
  std::vector<int64_t> order = {0, 2, 1};
  for (size_t d = 3; d < parts.size(); ++d) order.push_back(static_cast<int64_t>(d));
  return c.reshape(c.transpose(c.reshape(w, parts), order), joined);
}

// The result at p reads the input where stride q = p + dilation k - low; with the window reversed, k is
// length - 1 - k', so p = stride q + dilation k' - (dilation (length - 1) - low).
ValueId convolveTransposed(HloContext& c, ValueId x, ValueId w, const WindowAttrs& a, int64_t groups) {
  const std::vector<int64_t> own = c.shapeOf(w);
  std::vector<AttrId> padding;
  for (size_t i = 0; i < a.stride.size(); ++i) {
    const int64_t most = a.kernelDilation[i] * (own[i + 2] - 1);
    padding.push_back(c.intsAttr(std::vector{most - a.padding[2 * i], most - a.padding[2 * i + 1]}));
  }
  return c.emit("conv", {x, exchanged(c, w, groups)},
                {{"stride", c.intsAttr(a.inputDilation)},
                 {"padding", c.listAttr(padding)},
                 {"dilation", c.intsAttr(a.kernelDilation)},
                 {"groups", c.intAttr(groups)},
                 {"transposed", c.boolAttr(true)}});
}

// The convolution of operands and result in dtc's dim order.
ValueId convolve(HloContext& c, ValueId x, ValueId w, const WindowAttrs& a, int64_t groups, int64_t batches) {
  if (batches == 1 && isTransposed(c, x, w, a)) return convolveTransposed(c, x, w, a, groups);
  x = spread(c, x, a.inputDilation);
  std::vector<int64_t> reversed;
  for (size_t i = 0; i < a.reversal.size(); ++i)
    if (a.reversal[i]) reversed.push_back(static_cast<int64_t>(i) + 2);
  if (!reversed.empty()) w = c.emit("flip", {w}, {{"dims", c.intsAttr(reversed)}});
  if (batches > 1) x = batchToChannels(c, x, batches);
  std::vector<AttrId> padding;
  for (size_t i = 0; i < a.stride.size(); ++i)
    padding.push_back(c.intsAttr(std::span(a.padding).subspan(2 * i, 2)));
  return c.emit("conv", {x, w},
                {{"stride", c.intsAttr(a.stride)},
                 {"padding", c.listAttr(padding)},
                 {"dilation", c.intsAttr(a.kernelDilation)},
                 {"groups", c.intAttr(groups * batches)}});
}

// JAX reverses the window of a gradient by an op: the same as an attribute of the convolution.
ValueId beforeReversal(HloContext& c, ValueId w, const DimOrder& dims, WindowAttrs& a) {
  const OpId reverse = c.module.definingOp(w);
  if (!reverse.valid() || std::string_view(c.module.record(reverse).name) != "flip") return w;
  WindowAttrs also = a;
  for (int64_t dim : queryOf(c.module, reverse, c.diags).intsAttr("dims")) {
    const auto at = std::ranges::find(dims.spatial, dim);
    if (at == dims.spatial.end()) return w;
    int64_t& reversed = also.reversal[static_cast<size_t>(at - dims.spatial.begin())];
    reversed = reversed == 0;
  }
  a = also;
  return c.module.operand(reverse, 0);
}

} // namespace

bool convertConvolution(HloContext& c, const std::vector<int64_t>* padding) {
  ValueId x = c.operand(0), w = c.operand(1);
  const size_t rank = c.rankOf(x);
  if (!x.valid() || !w.valid() || !c.resultType().valid()) return false;
  if (rank < 2 || c.rankOf(w) != rank) return c.fail("needs two operands of one rank, 2 or more");
  DimNumbers dims;
  WindowAttrs a;
  if (!readDims(c, rank, dims) || !readWindow(c, rank - 2, a)) return false;
  if (padding) a.padding = *padding;
  w = beforeReversal(c, w, dims.kernel, a);
  auto groups = c.integerOr("feature_group_count", 1), batches = c.integerOr("batch_group_count", 1);
  if (!groups || !batches) return false;
  if (*groups < 1 || *batches < 1 || (*groups > 1 && *batches > 1))
    return c.fail(
        "needs a feature_group_count and a batch_group_count of at least 1, one of them equal to 1");
  if (c.shapeOf(x)[static_cast<size_t>(dims.input.first)] % *batches != 0)
    return c.failAttr("batch_group_count", "does not divide the batch");
  // The result's dtype is precise enough for the accumulation: where it is wider, operands are converted to
  // it.
  const DType to = c.resultDType(), from = c.dtypeOf(x);
  if (from != c.dtypeOf(w) || dtypeBytes(to) > dtypeBytes(from) || isBool(from)) {
    x = c.convert(x, isBool(to) ? DType::I32 : to);
    w = c.convert(w, isBool(to) ? DType::I32 : to);
  }
  ValueId y = convolve(c, c.transpose(x, dims.input.perm()), c.transpose(w, dims.kernel.perm()), a, *groups,
                       *batches);
  // Transposes to the result's own order: the index of each of its dims in [n, c, spatial…].
  const std::vector<int64_t> order = dims.output.perm();
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return c.setResult(c.convert(c.transpose(y, back), to));
}

namespace {

bool convolution(HloContext& c) { return convertConvolution(c, nullptr); }

const HloRow kConvolutionRows[] = {{"stablehlo.convolution", convolution, 2}};

} // namespace

std::span<const HloRow> hloConvolutionRows() { return kConvolutionRows; }

} // namespace dtc
