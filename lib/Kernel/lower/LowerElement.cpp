// Ops that describe their elements themselves (OpRecord::element).
#include "dtc/IR/Element.h"
#include "lower/Lower.h"
#include <algorithm>
#include <limits>

namespace dtc {

using namespace loops;

class RegionElement final : public ElementBuilder {
public:
  RegionElement(RegionLowering& l, OpId op, const RegionLowering::Index& at, NodeId guard)
      : l_(l), k_(l.k_), op_(op), at_(at), guard_(guard) {}

  Node at(size_t dim) override { return k_.index(at_[dim]).index; }
  Node index(int64_t v) override { return k_.integer(v, DType::I64).index; }
  Node size(Dim d) override { return k_.index(k_.size(l_.sizes_.of(d))).index; }
  Node add(Node a, Node b) override { return k_.index(k_.sum(affine(a), affine(b))).index; }
  Node sub(Node a, Node b) override {
    return k_.index(k_.sum(affine(a), k_.scaled(affine(b), {-1, {}}))).index;
  }
  Node mul(Node a, int64_t by) override { return k_.index(k_.scaled(affine(a), {by, {}})).index; }
  Node mul(Node a, Dim by) override { return k_.index(k_.scaled(affine(a), l_.sizes_.of(by))).index; }
  using ElementBuilder::floorDiv, ElementBuilder::mod;
  Node floorDiv(Node a, Dim by) override { return k_.index(k_.floorDiv(affine(a), l_.sizes_.of(by))).index; }
  Node mod(Node a, Dim by) override { return k_.index(k_.mod(affine(a), l_.sizes_.of(by))).index; }

  Node load(size_t operand, std::span<const Node> at, bool inside) override {
    RegionLowering::Index where;
    for (Node n : at) where.push_back(affine(n));
    const ValueId v = l_.m_.operand(op_, operand);
    return (inside ? l_.value(v, where, guard_) : l_.guarded(v, where, guard_)).index;
  }
  Node number(double v, DType dtype) override { return k_.number(v, dtype).index; }
  Node convert(Node x, DType dtype) override { return k_.convert(NodeId(x), dtype).index; }
  Node call(const char* intrinsic, std::initializer_list<Node> args) override {
    const Intrinsic* fn = findIntrinsic(intrinsic);
    DTC_CHECK(fn && fn->arity == args.size(), "OpRecord::element calls an unknown intrinsic");
    std::vector<NodeId> nodes;
    for (Node a : args) nodes.push_back(NodeId(a));
    const DType type =
        fn->result == Intrinsic::Bool ? DType::Bool : k_[nodes[fn->result == Intrinsic::Select ? 1 : 0]].type;
    return k_.call(fn->name, type, std::move(nodes)).index;
  }
  Node argReduce(bool isMax, size_t operand, std::span<const Node> coordinates, size_t dim) override {
    const ValueId v = l_.m_.operand(op_, operand);
    RegionLowering::Index where;
    for (Node n : coordinates) where.push_back(affine(n));
    const AxisId axis = k_.addAxis(l_.sizes_.of(l_.m_.typeOf(v).dims[dim]), AxisRole::Reduce);
    where[dim] = k_.axis(axis);
    const NodeId body = l_.value(v, where, guard_);
    return k_
        .add(loops::Node{.kind = NodeKind::Reduce,
                         .type = DType::I32,
                         .reduce = isMax ? ReduceKind::ArgMax : ReduceKind::ArgMin,
                         .args = {body},
                         .axes = {axis}})
        .index;
  }

  Node loop(Dim extent) override {
    return k_.index(k_.axis(k_.addAxis(l_.sizes_.of(extent), AxisRole::Reduce))).index;
  }
  Node sum(std::span<const Node> loops, Node body) override { return over(loops, body, ReduceKind::Sum); }
  Node maxOver(std::span<const Node> loops, Node body) override { return over(loops, body, ReduceKind::Max); }
  Node lastWhere(Node loop, Node match) override {
    if (k_[NodeId(loop)].kind == NodeKind::Number) // a loop of one iteration
      return k_
          .call("select", DType::I32, {NodeId(match), k_.integer(0, DType::I32), k_.integer(-1, DType::I32)})
          .index;
    const AxisId axis = static_cast<AxisId>(k_[k_[NodeId(loop)].affine].terms[0].id);
    return k_
        .add(loops::Node{.kind = NodeKind::Reduce,
                         .type = DType::I32,
                         .reduce = ReduceKind::Last,
                         .args = {NodeId(match)},
                         .axes = {axis}})
        .index;
  }

