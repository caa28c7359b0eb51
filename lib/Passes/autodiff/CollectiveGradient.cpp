// Gradients of collectives: the transpose of each, given the state of its result's cotangents along its axes
// (sharding.md).
#include "autodiff/GradientSweep.h"
#include "autodiff/LocalGradient.h"
#include "autodiff/OpGradient.h"
#include "dtc/Ops/OpFunctions.h"
#include <algorithm>

namespace dtc {

namespace {

class CollectiveGradient {
public:
  CollectiveGradient(GradientSweep& s, OpId o, std::span<const ValueId> results)
      : s_(s), m_(s.m), b_(s.b), local_(*s.shared.local), op_(o), axes_(Varying::axesOf(s.m, o)),
        pending_(results.size() == 1 ? local_.pending(s.m.result(o)) & local_.varying.ofAttr(o, false) : 0) {
    results_.assign(results.begin(), results.end());
  }

  // False if it has no gradient.
  bool run() {
    const CollectiveKind kind = m_.record(op_).collective;
    if (kind == CollectiveKind::P2p) return exchanged();
    const ValueId d = ofOperand(kind);
    if (d.valid()) s_.accumulate(m_.operand(op_, 0), d, SIZE_MAX, local_.givenBy(op_));
    return d.valid();
  }

private:
  ValueId ofOperand(CollectiveKind kind) {
    switch (kind) {
    case CollectiveKind::AllReduce: return reduced();
    case CollectiveKind::AllGather: return gathered();
    case CollectiveKind::AllSlice: return sliced();
    case CollectiveKind::ReduceScatter: return scattered();
    case CollectiveKind::AllToAll: return swapped();
    case CollectiveKind::Permute: return permuted();
    case CollectiveKind::BroadcastFrom: return broadcast();
    case CollectiveKind::FillShard: return filled();
    case CollectiveKind::TrimShard: return asOperand(ops::fill_piece(d(), {.dim = attr("dim")}));
    default: return {};
    }
  }
  // A result of the operand's local type, whose sizes may be written along other axes.
  ValueId asOperand(ValueId v) {
    m_[v].type = operandType();
    return v;
  }
  [[nodiscard]] Expr expr(ValueId v) { return {b_, v}; }
  [[nodiscard]] Expr operand() { return expr(m_.operand(op_, 0)); }
  [[nodiscard]] Expr d() { return expr(results_[0]); }
  [[nodiscard]] AttrId attr(std::string_view name) const { return m_.attr(op_, name); }
  [[nodiscard]] std::string_view kind() const {
    AttrId a = m_.attr(op_, "op");
    return a.valid() ? m_.strings[m_.attrs[a].text] : "sum";
  }
  [[nodiscard]] TypeId operandType() const { return m_[m_.operand(op_, 0)].type; }

  // The cotangent of a result that is the same on all devices along the axes: its pending part, reduced.
  ValueId reducedCotangent() {
    if (!pending_) return results_[0];
    return ops::all_reduce(d(), {.axes = local_.varying.axes(pending_)});
  }

  // Each device has its share of the cotangent of an average.
  ValueId shared(ValueId d) {
    if (kind() != "avg") return d;
    const double n = static_cast<double>(local_.varying.sizeOf(local_.varying.ofAttr(op_, false)));
    return expr(d) / n;
  }

  ValueId reduced() {
    if (kind() == "sum" || kind() == "avg") return shared(reducedCotangent());
    return ofReduction(reducedCotangent(), m_.result(op_));
  }

  // The cotangent of an operand of max, min or prod over the devices, from the reduction and its full
  // cotangent.
  ValueId ofReduction(ValueId d, ValueId reduction) {
    if (kind() == "prod") return expr(d) * productOfOthers();
    if (kind() != "max" && kind() != "min") return {};
    const Expr best = ops::eq(operand(), reduction);
    const Expr share = expr(d) / allReduce(best.as(dtype()), "sum");
    return ops::select(best, share, 0);
  }

  // The product of the other devices' values, as for `prod` of one tensor: zeros are excluded from the
  // product and counted.
  ValueId productOfOthers() {
    const Expr x = operand(), zero = ops::eq(x, 0), others = ops::select(zero, 1, x),
               product = allReduce(others, "prod"), zeros = allReduce(zero.as(dtype()), "sum"),
               none = ops::eq(zeros, 0), quotient = product / others;
    const Expr noZero = ops::select(none, quotient, 0), onlyZero = ops::select(ops::eq(zeros, 1), product, 0);
    return ops::select(zero, onlyZero, noZero);
  }

  [[nodiscard]] DType dtype() const { return m_.types[operandType()].dtype; }
  Expr allReduce(Expr x, const char* kind) { return ops::all_reduce(x, {.axes = attr("axes"), .op = kind}); }

  ValueId gathered() {
    const AxisSet own = local_.varying.ofAttr(op_, false);
    if (pending_ == own && own)
      return asOperand(ops::reduce_scatter(d(), {.axes = attr("axes"), .dim = attr("dim")}));
    return asOperand(ops::all_slice(expr(reducedCotangent()), {.axes = attr("axes"), .dim = attr("dim")}));
  }

