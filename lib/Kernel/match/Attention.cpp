#include "match/Attention.h"
#include "dtc/Kernel/schedule/Schedule.h"
#include "dtc/Ops/attention/AttentionKeys.h"
#include <algorithm>
#include <limits>
#include <map>

namespace dtc {

using namespace loops;

namespace {

using Renaming = std::map<AxisId, AxisId>;

bool isCall(const Kernel& k, NodeId n, std::string_view name) {
  return k[n].kind == NodeKind::Call && k[n].function == name;
}

// True if `b` is `a` with its axes renamed. The passes of a softmax over one row compute the same scores
// along axes of their own.
bool sameRenamed(const Kernel& k, NodeId a, NodeId b, Renaming& names);

bool sameRenamed(const Kernel& k, AffineId a, AffineId b, Renaming& names) {
  const std::vector<AffineTerm>& terms = k[a].terms;
  const std::vector<AffineTerm>& others = k[b].terms;
  if (terms.size() != others.size()) return false;
  for (const AffineTerm& t : terms) { // renamed axes are in another order
    bool found = false;
    for (const AffineTerm& o : others) {
      if (t.kind != o.kind || t.coefficient != o.coefficient) continue;
      if (t.kind == AffineTerm::One)
        found = true;
      else if (t.kind == AffineTerm::OfAxis)
        found |=
            (names.contains(static_cast<AxisId>(t.id)) ? names[static_cast<AxisId>(t.id)] : t.id) == o.id;
      else
        found |= sameRenamed(k, NodeId(t.id), NodeId(o.id), names);
    }
    if (!found) return false;
  }
  return true;
}

bool sameRenamed(const Kernel& k, NodeId a, NodeId b, Renaming& names) {
  if (a == b)
    return std::none_of(names.begin(), names.end(), [&](const auto& n) {
      return n.first != n.second && (k.dependsOn(a) >> n.first & 1);
    });
  const Node &x = k[a], &y = k[b];
  if (x.args.size() != y.args.size() || x.axes.size() != y.axes.size() ||
      x.affine.valid() != y.affine.valid())
    return false;
  Node shape = x; // equal except for the parts compared individually
  shape.args = y.args, shape.axes = y.axes, shape.affine = y.affine;
  if (!(shape == y)) return false;
  Renaming inner = names;
  for (size_t i = 0; i < x.axes.size(); ++i) {
    if (k.axes[x.axes[i]].extent != k.axes[y.axes[i]].extent) return false;
    inner[x.axes[i]] = y.axes[i];
  }
  for (size_t i = 0; i < x.args.size(); ++i)
    if (!sameRenamed(k, x.args[i], y.args[i], inner)) return false;
  return !x.affine.valid() || sameRenamed(k, x.affine, y.affine, inner);
}

class Matcher {
public:
  explicit Matcher(Kernel& k) : k_(k) {}

  std::optional<Attention> run() {
    if (k_.nests.size() != 1 || k_.nests[0].stores.size() > 2) return std::nullopt;
    const std::vector<Store> stores = k_.nests[0].stores;
    if (!softmaxTimesValues(stored(stores[0]))) return std::nullopt;
    a_.lse = stores.size() == 2;
    if (a_.lse && !logSumExp(stored(stores[1]))) return std::nullopt;
    NodeId rest = stripBounds(a_.score);
    a_.score = rest;
    if (!products() || !sortAxes(stores[0])) return std::nullopt;
    if (a_.lse && !sameRows(stores[1])) return std::nullopt;
    keepMonotone();
    a_.score = rebuiltScore(rest);
    a_.keysAt = without(k_[a_.keys].affine, {a_.key, a_.depth});
    a_.valuesAt = without(k_[a_.values].affine,
                          a_.width ? std::vector<AxisId>{a_.key, *a_.width} : std::vector<AxisId>{a_.key});
    if (plain(a_.query, {a_.depth})) a_.queryAt = ofFirstRow(k_[a_.query].affine, a_.depth);
    if (a_.width) a_.resultAt = ofFirstRow(stores[0].address, *a_.width);
    return std::move(a_);
  }

private:
  [[nodiscard]] bool depends(NodeId n, AxisId a) const { return k_.dependsOn(n) >> a & 1; }
  [[nodiscard]] const Node* reduceOver(NodeId n, ReduceKind kind) const {
    const Node& node = k_[n];
    return node.kind == NodeKind::Reduce && node.reduce == kind && node.axes.size() == 1 ? &node : nullptr;
  }

