#include "analysis/PartitionReshard.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Sharding/CommDType.h"
#include "dtc/Support/Result.h"

namespace dtc {

namespace {

// A local tensor during a step: strided dims are split at the step's boundaries. Slots become dims.
struct StepView {
  std::vector<Dim> shape;
  bool changed = false;
  size_t concat = 0, split = 0; // dims of `shape`
};

StepView viewOf(Module& m, TypeId type, const ReshardStep& step) {
  StepView view;
  const Type t = m.types[type];
  const bool exchange = step.kind == StepKind::AllToAll;
  for (size_t d = 0; d < t.rank(); ++d) {
    int64_t at = 1;
    Dim rest = t.dims[d];
    auto begin = [&] {
      const auto dim = static_cast<int>(d);
      const bool joins = (exchange || step.kind == StepKind::AllGather) && step.concat.dim == dim &&
                         step.concat.before == at;
      const bool splitsHere =
          step.kind != StepKind::AllGather && step.split.dim == dim && step.split.before == at;
      if (joins) view.concat = view.shape.size();
      // Slices a slot that also grows at its major end: that end is a dim of its own, of size 1.
      if (joins && splitsHere && exchange) view.shape.push_back(Dim(1)), view.changed = true;
      if (splitsHere) view.split = view.shape.size();
    };
    for (int64_t split : viewSplits(step, static_cast<int>(d))) {
      begin();
      const auto left = m.dims.divExact(rest, Dim(split / at));
      DTC_CHECK(left, "a strided sharding does not divide its dim");
      view.shape.push_back(Dim(split / at));
      view.changed = true;
      rest = *left;
      at = split;
    }
    begin();
    view.shape.push_back(rest);
  }
  return view;
}

} // namespace

const ReshardPlan& ReshardPlans::plan(TypeId global, ShardingId from, ShardingId to) {
  auto [entry, isNew] = plans_.try_emplace({global, from, to});
  if (!isNew) return entry->second;
  const Type& type = m_.types[global];
  const Sharding &a = m_.shardings[from], &b = m_.shardings[to];
  entry->second = planReshard(a, b, m_.shardings.mesh(a.mesh), plannedSizes(type.dims, m_.dims), type.dtype);
  return entry->second;
}

ValueId ReshardEmitter::emit(ValueId v, TypeId global, ShardingId from, ShardingId to) {
  for (const ReshardStep& s : plans_.plan(global, from, to).steps) v = step(v, global, s);
  return v;
}

ValueId ReshardEmitter::step(ValueId v, TypeId global, const ReshardStep& s) {
  const TypeId result = localTypeOf(m_, global, s.result);
  if (m_.shardings.mesh(s.result.mesh).sizeOf(s.axes) == 1) return v; // a single device
  if (s.kind == StepKind::MakePending) return makePending(v, s.axes, s.op);
  if (s.kind == StepKind::Permute) return permute(v, result, s);
  if (s.kind == StepKind::AllReduce)
    return ops::all_reduce(Expr(b_, v),
                           {.axes = s.axes, .op = pendingName(s.op), .wire = commDTypeAttr(v, s.op)});
  return collective(v, result, s);
}

ValueId ReshardEmitter::collective(ValueId v, TypeId result, const ReshardStep& s) {
  const StepView view = viewOf(m_, m_[v].type, s);
  Expr x(b_, v);
  if (view.changed) x = ops::reshape(x, view.shape);
  Expr y;
  if (s.kind == StepKind::AllToAll)
    y = ops::all_to_all(x, {.axes = s.axes, .split_dim = view.split, .concat_dim = view.concat});
  else if (s.kind == StepKind::ReduceScatter)
    y = ops::reduce_scatter(
        x, {.axes = s.axes, .dim = view.split, .op = pendingName(s.op), .wire = commDTypeAttr(v, s.op)});
  else
    y = s.kind == StepKind::AllGather ? ops::all_gather(x, {.axes = s.axes, .dim = view.concat})
                                      : ops::all_slice(x, {.axes = s.axes, .dim = view.split});
  if (view.changed) return ops::reshape(y, m_.types[result].dims);
  m_[y].type = result; // the same sizes, along the plan's axes
  return y;
}

AttrId ReshardEmitter::commDTypeAttr(ValueId v, PendingKind op) {
  const DType d = partType(m_.typeOf(v).dtype);
  const auto commDType = plans_.reduceDType;
  if (!commDType || *commDType == defaultCommDType(op, d) || !isFloat(d)) return {};
  return op == PendingKind::Sum || op == PendingKind::Avg ? b_.word(dtypeName(*commDType)) : AttrId();
}

// Uneven shards are sent padded to the size of the largest.
ValueId ReshardEmitter::permute(ValueId v, TypeId result, const ReshardStep& s) {
  const Type to = m_.types[result];
  auto isSharded = [&](Dim d) { return !d.isStatic() && !m_.dims.dynamic(d).axes.empty(); };
  for (size_t d = 0; d < to.rank(); ++d)
    if (isSharded(m_.typeOf(v).dims[d])) v = ops::fill_piece(Expr(b_, v), {.dim = d});
  std::vector<AttrId> pairs;
  for (auto [from, target] : s.pairs) pairs.push_back(b_.ints(std::array{from, target}));
  v = ops::permute(Expr(b_, v), {.axes = s.axes, .pairs = m_.attrs.list(std::move(pairs))});
  for (size_t d = 0; d < to.rank(); ++d) {
    if (!isSharded(to.dims[d])) continue;
    const std::vector<AxisRef> axes = m_.dims.dynamic(to.dims[d]).axes;
    v = ops::trim_piece(Expr(b_, v), {.dim = d, .size = m_.dims.unsharded(to.dims[d]), .axes = axes});
  }
  return v;
}

// True for a constant that is neutral, however often it is added (or multiplied in).
static bool isNeutral(const Module& m, ValueId v, PendingKind kind) {
  const Attr* a = splatOf(m, v);
  const double neutral = kind == PendingKind::Sum ? 0 : 1;
  return a && ((a->kind == Attr::Float && a->f == neutral) ||
               (a->kind == Attr::Int && static_cast<double>(a->i) == neutral));
}

// sharding.md: kept on index 0 of the axes, and the op's neutral element elsewhere; -0.0 for sum, because
// +0.0 would turn -0.0 into +0.0. For max, min, any, all and avg, a replicated value is pending as it is.
ValueId ReshardEmitter::makePending(ValueId v, std::span<const AxisRef> axes, PendingKind op) {
  if ((op != PendingKind::Sum && op != PendingKind::Prod) || isNeutral(m_, v, op)) return v;
  const DType dtype = m_.typeOf(v).dtype;
  const double neutral = op == PendingKind::Prod ? 1.0 : isFloat(partType(dtype)) ? -0.0 : 0.0;
  return ops::select(Expr(b_, isFirst(axes)), v, neutral);
}

ValueId ReshardEmitter::isFirst(std::span<const AxisRef> axes) {
  for (const auto& [known, value] : isFirst_)
    if (std::equal(known.begin(), known.end(), axes.begin(), axes.end())) return value;
  const ValueId first = ops::eq(ops::axis_index(b_, axes), 0);
  isFirst_.push_back({{axes.begin(), axes.end()}, first});
  return first;
}

} // namespace dtc
