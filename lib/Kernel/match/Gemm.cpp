#include "match/Gemm.h"
#include "dtc/Kernel/schedule/Schedule.h"
#include <algorithm>

namespace dtc {

using namespace loops;

namespace {

GemmCall::Axis axisOf(const GemmAxis& g) {
  return {formula(g.extent), formula(g.a), formula(g.b), formula(g.y), formula(g.residual), formula(g.aux)};
}

bool joins(const GemmAxis& outer, const GemmAxis& inner) {
  return outer.a == inner.a * inner.extent && outer.b == inner.b * inner.extent &&
         outer.y == inner.y * inner.extent && outer.residual == inner.residual * inner.extent &&
         outer.aux == inner.aux * inner.extent;
}

// Axes of one kind, the largest stride first, joined where they form one walk.
template <class Fits>
std::vector<GemmAxis> joined(std::vector<GemmAxis> axes, Size GemmAxis::* by, const Fits& fits) {
  std::sort(axes.begin(), axes.end(),
            [&](const GemmAxis& p, const GemmAxis& q) { return (p.*by) > (q.*by); });
  for (size_t i = 0; i + 1 < axes.size();) {
    GemmAxis both = axes[i + 1];
    both.extent = axes[i].extent * axes[i + 1].extent;
    both.parts.insert(both.parts.begin(), axes[i].parts.begin(), axes[i].parts.end());
    if (!joins(axes[i], axes[i + 1]) || !fits(both.parts)) {
      ++i;
      continue;
    }
    axes[i + 1] = std::move(both);
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return axes;
}

// A gathered index: the buffer with the one number that it is, or nothing.
const Node* readNumber(const Kernel& k, NodeId n) {
  const Node* node = &k[n];
  if (node->kind == NodeKind::Call && node->function == "convert" && node->target == DType::I64)
    node = &k[node->args[0]];
  const bool number = node->kind == NodeKind::Load && node->args.empty() && k[node->affine].terms.empty();
  if (!number) return nullptr;
  const DType dtype = k.buffers[node->buffer].dtype;
  return dtype == DType::I32 || dtype == DType::I64 ? node : nullptr;
}

// The guard of a gathered row, 0 <= n < rows: the number of rows.
std::optional<int64_t> rowsOf(const Kernel& k, NodeId guard, NodeId n) {
  auto compares = [&](NodeId c, const char* how) -> std::optional<int64_t> {
    const Node& node = k[c];
    if (node.kind != NodeKind::Call || node.function != how || node.args[0] != n) return std::nullopt;
    const Node& with = k[node.args[1]];
    if (with.kind != NodeKind::Number || isFloat(with.type)) return std::nullopt;
    return with.integer;
  };
  const Node& both = k[guard];
  if (both.kind != NodeKind::Call || both.function != "and") return std::nullopt;
  const std::optional<int64_t> lower = compares(both.args[0], "ge");
  return lower && *lower == 0 ? compares(both.args[1], "lt") : std::nullopt;
}

// A strided load, from a constant or gathered base.
const Node* stridedLoad(const Kernel& k, NodeId n, const Lowered& l, GemmCall::Begin& begin) {
  const Node& node = k[n];
  if (node.kind != NodeKind::Load) return nullptr;
  bool guarded = !node.args.empty();
  for (const AffineTerm& t : k[node.affine].terms) {
    if (t.kind == AffineTerm::OfAxis) continue;
    if (t.coefficient.number < 0) return nullptr;
    if (t.kind == AffineTerm::One) {
      begin.offset.terms.push_back(factorsOf(t.coefficient));
      continue;
    }
    const Node* number = readNumber(k, NodeId(t.id));
    const std::optional<int64_t> rows = guarded ? rowsOf(k, node.args[0], NodeId(t.id)) : std::nullopt;
    if (begin.index >= 0 || !number || !rows) return nullptr;
    begin.index = static_cast<int32_t>(l.inputs[number->buffer]);
    begin.stride = SizeFormula{{factorsOf(t.coefficient)}};
    begin.rows = *rows;
    guarded = false;
  }
  return guarded ? nullptr : &node;
}

using Product = GemmProduct;

// The only reduction, if it is a sum of products of two loads.
bool findSum(const Lowered& l, Product& p) {
  const Kernel& k = l.kernel;
  bool only = true;
  forEachNode(k, rootsOf(k, k.nests[0]), [&](NodeId n) {
    if (k[n].kind != NodeKind::Reduce) return;
    only &= !p.sum.valid();
    p.sum = n;
  });
  if (!p.sum.valid() || !only || k[p.sum].reduce != ReduceKind::Sum) return false;
  const Node& product = k[k[p.sum].args[0]];
  if (product.kind != NodeKind::Call || product.function != "mul") return false;
  p.a = stridedLoad(k, unscaled(k, product.args[0], p.aScales), l, p.aBegin);
  p.b = stridedLoad(k, unscaled(k, product.args[1], p.bScales), l, p.bBegin);
  if (!p.a || !p.b) return false;
  findScales(k, p);
  return p.narrow || (p.aScales.empty() && p.bScales.empty());
}

// Along an axis of the second operand alone, and only that.
bool biasFits(const Kernel& k, const Product& p, const Node& bias) {
  size_t along = 0;
  for (AxisId a = 0; a < k.axes.size(); ++a) {
    if (k.strideOf(bias.affine, a).size.is(0)) continue;
    ++along;
    if (!k.strideOf(p.a->affine, a).size.is(0) || k.strideOf(p.b->affine, a).size.is(0)) return false;
  }
  return along <= 1;
}

// A vector along n that is added to the sum first.
void findBias(const Kernel& k, Product& p, const KernelOptions& options) {
  p.value = p.scaled;
  // cuBLASLt has no epilogue in f64, none that rounds to f8, and for f8 none that adds f32. oneDNN adds no i32.
  if (isInteger(p.dtype) || (options.target.gemmEpilogues && p.dtype == DType::F64) || isF8(p.dtype) ||
      (p.narrow && p.dtype == DType::F32))
    return;
  NodeId sum = p.scaled, reader = onlyReader(k, sum);
  // `linear` rounds before it adds; cuBLASLt adds first, and rounds once.
  if (options.target.gemmEpilogues && reader.valid() && k[reader].function == "convert" &&
      k[reader].target == p.dtype)
    sum = reader, reader = onlyReader(k, sum);
  if (!reader.valid() || k[reader].kind != NodeKind::Call || k[reader].function != "add") return;
  const Node* bias = plainLoad(k, k[reader].args[k[reader].args[0] == sum ? 1 : 0]);
  if (!bias || k.buffers[bias->buffer].dtype != p.dtype || !biasFits(k, p, *bias)) return;
  p.bias = bias;
  p.value = reader;
}

// The store of the matrix product, or one in whose memory it can be computed.
bool findStore(const Kernel& k, Product& p) {
  const Store* best = nullptr;
  AxisSet axes = 0;
  for (const Store& s : k.nests[0].stores) {
    for (const AffineTerm& t : k[s.address].terms)
      if (t.kind != AffineTerm::OfAxis) return false;
    if (axes != 0 && axes != k.dependsOn(s.address)) return false;
    axes = k.dependsOn(s.address);
    if (p.aux && s.buffer == p.aux->buffer) continue;
    if (k.buffers[s.buffer].dtype != p.dtype || (best && best->value == p.value)) continue;
    if (!best || s.value == p.value) best = &s;
  }
  if (!best) return false;
  p.at = *best;
  return true;
}

struct Axes {
  std::vector<GemmAxis> m, n, batch, contracted;
  Size biasStride{0, {}};
};

// If several row axes cannot be joined, the one that is dense in the first operand becomes the matrix's rows, and the
// others batch dims: libraries are slow, or refuse, without dense rows or columns.
void keepDense(Axes& axes) {
  if (axes.m.size() < 2 || axes.contracted.empty() || axes.contracted[0].a.is(1)) return;
  if (axes.n.empty() || !axes.n.back().y.is(1)) return; // y would have none
  const auto dense = std::find_if(axes.m.begin(), axes.m.end(), [](const GemmAxis& g) { return g.a.is(1); });
  if (dense != axes.m.end()) std::rotate(dense, dense + 1, axes.m.end());
}

// The operands that each axis belongs to.
std::optional<Axes> axesOf(const Kernel& k, const Product& p) {
  Axes axes;
  for (AxisId a = 0; a < k.axes.size(); ++a) {
    const Kernel::Stride sa = k.strideOf(p.a->affine, a), sb = k.strideOf(p.b->affine, a);
    const Kernel::Stride sy = k.strideOf(p.at.address, a);
    const Kernel::Stride sr = p.residual ? k.strideOf(p.residual->affine, a) : Kernel::Stride{};
    const Kernel::Stride sx = p.aux       ? k.strideOf(p.aux->address, a)
                              : p.auxRead ? k.strideOf(p.auxRead->affine, a)
                                          : Kernel::Stride{};
    const std::vector<AxisId>& summed = k[p.sum].axes;
    const bool inSum = std::find(summed.begin(), summed.end(), a) != summed.end();
    const bool inA = !sa.size.is(0), inB = !sb.size.is(0), inY = !sy.size.is(0);
    if (!inA && !inB && !inY && !inSum) continue;
    if (sa.mixed || sb.mixed || sy.mixed || sr.mixed || sx.mixed || inSum == inY || (!inA && !inB))
      return std::nullopt;
    GemmAxis axis{k.axes[a].extent, sa.size, sb.size, sy.size, sr.size, sx.size, {a}};
    (inSum ? axes.contracted : inA && inB ? axes.batch : inA ? axes.m : axes.n).push_back(std::move(axis));
    if (p.bias && !k.strideOf(p.bias->affine, a).size.is(0))
      axes.biasStride = k.strideOf(p.bias->affine, a).size;
  }
  auto any = [](const std::vector<AxisId>&) { return true; };
  auto fits = [&](const std::vector<AxisId>& parts) {
    return p.range == EpilogueRange::All || joinsInEpilogue(k, p.value, parts);
  };
  axes.m = joined(axes.m, &GemmAxis::y, fits), axes.n = joined(axes.n, &GemmAxis::y, fits);
  axes.contracted = joined(axes.contracted, &GemmAxis::a, any);
  // A bias covers all of n.
  const bool biased = axes.n.size() == 1 && axes.n[0].parts.size() == 1;
  if (axes.contracted.size() > 1 || (p.bias && !axes.biasStride.is(0) && !biased)) return std::nullopt;
  axes.batch = joined(axes.batch, &GemmAxis::y, fits);
  keepDense(axes);
  for (std::vector<GemmAxis>* side : {&axes.m, &axes.n}) // axes that do not join repeat the other operand
    while (side->size() > 1) {
      axes.batch.insert(axes.batch.begin(), side->front());
      side->erase(side->begin());
    }
  return axes;
}

// The library's matrices are row-major: y's rows run along n, and so does a bias.
void orient(const Kernel& k, Product& p) {
  p.value = p.scaled;
  if (!findStore(k, p)) return;
  for (AxisId a = 0; a < k.axes.size(); ++a)
    if (k.strideOf(p.at.address, a).size.is(1) && !k.strideOf(p.a->affine, a).size.is(0) &&
        k.strideOf(p.b->affine, a).size.is(0)) {
      std::swap(p.a, p.b);
      std::swap(p.aBegin, p.bBegin);
      std::swap(p.aScales, p.bScales);
      return;
    }
}

// A residual or aux has y's row-major layout: any row stride, any batch stride.
bool isRowMajor(const Axes& axes, Size GemmAxis::* by) {
  const auto strided = [&](const GemmAxis& g) { return !(g.*by).is(0); };
  return (axes.n.empty() || ((axes.n[0].*by).is(1) && axes.n[0].y.is(1))) &&
         std::all_of(axes.m.begin(), axes.m.end(), strided) &&
         std::all_of(axes.batch.begin(), axes.batch.end(), strided);
}

// cuBLASLt wants aux's strides in multiples of 8; where they are known only at load, it refuses there.
bool auxFits(const Axes& axes) {
  const auto fits = [](const GemmAxis& g) { return !g.aux.isStatic() || g.aux.number % 8 == 0; };
  return isRowMajor(axes, &GemmAxis::aux) && std::all_of(axes.m.begin(), axes.m.end(), fits) &&
         std::all_of(axes.batch.begin(), axes.batch.end(), fits);
}

// Libraries are slow (a thousand times, in oneDNN's reference loops) or refuse where neither the rows nor the columns
// of a matrix are dense.
bool isDense(const std::vector<GemmAxis>& rows, const std::vector<GemmAxis>& columns, Size GemmAxis::* by) {
  const auto strided = [&](const GemmAxis& g) { return !(g.*by).is(1); };
  return (rows.empty() && columns.empty()) || !std::all_of(rows.begin(), rows.end(), strided) ||
         !std::all_of(columns.begin(), columns.end(), strided);
}

// oneDNN multiplies i8 or u8 by i8. Where the product is computed transposed, the factors are exchanged.
bool bytesFit(const Kernel& k, const Product& p, const Axes& axes) {
  const bool byRows = axes.n.empty() || axes.n[0].y.is(1);
  const auto isSigned = [&](const Node* n) { return k.buffers[n->buffer].dtype == DType::I8; };
  return isSigned(p.b) && (byRows || isSigned(p.a));
}

std::optional<GemmMatch> matchProduct(const Lowered& l, Product p) {
  const Kernel& k = l.kernel;
  if (!findStore(k, p)) return std::nullopt;
  // A sum may exceed the range of f8, although the stored value does not.
  if (isF8(p.dtype) && (p.at.value != p.sum || p.aBegin.index >= 0 || p.bBegin.index >= 0))
    return std::nullopt;
  std::optional<Axes> axes = axesOf(k, p);
  // A bias that the library cannot add is added in the epilogue: one with a different layout, or for a
  // column-major matrix product (which the library computes transposed).
  const bool byColumns = axes && !axes->n.empty() && !axes->n[0].y.is(1);
  if (p.extended && (!axes || byColumns || (p.residual && !isRowMajor(*axes, &GemmAxis::residual)) ||
                     ((p.aux || p.auxRead) && !auxFits(*axes))))
    return std::nullopt;
  if (p.bias && !p.extended && (!axes || byColumns)) {
    p.bias = nullptr;
    p.value = p.scaled;
    if (!findStore(k, p)) return std::nullopt;
    axes = axesOf(k, p);
  }
  if (!axes || !isDense(axes->m, axes->contracted, &GemmAxis::a) ||
      !isDense(axes->n, axes->contracted, &GemmAxis::b) || !isDense(axes->m, axes->n, &GemmAxis::y))
    return std::nullopt;
  if (isInteger(p.dtype) && !bytesFit(k, p, *axes)) return std::nullopt;
  GemmMatch match;
  GemmCall& call = match.call;
  call.dtype = p.dtype;
  if (p.narrow) describeScales(l, p, match);
  std::vector<GemmAxis> windows = axes->batch;
  auto only = [](const std::vector<GemmAxis>& v) { return v.empty() ? GemmAxis{} : v[0]; };
  windows.push_back(only(axes->m)), windows.push_back(only(axes->n));
  for (const GemmAxis& g : axes->batch) call.batch.push_back(axisOf(g));
  call.m = axisOf(only(axes->m)), call.n = axisOf(only(axes->n)), call.k = axisOf(only(axes->contracted));
  call.aBegin = p.aBegin, call.bBegin = p.bBegin;
  call.a = l.inputs[p.a->buffer];
  call.b = l.inputs[p.b->buffer];
  call.y = l.outputs[p.at.buffer - k.numInputs];
  if (p.bias) call.bias = static_cast<int32_t>(l.inputs[p.bias->buffer]);
  call.biasStride = formula(axes->biasStride);
  if (p.residual) call.residual = static_cast<int32_t>(l.inputs[p.residual->buffer]);
  if (p.aux) call.aux = static_cast<int32_t>(l.outputs[p.aux->buffer - k.numInputs]);
  if (p.auxRead) call.aux = static_cast<int32_t>(l.inputs[p.auxRead->buffer]);
  call.activation = p.activation;
  call.alpha = p.alpha, call.beta = p.beta;
  call.sizes = l.sizes;
  std::optional<EpilogueKernel> rest = epilogueOf(k, p.value, p.at, p.aux, windows, p.range);
  if (!rest) return match;
  for (uint32_t b : rest->inputs) match.inputs.push_back(l.inputs[b]);
  for (uint32_t b : rest->outputs) match.outputs.push_back(l.outputs[b - k.numInputs]);
  match.epilogue = std::move(rest->kernel);
  return match;
}

} // namespace

const Node* plainLoad(const Kernel& k, NodeId n) {
  const Node& node = k[n];
  if (node.kind != NodeKind::Load || !node.args.empty()) return nullptr;
  for (const AffineTerm& t : k[node.affine].terms)
    if (t.kind != AffineTerm::OfAxis) return nullptr;
  return &node;
}

std::optional<GemmMatch> matchGemm(const Lowered& l, const KernelOptions& options, bool libraryGelu) {
  const Kernel& k = l.kernel;
  Product p;
  if (options.target.gpu) p.range = EpilogueRange::All;
  if (k.nests.size() != 1 || !findSum(l, p)) return std::nullopt;
  const DType factors[] = {k.buffers[p.a->buffer].dtype, k.buffers[p.b->buffer].dtype};
  for (const DType d : {factors[0], factors[1], isInteger(p.dtype) ? factors[0] : p.dtype})
    if (!(options.target.gemmDTypes & dtypeBit(d))) return std::nullopt;
  if (isInteger(p.dtype) && !p.narrow) return std::nullopt;
  if (!p.narrow && k.buffers[p.b->buffer].dtype != p.dtype) return std::nullopt;
  if (options.target.gemmEpilogues) orient(k, p);
  const bool takesScale = options.target.gemmEpilogues && !p.narrow && !isF8(p.dtype);
  if (takesScale) findAlpha(k, p);
  findBias(k, p, options);
  std::optional<GemmMatch> match = matchProduct(l, p);
  const bool lookedUp =
      p.aBegin.index >= 0 || p.bBegin.index >= 0; // may be empty: then there is no matrix product
  if (!match || !options.target.gemmEpilogues || lookedUp || isF8(p.dtype)) return match;
  for (const bool activation : {false, true}) {
    Product more = p;
    more.extended = true;
    if (activation ? !extendActivation(k, more, libraryGelu, options.target.gemmRelu)
                   : !extendLinear(k, more))
      continue;
    std::optional<GemmMatch> better = matchProduct(l, more);
    if (!better) continue;
    better->plain = std::make_shared<GemmMatch>(std::move(*match));
    match = std::move(better), p = more;
  }
  return match;
}

std::optional<ViewCall> matchView(const Lowered& l) {
  const Kernel& k = l.kernel;
  if (k.numInputs != 1 || k.nests.size() != 1 || k.nests[0].stores.size() != 1 || k.buffers.size() != 2)
    return std::nullopt;
  const Store& store = k.nests[0].stores[0];
  const Node& load = k[store.value];
  if (load.kind != NodeKind::Load || !load.args.empty() || load.affine != store.address) return std::nullopt;
  if (k.buffers[0].dtype != k.buffers[1].dtype) return std::nullopt;
  ViewCall call{l.inputs[0], l.sizes, {}};
  return call;
}

} // namespace dtc
