// Ops expressed by their index rule and scalar expression: pointwise ops, reductions, contractions,
// generators.
#include "export/ExportContext.h"
#include "export/ExportScalar.h"
#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

// A kind of reduction: its op and its initial value.
struct Combiner {
  const char* op;
  double start;
};
std::optional<Combiner> combinerOf(PendingKind kind, DType d) {
  const bool real = isFloat(d) && d != DType::F8E4M3; // which has no infinity
  switch (kind) {
  case PendingKind::Sum:
  case PendingKind::Avg: return Combiner{"add", 0};
  case PendingKind::Prod: return Combiner{"multiply", 1};
  case PendingKind::Max:
    return Combiner{"maximum", real ? -HUGE_VAL : isFloat(d) ? -448 : static_cast<double>(intMin(d))};
  case PendingKind::Min:
    return Combiner{"minimum", real ? HUGE_VAL : isFloat(d) ? 448 : static_cast<double>(intMax(d))};
  case PendingKind::Any: return Combiner{"or", 0};
  case PendingKind::All: return Combiner{"and", 1};
  case PendingKind::None: break;
  }
  return std::nullopt;
}

class RuleExport {
public:
  RuleExport(ExportContext& c, OpId o) : c_(c), w_(c.w), m_(c.m), op_(o), q_(c.query(o)) {}

  // Nothing where the rule does not define the op completely.
  std::optional<ExportValue> run(std::string& missing) {
    if (!ruleOf(q_, rule_) || !readable()) return std::nullopt;
    order();
    const DType result = c_.resultType(op_);
    const ScalarExpr scalar = scalarOf(q_, result);
    if (!indicesAreFactors(scalar)) return std::nullopt;
    // A narrow float is reduced in f32 and rounded once.
    const DType held = isNarrowFloat(result) && numReduced_ != 0 ? DType::F32 : result;
    std::optional<ExportValue> v = contraction(scalar);
    if (!v) {
      v = exportScalar(w_, scalar, placed(), nullptr, space_, missing);
      if (v && numReduced_ != 0) v = reduced(w_.convert(*v, held), held);
    }
    if (v && m_.record(op_).finish) v = finished(*v, held, missing);
    if (!v) return std::nullopt;
    return w_.reshape(w_.convert(*v, result), c_.resultShape(op_));
  }

private:
  // Every dim consists of whole factors, and there is one result.
  bool readable() {
    if (m_[op_].numResults != 1 || rule_.operands.size() < m_[op_].numOperands) return false;
    auto unsharded = [](const TensorMap& t) {
      return std::ranges::all_of(t.dims, [](const DimMap& d) { return d.form == DimMap::Compound; });
    };
    if (!unsharded(rule_.results[0]) || !std::ranges::all_of(rule_.operands, unsharded)) return false;
    return std::ranges::all_of(rule_.factors, [](const Factor& f) { return f.size.isStatic(); });
  }

  // The iteration space: the result's factors in order, then those that are reduced.
  void order() {
    position_.assign(rule_.factors.size(), -1);
    auto take = [&](uint16_t f) {
      if (position_[f] >= 0) return;
      position_[f] = static_cast<int>(factors_.size());
      factors_.push_back(f);
      space_.push_back(rule_.factors[f].size.value());
    };
    for (const DimMap& d : rule_.results[0].dims)
      for (const Term& t : d.terms) take(t.factor);
    numUnreduced_ = factors_.size();
    for (uint16_t f = 0; f < rule_.factors.size(); ++f)
      if (rule_.factors[f].reduce != PendingKind::None) take(f);
    numReduced_ = factors_.size() - numUnreduced_;
  }

  [[nodiscard]] Dims kept() const {
    return {space_.begin(), space_.begin() + static_cast<ptrdiff_t>(numUnreduced_)};
  }

  // index(d) is a coordinate of the result: a factor's where each dim is one factor.
  bool indicesAreFactors(const ScalarExpr& e) const {
    const bool asked =
        std::ranges::any_of(e.nodes, [](const ScalarNode& n) { return n.kind == ScalarNode::Index; });
    const auto& dims = rule_.results[0].dims;
    return !asked || (dims.size() == numUnreduced_ &&
                      std::ranges::all_of(dims, [](const DimMap& d) { return d.plain(); }));
  }