  // The store rounds to the dtype in memory.
  [[nodiscard]] NodeId stored(const Store& store) const {
    NodeId root = store.value;
    while (isCall(k_, root, "convert") && k_[root].target == k_.buffers[store.buffer].dtype)
      root = k_[root].args[0];
    return root;
  }

  // sum over t of exp(x - m) / l * v
  bool softmaxTimesValues(NodeId root) {
    const Node* sum = reduceOver(root, ReduceKind::Sum);
    if (!sum || !isCall(k_, sum->args[0], "mul")) return false;
    a_.key = sum->axes[0];
    NodeId weight = k_[sum->args[0]].args[0], values = k_[sum->args[0]].args[1];
    if (k_[values].kind != NodeKind::Load) std::swap(weight, values);
    NodeId e, l, x, m;
    if (k_[values].kind != NodeKind::Load || !quotient(weight, e, l) || !exponential(e, x, m)) return false;
    a_.values = values;
    const Node *total = reduceOver(l, ReduceKind::Sum), *top = reduceOver(m, ReduceKind::Max);
    if (!total || !top) return false;
    Renaming names{{a_.key, total->axes[0]}}, others{{a_.key, top->axes[0]}};
    a_.score = x;
    return sameRenamed(k_, e, total->args[0], names) && sameRenamed(k_, x, top->args[0], others);
  }
  // log(sum over t of exp(x - shift)) + shift, shift the max x, or 0 where that is -inf; x the scores
  bool logSumExp(NodeId root) {
    if (!isCall(k_, root, "add")) return false;
    NodeId log = k_[root].args[0], shift = k_[root].args[1];
    if (!isCall(k_, log, "log")) std::swap(log, shift);
    if (!isCall(k_, log, "log")) return false;
    const Node* sum = reduceOver(k_[log].args[0], ReduceKind::Sum);
    NodeId x, base;
    if (!sum || !exponential(sum->args[0], x, base) || base != shift) return false;
    if (!isCall(k_, shift, "select") || !isCall(k_, k_[shift].args[0], "eq")) return false;
    const NodeId rowMax = k_[shift].args[2], zero = k_[shift].args[1];
    const std::vector<NodeId>& none = k_[k_[shift].args[0]].args;
    const Node* top = reduceOver(rowMax, ReduceKind::Max);
    auto isNumber = [&](NodeId n, double v) { return k_[n].kind == NodeKind::Number && k_[n].number == v; };
    if (!top || !isNumber(zero, 0) || none[0] != rowMax ||
        !isNumber(none[1], -std::numeric_limits<double>::infinity()))
      return false;
    Renaming names{{a_.key, sum->axes[0]}}, others{{a_.key, top->axes[0]}};
    return sameRenamed(k_, a_.score, x, names) && sameRenamed(k_, a_.score, top->args[0], others);
  }
  // True if the second store writes one number for each row of the first.
  [[nodiscard]] bool sameRows(const Store& store) const {
    AxisSet rows = a_.row ? AxisSet(1) << *a_.row : 0;
    for (AxisId g : a_.grid) rows |= AxisSet(1) << g;
    return k_.dependsOn(store.address) == rows;
  }