  ValueId sliced() {
    if (local_.varying(m_.operand(op_, 0)) & local_.varying.ofAttr(op_, false)) return {};
    return gather(results_[0]);
  }

  ValueId scattered() {
    const ValueId d = gather(results_[0]);
    if (kind() == "sum" || kind() == "avg") return shared(d);
    const bool readsResult = kind() == "max" || kind() == "min";
    return ofReduction(d, readsResult ? gather(m_.result(op_)) : ValueId());
  }
  ValueId gather(ValueId shard) {
    return asOperand(ops::all_gather(expr(shard), {.axes = attr("axes"), .dim = attr("dim")}));
  }

  ValueId swapped() {
    return asOperand(ops::all_to_all(
        d(), {.axes = attr("axes"), .split_dim = attr("concat_dim"), .concat_dim = attr("split_dim")}));
  }

  ValueId broadcast() {
    AttrId root = m_.attr(op_, "root");
    return local_.onlyAt(b_, reducedCotangent(), axes_, root.valid() ? m_.attrs[root].i : 0);
  }

  ValueId filled() {
    const Type& type = m_.types[operandType()];
    int64_t dim = m_.attrs[m_.attr(op_, "dim")].i;
    if (dim < 0) dim += static_cast<int64_t>(type.rank());
    const DimExpr e = m_.dims.expr(type.dims[static_cast<size_t>(dim)]);
    if (e.axes.empty()) return results_[0];
    return asOperand(ops::trim_piece(d(), {.dim = dim, .size = e.coefficient, .axes = e.axes}));
  }

  // Transposes the sends. A device that sent to several others receives in as many rounds, one value per
  // round.
  using Send = std::vector<int64_t>; // [operand,] from, to
  std::vector<std::vector<Send>> rounds(const char* attr, size_t width) {
    std::vector<std::vector<Send>> out;
    std::unordered_map<int64_t, size_t> sent; // by sender (and operand): number of sends
    for (AttrId entry : std::vector<AttrId>(m_.attrs[m_.attr(op_, attr)].list)) {
      Send n;
      for (AttrId e : m_.attrs[entry].list) n.push_back(m_.attrs[e].i);
      const int64_t from = n[width - 2], key = width == 3 ? (n[0] << 32) + from : from;
      const size_t round = sent[key]++;
      if (round == out.size()) out.emplace_back();
      std::swap(n[width - 2], n[width - 1]);
      out[round].push_back(std::move(n));
    }
    return out;
  }
  AttrId pairsAttr(const std::vector<Send>& sends) {
    std::vector<AttrId> list;
    for (const Send& s : sends) list.push_back(m_.attrs.integers(s));
    return m_.attrs.list(std::move(list));
  }

  ValueId permuted() {
    ValueId sum;
    for (const auto& round : rounds("pairs", 2)) {
      const Expr back = expr(asOperand(ops::permute(d(), {.axes = attr("axes"), .pairs = pairsAttr(round)})));
      sum = sum.valid() ? expr(sum) + back : back;
    }
    return sum.valid() ? sum : b_.constant(0, operandType());
  }

  // One batch: each round of each operand is a separate operand.
  bool exchanged() {
    std::vector<ValueId> operands, to;
    std::vector<Send> sends;
    for (const auto& round : rounds("sends", 3)) {
      std::unordered_map<int64_t, int64_t> indexOf;
      for (Send s : round) {
        const auto k = static_cast<size_t>(s[0]);
        if (!results_[k].valid()) continue;
        auto [it, isNew] = indexOf.emplace(s[0], static_cast<int64_t>(operands.size()));
        if (isNew) {
          operands.push_back(results_[k]);
          to.push_back(m_.operand(op_, k));
        }
        s[0] = it->second;
        sends.push_back(std::move(s));
      }
    }
    if (operands.empty()) return true;
    const std::vector<Expr> back = ops::p2p(b_, operands, {.axes = attr("axes"), .sends = pairsAttr(sends)});
    for (size_t i = 0; i < to.size(); ++i) {
      m_[back[i]].type = m_[to[i]].type;
      s_.accumulate(to[i], back[i], SIZE_MAX, local_.givenBy(op_));
    }
    return true;
  }

  GradientSweep& s_;
  Module& m_;
  Builder& b_;
  const LocalCotangents& local_;
  OpId op_;
  std::vector<AxisRef> axes_;
  AxisSet pending_; // of the result's cotangent, along the op's axes
  std::vector<ValueId> results_;
};

} // namespace

bool collectiveGradient(GradientSweep& s, OpId o, std::span<const ValueId> results) {
  if (s.shared.local && CollectiveGradient(s, o, results).run()) return true;
  if (s.shared.diags.hasErrors()) return false;
  std::vector<ValueId> none;
  // reports that it has none
  return opGradient(s.b, o, results, std::vector<char>(s.m[o].numOperands, 1), none);
}

} // namespace dtc