  // An operand reshaped to one dim per factor: dims of several factors split, dims of none dropped.
  struct Flat {
    ExportValue value;
    std::vector<uint16_t> factors;
  };
  Flat flat(const ExportValue& x, const TensorMap& map) {
    Flat out;
    Dims shape;
    for (const DimMap& d : map.dims)
      for (const Term& t : d.terms)
        if (position_[t.factor] >= 0) {
          out.factors.push_back(t.factor);
          shape.push_back(rule_.factors[t.factor].size.value());
        }
    out.value = w_.reshape(x, shape);
    for (size_t i = 1; i < out.factors.size(); ++i) onDiagonal(out, i);
    return out;
  }

  // A factor that occurs twice in an operand selects the diagonal.
  void onDiagonal(Flat& x, size_t& i) {
    const auto first = std::find(x.factors.begin(), x.factors.end(), x.factors[i]);
    if (static_cast<size_t>(first - x.factors.begin()) == i) return;
    ExportValue& v = x.value;
    const ExportValue same = w_.compare("EQ", w_.iota(first - x.factors.begin(), DType::I32, v.shape),
                                        w_.iota(static_cast<int64_t>(i), DType::I32, v.shape));
    const ExportValue none = w_.splat(0, v.dtype, v.shape);
    v = w_.reduce(w_.select(same, v, none), w_.splat(0, v.dtype, {}), isBool(v.dtype) ? "or" : "add",
                  {static_cast<int64_t>(i)});
    x.factors.erase(x.factors.begin() + static_cast<ptrdiff_t>(i));
    --i;
  }

  // The operand broadcast to the space of these factors.
  ExportValue spread(const ExportValue& x, const TensorMap& map, const Dims& space) {
    Flat f = flat(x, map);
    Dims perm(f.factors.size()), dims;
    for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
    std::ranges::sort(perm, [&](int64_t a, int64_t b) {
      return position_[f.factors[static_cast<size_t>(a)]] < position_[f.factors[static_cast<size_t>(b)]];
    });
    for (int64_t p : perm) dims.push_back(position_[f.factors[static_cast<size_t>(p)]]);
    return w_.broadcast(w_.transpose(f.value, perm), dims, space);
  }

  ExportValue operandIn(size_t i, const Dims& space) {
    const ValueId v = m_.operand(op_, i);
    if (m_[v].kind == ValueKind::Literal) return c_.splatOf(v, space);
    return spread(c_.value(v), rule_.operands[i], space);
  }
  std::vector<ExportValue> placed() {
    std::vector<ExportValue> all;
    for (size_t i = 0; i < m_[op_].numOperands; ++i) all.push_back(operandIn(i, space_));
    return all;
  }

  std::optional<ExportValue> reduced(const ExportValue& v, DType held) {
    std::optional<ExportValue> out = v;
    // Reduces from the last factor to the first, adjacent factors of one kind together.
    for (size_t end = factors_.size(); end > numUnreduced_ && out;) {
      size_t begin = end;
      const PendingKind kind = rule_.factors[factors_[end - 1]].reduce;
      while (begin > numUnreduced_ && rule_.factors[factors_[begin - 1]].reduce == kind) --begin;
      const auto how = combinerOf(kind, held);
      if (!how) return std::nullopt;
      Dims dims;
      for (size_t i = begin; i < end; ++i) dims.push_back(static_cast<int64_t>(i));
      out = w_.reduce(*out, start(*how, held), how->op, dims);
      end = begin;
    }
    return out;
  }

  // The minimum and maximum 64-bit integers are not exact as doubles.
  ExportValue start(const Combiner& how, DType d) {
    const std::string_view op = how.op;
    if (isInteger(d) && (op == "maximum" || op == "minimum")) {
      const int64_t v = op == "maximum" ? intMin(d) : intMax(d);
      return w_.dense(isUnsignedInt(d) ? std::to_string(static_cast<uint64_t>(v)) : std::to_string(v), d, {});
    }
    return w_.splat(how.start, d, {});
  }