  // e / l, or e * (1 / l)
  bool quotient(NodeId weight, NodeId& e, NodeId& l) const {
    if (k_[weight].kind != NodeKind::Call || k_[weight].args.size() != 2) return false;
    e = k_[weight].args[0], l = k_[weight].args[1];
    if (isCall(k_, weight, "div")) return true;
    if (!isCall(k_, weight, "mul")) return false;
    if (!isInverse(l)) std::swap(e, l);
    if (!isInverse(l)) return false;
    l = k_[l].args.back();
    return true;
  }
  [[nodiscard]] bool isInverse(NodeId n) const {
    if (isCall(k_, n, "reciprocal")) return true;
    return isCall(k_, n, "div") && k_[k_[n].args[0]].kind == NodeKind::Number &&
           k_[k_[n].args[0]].number == 1;
  }
  bool exponential(NodeId e, NodeId& x, NodeId& m) const {
    if (!isCall(k_, e, "exp") || !isCall(k_, k_[e].args[0], "sub")) return false;
    x = k_[k_[e].args[0]].args[0], m = k_[k_[e].args[0]].args[1];
    return true;
  }

  // select(condition, x, -inf): conditions that bound the key by the row become bounds.
  NodeId stripBounds(NodeId x) {
    if (!isCall(k_, x, "select")) return x;
    const Node other = k_[k_[x].args[2]];
    if (other.kind != NodeKind::Number || !isFloat(other.type) ||
        other.number != -std::numeric_limits<double>::infinity())
      return x;
    const NodeId condition = k_[x].args[0], inner = k_[x].args[1];
    std::vector<NodeId> parts;
    conjuncts(condition, parts);
    for (NodeId c : parts) {
      const size_t begins = a_.begins.size(), ends = a_.ends.size();
      if (bound(c)) continue;
      a_.begins.resize(begins), a_.ends.resize(ends);
      hidden_.push_back(c);
    }
    return stripBounds(inner);
  }
  void conjuncts(NodeId c, std::vector<NodeId>& out) const {
    if (!isCall(k_, c, "and")) return out.push_back(c);
    for (NodeId a : std::vector<NodeId>(k_[c].args)) conjuncts(a, out);
  }
  // A comparison as an affine form that must not be negative: ±key + … >= 0.
  bool bound(NodeId c) {
    const Node node = k_[c];
    if (node.kind != NodeKind::Call || node.args.size() != 2) return false;
    const bool strict = node.function == "lt" || node.function == "gt";
    if (!strict && node.function != "le" && node.function != "ge") return false;
    NodeId big = node.args[0], small = node.args[1];
    if (node.function[0] == 'l') std::swap(big, small);
    if (isCall(k_, small, "abs")) // |x| < w: both x and -x are
      return bound(big, k_[small].args[0], strict, 1) && bound(big, k_[small].args[0], strict, -1);
    return bound(big, small, strict, 1);
  }
  bool bound(NodeId big, NodeId small, bool strict, int64_t sign) {
    const std::optional<AffineId> b = linear(big), s = linear(small);
    if (!b || !s) return false;
    AffineId form = k_.sum(*b, k_.scaled(*s, {-sign, {}}));
    if (strict) form = k_.sum(form, k_.constant(-1));
    const Kernel::Stride key = k_.strideOf(form, a_.key);
    if (key.mixed || !key.size.isStatic()) return false;
    const AffineId rest = without(form, {a_.key});
    if (key.size.is(-1)) // rest - key >= 0
      a_.ends.push_back(k_.sum(rest, k_.constant(1)));
    else if (key.size.is(1)) // rest + key >= 0
      a_.begins.push_back(k_.scaled(rest, {-1, {}}));
    else
      return false;
    return true;
  }
  // An integer expression of indices, small enough never to wrap: linear in the key.
  std::optional<AffineId> linear(NodeId n) {
    const Node node = k_[n];
    if (node.kind == NodeKind::Index) return node.affine;
    if (node.kind == NodeKind::Number && !isFloat(node.type)) return k_.constant(node.integer);
    if (node.kind == NodeKind::Load && !isFloat(node.type) && k_.dependsOn(n) == 0 && node.args.empty())
      return k_.ofNode(n);
    if (node.kind != NodeKind::Call || isFloat(node.type) || isBool(node.type)) return std::nullopt;
    if (node.function == "convert" && !isFloat(k_[node.args[0]].type)) return linear(node.args[0]);
    if (node.function != "add" && node.function != "sub")
      return depends(n, a_.key) ? std::nullopt : std::optional(k_.ofNode(k_.convert(n, DType::I64)));
    const std::optional<AffineId> a = linear(node.args[0]), b = linear(node.args[1]);
    if (!a || !b) return std::nullopt;
    return k_.sum(*a, node.function == "add" ? *b : k_.scaled(*b, {-1, {}}));
  }
  AffineId without(AffineId a, const std::vector<AxisId>& axes) {
    Affine rest = k_[a];
    std::erase_if(rest.terms, [&](const AffineTerm& t) {
      return t.kind == AffineTerm::OfAxis && std::find(axes.begin(), axes.end(), t.id) != axes.end();
    });
    return k_.add(std::move(rest));
  }

