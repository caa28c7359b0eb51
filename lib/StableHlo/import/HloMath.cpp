// CHLO: ops that StableHLO leaves to producers to decompose, and XLA's own functions called by custom_call.
#include "dtc/Ops/record/Ops.h"
#include "dtc/Ops/record/Scalar.h"
#include "import/HloTable.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace dtc {

namespace {

// Named differently from its counterpart in HloElementwise.cpp: clang 19 gives both objects one symbol.
template <size_t N> struct FunctionName {
  char text[N];
  constexpr FunctionName(const char (&t)[N]) { std::copy_n(t, N, text); }
};

template <FunctionName name> bool unary(HloContext& c) {
  return c.expectOperands(1) && c.setResult(c.emit(OpName(name.text), {c.operand(0)}));
}
template <FunctionName name> bool binary(HloContext& c) {
  return c.expectOperands(2) && c.setResult(c.emit(OpName(name.text), {c.operand(0), c.operand(1)}));
}

template <bool negative> bool isInfinityOfSign(HloContext& c) {
  if (!c.expectOperands(1)) return false;
  const double infinity = std::numeric_limits<double>::infinity();
  ValueId x = c.operand(0);
  return c.setResult(c.emit("eq", {x, c.literal(negative ? -infinity : infinity, c.dtypeOf(x))}));
}

bool constantLike(HloContext& c) {
  auto value = c.real("value");
  const ValueId x = c.operand(0);
  return value && x.valid() && c.setResult(c.splat(*value, c.dtypeOf(x), c.shapeOf(x)));
}

// --- broadcasting forms: the op itself, which broadcasts in dtc ---

// Operands of lower rank are aligned at the last dim, as in NumPy, unless broadcast_dimensions differs.
bool alignsAtEnd(HloContext& c) {
  if (!c.has("broadcast_dimensions")) return true;
  auto dims = c.ints("broadcast_dimensions");
  if (!dims) return false;
  size_t rank = 0;
  for (size_t i = 0; i < c.numOperands(); ++i) rank = std::max(rank, c.rankOf(c.operand(i)));
  for (size_t i = 0; i < dims->size(); ++i)
    if ((*dims)[i] != static_cast<int64_t>(rank + i) - static_cast<int64_t>(dims->size()))
      return c.failAttr("broadcast_dimensions", "aligns dims other than at the last one: insert a "
                                                "stablehlo.broadcast_in_dim before it");
  return true;
}

bool broadcasting(HloContext& c) { return alignsAtEnd(c) && hloBroadcastRow(c.op.name)->run(c); }

// --- functions of one element that are one op of StableHLO or CHLO ---

std::string_view withoutPrefix(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

bool pointwiseFunction(HloContext& c) {
  const MlirAttr* target = c.attr("call_target_name");
  std::string_view op = target ? target->text : c.op.name;
  op = withoutPrefix(op.substr(op.find('.') + 1), "broadcast_");
  for (const Intrinsic& f : intrinsics()) {
    if (!f.stableHlo || withoutPrefix(f.stableHlo, "chlo.") != op) continue;
    if (!c.expectOperands(f.arity)) return false;
    std::vector<ValueId> operands;
    for (size_t i = 0; i < f.arity; ++i) operands.push_back(c.operand(i));
    return c.setResult(c.emit(OpName(standardOps()[standardOps().find(f.name, f.arity)]), operands));
  }
  return false;
}

// LAPACK routines without a dtc op.
bool lapack(HloContext& c) {
  return c.fail("calls a LAPACK routine that dtc has no op for: compute it outside of the program and pass "
                "the result as "
                "an argument");
}

const HloRow kMathRows[] = {
    {"chlo.broadcast_", broadcasting},
    {"chlo.constant_like", constantLike, 1},
    {"chlo.is_inf", unary<"is_inf">},
    {"chlo.is_neg_inf", isInfinityOfSign<true>},
    {"chlo.is_pos_inf", isInfinityOfSign<false>},
    {"chlo.next_after", binary<"next_after">},
    {"chlo.square", unary<"square">},
    {"chlo.tan", pointwiseFunction},
    {"custom_call @lapack_?geev_ffi", lapack},
};

} // namespace

std::span<const HloRow> hloMathRows() { return kMathRows; }

std::span<const HloRow> hloFunctionRows() {
  static std::deque<std::string> names;
  static const std::vector<HloRow> rows = [] {
    std::vector<HloRow> all;
    for (const Intrinsic& f : intrinsics()) {
      if (!f.stableHlo || standardOps().find(f.name, f.arity) == kNoOpKind) continue;
      if (f.result == Intrinsic::Bool) continue; // its column is a direction of stablehlo.compare
      const std::string op(withoutPrefix(f.stableHlo, "chlo."));
      all.push_back(
          {names.emplace_back((op == f.stableHlo ? "stablehlo." : "chlo.") + op).c_str(), pointwiseFunction});
    }
    return all;
  }();
  return rows;
}

} // namespace dtc
