#include "import/IndexRanges.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Support/Checked.h"

#include <algorithm>

namespace dtc {

namespace {

constexpr int kMaxDepth = 64, kMaxSteps = 4096; // per query

using Maybe = std::optional<IndexRange>;

IndexRange numberRange(int64_t v) { return {v, v, {}, 0, v}; }

// The elements of a constant.
Maybe constantRange(const Attr& a, const AttrTable& attrs) {
  if (a.kind == Attr::Int && !a.isUnsigned) return numberRange(a.i);
  if (a.kind != Attr::List || a.list.empty()) return std::nullopt;
  Maybe all;
  for (AttrId e : a.list) {
    Maybe one = constantRange(attrs[e], attrs);
    if (!one) return std::nullopt;
    if (!all) all = one;
    if (all->lo != one->lo || all->hi != one->hi)
      all = IndexRange{std::min(all->lo, one->lo), std::max(all->hi, one->hi), {}, 0, 0};
  }
  return all;
}

// 0 … n-1, along a dim.
Maybe positions(const Type& t, size_t dim) {
  if (dim >= t.rank() || !t.dims[dim].isStatic() || t.dims[dim].value() < 1) return std::nullopt;
  return IndexRange{0, t.dims[dim].value() - 1, {}, 0, 0};
}

constexpr std::string_view kDataMovement[] = {"reshape",     "broadcast", "transpose",    "slice", "squeeze",
                                              "expand_dims", "flip",      "tile",         "roll",  "convert",
                                              "barrier",     "shard",     "dynamic_slice"};

Maybe sum(const IndexRange& a, const IndexRange& b) {
  auto lo = checkedAdd(a.lo, b.lo), hi = checkedAdd(a.hi, b.hi), offset = checkedAdd(a.offset, b.offset),
       slope = checkedAdd(a.slope, b.slope);
  if (!lo || !hi) return std::nullopt;
  IndexRange out{*lo, *hi, {}, 0, 0};
  const bool linear = (a.index.valid() || a.isNumber()) && (b.index.valid() || b.isNumber()) &&
                      (!a.index.valid() || !b.index.valid() || a.index == b.index);
  if (linear && offset && slope) {
    out.index = a.index.valid() ? a.index : b.index;
    out.slope = *slope;
    out.offset = *offset;
  }
  return out;
}

Maybe times(const IndexRange& a, int64_t by) {
  auto lo = checkedMul(a.lo, by), hi = checkedMul(a.hi, by), slope = checkedMul(a.slope, by),
       offset = checkedMul(a.offset, by);
  if (!lo || !hi || !slope || !offset) return std::nullopt;
  return IndexRange{std::min(*lo, *hi), std::max(*lo, *hi), a.index, *slope, *offset};
}

// The max and the min of two; one operand where it is always the result.
Maybe greater(const Maybe& a, const Maybe& b) {
  if (!a || !b) return std::nullopt;
  if (a->lo >= b->hi) return a;
  if (b->lo >= a->hi) return b;
  return IndexRange{std::max(a->lo, b->lo), std::max(a->hi, b->hi), {}, 0, 0};
}

Maybe lesser(const Maybe& a, const Maybe& b) {
  if (!a || !b) return std::nullopt;
  if (a->hi <= b->lo) return a;
  if (b->hi <= a->lo) return b;
  return IndexRange{std::min(a->lo, b->lo), std::min(a->hi, b->hi), {}, 0, 0};
}

// The result of a comparison over all values of the ranges, where it is constant.
std::optional<bool> compared(std::string_view op, const IndexRange& a, const IndexRange& b) {
  auto decide = [](bool always, bool never) {
    return always ? std::optional(true) : never ? std::optional(false) : std::nullopt;
  };
  if (op == "lt") return decide(a.hi < b.lo, a.lo >= b.hi);
  if (op == "le") return decide(a.hi <= b.lo, a.lo > b.hi);
  if (op == "gt") return decide(a.lo > b.hi, a.hi <= b.lo);
  if (op == "ge") return decide(a.lo >= b.hi, a.hi < b.lo);
  return std::nullopt;
}

} // namespace

IndexRange rangeOf(DType dtype) {
  return {intMin(dtype), dtype == DType::U64 ? INT64_MAX : intMax(dtype), {}, 0, 0};
}

struct IndexRanges::Query {
  const IndexRanges& ranges;
  const Module& m;
  int steps = 0;

