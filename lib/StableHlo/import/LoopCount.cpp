#include "import/LoopCount.h"
#include "dtc/IR/OpRecord.h"

#include <algorithm>

namespace dtc {

namespace {

using Wide = __int128;

// The number of leading values of `start, start + step, …` that satisfy `op limit`; nothing where the
// sequence wraps around first.
std::optional<int64_t> iterationsOf(std::string_view op, Wide start, Wide step, Wide limit, DType dtype) {
  if (step == 0) return std::nullopt;
  Wide iterations = 0;
  if (op == "ne") {
    if ((limit - start) % step != 0 || (limit - start) / step < 0) return std::nullopt;
    iterations = (limit - start) / step;
  } else {
    const bool up = op == "lt" || op == "le";
    // the first value that ends the loop
    const Wide end = op == "le" ? limit + 1 : op == "ge" ? limit - 1 : limit;
    const Wide distance = up ? end - start : start - end, by = up ? step : -step;
    if (distance > 0) {
      if (by < 0) return std::nullopt;
      iterations = (distance + by - 1) / by;
    }
  }
  const IndexRange all = rangeOf(dtype);
  const Wide last = start + iterations * step;
  if (last < all.lo || last > all.hi || iterations > INT32_MAX) return std::nullopt;
  return static_cast<int64_t>(iterations);
}

std::string_view swapped(std::string_view op) {
  return op == "lt" ? "gt" : op == "le" ? "ge" : op == "gt" ? "lt" : op == "ge" ? "le" : op;
}

class Condition {
public:
  Condition(const Module& m, const IndexRanges& ranges, OpId loop)
      : m_(m), ranges_(ranges), loop_(loop), test_(m.region(loop, 0)), body_(m.region(loop, 1)) {}

  std::optional<LoopCount> count() const {
    for (OpId o : m_[test_].ops)
      if (m_.record(o).sideEffect || m_.record(o).isCollective() || m_.record(o).isCall ||
          m_[o].numRegions > 0)
        return std::nullopt;
    std::vector<ValueId> parts = {m_[test_].yields[0]};
    std::optional<LoopCount> best;
    bool conjunction = false;
    for (size_t i = 0; i < parts.size() && parts.size() < 64; ++i) {
      const OpId o = m_.definingOp(parts[i]);
      if (!o.valid()) continue;
      if (m_.record(o).name == std::string_view("and")) {
        parts.push_back(m_.operand(o, 0));
        parts.push_back(m_.operand(o, 1));
        conjunction = true;
        continue;
      }
      if (const ValueId same = isNotFalse(o); same.valid()) {
        parts.push_back(same);
        continue;
      }
      auto found = compared(o);
      if (found &&
          (!best || (found->iterations && (!best->iterations || *found->iterations < *best->iterations))))
        best = found;
    }
    if (!best || !conjunction) return best;
    best->onlyBound = true;
    return best->iterations ? best : std::nullopt;
  }

private:
  // Simplifies `p != false`, which JAX emits for Python's `&`, to p.
  [[nodiscard]] ValueId isNotFalse(OpId o) const {
    if (m_.record(o).name != std::string_view("ne") || !isBool(m_.typeOf(m_.operand(o, 0)).dtype)) return {};
    for (size_t side : {0, 1}) {
      OpId c = m_.definingOp(m_.operand(o, side));
      while (c.valid() && m_.record(c).name == std::string_view("broadcast"))
        c = m_.definingOp(m_.operand(c, 0));
      const Attr* value = c.valid() ? splatOf(m_, m_.result(c)) : nullptr;
      if (value && value->kind == Attr::Bool && value->i == 0) return m_.operand(o, 1 - side);
    }
    return {};
  }

  [[nodiscard]] std::optional<size_t> carriedIn(BlockId b, ValueId v) const {
    const std::vector<ValueId>& args = m_[b].args;
    auto at = std::find(args.begin(), args.end(), v);
    return at == args.end() ? std::nullopt : std::optional(static_cast<size_t>(at - args.begin()));
  }

  // A loop-invariant value of the condition: defined outside the loop, or carried unchanged.
  [[nodiscard]] ValueId unchanged(ValueId v) const {
    if (auto k = carriedIn(test_, v))
      return m_[body_].yields[*k] == m_[body_].args[*k] ? m_.operand(loop_, *k) : ValueId();
    const OpId o = m_.definingOp(v);
    return o.valid() && m_[o].parent == test_ ? ValueId() : v;
  }

  [[nodiscard]] std::optional<LoopCount> compared(OpId o) const {
    std::string_view op = m_.record(o).name;
    if (op != "lt" && op != "le" && op != "gt" && op != "ge" && op != "ne") return std::nullopt;
    for (size_t side : {0, 1})
      if (auto k = carriedIn(test_, m_.operand(o, side)))
        if (auto found = counted(*k, side ? swapped(op) : op, m_.operand(o, 1 - side))) return found;
    return std::nullopt;
  }

  [[nodiscard]] std::optional<LoopCount> counted(size_t k, std::string_view op, ValueId against) const {
    auto step = stepOf(m_, ranges_, loop_, k);
    if (!step) return std::nullopt;
    const DType dtype = m_.typeOf(m_[body_].args[k]).dtype;
    const ValueId outside = unchanged(against);
    auto start = ranges_.number(m_.operand(loop_, k)),
         limit = ranges_.number(outside.valid() ? outside : against);
    if (start && limit) {
      auto iterations = iterationsOf(op, *start, *step, *limit, dtype);
      return iterations ? std::optional(LoopCount{k, iterations, {}, false}) : std::nullopt;
    }
    if (!outside.valid() || *step != 1 || op != "lt" || dtype != DType::I32) return std::nullopt;
    return LoopCount{k, std::nullopt, outside, false};
  }

  const Module& m_;
  const IndexRanges& ranges_;
  OpId loop_;
  BlockId test_, body_;
};

} // namespace

std::optional<int64_t> stepOf(const Module& m, const IndexRanges& ranges, OpId loop, size_t k) {
  const BlockId body = m.region(loop, 1);
  const ValueId arg = m[body].args[k];
  const Type& type = m.typeOf(arg);
  const OpId o = m.definingOp(m[body].yields[k]);
  if (!isInteger(type.dtype) || !type.dims.empty() || !o.valid() || m[o].numOperands != 2)
    return std::nullopt;
  const std::string_view op = m.record(o).name;
  if (op != "add" && op != "sub") return std::nullopt;
  for (size_t side : {0, 1}) {
    if (m.operand(o, side) != arg || (side == 1 && op == "sub")) continue;
    auto by = ranges.number(m.operand(o, 1 - side));
    if (by && *by > INT64_MIN) return op == "sub" ? -*by : *by;
  }
  return std::nullopt;
}

std::optional<LoopCount> countOf(const Module& m, const IndexRanges& ranges, OpId loop) {
  if (m[m.region(loop, 0)].yields.size() != 1) return std::nullopt;
  return Condition(m, ranges, loop).count();
}

} // namespace dtc
