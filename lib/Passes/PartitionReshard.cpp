#include "PartitionReshard.h"
#include "dtc/Sharding/Wire.h"
#include "dtc/Support/Result.h"

namespace dtc {

namespace {

AttrId listAttr(Module& m, std::vector<AttrId> elements) {
  Attr a;
  a.kind = Attr::List;
  a.list = std::move(elements);
  return m.attrs.intern(std::move(a));
}

// A local tensor as a step sees it: strided dims split at the step's cuts. Slots become dims.
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
      const bool cuts = step.kind != StepKind::AllGather && step.split.dim == dim && step.split.before == at;
      if (joins) view.concat = view.shape.size();
      // Cutting a slot that grows at its major end at the same time: that end is a dim of its own, of size 1.
      if (joins && cuts && exchange) view.shape.push_back(Dim(1)), view.changed = true;
      if (cuts) view.split = view.shape.size();
    };
    for (int64_t cut : viewCuts(step, static_cast<int>(d))) {
      begin();
      const auto left = m.dims.divExact(rest, Dim(cut / at));
      DTC_CHECK(left, "a strided sharding does not divide its dim");
      view.shape.push_back(Dim(cut / at));
      view.changed = true;
      rest = *left;
      at = cut;
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
  if (m_.shardings.mesh(s.result.mesh).sizeOf(s.axes) == 1) return v; // nobody to talk to
  if (s.kind == StepKind::MakePending) return makePending(v, s.axes, s.op);
  if (s.kind == StepKind::Permute) return permute(v, result, s);
  if (s.kind == StepKind::AllReduce) {
    const AttrId op = m_.attrs.string(m_.strings.intern(pendingName(s.op)));
    return m_.result(b_.op("all_reduce", std::array{v},
                           {{"axes", axesAttr(m_, s.axes)}, {"op", op}, {"wire", wireAttr(v, s.op)}}));
  }
  return collective(v, result, s);
}

ValueId ReshardEmitter::collective(ValueId v, TypeId result, const ReshardStep& s) {
  const StepView view = viewOf(m_, m_[v].type, s);
  if (view.changed) v = b_.value("reshape", {v}, {{"shape", sizesAttr(m_, view.shape)}});
  const std::array written = {result};
  const std::span<const TypeId> types = view.changed ? std::span<const TypeId>() : written;
  const AttrId axes = axesAttr(m_, s.axes);
  auto dim = [&](size_t d) { return b_.integer(static_cast<int64_t>(d)); };
  OpId o;
  if (s.kind == StepKind::AllToAll)
    o = b_.op("all_to_all", std::array{v},
              {{"axes", axes}, {"split_dim", dim(view.split)}, {"concat_dim", dim(view.concat)}}, types);
  else if (s.kind == StepKind::ReduceScatter)
    o = b_.op("reduce_scatter", std::array{v},
              {{"axes", axes},
               {"dim", dim(view.split)},
               {"op", m_.attrs.string(m_.strings.intern(pendingName(s.op)))},
               {"wire", wireAttr(v, s.op)}},
              types);
  else
    o = b_.op(stepName(s.kind), std::array{v},
              {{"axes", axes}, {"dim", dim(s.kind == StepKind::AllGather ? view.concat : view.split)}},
              types);
  v = m_.result(o);
  if (view.changed) v = b_.value("reshape", {v}, {{"shape", sizesAttr(m_, m_.types[result].dims)}});
  return v;
}

AttrId ReshardEmitter::wireAttr(ValueId v, PendingKind op) {
  const DType d = partType(m_.typeOf(v).dtype);
  const auto wire = plans_.reduceDType;
  if (!wire || *wire == wireDType(op, d) || !isFloat(d)) return {};
  return op == PendingKind::Sum || op == PendingKind::Avg ? b_.word(dtypeName(*wire)) : AttrId();
}

// Uneven pieces travel filled to the size of the largest.
ValueId ReshardEmitter::permute(ValueId v, TypeId result, const ReshardStep& s) {
  const Type to = m_.types[result];
  auto isCut = [&](Dim d) { return !d.isStatic() && !m_.dims.dynamic(d).cut.empty(); };
  for (size_t d = 0; d < to.rank(); ++d)
    if (isCut(m_.typeOf(v).dims[d]))
      v = b_.value("fill_piece", {v}, {{"dim", b_.integer(static_cast<int64_t>(d))}});
  std::vector<AttrId> pairs;
  for (auto [from, target] : s.pairs) pairs.push_back(b_.ints(std::array{from, target}));
  v = b_.value("permute", {v}, {{"axes", axesAttr(m_, s.axes)}, {"pairs", listAttr(m_, std::move(pairs))}});
  for (size_t d = 0; d < to.rank(); ++d) {
    if (!isCut(to.dims[d])) continue;
    const std::vector<AxisRef> cut = m_.dims.dynamic(to.dims[d]).cut;
    v = b_.value("trim_piece", {v},
                 {{"dim", b_.integer(static_cast<int64_t>(d))},
                  {"size", sizeAttr(m_, m_.dims.uncut(to.dims[d]))},
                  {"axes", axesAttr(m_, cut)}});
  }
  return v;
}

// Is it a constant that changes nothing, however often it is added (multiplied in)?
static bool isNeutral(const Module& m, ValueId v, PendingKind kind) {
  const OpId made = m.definingOp(v);
  if (!made.valid() || m[made].kind != m.registry->find("constant")) return false;
  const Attr& a = m.attrs[m.attr(made, "value")];
  const double neutral = kind == PendingKind::Sum ? 0 : 1;
  return (a.kind == Attr::Float && a.f == neutral) ||
         (a.kind == Attr::Int && static_cast<double>(a.i) == neutral);
}

// sharding.md §2: kept on index 0 of the axes and the op's neutral element elsewhere; -0.0 for sum, because +0.0 would turn
// -0.0 into +0.0. For max, min, any, all and avg equal values are pending as they are.
ValueId ReshardEmitter::makePending(ValueId v, std::span<const AxisRef> axes, PendingKind op) {
  if ((op != PendingKind::Sum && op != PendingKind::Prod) || isNeutral(m_, v, op)) return v;
  const DType dtype = m_.typeOf(v).dtype;
  const ValueId neutral = b_.literal(op == PendingKind::Prod    ? 1.0
                                     : isFloat(partType(dtype)) ? -0.0
                                                                : 0.0,
                                     dtype);
  return b_.value("select", {isFirst(axes), v, neutral});
}

ValueId ReshardEmitter::isFirst(std::span<const AxisRef> axes) {
  for (const auto& [known, value] : isFirst_)
    if (std::equal(known.begin(), known.end(), axes.begin(), axes.end())) return value;
  const ValueId index = m_.result(b_.op("axis_index", {}, {{"axes", axesAttr(m_, axes)}}));
  const ValueId first = b_.value("eq", {index, b_.literal(0, DType::I32)});
  isFirst_.push_back({{axes.begin(), axes.end()}, first});
  return first;
}

} // namespace dtc
