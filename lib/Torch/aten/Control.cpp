// Higher-order ops: graphs as arguments.
#include "aten/Aten.h"
#include "aten/Table.h"
#include "dtc/Ops/Loop.h"

#include <algorithm>

namespace dtc {
namespace aten::control {
namespace {

std::vector<ValueId> idsOf(const std::vector<Expr>& list) { return {list.begin(), list.end()}; }

// Values for the graph's inputs. Numbers among the operands are tensors.
std::vector<ValueId> operandsAt(ImportContext& c, int position) {
  const ImportAttribute* a = c.attribute(position);
  if (!a) return {};
  if (const auto* ints = std::get_if<std::vector<ImportInt>>(a)) {
    std::vector<ValueId> out;
    for (const ImportInt& i : *ints) out.push_back(materialized(c.integerOperand(i, DType::I64)));
    return out;
  }
  std::vector<Expr> out;
  for (const Expr& x : c.tensors(position)) out.push_back(x);
  return idsOf(out);
}

std::vector<ValueId> joined(std::span<const ValueId> a, std::span<const ValueId> b) {
  std::vector<ValueId> out(a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

// cond(predicate, graph, graph, operands)
ImportResults cond(ImportContext& c) {
  const Expr p = tensorOf(in(c, 0, DType::Bool));
  const std::vector<ValueId> operands = operandsAt(c, 3);
  const ImportGraphRef yes = c.graph(1), no = c.graph(2);
  const auto branch = [&](ImportGraphRef g) {
    return [&, g](Builder& in) { return c.scope.inlined(g, operands, in); };
  };
  return ops::condition(c.b, reshapeTo(p, {}), branch(yes), branch(no));
}

// while_loop(condition, body, carried, additional)
ImportResults whileLoop(ImportContext& c) {
  const ImportGraphRef goesOn = c.graph(0), body = c.graph(1);
  const std::vector<ValueId> starts = operandsAt(c, 2), more = operandsAt(c, 3);
  return ops::whileLoop(
      c.b, ops::Values(starts),
      [&](Builder& in, std::span<const ValueId> carried) {
        const std::vector<ValueId> p = c.scope.inlined(goesOn, joined(carried, more), in);
        if (p.size() != 1) c.fail("has a condition with " + std::to_string(p.size()) + " results");
        return std::vector<ValueId>{reshapeTo(Expr(in, p[0]), {})};
      },
      [&](Builder& in, std::span<const ValueId> carried) {
        return c.scope.inlined(body, joined(carried, more), in);
      });
}

// Element i of each tensor along dim 0.
std::vector<ValueId> elementsAt(Builder& in, Expr i, std::span<const ValueId> xs) {
  std::vector<ValueId> out;
  for (ValueId v : xs) {
    const Expr x(in, v);
    Dims sizes = x.dims();
    sizes.at(0) = 1;
    std::vector<ops::Arg> starts{i};
    for (size_t d = 1; d < x.rank(); ++d) starts.emplace_back(int64_t(0));
    out.push_back(withoutDim(ops::dynamic_slice(x, starts, sizes), 0));
  }
  return out;
}

int64_t lengthOf(ImportContext& c, const std::vector<ValueId>& xs) {
  if (xs.empty()) c.fail("loops over no tensors");
  return staticDims(c.b, {c.bound(xs[0]).dims().at(0)})[0];
}

// scan(combine, init, xs, additional): results are the last carried values, then stacks along dim 0
ImportResults scan(ImportContext& c) {
  const ImportGraphRef combine = c.graph(0);
  const std::vector<ValueId> starts = operandsAt(c, 1), xs = operandsAt(c, 2), more = operandsAt(c, 3);
  const bool reverse = c.flag(4, false);
  const int64_t n = lengthOf(c, xs);
  std::vector<Expr> out = ops::forLoop(
      c.b, int64_t(0), n, ops::Values(starts), [&](Builder& in, Expr i, std::span<const ValueId> carried) {
        const Expr at = reverse ? n - 1 - i : i;
        return c.scope.inlined(combine, joined(joined(carried, elementsAt(in, at, xs)), more), in);
      });
  if (reverse)
    for (size_t k = starts.size(); k < out.size(); ++k) out[k] = ops::flip(out[k], std::vector<int64_t>{0});
  return out;
}

// associative_scan(combine, xs, additional): y[0] = x[0], y[i] = combine(y[i - 1], x[i]) along dim 0
ImportResults associativeScan(ImportContext& c) {
  const ImportGraphRef combine = c.graph(0);
  const std::vector<ValueId> xs = operandsAt(c, 1), more = operandsAt(c, 2);
  const int64_t n = lengthOf(c, xs);
  std::vector<Expr> heads;
  for (ValueId x : xs) heads.push_back(sliceOf(c.bound(x), 0, 0, std::min<int64_t>(n, 1)));
  if (n < 2) return heads;
  std::vector<ValueId> starts;
  for (const Expr& head : heads) starts.push_back(withoutDim(head, 0));
  std::vector<Expr> out = ops::forLoop(
      c.b, int64_t(1), n, ops::Values(starts), [&](Builder& in, Expr i, std::span<const ValueId> carried) {
        const std::vector<ValueId> x = elementsAt(in, i, xs);
        const std::vector<ValueId> y = c.scope.inlined(combine, joined(joined(carried, x), more), in);
        return joined(y, y);
      });
  std::vector<Expr> results;
  for (size_t k = 0; k < xs.size(); ++k) {
    const std::vector<ValueId> parts{heads[k], out.at(xs.size() + k)};
    results.push_back(ops::concat(c.b, ops::Values(parts), 0));
  }
  return results;
}

// map_impl(f, xs, operands)
ImportResults map(ImportContext& c) {
  const ImportGraphRef f = c.graph(0);
  const std::vector<ValueId> xs = operandsAt(c, 1), more = operandsAt(c, 2);
  const int64_t n = lengthOf(c, xs);
  return ops::forLoop(c.b, int64_t(0), n, ops::Values(std::vector<ValueId>{}),
                      [&](Builder& in, Expr i, std::span<const ValueId>) {
                        return c.scope.inlined(f, joined(elementsAt(in, i, xs), more), in);
                      });
}

// wrap_with_set_grad_enabled(flag, graph, operands...) and other hints: the graph itself
ImportResults wrapped(ImportContext& c) {
  std::vector<ValueId> operands;
  std::optional<ImportGraphRef> graph;
  for (const ImportArgument& a : c.node.arguments) {
    if (const auto* g = std::get_if<ImportGraphRef>(&a.value)) {
      graph = *g;
    } else if (graph) {
      if (const auto* ref = std::get_if<ImportValueRef>(&a.value); ref && ref->valid())
        operands.push_back(c.scope.value(*ref));
      if (const auto* list = std::get_if<std::vector<ImportValueRef>>(&a.value))
        for (ImportValueRef r : *list) operands.push_back(c.scope.value(r));
    }
  }
  if (!graph) c.fail("has no graph");
  for (ValueId v : operands)
    if (!v.valid()) throw ImportError{};
  std::vector<Expr> out;
  for (ValueId v : c.scope.inlined(*graph, operands, c.b)) out.push_back(c.bound(v));
  return out;
}

// The stacks have as many elements as the loop has iterations.
ImportResults stackedWhileLoop(ImportContext& c) {
  c.fail("has results whose sizes depend on data: use scan, or while_loop with a tensor that is written to");
}

// with_effects(token, op, …): the results of an op, behind the token that orders it. dtc's checks have no order.
ImportResults withEffects(ImportContext& c) {
  const std::string op = c.text(1, "");
  if (op.find("_linalg_check_errors") == op.npos && op.find("_assert_async") == op.npos)
    c.fail("has the effect '" + op + "'");
  const auto* token = std::get_if<ImportValueRef>(c.attribute(0));
  return token && c.scope.value(*token).valid() ? ImportResults(c.tensor(0)) : ImportResults();
}

// Python's operators on numbers that the program computes (Tensor.item()): scalars.
DType numberType(ImportContext& c, ArgumentKey key) {
  if (c.is<double>(key)) return DType::F64;
  const ImportAttribute* a = c.attribute(key);
  const auto* i = a ? std::get_if<ImportInt>(a) : nullptr;
  if (i && i->value.valid() && c.scope.value(i->value).valid())
    return c.bound(c.scope.value(i->value)).dtype();
  return c.isTensor(key) ? c.tensor(key).dtype() : DType::I64;
}

template <Expr (*f)(Expr, ops::Arg)> ImportResults ofNumbers(ImportContext& c) {
  const DType d = promoted(numberType(c, "a"), numberType(c, "b"));
  const Expr a = in(c, "a", d), b = in(c, "b", d);
  return f(tensorOf(a), b);
}

ImportResults quotient(ImportContext& c) {
  const Expr a = in(c, "a", DType::F64), b = in(c, "b", DType::F64);
  return tensorOf(a) / b;
}

ImportResults asFloat(ImportContext& c) { return tensorOf(in(c, "a", DType::F64)); }

const ImportRow kRows[] = {
    {"_operator.truediv", quotient},
    {"torch.sym_float", asFloat},
    {"torch.sym_max", ofNumbers<ops::max>},
    {"torch.sym_min", ofNumbers<ops::min>},
    {"_operator.add", ofNumbers<ops::add>},
    {"_operator.sub", ofNumbers<ops::sub>},
    {"_operator.mul", ofNumbers<ops::mul>},
    {"_operator.floordiv", ofNumbers<ops::floor_div>},
    {"_operator.mod", ofNumbers<ops::mod>},
    {"_operator.eq", ofNumbers<ops::eq>},
    {"_operator.ne", ofNumbers<ops::ne>},
    {"_operator.lt", ofNumbers<ops::lt>},
    {"_operator.le", ofNumbers<ops::le>},
    {"_operator.gt", ofNumbers<ops::gt>},
    {"_operator.ge", ofNumbers<ops::ge>},
    {"higher_order.with_effects", withEffects},
    {"higher_order.cond", cond},
    {"higher_order.while_loop", whileLoop},
    {"higher_order.scan", scan},
    {"higher_order.associative_scan", associativeScan},
    {"higher_order.map_impl", map},
    {"higher_order.wrap_with_set_grad_enabled", wrapped},
    {"higher_order.wrap_with_autocast", wrapped},
    {"higher_order.invoke_subgraph", wrapped},
    {"higher_order.invoke_quant", wrapped},
    {"higher_order.invoke_quant_packed", wrapped},
    {"higher_order.flex_gemm", wrapped},
    {"higher_order.while_loop_stack_output", stackedWhileLoop},
};

} // namespace
} // namespace aten::control

ImportRows torchControlRows() { return aten::control::kRows; }

} // namespace dtc
