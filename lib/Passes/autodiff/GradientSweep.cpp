#include "autodiff/GradientSweep.h"
#include "analysis/Within.h"
#include "autodiff/OpGradient.h"
#include "autodiff/RegionGradient.h"
#include "dtc/Ops/OpFunctions.h"
#include <algorithm>
#include <unordered_set>

namespace dtc {

void Differentiation::name(ValueId v, std::string wanted) {
  if (m[v].name.valid() || m[v].kind == ValueKind::Literal || m[v].kind == ValueKind::Symbol) return;
  if (names.emplace(wanted, true).second) m[v].name = m.strings.intern(wanted);
}

static BlockId blockOf(const Module& m, ValueId v) {
  OpId made = m.definingOp(v);
  return made.valid() ? m[made].parent : BlockId(m[v].owner);
}

bool GradientSweep::owns(ValueId v) const { return scope_ == Scope::Whole || blockOf(m, v) == forward; }

ValueId GradientSweep::visible(ValueId v) {
  if (auto it = cotangents_.find(v); it != cotangents_.end()) return it->second;
  if (owns(v)) return {};
  if (scope_ == Scope::Branch) return outer->visible(v);
  ValueId sum = m.makeBlockArg(b.parent, m[v].type);
  touched_.push_back(v);
  cotangents_.emplace(v, sum);
  return sum;
}

ValueId GradientSweep::visibleOrZero(ValueId v) {
  ValueId d = visible(v);
  return d.valid() ? d : zeros(v);
}

void GradientSweep::accumulate(ValueId v, ValueId cotangent, size_t fresh, AxisSet from) {
  if (!onPath(v)) return;
  if (shared.local) cotangent = shared.local->brought(b, v, cotangent, from);
  const ValueId sum = visible(v);
  if (sum.valid() && !scattersInto(sum, cotangent, fresh)) cotangent = Expr(b, sum) + cotangent;
  set(v, cotangent);
}

void GradientSweep::set(ValueId v, ValueId cotangent) {
  const bool isNew = cotangents_.insert_or_assign(v, cotangent).second;
  if (isNew && scope_ == Scope::Branch && !owns(v)) touched_.push_back(v);
}

// A cotangent that was scattered into zeros is scattered into the sum instead: rows of a large table then
// cost their own size, also in each iteration of a loop.
bool GradientSweep::scattersInto(ValueId sum, ValueId cotangent, size_t fresh) {
  const OpId made = m.definingOp(cotangent), sumMade = m.definingOp(sum);
  if (!made.valid() || made.index < fresh || m.record(made).name != std::string_view("scatter")) return false;
  if (sumMade.valid() && sumMade.index >= fresh) return false; // it is after the scatter
  const StrId stage =
      m.strings.find("stage"); // a sum of another stage would have to be sent to this one first
  if (stage.valid() && sumMade.valid() && findAttr(m[sumMade].attrs, stage) != findAttr(m[made].attrs, stage))
    return false;
  const OpId base = m.definingOp(m.operand(made, 0));
  if (!base.valid() || base.index < fresh || !m.record(base).isConstant) return false;
  m.operands(made)[0] = sum;
  return true;
}

bool GradientSweep::run(std::vector<OpId>& ops) {
  std::vector<OpId> backwards;
  for (size_t i = ops.size(); i-- > 0;) {
    before.clear();
    if (!step(ops[i])) return false;
    backwards.push_back(ops[i]);
    backwards.insert(backwards.end(), before.rbegin(), before.rend());
  }
  ops.assign(backwards.rbegin(), backwards.rend());
  return true;
}

bool GradientSweep::step(OpId& o) {
  bool any = false;
  std::vector<ValueId> results;
  for (uint32_t r = 0; r < m[o].numResults; ++r) {
    ValueId v = m.result(o, r);
    results.push_back(onPath(v) ? visible(v) : ValueId());
    any = any || results.back().valid();
  }
  if (!any) return true;
  b.loc = m[o].loc;
  b.common = gradientAttrs(m, o, shared.taker);
  nameCotangents(o, results);
  if (m.record(o).regions != RegionKind::None) {
    const size_t first = out.size();
    const bool done = regionGradient(*this, o, results);
    for (size_t i = first; i < out.size(); ++i)
      addPlace(out[i]); // loops are made without the builder's attributes
    return done;
  }
  if (isIterationSlice(o)) {
    addSlice(m.operand(o, 0), results[0]);
    return true;
  }
  if (m.record(o).isCall) {
    call(o, results);
    return true;
  }
  return m.record(o).isCollective() ? collectiveGradient(*this, o, results) : plain(o, results);
}

void GradientSweep::addPlace(OpId o) {
  for (const NamedAttr& a : b.common)
    if (m.strings[a.name] != "within" && !findAttr(m[o].attrs, a.name).valid()) m[o].attrs.push_back(a);
}

// A function with a custom gradient: its gradient function takes the arguments, optionally the results, and
// the cotangents of the float results, and returns those of the float arguments.
void GradientSweep::call(OpId o, const std::vector<ValueId>& results) {
  const FuncId own = ownGradient(m, m.findFunction(m.strings[m[o].callee]));
  std::vector<ValueId> args(m.operands(o).begin(), m.operands(o).end()), cotangents, to;
  std::vector<TypeId> types;
  for (ValueId v : m.operands(o))
    if (isFloat(m.typeOf(v).dtype)) to.push_back(v), types.push_back(m[v].type);
  for (uint32_t r = 0; r < results.size(); ++r)
    if (isFloat(m.typeOf(m.result(o, r)).dtype))
      cotangents.push_back(results[r].valid() ? results[r] : zeros(m.result(o, r)));
  if (m[own].args.size() > args.size() + cotangents.size())
    for (uint32_t r = 0; r < m[o].numResults; ++r) args.push_back(m.result(o, r));
  args.insert(args.end(), cotangents.begin(), cotangents.end());
  const OpId gradient = m.makeOp(m[o].kind, {}, 0, {}, 0, m[o].loc);
  completeOp(m, gradient, args, types);
  m[gradient].callee = m[own].name;
  m[gradient].parent = b.parent;
  m[gradient].attrs = b.common;
  out.push_back(gradient);
  for (uint32_t i = 0; i < to.size(); ++i) accumulate(to[i], m.result(gradient, i));
}

// True for `index_select %ws, %i {dim = 0}` with the loop's own index over the full extent of dim 0.
bool GradientSweep::isIterationSlice(OpId o) const {
  if (!slices || m.record(o).name != std::string_view("index_select") || m[o].numOperands != 2) return false;
  const ValueId source = m.operand(o, 0);
  if (m.operand(o, 1) != slices->iteration || owns(source) || blockOf(m, source) == slices->loop)
    return false;
  if (m.attrs[m.attr(o, "dim")].i != 0) return false;
  const Dim rows = m.typeOf(source).dims[0];
  if (slices->lo == 0 && rows == slices->iterations) return true;
  return rows.isStatic() && slices->iterations.isStatic() && slices->lo >= 0 &&
         slices->lo + slices->iterations.value() <= rows.value();
}

void GradientSweep::takeSlicesOf(const GradientSweep& around) {
  slices = around.slices;
  if (slices) slices->sources.clear(), slices->cotangents.clear();
}

void GradientSweep::addSlice(ValueId source, ValueId cotangent) {
  auto [it, isNew] = slices->cotangents.emplace(source, cotangent);
  if (isNew)
    slices->sources.push_back(source);
  else
    it->second = Expr(b, it->second) + cotangent;
}

TypeId GradientSweep::sliceType(ValueId source) {
  Type t = m.typeOf(source);
  t.dims.erase(t.dims.begin());
  return m.types.intern(std::move(t));
}

bool GradientSweep::plain(OpId o, const std::vector<ValueId>& results) {
  const size_t before = m.ops.size();
  std::vector<char> wanted;
  for (ValueId v : m.operands(o)) wanted.push_back(onPath(v));
  std::vector<ValueId> operands, given = results;
  AxisSet from = 0;
  if (shared.local) {
    from = shared.local->givenBy(o);
    for (uint32_t r = 0; r < given.size();
         ++r) { // the cotangents of several results must be pending along the same axes
      const ValueId v = m.result(o, r);
      const AxisSet missing = from & ~shared.local->along(v);
      if (given[r].valid() && missing && given.size() > 1)
        given[r] = shared.local->onlyAt(b, given[r], shared.local->varying.axes(missing), 0);
    }
  }
  if (!opGradient(b, o, given, wanted, operands)) return false;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].valid() || !wanted[i]) continue;
    const bool once = std::count(operands.begin(), operands.end(), operands[i]) == 1;
    accumulate(m.operand(o, i), operands[i], once ? before : SIZE_MAX, from);
  }
  return true;
}

