#include "dtc/Kernel/LoopIr.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Result.h"
#include <algorithm>
#include <bit>

namespace dtc::loops {
static size_t mix(size_t h, uint64_t v) {
  return (h ^ (v + 0x9E3779B97F4A7C15ull + (h << 6) + (h >> 2))) * 0xff51afd7ed558ccdull;
}
static size_t hashOf(const Affine& a) {
  size_t h = a.terms.size();
  for (const AffineTerm& t : a.terms) {
    h = mix(mix(mix(h, t.kind), t.id), static_cast<uint64_t>(t.coefficient.number));
    for (uint32_t s : t.coefficient.args) h = mix(h, s);
  }
  return h;
}
static size_t hashOf(const Node& n) {
  size_t h =
      mix(mix(static_cast<size_t>(n.kind), static_cast<size_t>(n.type)), static_cast<size_t>(n.target));
  h = mix(mix(mix(h, n.buffer), std::bit_cast<uint64_t>(n.number)), static_cast<uint64_t>(n.integer));
  h = mix(mix(h, n.affine.index), static_cast<size_t>(n.reduce));
  h = mix(h, std::hash<std::string>()(n.function));
  for (NodeId a : n.args) h = mix(h, a.index);
  for (AxisId a : n.axes) h = mix(h, a);
  return h;
}
static bool before(const AffineTerm& a, const AffineTerm& b) {
  if (a.kind != b.kind) return a.kind < b.kind;
  if (a.id != b.id) return a.id < b.id;
  return a.coefficient.args < b.coefficient.args;
}

Size operator*(const Size& a, const Size& b) {
  // A stride exceeds 2^63 only in a tensor without elements, where nothing is addressed.
  Size r{checkedMul(a.number, b.number).value_or(INT64_MAX), a.args};
  r.args.insert(r.args.end(), b.args.begin(), b.args.end());
  std::sort(r.args.begin(), r.args.end());
  if (r.number == 0) r.args.clear();
  return r;
}

bool operator==(const Node& a, const Node& b) {
  return a.kind == b.kind && a.type == b.type && a.target == b.target && a.source == b.source &&
         a.reduce == b.reduce && a.buffer == b.buffer &&
         std::bit_cast<uint64_t>(a.number) == std::bit_cast<uint64_t>(b.number) && a.integer == b.integer &&
         a.affine == b.affine && a.function == b.function && a.args == b.args && a.axes == b.axes;
}

NodeId Kernel::add(Node n) {
  const size_t h = hashOf(n);
  for (auto [it, end] = nodesByHash_.equal_range(h); it != end; ++it)
    if (nodes_[it->second] == n) return NodeId(it->second);
  AxisSet deps = n.affine.valid() ? dependsOn(n.affine) : 0;
  for (NodeId a : n.args) deps |= dependsOn(a);
  for (AxisId a : n.axes) {
    if (n.kind == NodeKind::Running)
      deps |= AxisSet(1) << a;
    else
      deps &= ~(AxisSet(1) << a);
  }
  const NodeId id(static_cast<uint32_t>(nodes_.size()));
  nodes_.push_back(std::move(n));
  deps_.push_back(deps);
  nodesByHash_.emplace(h, id.index);
  return id;
}

AffineId Kernel::add(Affine a) {
  std::sort(a.terms.begin(), a.terms.end(), before);
  std::vector<AffineTerm> merged;
  for (AffineTerm& t : a.terms) {
    if (!merged.empty() && !before(merged.back(), t))
      merged.back().coefficient.number += t.coefficient.number;
    else
      merged.push_back(std::move(t));
  }
  std::erase_if(merged, [](const AffineTerm& t) { return t.coefficient.number == 0; });
  a.terms = std::move(merged);
  const size_t h = hashOf(a);
  for (auto [it, end] = affinesByHash_.equal_range(h); it != end; ++it)
    if (affines_[it->second] == a) return AffineId(it->second);
  const AffineId id(static_cast<uint32_t>(affines_.size()));
  affines_.push_back(std::move(a));
  affinesByHash_.emplace(h, id.index);
  return id;
}

AxisId Kernel::addAxis(Size extent, AxisRole role) {
  DTC_CHECK(axes.size() < kMaxAxes, "a kernel has more than 64 axes");
  axes.push_back({std::move(extent), role});
  return static_cast<AxisId>(axes.size() - 1);
}

AxisSet Kernel::dependsOn(AffineId a) const {
  AxisSet deps = 0;
  for (const AffineTerm& t : (*this)[a].terms) {
    if (t.kind == AffineTerm::OfAxis) deps |= AxisSet(1) << t.id;
    if (t.kind == AffineTerm::OfNode) deps |= deps_[t.id];
  }
  return deps;
}

AffineId Kernel::constant(int64_t v) { return size({v, {}}); }
AffineId Kernel::size(const Size& s) { return add(Affine{{AffineTerm{AffineTerm::One, 0, s}}}); }
AffineId Kernel::axis(AxisId a) {
  if (axes[a].extent.is(1)) return constant(0);
  return add(Affine{{AffineTerm{AffineTerm::OfAxis, a, {}}}});
}
AffineId Kernel::ofNode(NodeId n) {
  const Node& node = (*this)[n];
  if (node.kind == NodeKind::Index) return node.affine;
  if (node.kind == NodeKind::Number) return constant(node.integer);
  return add(Affine{{AffineTerm{AffineTerm::OfNode, n.index, {}}}});
}
AffineId Kernel::sum(AffineId a, AffineId b) {
  Affine r = (*this)[a];
  r.terms.insert(r.terms.end(), (*this)[b].terms.begin(), (*this)[b].terms.end());
  return rejoined(add(std::move(r)));
}
// d * floor(n / d) + n mod d is n: a reshape undone by another, with a slice between them.
AffineId Kernel::rejoined(AffineId a) {
  const Affine& form = (*this)[a];
  const auto isNode = [](const AffineTerm& t) { return t.kind == AffineTerm::OfNode; };
  if (std::count_if(form.terms.begin(), form.terms.end(), isNode) < 2) return a;
  std::vector<std::optional<Division>> divisions;
  for (const AffineTerm& t : form.terms)
    divisions.push_back(t.kind == AffineTerm::OfNode ? divisionOf(NodeId(t.id)) : std::nullopt);
  for (const AffineTerm& quotient : form.terms) {
    const std::optional<Division>& q = divisions[static_cast<size_t>(&quotient - form.terms.data())];
    if (!q || q->rest) continue;
    for (const AffineTerm& rest : form.terms) {
      const std::optional<Division>& m = divisions[static_cast<size_t>(&rest - form.terms.data())];
      if (!m || !m->rest || q->number != m->number || q->divisor != m->divisor ||
          quotient.coefficient != rest.coefficient * q->divisor)
        continue;
      const Size by = rest.coefficient;
      const NodeId n = q->number;
      Affine left;
      for (const AffineTerm& t : form.terms)
        if (&t != &quotient && &t != &rest) left.terms.push_back(t);
      return sum(add(std::move(left)), scaled(ofNode(n), by));
    }
  }
  return a;
}
AffineId Kernel::scaled(AffineId a, const Size& by) {
  Affine r = (*this)[a];
  for (AffineTerm& t : r.terms) t.coefficient = t.coefficient * by;
  return add(std::move(r));
}

Kernel::Range Kernel::rangeOf(NodeId n) const {
  const Node& node = (*this)[n];
  if (node.kind == NodeKind::Index) return rangeOf(node.affine);
  if (node.kind == NodeKind::Number) return {true, node.integer, node.integer};
  if (node.kind == NodeKind::Mod) return {true, 0, node.integer - 1};
  if (node.kind != NodeKind::FloorDiv) return {};
  Range r = rangeOf(node.args[0]);
  auto divided = [&](int64_t v) { return v / node.integer - (v % node.integer < 0); };
  r.min = divided(r.min), r.max = divided(r.max);
  return r;
}
Kernel::Range Kernel::rangeOf(AffineId a) const {
  Range r{true, 0, 0};
  for (const AffineTerm& t : (*this)[a].terms) {
    if (!t.coefficient.isStatic()) return {};
    if (t.kind == AffineTerm::OfNode) {
      const Range of = rangeOf(NodeId(t.id));
      const std::optional<int64_t> low = checkedMul(t.coefficient.number, of.min),
                                   high = checkedMul(t.coefficient.number, of.max);
      if (!of.known || !low || !high) return {};
      r.min += std::min(*low, *high), r.max += std::max(*low, *high);
      continue;
    }
    int64_t last = 1;
    if (t.kind == AffineTerm::OfAxis) {
      if (!axes[t.id].extent.isStatic()) return {};
      last = std::max<int64_t>(axes[t.id].extent.number - 1, 0);
    }
    std::optional<int64_t> reach = checkedMul(t.coefficient.number, last);
    if (!reach) return {};
    if (t.kind == AffineTerm::One)
      r.min += *reach, r.max += *reach;
    else
      (*reach < 0 ? r.min : r.max) += *reach;
  }
  return r;
}

bool Kernel::splitTerms(AffineId a, int64_t divisor, Affine& quotient, Affine& rest) {
  for (AffineTerm t : Affine((*this)[a]).terms) {
    if (t.coefficient.number % divisor == 0) {
      t.coefficient.number /= divisor;
      quotient.terms.push_back(t);
    } else if (t.kind == AffineTerm::One && t.coefficient.isStatic()) {
      const int64_t q = t.coefficient.number / divisor - (t.coefficient.number % divisor < 0);
      if (q != 0) quotient.terms.push_back({AffineTerm::One, 0, {q, {}}});
      rest.terms.push_back({AffineTerm::One, 0, {t.coefficient.number - q * divisor, {}}});
    } else {
      rest.terms.push_back(t);
    }
  }
  const Range r = rangeOf(add(rest));
  return r.known && r.min >= 0 && r.max < divisor;
}

AffineId Kernel::floorDiv(AffineId a, int64_t divisor) {
  if (divisor == 1) return a;
  Affine quotient, rest;
  if (splitTerms(a, divisor, quotient, rest)) return add(std::move(quotient));
  NodeId of = index(add(std::move(rest)));
  NodeId q = add(Node{.kind = NodeKind::FloorDiv, .type = DType::I64, .integer = divisor, .args = {of}});
  return sum(add(std::move(quotient)), ofNode(q));
}

AffineId Kernel::mod(AffineId a, int64_t divisor) {
  if (divisor == 1) return constant(0);
  Affine quotient, rest;
  const bool within = splitTerms(a, divisor, quotient, rest);
  const AffineId r = add(std::move(rest));
  if (within) return r;
  return ofNode(add(Node{.kind = NodeKind::Mod, .type = DType::I64, .integer = divisor, .args = {index(r)}}));
}

std::optional<Kernel::Division> Kernel::divisionOf(NodeId n) const {
  const Node& node = nodes_[n.index];
  if (node.kind == NodeKind::FloorDiv || node.kind == NodeKind::Mod)
    return Division{node.args[0], {node.integer, {}}, node.kind == NodeKind::Mod};
  const bool rest = node.function == "mod";
  if (node.kind != NodeKind::Call || node.type != DType::I64 || (!rest && node.function != "floor_div"))
    return std::nullopt;
  const Node& by = nodes_[node.args[1].index];
  if (by.kind != NodeKind::Index) return std::nullopt;
  const std::vector<AffineTerm>& terms = affines_[by.affine.index].terms;
  if (terms.size() != 1 || terms[0].kind != AffineTerm::One) return std::nullopt;
  return Division{node.args[0], terms[0].coefficient, rest};
}

// The size without the divisor's factors, if it has them all.
static std::optional<Size> dividedExactly(const Size& size, const Size& divisor) {
  if (divisor.number == 0 || size.number % divisor.number != 0 ||
      !std::includes(size.args.begin(), size.args.end(), divisor.args.begin(), divisor.args.end()))
    return std::nullopt;
  Size r{size.number / divisor.number, {}};
  std::set_difference(size.args.begin(), size.args.end(), divisor.args.begin(), divisor.args.end(),
                      std::back_inserter(r.args));
  return r;
}

void Kernel::splitTerms(AffineId a, const Size& divisor, Affine& quotient, Affine& rest) const {
  for (AffineTerm t : (*this)[a].terms) {
    const std::optional<Size> q = dividedExactly(t.coefficient, divisor);
    if (q) t.coefficient = *q;
    (q ? quotient : rest).terms.push_back(std::move(t));
  }
}

// Mixed-radix digits: each coefficient is a multiple of the range of the axes before it, and the bound is,
// too.
bool Kernel::staysBelow(const Affine& rest, const Size& bound) const {
  std::vector<const AffineTerm*> left;
  for (const AffineTerm& t : rest.terms) {
    if (t.kind != AffineTerm::OfAxis || t.coefficient.number < 1) return false;
    left.push_back(&t);
  }
  Size reach;
  while (!left.empty()) {
    const auto next = std::find_if(left.begin(), left.end(), [&](const AffineTerm* t) {
      return dividedExactly(t->coefficient, reach).has_value();
    });
    if (next == left.end()) return false;
    reach = (*next)->coefficient * axes[(*next)->id].extent;
    left.erase(next);
  }
  return dividedExactly(bound, reach).has_value();
}

AffineId Kernel::floorDiv(AffineId a, const Size& divisor) {
  if (divisor.isStatic()) return floorDiv(a, std::max<int64_t>(divisor.number, 1));
  Affine quotient, rest;
  splitTerms(a, divisor, quotient, rest);
  const AffineId q = add(std::move(quotient));
  if (staysBelow(rest, divisor)) return q;
  const NodeId of = index(add(std::move(rest)));
  return sum(q, ofNode(call("floor_div", DType::I64, {of, index(size(divisor))})));
}

AffineId Kernel::mod(AffineId a, const Size& divisor) {
  if (divisor.isStatic()) return mod(a, std::max<int64_t>(divisor.number, 1));
  Affine quotient, rest;
  splitTerms(a, divisor, quotient, rest);
  const bool below = staysBelow(rest, divisor);
  const AffineId r = add(std::move(rest));
  if (below) return r;
  return ofNode(call("mod", DType::I64, {index(r), index(size(divisor))}));
}

NodeId Kernel::number(double v, DType type) {
  if (!isFloat(type)) return integer(static_cast<int64_t>(v), type);
  return add(Node{.type = computeType(type),
                  .number = type == DType::F64 ? v : static_cast<double>(static_cast<float>(v))});
}
NodeId Kernel::integer(int64_t v, DType type) {
  if (isFloat(type)) return number(static_cast<double>(v), type);
  return add(Node{.type = type, .integer = v});
}
NodeId Kernel::index(AffineId a) {
  const Affine& f = (*this)[a];
  if (f.terms.empty()) return integer(0, DType::I64);
  const AffineTerm& t = f.terms[0];
  if (f.terms.size() == 1 && t.kind == AffineTerm::One && t.coefficient.isStatic())
    return integer(t.coefficient.number, DType::I64);
  if (f.terms.size() == 1 && t.kind == AffineTerm::OfNode && t.coefficient.is(1)) return NodeId(t.id);
  return add(Node{.kind = NodeKind::Index, .type = DType::I64, .affine = a});
}
NodeId Kernel::call(std::string function, DType type, std::vector<NodeId> args) {
  return add(Node{.kind = NodeKind::Call,
                  .type = type,
                  .target = type,
                  .function = std::move(function),
                  .args = std::move(args)});
}
NodeId Kernel::convert(NodeId x, DType to) {
  const Node& n = (*this)[x];
  if (n.type == to) return x;
  if (n.kind == NodeKind::Number && !isFloat(n.type) && !isBool(n.type) && isFloat(to) &&
      !isNarrowFloat(to) && n.integer > -(1 << 24) && n.integer < (1 << 24))
    return number(static_cast<double>(n.integer), to);
  if (n.kind == NodeKind::Number && !isFloat(n.type) && isInteger(to))
    return integer(wrapToInt(to, n.integer), to);
  return add(Node{
      .kind = NodeKind::Call, .type = computeType(to), .target = to, .function = "convert", .args = {x}});
}
NodeId Kernel::load(uint32_t buffer, AffineId address, NodeId guard) {
  std::vector<NodeId> args;
  if (guard.valid()) args.push_back(guard);
  return add(Node{.kind = NodeKind::Load,
                  .type = computeType(buffers[buffer].dtype),
                  .buffer = buffer,
                  .affine = address,
                  .args = std::move(args)});
}

Kernel::Stride Kernel::strideOf(AffineId a, AxisId axis) const {
  Stride s;
  bool found = false;
  for (const AffineTerm& t : (*this)[a].terms) {
    if (t.kind == AffineTerm::OfNode && (deps_[t.id] >> axis & 1)) s.mixed = true;
    if (t.kind != AffineTerm::OfAxis || t.id != axis) continue;
    s.mixed |= found;
    s.size = t.coefficient;
    found = true;
  }
  return s;
}

} // namespace dtc::loops