  void begin() override {
    l_.nest_ = k_.nests.size();
    k_.nests.emplace_back();
  }
  Node axis(Dim extent) override {
    const AxisId a = k_.addAxis(l_.sizes_.of(extent));
    k_.nests.back().domain.push_back(a);
    return k_.index(k_.axis(a)).index;
  }
  Node steps(Dim extent) override {
    const AxisId a = k_.addAxis(l_.sizes_.of(extent));
    k_.nests.back().domain.push_back(a);
    k_.nests.back().ordered |= AxisSet(1) << a;
    return k_.index(k_.axis(a)).index;
  }
  void store(size_t result, std::span<const Node> at, Node value, Node when, const char* combine) override {
    const ValueId y = l_.m_.result(op_, result);
    const NodeId condition = when == kAlways ? NodeId() : NodeId(when);
    k_.nests.back().stores.push_back({.buffer = l_.outputOf(y),
                                      .address = l_.addressOf(l_.m_.typeOf(y), coordinates(at)),
                                      .value = k_.convert(NodeId(value), computeType(l_.m_.typeOf(y).dtype)),
                                      .when = condition,
                                      .combine = combine ? combine : ""});
  }
  void copy(size_t operand, std::span<const Node> at, Node when) override {
    store(0, at, load(operand, at, true), when, nullptr);
    auto buffer = l_.bufferOf_.find(l_.m_.operand(op_, operand));
    if (buffer != l_.bufferOf_.end()) k_.nests.back().stores.back().copied = buffer->second;
  }
  Node running(Running combine, Node x, Node steps, bool exclusive, Node first) override {
    static constexpr ReduceKind kinds[] = {ReduceKind::Sum, ReduceKind::Prod,      ReduceKind::Max,
                                           ReduceKind::Min, ReduceKind::LogAddExp, ReduceKind::Last};
    if (k_[NodeId(steps)].kind == NodeKind::Number) return oneStep(combine, x, exclusive, first);
    std::vector<NodeId> args = {NodeId(x)};
    if (first != kAlways) args.push_back(k_.convert(NodeId(first), k_[args[0]].type));
    const AxisId axis = static_cast<AxisId>(k_[k_[NodeId(steps)].affine].terms[0].id);
    return k_
        .add(loops::Node{.kind = NodeKind::Running,
                         .type = combine == Running::LastWhere ? DType::I32 : k_[NodeId(x)].type,
                         .reduce = kinds[static_cast<size_t>(combine)],
                         .integer = exclusive,
                         .args = std::move(args),
                         .axes = {axis}})
        .index;
  }
  void sortOrder(size_t operand, size_t dim, bool descending) override {
    begin();
    const ValueId x = l_.m_.operand(op_, operand), y = l_.m_.result(op_);
    const Type& type = l_.m_.typeOf(x);
    SortRow sort{.keys = l_.bufferOf_.at(x), .indices = l_.outputOf(y), .descending = descending};
    RegionLowering::Index row;
    for (size_t d = 0; d < type.rank(); ++d)
      row.push_back(d == dim ? k_.constant(0) : affine(axis(type.dims[d])));
    sort.keysAt = l_.addressOf(type, row);
    sort.indicesAt = l_.addressOf(l_.m_.typeOf(y), row);
    for (size_t d = dim + 1; d < type.rank(); ++d) sort.stride = sort.stride * l_.sizes_.of(type.dims[d]);
    sort.extent = l_.sizes_.of(type.dims[dim]);
    k_.nests.back().sort = sort;
  }
  void sortDigit(int digit, bool descending) override {
    begin();
    const ValueId x = l_.m_.operand(op_, 0), y = l_.m_.result(op_);
    const Type &type = l_.m_.typeOf(x), &made = l_.m_.typeOf(y);
    SortDigit sort{.keys = l_.bufferOf_.at(x),
                   .result = l_.outputOf(y),
                   .extent = type.dims.back().value(),
                   .digit = digit,
                   .descending = descending};
    RegionLowering::Index row, tile;
    for (size_t d = 0; d + 1 < type.rank(); ++d) row.push_back(affine(axis(type.dims[d])));
    tile = row;
    sort.tile = affine(axis(Dim((sort.extent + kSortTile - 1) / kSortTile)));
    tile.insert(tile.end(), {sort.tile, k_.constant(0)});
    row.push_back(k_.constant(0));
    sort.keysAt = l_.addressOf(type, row);
    sort.resultAt = l_.addressOf(made, made.rank() == tile.size() ? tile : row);
    if (l_.m_[op_].numOperands > 1) {
      const ValueId upto = l_.m_.operand(op_, 1);
      sort.upto = l_.bufferOf_.at(upto);
      tile[tile.size() - 2] = k_.constant(0);
      sort.uptoAt = l_.addressOf(l_.m_.typeOf(upto), tile);
    }
    k_.nests.back().sortDigit = sort;
  }

private:
  Node over(std::span<const Node> loops, Node body, ReduceKind kind) {
    std::vector<AxisId> axes;
    for (Node n : loops)
      if (k_[NodeId(n)].kind != NodeKind::Number) // a loop of one iteration
        axes.push_back(static_cast<AxisId>(k_[k_[NodeId(n)].affine].terms[0].id));
    if (axes.empty()) return body;
    return k_
        .add(loops::Node{.kind = NodeKind::Reduce,
                         .type = k_[NodeId(body)].type,
                         .reduce = kind,
                         .args = {NodeId(body)},
                         .axes = std::move(axes)})
        .index;
  }
  // A loop of one iteration has no axis.
  Node oneStep(Running combine, Node x, bool exclusive, Node first) {
    static constexpr const char* intrinsics[] = {"add", "mul", "max", "min", "log_add_exp"};
    if (first != kAlways)
      return exclusive ? first : call(intrinsics[static_cast<size_t>(combine)], {first, x});
    if (combine == Running::LastWhere)
      return k_.call("select", DType::I32, {NodeId(x), k_.integer(0, DType::I32), k_.integer(-1, DType::I32)})
          .index;
    if (!exclusive) return x;
    const DType type = k_[NodeId(x)].type;
    constexpr double inf = std::numeric_limits<double>::infinity();
    switch (combine) {
    case Running::Sum: return k_.number(0, type).index;
    case Running::Prod: return k_.number(1, type).index;
    case Running::Min: return (isFloat(type) ? k_.number(inf, type) : k_.integer(intMax(type), type)).index;
    default: return (isFloat(type) ? k_.number(-inf, type) : k_.integer(intMin(type), type)).index;
    }
  }
  RegionLowering::Index coordinates(std::span<const Node> at) {
    RegionLowering::Index index;
    for (Node n : at) index.push_back(affine(n));
    return index;
  }
  [[nodiscard]] AffineId affine(Node n) { return k_.ofNode(NodeId(n)); }
  RegionLowering& l_;
  Kernel& k_;
  OpId op_;
  const RegionLowering::Index& at_;
  NodeId guard_;
};

bool lowerOwnStores(RegionLowering& l) {
  const Block& block = l.m_[l.m_.region(l.fused_)];
  if (block.ops.empty() || !l.m_.record(block.ops.back()).stores) return false;
  const OpId op = block.ops.back(); // the others compute its operands
  for (ValueId y : block.yields)
    if (l.m_[y].kind != ValueKind::OpResult || OpId(l.m_[y].owner) != op) return false;
  const RegionLowering::Index none;
  RegionElement builder(l, op, none, {});
  const OpQuery query = queryOf(l.m_, op, l.diags_);
  l.k_.inOrder = l.m_.record(op).stores(query, builder);
  return l.k_.inOrder;
}

NodeId lowerElement(RegionLowering& l, OpId op, uint32_t result, const RegionLowering::Index& at,
                    NodeId guard) {
  RegionElement builder(l, op, at, guard);
  const OpQuery query = queryOf(l.m_, op, l.diags_);
  const NodeId x(l.m_.record(op).element(query, builder, result));
  if (x.index == kElementByRule) return l.byRule(op, result, at, guard);
  return l.k_.convert(x, computeType(l.m_.typeOf(l.m_.result(op, result)).dtype));
}

} // namespace dtc