  AffineId ofFirstRow(AffineId a, AxisId column) {
    if (!a_.row) return without(a, {column});
    return k_.strideOf(a, *a_.row).mixed ? AffineId() : without(a, {*a_.row, column});
  }

  // The dot product of a query and a key in the score.
  bool products() {
    std::vector<NodeId> found;
    const NodeId roots[] = {a_.score};
    forEachNode(k_, roots, [&](NodeId n) {
      if (k_[n].kind == NodeKind::Reduce) found.push_back(n);
    });
    if (found.size() != 1) return false;
    const Node* sum = reduceOver(found[0], ReduceKind::Sum);
    if (!sum || !isCall(k_, sum->args[0], "mul")) return false;
    a_.product = found[0];
    a_.depth = sum->axes[0];
    a_.query = k_[sum->args[0]].args[0], a_.keys = k_[sum->args[0]].args[1];
    if (depends(a_.query, a_.key)) std::swap(a_.query, a_.keys);
    return !depends(a_.query, a_.key) && plain(a_.keys, {a_.key, a_.depth}) && plain(a_.values, {a_.key});
  }
  // An unconditional load that is strided along each of the axes.
  [[nodiscard]] bool plain(NodeId n, const std::vector<AxisId>& axes) const {
    const Node& node = k_[n];
    if (node.kind != NodeKind::Load || !node.args.empty()) return false;
    return std::none_of(axes.begin(), axes.end(), [&](AxisId a) {
      const Kernel::Stride s = k_.strideOf(node.affine, a);
      return s.mixed || (s.size.is(0) && !k_.axes[a].extent.is(1));
    });
  }

  // Axes of the result: of values alone (width), of neither keys nor values (the row is the longest), the
  // others around.
  bool sortAxes(const Store& store) {
    const AxisSet result = k_.dependsOn(store.address), q = k_.dependsOn(a_.query),
                  key = k_.dependsOn(a_.keys), value = k_.dependsOn(a_.values), score = scoreAxes();
    if (result >> a_.key & 1 || result >> a_.depth & 1 || q >> a_.key & 1) return false;
    const AxisSet used = (q | key | value | score) & ~(AxisSet(1) << a_.key) & ~(AxisSet(1) << a_.depth);
    if ((used & ~result) != 0 || (value >> a_.depth & 1)) return false;
    AxisSet parts = 0; // along which bounds are gathered: they are not monotonic
    for (const std::vector<AffineId>* list : {&a_.begins, &a_.ends})
      for (AffineId b : *list)
        for (const AffineTerm& t : k_[b].terms)
          if (t.kind == AffineTerm::OfNode) parts |= k_.dependsOn(NodeId(t.id)) & ~q;
    int64_t longest = -1;
    for (AxisId a = 0; a < k_.axes.size(); ++a) {
      if (!(result >> a & 1)) continue;
      const Kernel::Stride written = k_.strideOf(store.address, a);
      if (written.mixed) return false;
      if ((value >> a & 1) && !((q | key | score) >> a & 1)) {
        if (a_.width || !plain(a_.values, {a})) return false;
        a_.width = a;
        continue;
      }
      a_.grid.push_back(a);
      const Size& extent = k_.axes[a].extent;
      const int64_t size = extent.isStatic() ? extent.number : INT32_MAX;
      // the number of its blocks is known
      const bool single = extent.args.size() + (extent.number != 1) <= 1;
      if (!((key | value | parts) >> a & 1) && single && size > longest) a_.row = a, longest = size;
    }
    if (a_.row) std::erase(a_.grid, *a_.row);
    return true;
  }
  [[nodiscard]] AxisSet scoreAxes() const { // that the score needs in addition to the dot product
    AxisSet axes = 0;
    std::vector<NodeId> work = {a_.score};
    work.insert(work.end(), hidden_.begin(), hidden_.end());
    while (!work.empty()) {
      const NodeId n = work.back();
      work.pop_back();
      if (n == a_.product) continue;
      if (k_[n].affine.valid()) axes |= k_.dependsOn(k_[n].affine);
      work.insert(work.end(), k_[n].args.begin(), k_[n].args.end());
    }
    for (const std::vector<AffineId>* list : {&a_.begins, &a_.ends})
      for (AffineId b : *list) axes |= k_.dependsOn(b);
    return axes;
  }

