// Gradients of collectives: each is transposed, with what its result's cotangents are along its axes (sharding.md §3).
#include "GradientSweep.h"
#include "LocalGradient.h"
#include "OpGradient.h"
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

  // False where there is none.
  bool run() {
    const std::string_view name = m_.record(op_).name;
    if (name == "p2p") return exchanged();
    ValueId d;
    if (name == "all_reduce") d = reduced();
    if (name == "all_gather") d = gathered();
    if (name == "all_slice") d = sliced();
    if (name == "reduce_scatter") d = scattered();
    if (name == "all_to_all") d = swapped();
    if (name == "permute") d = permuted();
    if (name == "broadcast_from") d = broadcast();
    if (name == "fill_piece") d = filled();
    if (name == "trim_piece")
      d = make("fill_piece", results_[0], {{"dim", m_.attr(op_, "dim")}}, m_[m_.operand(op_, 0)].type);
    if (d.valid()) s_.accumulate(m_.operand(op_, 0), d, SIZE_MAX, local_.givenBy(op_));
    return d.valid();
  }

private:
  ValueId make(const char* name, ValueId x, std::initializer_list<Builder::NamedInput> attrs, TypeId type) {
    return m_.result(b_.op(name, std::array{x}, attrs, std::array{type}));
  }
  [[nodiscard]] std::string_view kind() const {
    AttrId a = m_.attr(op_, "op");
    return a.valid() ? m_.strings[m_.attrs[a].text] : "sum";
  }
  [[nodiscard]] TypeId operandType() const { return m_[m_.operand(op_, 0)].type; }
  AttrId axesAttr() { return m_.attr(op_, "axes"); }

  // The cotangent of a result that is the same along the axes: what is pending of it, summed up.
  ValueId whole() {
    if (!pending_) return results_[0];
    return make("all_reduce", results_[0], {{"axes", local_.axesAttr(m_, local_.varying.axes(pending_))}},
                m_[results_[0]].type);
  }

  // Of the average's cotangent each device has its share.
  ValueId shared(ValueId d) {
    if (kind() != "avg") return d;
    const double n = static_cast<double>(local_.varying.sizeOf(local_.varying.ofAttr(op_, false)));
    return b_.value("div", {d, b_.literal(n, m_.typeOf(d).dtype)});
  }

  ValueId reduced() {
    if (kind() == "sum" || kind() == "avg") return shared(whole());
    return ofReduction(whole(), m_.result(op_));
  }

  // The cotangent of an operand of max, min or prod over the devices, from the reduction and its cotangent, both whole.
  ValueId ofReduction(ValueId d, ValueId reduction) {
    if (kind() == "prod") return b_.value("mul", {d, productOfOthers()});
    if (kind() != "max" && kind() != "min") return {};
    const ValueId best = b_.value("eq", {m_.operand(op_, 0), reduction});
    const ValueId count = allReduce(mask(best), "sum");
    return b_.value("select", {best, b_.value("div", {d, count}), b_.literal(0, dtype())});
  }

  // The product of what the other devices have, as for `prod` of one tensor: a zero is left out of the product and counted.
  ValueId productOfOthers() {
    const ValueId x = m_.operand(op_, 0), none = b_.literal(0, dtype()), one = b_.literal(1, dtype());
    const ValueId zero = b_.value("eq", {x, none});
    const ValueId others = b_.value("select", {zero, one, x});
    const ValueId product = allReduce(others, "prod"), zeros = allReduce(mask(zero), "sum");
    const ValueId noZero =
        b_.value("select", {b_.value("eq", {zeros, none}), b_.value("div", {product, others}), none});
    const ValueId onlyZero = b_.value("select", {b_.value("eq", {zeros, one}), product, none});
    return b_.value("select", {zero, onlyZero, noZero});
  }

  [[nodiscard]] DType dtype() const { return m_.types[operandType()].dtype; }
  ValueId mask(ValueId holds) {
    return b_.value("convert", {holds}, {{"dtype", b_.word(dtypeName(dtype()))}});
  }
  ValueId allReduce(ValueId x, const char* kind) {
    return make("all_reduce", x, {{"axes", axesAttr()}, {"op", m_.attrs.string(m_.strings.intern(kind))}},
                operandType());
  }

  ValueId gathered() {
    const AxisSet own = local_.varying.ofAttr(op_, false);
    if (pending_ == own && own)
      return make("reduce_scatter", results_[0], {{"axes", axesAttr()}, {"dim", m_.attr(op_, "dim")}},
                  operandType());
    return make("all_slice", whole(), {{"axes", axesAttr()}, {"dim", m_.attr(op_, "dim")}}, operandType());
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
  ValueId gather(ValueId piece) {
    return make("all_gather", piece, {{"axes", axesAttr()}, {"dim", m_.attr(op_, "dim")}}, operandType());
  }

  ValueId swapped() {
    return make("all_to_all", results_[0],
                {{"axes", axesAttr()},
                 {"split_dim", m_.attr(op_, "concat_dim")},
                 {"concat_dim", m_.attr(op_, "split_dim")}},
                operandType());
  }

  ValueId broadcast() {
    AttrId root = m_.attr(op_, "root");
    return local_.onlyAt(b_, whole(), axes_, root.valid() ? m_.attrs[root].i : 0);
  }

  ValueId filled() {
    const Type& type = m_.types[operandType()];
    int64_t dim = m_.attrs[m_.attr(op_, "dim")].i;
    if (dim < 0) dim += static_cast<int64_t>(type.rank());
    const DimExpr e = m_.dims.expr(type.dims[static_cast<size_t>(dim)]);
    if (e.cut.empty()) return results_[0];
    return make(
        "trim_piece", results_[0],
        {{"dim", b_.integer(dim)}, {"size", b_.integer(e.coefficient)}, {"axes", local_.axesAttr(m_, e.cut)}},
        operandType());
  }

  // Who sent receives. A device that sent to several receives in as many rounds, one of each.
  using Send = std::vector<int64_t>; // [operand,] from, to
  std::vector<std::vector<Send>> rounds(const char* attr, size_t width) {
    std::vector<std::vector<Send>> out;
    std::unordered_map<int64_t, size_t> sent; // by sender (and operand): how often
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
    Attr list;
    list.kind = Attr::List;
    for (const Send& s : sends) list.list.push_back(m_.attrs.integers(s));
    return m_.attrs.intern(std::move(list));
  }

  ValueId permuted() {
    ValueId sum;
    for (const auto& round : rounds("pairs", 2)) {
      ValueId d =
          make("permute", results_[0], {{"axes", axesAttr()}, {"pairs", pairsAttr(round)}}, operandType());
      sum = sum.valid() ? b_.value("add", {sum, d}) : d;
    }
    return sum.valid() ? sum : b_.constant(0, operandType());
  }

  // One batch: each round of each operand is an operand of its own.
  bool exchanged() {
    std::vector<ValueId> operands, to;
    std::vector<TypeId> types;
    std::vector<Send> sends;
    for (const auto& round : rounds("sends", 3)) {
      std::unordered_map<int64_t, int64_t> place;
      for (Send s : round) {
        const auto k = static_cast<size_t>(s[0]);
        if (!results_[k].valid()) continue;
        auto [it, isNew] = place.emplace(s[0], static_cast<int64_t>(operands.size()));
        if (isNew) {
          operands.push_back(results_[k]);
          to.push_back(m_.operand(op_, k));
          types.push_back(m_[m_.operand(op_, k)].type);
        }
        s[0] = it->second;
        sends.push_back(std::move(s));
      }
    }
    if (operands.empty()) return true;
    const OpId back = b_.op("p2p", operands, {{"sends", pairsAttr(sends)}, {"axes", axesAttr()}}, types);
    for (size_t i = 0; i < to.size(); ++i)
      s_.accumulate(to[i], m_.result(back, i), SIZE_MAX, local_.givenBy(op_));
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
  return opGradient(s.b, o, results, std::vector<char>(s.m[o].numOperands, 1), none); // says that it has none
}

} // namespace dtc