  std::optional<ExportValue> finished(const ExportValue& acc, DType held, std::string& missing) {
    std::vector<ExportValue> operands;
    std::vector<DType> dtypes;
    for (size_t i = 0; i < m_[op_].numOperands; ++i) {
      const ExportValue x = reads(i) ? c_.operand(op_, i) : operandIn(i, kept());
      operands.push_back(x);
      dtypes.push_back(x.dtype);
    }
    const ScalarExpr e = typeScalar(parseScalar(m_.record(op_).finish), dtypes, held, q_, held);
    return exportScalar(w_, e, operands, &acc, kept(), missing);
  }
  // True if the operand has a reduced factor (finish does not check this).
  bool reads(size_t i) const {
    for (const DimMap& d : rule_.operands[i].dims)
      for (const Term& t : d.terms)
        if (position_[t.factor] >= static_cast<int>(numUnreduced_)) return true;
    return false;
  }

  // A sum over the product of two operands: one dot_general.
  std::optional<ExportValue> contraction(const ScalarExpr& scalar) {
    if (numReduced_ == 0 || m_[op_].numOperands < 2 || printScalar(scalar) != "(a * b)") return std::nullopt;
    for (size_t i = 0; i < 2; ++i)
      if (m_[m_.operand(op_, i)].kind == ValueKind::Literal) return std::nullopt;
    const Flat a = flat(c_.operand(op_, 0), rule_.operands[0]),
               b = flat(c_.operand(op_, 1), rule_.operands[1]);
    Sides s;
    for (size_t i = 0; i < a.factors.size(); ++i)
      if (!side(a.factors[i], static_cast<int64_t>(i), b.factors, true, s)) return std::nullopt;
    for (size_t i = 0; i < b.factors.size(); ++i)
      if (!side(b.factors[i], static_cast<int64_t>(i), a.factors, false, s)) return std::nullopt;
    return product(a, b, s);
  }

  struct Sides {
    Dims batchA, batchB, contractA, contractB;
    std::vector<uint16_t> batch, freeA, freeB;
  };
  // The position of a factor in the dot_general. False for one that is summed over in one operand alone, or
  // is another kind's.
  bool side(uint16_t f, int64_t dim, const std::vector<uint16_t>& other, bool isA, Sides& s) const {
    const auto there = std::find(other.begin(), other.end(), f);
    const bool inBoth = there != other.end(), inResult = position_[f] < static_cast<int>(numUnreduced_);
    if (!inResult && (!inBoth || rule_.factors[f].reduce != PendingKind::Sum)) return false;
    if (!inBoth) {
      (isA ? s.freeA : s.freeB).push_back(f);
    } else if (isA) {
      (inResult ? s.batchA : s.contractA).push_back(dim);
      (inResult ? s.batchB : s.contractB).push_back(there - other.begin());
      if (inResult) s.batch.push_back(f);
    }
    return true;
  }

  ExportValue product(const Flat& a, const Flat& b, const Sides& s) {
    std::vector<uint16_t> factors = s.batch;
    factors.insert(factors.end(), s.freeA.begin(), s.freeA.end());
    factors.insert(factors.end(), s.freeB.begin(), s.freeB.end());
    Dims shape, perm(factors.size());
    for (size_t i = 0; i < factors.size(); ++i) {
      shape.push_back(rule_.factors[factors[i]].size.value());
      perm[static_cast<size_t>(position_[factors[i]])] = static_cast<int64_t>(i);
    }
    std::string how;
    if (!s.batchA.empty()) how += ", batching_dims = " + hloList(s.batchA) + " x " + hloList(s.batchB);
    how += ", contracting_dims = " + hloList(s.contractA) + " x " + hloList(s.contractB);
    const ExportValue both[] = {a.value, b.value};
    return w_.transpose(w_.typed("dot_general", both, how, a.value.dtype, shape), perm);
  }

  ExportContext& c_;
  ExportWriter& w_;
  Module& m_;
  OpId op_;
  OpQuery q_;
  Rule rule_;
  std::vector<int> position_; // by factor: its position in the space; -1: a dim of size 1 that is broadcast
  std::vector<uint16_t> factors_; // of the space
  Dims space_;
  size_t numUnreduced_ = 0, numReduced_ = 0;
};

} // namespace

bool exportByRule(ExportContext& c, OpId o) {
  std::string missing;
  const auto v = RuleExport(c, o).run(missing);
  if (v) return c.setResult(o, *v);
  if (!missing.empty()) c.refuse(o, noFunction(missing));
  return false;
}

} // namespace dtc
