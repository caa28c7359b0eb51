// The f8 factors of a matrix product, converted to a wider dtype and scaled: a library takes them as f8, and
// the scales separately. The i8 and u8 factors of a product in i32: a library takes them as they are.
#include "dtc/Kernel/schedule/Schedule.h"
#include "match/Gemm.h"
#include <algorithm>

namespace dtc {

using namespace loops;

namespace {

bool isWider(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16 || dtype == DType::F32; }

// A constant, or a load whose address does not depend on axes.
bool isOneNumber(const Kernel& k, NodeId n) {
  const Node& node = k[n];
  if (node.kind == NodeKind::Number) return isFloat(node.type);
  if (node.kind != NodeKind::Load || !node.args.empty() || !isWider(k.buffers[node.buffer].dtype))
    return false;
  return std::all_of(k[node.affine].terms.begin(), k[node.affine].terms.end(),
                     [](const AffineTerm& t) { return t.kind == AffineTerm::One; });
}

// The operand of which `n` is a scalar multiple; `n` itself where it is not.
NodeId stripped(const Kernel& k, NodeId n, std::vector<GemmScale>& scales) {
  const Node& node = k[n];
  if (node.kind != NodeKind::Call) return n;
  if (node.function == "convert" && isWider(node.target)) return node.args[0];
  const bool divides = node.function == "div";
  if (!divides && node.function != "mul") return n;
  for (const size_t at : {size_t(1), size_t(0)}) {
    if (divides && at == 0) break;
    if (!isOneNumber(k, node.args[at])) continue;
    scales.push_back({node.args[at], divides});
    return node.args[1 - at];
  }
  return n;
}

// The load of i8 or u8 that a factor of a sum in i32 converts; invalid where it is something else.
NodeId loadOfBytes(const Kernel& k, NodeId factor) {
  const Node& node = k[factor];
  if (node.kind != NodeKind::Call || node.function != "convert" || node.target != DType::I32) return {};
  const Node& from = k[node.args[0]];
  if (from.kind != NodeKind::Load) return {};
  const DType dtype = k.buffers[from.buffer].dtype;
  return dtype == DType::I8 || dtype == DType::U8 ? node.args[0] : NodeId();
}

// Three numbers from those of a kernel: the product of a's scales, of b's, and of all.
class ScaleKernel {
public:
  ScaleKernel(const Lowered& l, GemmMatch& match) : from_(l.kernel), l_(l), match_(match) {}

  void run(const GemmProduct& p) {
    for (const std::vector<GemmScale>* list : {&p.aScales, &p.bScales})
      for (const GemmScale& s : *list) takeBuffer(from_[s.number]);
    to_.numInputs = static_cast<uint32_t>(to_.buffers.size());
    to_.numSizes = from_.numSizes;
    const NodeId a = product(p.aScales), b = product(p.bScales);
    Nest nest;
    for (const NodeId value : {a, b, to_.call("mul", DType::F32, {a, b})}) {
      nest.stores.push_back({static_cast<uint32_t>(to_.buffers.size()), to_.constant(0), value});
      to_.buffers.push_back({DType::F32, true});
    }
    to_.nests.push_back(std::move(nest));
    match_.scales = std::move(to_);
  }

private:
  void takeBuffer(const Node& node) {
    if (node.kind != NodeKind::Load || buffer_.contains(node.buffer)) return;
    buffer_[node.buffer] = static_cast<uint32_t>(to_.buffers.size());
    to_.buffers.push_back(from_.buffers[node.buffer]);
    match_.scaleInputs.push_back(l_.inputs[node.buffer]);
  }
  NodeId number(const Node& node) {
    if (node.kind == NodeKind::Number) return to_.number(node.number, DType::F32);
    AffineId at = to_.constant(0);
    for (const AffineTerm& t : from_[node.affine].terms) at = to_.sum(at, to_.size(t.coefficient));
    return to_.load(buffer_.at(node.buffer), at, {});
  }
  NodeId product(const std::vector<GemmScale>& scales) {
    NodeId all = to_.number(1, DType::F32);
    for (const GemmScale& s : scales)
      all = to_.call(s.divides ? "div" : "mul", DType::F32, {all, number(from_[s.number])});
    return all;
  }