  Maybe of(ValueId v, int depth) {
    if (!v.valid() || depth > kMaxDepth || ++steps > kMaxSteps) return std::nullopt;
    if (auto known = ranges.known_.find(v); known != ranges.known_.end()) return known->second;
    const Value& value = m[v];
    if (!isInteger(m.typeOf(v).dtype)) return std::nullopt;
    if (value.kind == ValueKind::Literal && m.attrs[value.literal].kind == Attr::Int)
      return numberRange(m.attrs[value.literal].i);
    if (value.kind != ValueKind::OpResult) return std::nullopt;
    Maybe r = ofOp(m.definingOp(v), depth + 1);
    const IndexRange all = rangeOf(m.typeOf(v).dtype);
    return r && r->lo >= all.lo && r->hi <= all.hi ? r : std::nullopt;
  }

  Maybe ofOp(OpId o, int depth) {
    const std::string_view op = m.record(o).name;
    if (m.record(o).isConstant) return constantRange(m.attrs[m.attr(o, "value")], m.attrs);
    if (std::find(std::begin(kDataMovement), std::end(kDataMovement), op) != std::end(kDataMovement))
      return of(m.operand(o, 0), depth);
    if (op == "iota" || op == "argmax" || op == "argmin" || op == "argsort") return position(o, op);
    if (op == "select") return selected(o, depth);
    if (op == "clamp")
      return lesser(greater(of(m.operand(o, 0), depth), of(m.operand(o, 1), depth)),
                    of(m.operand(o, 2), depth));
    if (m[o].numOperands == 1 && op == "neg") {
      Maybe a = of(m.operand(o, 0), depth);
      return a ? times(*a, -1) : std::nullopt;
    }
    if (m[o].numOperands != 2) return std::nullopt;
    if (op != "add" && op != "sub" && op != "mul" && op != "min" && op != "max") return std::nullopt;
    Maybe a = of(m.operand(o, 0), depth), b = of(m.operand(o, 1), depth);
    if (!a || !b) return std::nullopt;
    if (op == "add") return sum(*a, *b);
    if (op == "sub") {
      Maybe minus = times(*b, -1);
      return minus ? sum(*a, *minus) : std::nullopt;
    }
    if (op == "mul")
      return b->isNumber() ? times(*a, b->lo) : a->isNumber() ? times(*b, a->lo) : std::nullopt;
    return op == "min" ? lesser(a, b) : greater(a, b);
  }

  // iota counts along a dim of its result, the others compute indices along a dim of their operand.
  Maybe position(OpId o, std::string_view op) {
    // in a local program: counts from the shard's offset
    if (op == "iota" && m[o].numOperands > 0) return std::nullopt;
    const Type& t = m.typeOf(op == "iota" ? m.result(o) : m.operand(o, 0));
    const AttrId dim = m.attr(o, "dim");
    const int64_t at = dim.valid() ? m.attrs[dim].i : 0;
    return positions(t, static_cast<size_t>(at < 0 ? at + static_cast<int64_t>(t.rank()) : at));
  }

  size_t taken(OpId o, int depth) {
    const OpId p = m.definingOp(m.operand(o, 0));
    if (!p.valid() || m[p].numOperands != 2) return 0;
    Maybe a = of(m.operand(p, 0), depth), b = of(m.operand(p, 1), depth);
    auto decided = a && b ? compared(m.record(p).name, *a, *b) : std::nullopt;
    return !decided ? 0 : *decided ? 1 : 2;
  }

  Maybe selected(OpId o, int depth) {
    if (const size_t which = taken(o, depth)) return of(m.operand(o, which), depth);
    Maybe x = of(m.operand(o, 1), depth), y = of(m.operand(o, 2), depth);
    if (!x || !y) return std::nullopt;
    return IndexRange{std::min(x->lo, y->lo), std::max(x->hi, y->hi), {}, 0, 0};
  }
};

void IndexRanges::addIndex(OpId loop) {
  const auto first = number(m_.operand(loop, 0)), end = number(m_.operand(loop, 1));
  const ValueId index = m_[m_.region(loop)].args[0];
  if (first && end && *first < *end) set(index, {*first, *end - 1, index, 1, 0});
}

std::optional<IndexRange> IndexRanges::operator()(ValueId v) const { return Query{*this, m_}.of(v, 0); }

size_t IndexRanges::taken(OpId select) const { return Query{*this, m_}.taken(select, 0); }

std::optional<int64_t> IndexRanges::number(ValueId v) const {
  auto r = (*this)(v);
  return r && r->isNumber() ? std::optional(r->lo) : std::nullopt;
}

} // namespace dtc