// Names the gradient of %h %d_h, if that name is free and the value has none.
void GradientSweep::nameCotangents(OpId o, const std::vector<ValueId>& results) {
  for (uint32_t r = 0; r < results.size(); ++r)
    if (StrId of = m[m.result(o, r)].name; results[r].valid() && of.valid())
      shared.name(results[r], "d_" + std::string(m.strings[of]));
}

// --- Block assembly ---

void dropUnused(Module& m, std::vector<OpId>& ops, std::span<const ValueId> yields) {
  std::unordered_set<ValueId> used(yields.begin(), yields.end());
  std::vector<OpId> kept;
  for (size_t i = ops.size(); i-- > 0;) {
    bool needed = false;
    for (uint32_t r = 0; r < m[ops[i]].numResults; ++r) needed |= used.contains(m.result(ops[i], r));
    if (!needed) continue;
    forEachRead(m, ops[i], [&](ValueId v) { used.insert(v); });
    kept.push_back(ops[i]);
  }
  ops.assign(kept.rbegin(), kept.rend());
}

void fillBlock(Module& m, BlockId block, std::vector<OpId> ops, std::vector<ValueId> yields) {
  for (OpId o : ops) m[o].parent = block;
  m[block].ops = std::move(ops);
  m[block].yields = std::move(yields);
}

void completeOp(Module& m, OpId o, std::span<const ValueId> operands, std::span<const TypeId> results) {
  m.setOperands(o, operands);
  m.makeResults(o, results);
}

} // namespace dtc