  const Kernel& from_;
  const Lowered& l_;
  GemmMatch& match_;
  Kernel to_;
  std::unordered_map<uint32_t, uint32_t> buffer_;
};

// The f32[] operands that are a matrix product's scales, where nothing is to be computed.
int32_t plainScale(const Lowered& l, const std::vector<GemmScale>& scales) {
  if (scales.size() != 1 || scales[0].divides) return -1;
  const Node& node = l.kernel[scales[0].number];
  const bool plain = node.kind == NodeKind::Load && l.kernel[node.affine].terms.empty() &&
                     l.kernel.buffers[node.buffer].dtype == DType::F32;
  return plain ? static_cast<int32_t>(l.inputs[node.buffer]) : -1;
}

} // namespace

NodeId unscaled(const Kernel& k, NodeId factor, std::vector<GemmScale>& scales) {
  if (const NodeId bytes = loadOfBytes(k, factor); bytes.valid()) return bytes;
  std::vector<GemmScale> found;
  NodeId at = factor;
  for (NodeId next = stripped(k, at, found); next != at; next = stripped(k, at, found)) at = next;
  const Node& node = k[at];
  if (node.kind != NodeKind::Load || !isF8(k.buffers[node.buffer].dtype)) return factor;
  scales = std::move(found);
  return at;
}

NodeId onlyReader(const Kernel& k, NodeId value) {
  NodeId reader;
  size_t readers = 0;
  forEachNode(k, rootsOf(k, k.nests[0]), [&](NodeId n) {
    for (NodeId a : k[n].args)
      if (a == value) reader = n, ++readers;
  });
  for (const Store& s : k.nests[0].stores) readers += s.value == value;
  return readers == 1 ? reader : NodeId();
}

void findScales(const Kernel& k, GemmProduct& p) {
  p.scaled = p.sum;
  p.dtype = k.buffers[p.a->buffer].dtype;
  const Node& product = k[k[p.sum].args[0]];
  if (loadOfBytes(k, product.args[0]).valid() && loadOfBytes(k, product.args[1]).valid()) {
    p.narrow = true, p.dtype = DType::I32;
    return;
  }
  if (!isF8(p.dtype) || !isF8(k.buffers[p.b->buffer].dtype)) return;
  // Of several stored dtypes, one that represents the values of all others.
  std::optional<DType> made;
  for (const DType d : {DType::F32, DType::BF16, DType::F16})
    for (const Store& s : k.nests[0].stores)
      if (!made && k.buffers[s.buffer].dtype == d) made = d;
  if (!made) return;
  p.narrow = true;
  p.dtype = *made;
  for (NodeId reader = onlyReader(k, p.scaled); reader.valid(); reader = onlyReader(k, p.scaled)) {
    std::vector<GemmScale> scales;
    if (k[reader].function == "convert" || stripped(k, reader, scales) != p.scaled) return;
    p.aScales.insert(p.aScales.end(), scales.begin(), scales.end());
    p.scaled = reader;
  }
}

void describeScales(const Lowered& l, const GemmProduct& p, GemmMatch& match) {
  NarrowFactors& narrow = match.call.narrow.emplace();
  narrow.a = l.kernel.buffers[p.a->buffer].dtype, narrow.b = l.kernel.buffers[p.b->buffer].dtype;
  narrow.aScaled = !p.aScales.empty(), narrow.bScaled = !p.bScales.empty();
  narrow.aScale = plainScale(l, p.aScales), narrow.bScale = plainScale(l, p.bScales);
  if (narrow.aScaled || narrow.bScaled) ScaleKernel(l, match).run(p);
}

} // namespace dtc