  // Bounds that increase with the row; otherwise they are ordinary conditions.
  void keepMonotone() {
    for (std::vector<AffineId>* list : {&a_.begins, &a_.ends})
      for (size_t i = 0; i < list->size();) {
        const AffineId b = (*list)[i];
        const Kernel::Stride s = a_.row ? k_.strideOf(b, *a_.row) : Kernel::Stride{};
        if (!s.mixed && s.size.isStatic() && s.size.number >= 0) {
          ++i;
          continue;
        }
        const NodeId key = k_.index(k_.axis(a_.key)), at = k_.index(b);
        hidden_.push_back(k_.call(list == &a_.begins ? "ge" : "lt", DType::Bool, {key, at}));
        list->erase(list->begin() + static_cast<std::ptrdiff_t>(i));
      }
  }
  NodeId rebuiltScore(NodeId x) {
    for (NodeId c : hidden_)
      x = k_.call("select", k_[x].type,
                  {c, x, k_.number(-std::numeric_limits<double>::infinity(), k_[x].type)});
    return x;
  }

  Kernel& k_;
  Attention a_;
  std::vector<NodeId> hidden_; // conditions that are not bounds
};

} // namespace

// The op's results share one nest over their coordinates. Loops over the stored values are the second choice: a
// view of several ops may be simpler in the coordinates of the last one. Dims that a view splits are axes of
// their own, and one axis again where the memory allows it.
std::optional<Lowered> lowerAttention(Module& m, OpId fused) {
  OpId op;
  bool parts = false;
  for (OpId o : m[m.region(fused)].ops) {
    const AttentionForm form = attentionForm(m.record(o));
    if (form == AttentionForm::Whole || form == AttentionForm::Parts)
      op = o, parts = form == AttentionForm::Parts;
  }
  if (!op.valid()) return std::nullopt;
  for (const bool overResults : {true, false}) {
    std::optional<Lowered> lowered;
    if (overResults)
      lowered = RegionLowering(m, fused).runOverResults(op);
    else if (Result<Lowered> stored = RegionLowering(m, fused).run())
      lowered = std::move(*stored);
    if (!lowered) continue;
    splitDividedAxes(lowered->kernel);
    std::optional<Attention> found = Matcher(lowered->kernel).run();
    if (!found) {
      joinAxes(lowered->kernel);
      found = Matcher(lowered->kernel).run();
    }
    if (!found) continue;
    found->parts = parts;
    lowered->kernel.attention = std::move(found);
    return lowered;
  }
  return std::nullopt;
}

void countAttention(const Kernel& k, const Attention& a, SizeFormula& flops) {
  Size pairs = k.axes[a.key].extent;
  for (AxisId g : a.grid) pairs = pairs * k.axes[g].extent;
  if (a.row) pairs = pairs * k.axes[*a.row].extent;
  flops.terms.push_back(factorsOf(pairs * k.axes[a.depth].extent * Size{2, {}}));
  flops.terms.push_back(factorsOf(pairs * (a.width ? k.axes[*a.width].extent : Size{1, {}}) * Size{2, {}}));
}

} // namespace dtc
