// Ops that describe one element of their result (OpRecord::element), applied to whole tensors.
#include "dtc/IR/Element.h"
#include "export/ExportContext.h"
#include "export/ExportScalar.h"

namespace dtc {

namespace {

constexpr const char* kNoOp = "StableHLO has no such op, and dtc has no decomposition of it";

class ElementExport final : public ElementBuilder {
public:
  ElementExport(ExportContext& c, OpId o, size_t result)
      : c_(c), w_(c.w), op_(o), space_(c.resultShape(o, result)) {}

  // Nothing where the element needs a function that StableHLO lacks; `missing` then names it.
  std::optional<ExportValue> run(size_t result, std::string& missing) {
    const Node n = c_.m.record(op_).element(c_.query(op_), *this, result);
    if (n == kElementByRule) return std::nullopt;
    missing = missing_;
    if (!missing.empty()) return std::nullopt;
    return w_.convert(nodes_[n], c_.resultType(op_, result));
  }

  Node at(size_t dim) override {
    const Node n = keep(w_.iota(static_cast<int64_t>(dim), DType::I64, space_));
    own_.emplace(n, dim);
    return n;
  }
  Node index(int64_t v) override { return keep(w_.dense(std::to_string(v), DType::I64, space_)); }
  Node size(Dim d) override { return index(d.value()); }
  Node add(Node a, Node b) override { return binary("add", a, b); }
  Node sub(Node a, Node b) override { return binary("subtract", a, b); }
  Node mul(Node a, int64_t by) override { return by == 1 ? a : binary("multiply", a, index(by)); }
  Node mul(Node a, Dim by) override { return mul(a, by.value()); }
  using ElementBuilder::floorDiv, ElementBuilder::mod;
  Node floorDiv(Node a, Dim by) override {
    return by == Dim(1) ? a : intrinsic("floor_div", {a, index(by.value())});
  }
  Node mod(Node a, Dim by) override { return intrinsic("mod", {a, index(by.value())}); }

  Node load(size_t operand, std::span<const Node> at, bool inside) override {
    const ExportValue x = c_.operand(op_, operand);
    if (x.rank() == 0) return keep(w_.broadcast(x, {}, space_));
    if (inside && isOwn(x, at)) return keep(x);
    Dims wide = space_, dims(space_.size()), all(x.rank()), one(x.rank(), 1);
    wide.push_back(1);
    for (size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<int64_t>(d);
    for (size_t d = 0; d < all.size(); ++d) all[d] = static_cast<int64_t>(d);
    std::vector<ExportValue> parts;
    for (Node n : at) parts.push_back(w_.broadcast(nodes_[n], dims, wide));
    const ExportValue where =
        parts.size() == 1 ? parts[0] : w_.concatenate(parts, static_cast<int64_t>(space_.size()));
    const ExportValue both[] = {x, where};
    std::string sizes = "array<i64";
    for (size_t d = 0; d < all.size(); ++d) sizes += d ? ", 1" : ": 1";
    const ExportValue found = w_.generic(
        "stablehlo.gather", both,
        "dimension_numbers = #stablehlo.gather<collapsed_slice_dims = " + hloList(all) +
            ", start_index_map = " + hloList(all) + ", index_vector_dim = " + std::to_string(space_.size()) +
            ">, indices_are_sorted = false, slice_sizes = " + sizes + ">",
        x.dtype, space_);
    return keep(inside ? found : guarded(x, at, found));
  }

  Node number(double v, DType dtype) override { return keep(w_.splat(v, dtype, space_)); }
  Node convert(Node x, DType dtype) override { return keep(w_.convert(nodes_[x], dtype)); }
  Node call(const char* name, std::initializer_list<Node> args) override { return intrinsic(name, args); }
  Node loop(Dim) override { return lacks(kNoOp); }
  Node sum(std::span<const Node>, Node) override { return lacks(kNoOp); }
  Node maxOver(std::span<const Node>, Node) override { return lacks(kNoOp); }
  Node lastWhere(Node, Node) override { return lacks(kNoOp); }
  Node argReduce(bool, size_t, std::span<const Node>, size_t) override { return lacks(kNoOp); }

  // Ops that store their results in a fixed order are exported elsewhere.
  void begin() override {}
  Node axis(Dim) override { return lacks(kNoOp); }
  Node steps(Dim) override { return lacks(kNoOp); }
  void store(size_t, std::span<const Node>, Node, Node, const char*) override { lacks(kNoOp); }
  void copy(size_t, std::span<const Node>, Node) override { lacks(kNoOp); }
  Node running(Running, Node, Node, bool, Node) override { return lacks(kNoOp); }
  void sortOrder(size_t, size_t, bool) override { lacks(kNoOp); }
  void sortDigit(int, bool) override { lacks(kNoOp); }

private:
  // Narrow floats are computed in f32 and rounded at conversions.
  Node keep(const ExportValue& v) {
    nodes_.push_back(isNarrowFloat(v.dtype) ? w_.convert(v, DType::F32) : v);
    return static_cast<Node>(nodes_.size() - 1);
  }
  Node lacks(std::string why) {
    missing_ = std::move(why);
    return index(0);
  }
  Node binary(const char* op, Node a, Node b) { return keep(w_.binary(op, nodes_[a], nodes_[b])); }
  Node intrinsic(const char* name, std::initializer_list<Node> args) {
    std::vector<ExportValue> values;
    for (Node n : args) values.push_back(nodes_[n]);
    const auto v = exportIntrinsic(w_, name, values, values[0].dtype);
    return v ? keep(*v) : lacks(noFunction(name));
  }

  // The operand itself: it has the result's shape and is read at the result's coordinates.
  [[nodiscard]] bool isOwn(const ExportValue& x, std::span<const Node> at) const {
    if (x.shape != space_) return false;
    for (size_t d = 0; d < at.size(); ++d) {
      const auto it = own_.find(at[d]);
      if (it == own_.end() || it->second != d) return false;
    }
    return true;
  }

  // Reads outside of the operand give zeros.
  ExportValue guarded(const ExportValue& x, std::span<const Node> at, const ExportValue& found) {
    ExportValue inside;
    for (size_t d = 0; d < at.size(); ++d) {
      const Node first = index(0), end = index(x.shape[d]); // before any node is referenced: nodes may move
      const ExportValue here = w_.binary("and", w_.compare("GE", nodes_[at[d]], nodes_[first]),
                                         w_.compare("LT", nodes_[at[d]], nodes_[end]));
      inside = inside.name.empty() ? here : w_.binary("and", inside, here);
    }
    return w_.select(inside, found, w_.splat(0, x.dtype, space_));
  }

  ExportContext& c_;
  ExportWriter& w_;
  OpId op_;
  Dims space_;
  std::vector<ExportValue> nodes_;
  std::unordered_map<Node, size_t> own_; // the result's own coordinates
  std::string missing_;
};

} // namespace

bool exportByElement(ExportContext& c, OpId o) {
  std::string missing;
  for (uint32_t r = 0; r < c.m[o].numResults; ++r) {
    const auto v = ElementExport(c, o, r).run(r, missing);
    if (!v && missing.empty()) return exportByRule(c, o);
    if (!v) return c.refuse(o, missing);
    c.setResult(o, r, *v);
  }
  return true;
}

} // namespace dtc
