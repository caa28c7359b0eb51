#include "Gemm.h"
#include "Emit.h"
#include <algorithm>

namespace dtc {

using namespace loops;

namespace {

struct GemmAxis {
  Size extent, a{0, {}}, b{0, {}}, y{0, {}};
};

SizeFormula formula(const Size& s) { return s.is(0) ? SizeFormula{} : SizeFormula{{factorsOf(s)}}; }
GemmCall::Axis axisOf(const GemmAxis& g) {
  return {formula(g.extent), formula(g.a), formula(g.b), formula(g.y)};
}

bool joins(const GemmAxis& outer, const GemmAxis& inner) {
  return outer.a == inner.a * inner.extent && outer.b == inner.b * inner.extent &&
         outer.y == inner.y * inner.extent;
}

// Axes of one kind, the widest stride first, joined where that is one walk.
std::vector<GemmAxis> joined(std::vector<GemmAxis> axes, Size GemmAxis::* by) {
  std::sort(axes.begin(), axes.end(),
            [&](const GemmAxis& p, const GemmAxis& q) { return (p.*by) > (q.*by); });
  for (size_t i = 0; i + 1 < axes.size();) {
    if (!joins(axes[i], axes[i + 1])) {
      ++i;
      continue;
    }
    axes[i + 1].extent = axes[i].extent * axes[i + 1].extent;
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return axes;
}

const Node* plainLoad(const Kernel& k, NodeId n) {
  const Node& node = k[n];
  if (node.kind != NodeKind::Load || !node.args.empty()) return nullptr;
  for (const AffineTerm& t : k[node.affine].terms)
    if (t.kind != AffineTerm::OfAxis) return nullptr;
  return &node;
}

struct Parts {
  const Node *a = nullptr, *b = nullptr, *bias = nullptr, *sum = nullptr;
};

std::optional<Parts> partsOf(const Kernel& k, NodeId value) {
  Parts p;
  const Node* node = &k[value];
  if (node->kind == NodeKind::Call && node->function == "add") {
    const bool first = k[node->args[0]].kind == NodeKind::Reduce;
    p.bias = plainLoad(k, node->args[first ? 1 : 0]);
    if (!p.bias) return std::nullopt;
    node = &k[node->args[first ? 0 : 1]];
  }
  if (node->kind != NodeKind::Reduce || node->reduce != ReduceKind::Sum) return std::nullopt;
  const Node& product = k[node->args[0]];
  if (product.kind != NodeKind::Call || product.function != "mul") return std::nullopt;
  p.sum = node;
  p.a = plainLoad(k, product.args[0]);
  p.b = plainLoad(k, product.args[1]);
  if (!p.a || !p.b) return std::nullopt;
  return p;
}

} // namespace

std::optional<GemmCall> matchGemm(const Lowered& l, uint32_t dtypes) {
  const Kernel& k = l.kernel;
  if (k.nests.size() != 1 || k.nests[0].stores.size() != 1) return std::nullopt;
  const Store& store = k.nests[0].stores[0];
  const std::optional<Parts> parts = partsOf(k, store.value);
  const DType dtype = k.buffers[store.buffer].dtype;
  if (!parts || !(dtypes >> static_cast<int>(dtype) & 1)) return std::nullopt;
  for (const Buffer& b : k.buffers)
    if (b.dtype != dtype) return std::nullopt;
  std::vector<GemmAxis> m, n, batch, contracted;
  AxisId biasAxis = 0;
  Size biasStride{0, {}};
  for (AxisId a = 0; a < k.axes.size(); ++a) {
    const Kernel::Stride sa = k.strideOf(parts->a->affine, a), sb = k.strideOf(parts->b->affine, a);
    const Kernel::Stride sy = k.strideOf(store.address, a);
    const bool inSum =
        std::find(parts->sum->axes.begin(), parts->sum->axes.end(), a) != parts->sum->axes.end();
    const bool inA = !sa.size.is(0), inB = !sb.size.is(0), inY = !sy.size.is(0);
    if (!inA && !inB && !inY && !inSum) continue;
    if (sa.mixed || sb.mixed || sy.mixed || inSum == inY || (!inA && !inB)) return std::nullopt;
    const GemmAxis axis{k.axes[a].extent, sa.size, sb.size, sy.size};
    (inSum ? contracted : inA && inB ? batch : inA ? m : n).push_back(axis);
    if (!parts->bias || k.strideOf(parts->bias->affine, a).size.is(0)) continue;
    if (!biasStride.is(0) || inA || !inB) return std::nullopt;
    biasAxis = a;
    biasStride = k.strideOf(parts->bias->affine, a).size;
  }
  for (const AffineTerm& t : k[store.address].terms)
    if (t.kind != AffineTerm::OfAxis) return std::nullopt;
  m = joined(m, &GemmAxis::y), n = joined(n, &GemmAxis::y), contracted = joined(contracted, &GemmAxis::a);
  if (contracted.size() > 1 || (parts->bias && (n.size() != 1 || n[0].extent != k.axes[biasAxis].extent)))
    return std::nullopt;
  batch = joined(batch, &GemmAxis::y);
  for (std::vector<GemmAxis>* side : {&m, &n}) // what does not join repeats the other side
    while (side->size() > 1) {
      batch.insert(batch.begin(), side->front());
      side->erase(side->begin());
    }
  GemmCall call;
  call.dtype = dtype;
  auto only = [](const std::vector<GemmAxis>& v) { return axisOf(v.empty() ? GemmAxis{{1, {}}} : v[0]); };
  for (const GemmAxis& g : batch) call.batch.push_back(axisOf(g));
  call.m = only(m), call.n = only(n), call.k = only(contracted);
  call.a = l.inputs[parts->a->buffer];
  call.b = l.inputs[parts->b->buffer];
  if (parts->bias) call.bias = static_cast<int32_t>(l.inputs[parts->bias->buffer]);
  call.biasStride = formula(biasStride);
  call.sizes = l.sizes;
  return call;
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
