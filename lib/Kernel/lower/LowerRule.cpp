// Lowers ops by their index rule and scalar expression: pointwise ops, reductions, contractions, data
// movement of whole dims.
#include "lower/Lower.h"
#include <algorithm>
#include <cmath>

namespace dtc {

using namespace loops;

static std::optional<ReduceKind> reduceKindOf(PendingKind k) {
  switch (k) {
  case PendingKind::Sum:
  case PendingKind::Avg: return ReduceKind::Sum;
  case PendingKind::Prod: return ReduceKind::Prod;
  case PendingKind::Max: return ReduceKind::Max;
  case PendingKind::Min: return ReduceKind::Min;
  case PendingKind::Any: return ReduceKind::Any;
  case PendingKind::All: return ReduceKind::All;
  case PendingKind::None: break;
  }
  return std::nullopt;
}

bool RuleLowering::factorCoordinates(const TensorMap& map, const Index& at, Coordinates& out) {
  out.assign(rule_.factors.size(), {});
  for (size_t d = 0; d < map.dims.size(); ++d) {
    const DimMap& dim = map.dims[d];
    AffineId rest = at[d];
    if (dim.form == DimMap::Free) continue;
    if (dim.form == DimMap::Affine) {
      if (dim.terms.size() != 1 || (dim.terms[0].stride != 1 && dim.terms[0].stride != -1)) return false;
      rest = k_.sum(rest, k_.constant(-dim.offset));
      out[dim.terms[0].factor] = k_.scaled(rest, {dim.terms[0].stride, {}});
      continue;
    }
    for (size_t t = dim.terms.size(); t-- > 0;) {
      const uint16_t f = dim.terms[t].factor;
      if (t == 0) {
        out[f] = rest;
        continue;
      }
      const Size size = l_.sizes_.of(rule_.factors[f].size);
      out[f] = k_.mod(rest, size);
      rest = k_.floorDiv(rest, size);
    }
  }
  return true;
}

// True if several operands share the reduced factors.
static bool contracts(const Rule& rule) {
  size_t with = 0;
  for (const TensorMap& t : rule.operands) {
    bool has = false;
    for (const DimMap& d : t.dims)
      for (const Term& term : d.terms) has |= rule.factors[term.factor].reduce != PendingKind::None;
    with += has;
  }
  return with > 1;
}

// An axis for each factor that is not in the result. In a row's pass this is an existing axis of the same
// extent, where the result does not depend on it, so that the passes and the output share their loops; else a
// new one. Contractions, and reductions that depend on a reduced axis, always get new axes, since they may be
// nested in another loop over the axis that they would share. An axis on which another reduction depends is
// not shared either.
std::vector<AxisId> RuleLowering::reduceAxes(Coordinates& coords, const Index& at) {
  AxisSet taken = guard_.valid() ? k_.dependsOn(guard_) : 0;
  for (AffineId a : at) taken |= k_.dependsOn(a);
  RegionLowering::NestAxes& nest = l_.nestAxes_[l_.nest_];
  const AxisSet depends = taken;
  const bool within = !l_.columns_ && (depends & nest.reduced) != 0, alone = contracts(rule_) || within;
  const AxisSet kept = l_.columns_ ? 0 : nest.needed;
  std::vector<AxisId> axes;
  bool shares = false;
  for (size_t f = 0; f < rule_.factors.size(); ++f) {
    if (coords[f].valid() || rule_.factors[f].reduce == PendingKind::None) continue;
    const Size extent = l_.sizes_.of(rule_.factors[f].size);
    if (extent.is(1)) {
      coords[f] = k_.constant(0);
      continue;
    }
    auto borrowed = [&](AxisSet refused) {
      size_t axis = 0;
      while (axis < k_.axes.size() && ((refused >> axis & 1) || k_.axes[axis].extent != extent)) ++axis;
      return axis;
    };
    const size_t could = borrowed(taken);
    size_t axis = alone ? k_.axes.size() : borrowed(taken | kept);
    l_.crowded_ |= !contracts(rule_) && axis != could;
    shares |= axis != k_.axes.size();
    if (axis == k_.axes.size()) axis = k_.addAxis(extent, AxisRole::Reduce);
    taken |= AxisSet(1) << axis;
    axes.push_back(static_cast<AxisId>(axis));
    coords[f] = k_.axis(static_cast<AxisId>(axis));
  }
  if (axes.empty()) return axes;
  if (shares) nest.needed |= depends;
  nest.reduced |= taken & ~depends;
  return axes;
}

bool RuleLowering::operandIndex(const TensorMap& map, const Coordinates& coords, Index& at, bool& inside) {
  for (const DimMap& dim : map.dims) {
    if (dim.form == DimMap::Free) return false;
    AffineId index = k_.constant(dim.form == DimMap::Affine ? dim.offset : 0);
    inside &= dim.form == DimMap::Compound;
    for (const Term& t : dim.terms) {
      const Factor& factor = rule_.factors[t.factor];
      AffineId c = coords[t.factor];
      if (!c.valid() && factor.size != Dim(1)) return false;
      if (!c.valid()) c = k_.constant(0); // a broadcast dim
      if (dim.form == DimMap::Affine)
        c = k_.scaled(c, {t.stride, {}});
      else
        index = k_.scaled(index, l_.sizes_.of(factor.size));
      index = k_.sum(index, c);
    }
    at.push_back(index);
  }
  return true;
}

// A sum over dims of size 1 is its only element, except for the sign of -0.0: over two elements it is 0.0,
// also where two devices have one of them each, and a fixed order guarantees the same bits.
static bool sumsOne(const Rule& rule) {
  return !contracts(rule) && std::any_of(rule.factors.begin(), rule.factors.end(),
                                         [](const Factor& f) { return f.reduce == PendingKind::Sum; });
}

std::vector<NodeId> RuleLowering::operandValues(const ScalarExpr& e, const Coordinates& coords) {
  const std::vector<ValueId> operands(l_.m_.operands(op_).begin(), l_.m_.operands(op_).end());
  std::vector<NodeId> values(operands.size());
  for (const ScalarNode& n : e.nodes) {
    if (n.kind != ScalarNode::Operand || n.position >= operands.size() || values[n.position].valid())
      continue;
    const ValueId v = operands[n.position];
    Index at;
    bool inside = true;
    if (!operandIndex(rule_.operands[n.position], coords, at, inside)) {
      l_.fail(op_, "operand " + std::to_string(n.position) + " is indexed by a computed value");
      break;
    }
    values[n.position] = inside ? l_.value(v, at, guard_) : l_.guarded(v, at, guard_);
  }
  return values;
}

NodeId RuleLowering::reduced(NodeId body, std::vector<AxisId> axes, DType dtype) {
  PendingKind kind = PendingKind::None;
  for (const Factor& f : rule_.factors)
    if (f.reduce != PendingKind::None) kind = f.reduce;
  const std::optional<ReduceKind> reduce = reduceKindOf(kind);
  if (!reduce) return l_.fail(op_, "its reduction has no kind");
  const DType type = k_[body].type;
  const NodeId x = k_.add(Node{
      .kind = NodeKind::Reduce, .type = type, .reduce = *reduce, .args = {body}, .axes = std::move(axes)});
  if (*reduce != ReduceKind::Max && *reduce != ReduceKind::Min) return x;
  // An empty reduction yields an infinity, which this dtype may not have.
  const double ofNothing = isFloat(dtype) ? reduceIdentity(kind, dtype).f : 0;
  if (!isFloat(dtype) || std::isinf(ofNothing)) return x;
  return k_.call(*reduce == ReduceKind::Max ? "max" : "min", type, {x, k_.number(ofNothing, type)});
}

static bool reducesAny(const Rule& rule) {
  return std::ranges::any_of(rule.factors, [](const Factor& f) { return f.reduce != PendingKind::None; });
}

NodeId RuleLowering::run(uint32_t result, const Index& at) {
  const RegionLowering::OpInfo& info = l_.infoOf(op_);
  Coordinates coords;
  if (!factorCoordinates(rule_.results[result], at, coords))
    return l_.fail(op_, "its result's dims cannot be split into factors");
  const Type type = l_.m_.typeOf(l_.m_.result(op_, result));
  const DType dtype = type.dtype;
  // A reduction of a row that exists reads nothing out of bounds. Without a guard it is the same reduction
  // where the row is read at an unknown coordinate (the loss at the label) and elsewhere (its gradient).
  if (guard_.valid() && reducesAny(rule_) && l_.alwaysInside(type, at)) guard_ = {};
  std::vector<AxisId> axes = reduceAxes(coords, at);
  NodeId x = apply(info.scalar, operandValues(info.scalar, coords), at, {}, dtype);
  if (!axes.empty())
    x = reduced(k_.convert(x, computeType(dtype)), std::move(axes), dtype);
  else if (l_.m_.attr(l_.fused_, "order").valid() && sumsOne(rule_) && isFloat(k_[x].type))
    x = k_.call("add", k_[x].type, {x, k_.number(0, k_[x].type)});
  if (info.hasFinish) x = apply(info.finish, operandValues(info.finish, coords), at, x, dtype);
  if (k_[x].kind == NodeKind::Call && k_[x].function == "add") { // an absent bias reads as 0
    const Node& last = k_[k_[x].args[1]];
    if (info.hasFinish && last.kind == NodeKind::Number && last.number == 0 && last.integer == 0)
      x = k_[x].args[0];
  }
  return x;
}

// For a float base: small constant integers are multiplications, with an error of at most 2 ulp; any other exponent is
// a powf.
NodeId RuleLowering::power(NodeId base, NodeId exponent) {
  constexpr double kMostUnrolled = 4;
  const DType type = k_[base].type;
  exponent = k_.convert(exponent, type);
  const Node& e = k_[exponent];
  const double number = e.number;
  if (e.kind != NodeKind::Number || std::abs(number) > kMostUnrolled || number != std::floor(number))
    return k_.call("pow", type, {base, exponent});
  auto left = static_cast<int64_t>(std::abs(number));
  NodeId product;
  for (NodeId square = base; left != 0; left >>= 1) {
    if (left & 1) product = product.valid() ? k_.call("mul", type, {product, square}) : square;
    if (left > 1) square = k_.call("mul", type, {square, square});
  }
  if (!product.valid()) return k_.number(1, type);
  return number < 0 ? k_.call("div", type, {k_.number(1, type), product}) : product;
}

// Functions that a target may compute with lower precision where their result is a narrow float, marked by
// Node::target.
static bool mayBeNear(std::string_view function) {
  return function == "exp" || function == "div" || function == "erfc";
}

// The typed expression tree for this point. Narrow floats are computed in f32 and rounded at stores.
NodeId RuleLowering::apply(const ScalarExpr& e, std::span<const NodeId> operands, const Index& at, NodeId acc,
                           DType result) {
  std::vector<NodeId> made(e.nodes.size());
  for (size_t i = 0; i < e.nodes.size() && l_.error_.empty(); ++i) {
    const ScalarNode& n = e.nodes[i];
    switch (n.kind) {
    case ScalarNode::Operand: made[i] = operands[n.position]; break;
    case ScalarNode::Accumulator: made[i] = acc; break;
    case ScalarNode::Index: made[i] = k_.index(at[n.position]); break;
    case ScalarNode::Attribute:
    case ScalarNode::Number:
      made[i] = isFloat(n.dtype) ? k_.number(n.number, n.dtype) : k_.integer(n.integer, n.dtype);
      break;
    case ScalarNode::Call: {
      std::vector<NodeId> args;
      for (size_t a = 0; a < n.fn->arity; ++a) args.push_back(made[n.args[a]]);
      if (n.fn->result == Intrinsic::Cast && n.fn->name == std::string_view("bitcast"))
        made[i] = k_.add(Node{.kind = NodeKind::Call,
                              .type = computeType(n.dtype),
                              .target = n.dtype,
                              .source = e.nodes[n.args[0]].dtype,
                              .function = "bitcast",
                              .args = args});
      else if (n.fn->result == Intrinsic::Cast)
        made[i] = k_.convert(args[0], n.dtype);
      else if (n.fn->result == Intrinsic::First && isFloat(k_[args[0]].type))
        made[i] = power(args[0], args[1]);
      else
        made[i] = k_.add(Node{.kind = NodeKind::Call,
                              .type = computeType(n.dtype),
                              .target = mayBeNear(n.fn->name) ? n.dtype : computeType(n.dtype),
                              .function = n.fn->name,
                              .args = std::move(args)});
      break;
    }
    }
  }
  if (!l_.error_.empty()) return k_.integer(0, DType::I64);
  return k_.convert(made.back(), computeType(result));
}

} // namespace dtc
