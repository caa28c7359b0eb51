#include "dtc/Passes/FixReductionOrder.h"

#include "dtc/IR/OpRecord.h"
#include "dtc/IR/Text.h"
#include "dtc/Passes/Clone.h"

#include <algorithm>

namespace dtc {

namespace {

constexpr DiagKind kCollective{
    "fixed-order-collective",
    "'{0}' combines floats of devices in the order of this mesh: it cannot be given "
    "the same bits on every mesh"};
constexpr DiagKind kPending{
    "fixed-order-pending",
    "{0} is a {1} of what the devices hold, which is another on another mesh: it cannot be "
    "given the same bits"};
constexpr DiagKind kMeshes{"fixed-order-meshes", "a fixed order of reductions is for programs with one mesh"};
constexpr DiagKind kLocal{
    "fixed-order-local",
    "@{0} is the program of one device, whose reductions are cut already: a fixed order is "
    "for programs of all devices"};

bool dependsOnOrder(PendingKind k) {
  return k == PendingKind::Sum || k == PendingKind::Avg || k == PendingKind::Prod;
}

class OrderFixer {
public:
  OrderFixer(Module& m, Diagnostics& diags) : m_(m), diags_(diags), shard_(m.registry->find("shard")) {}

  void run(FuncId f) {
    for (const FuncArg& a : m_[f].args) checkPending(a.value);
    fixBlock(m_[f].body);
  }

private:
  void fixBlock(BlockId b) {
    std::vector<OpId> out;
    for (OpId o : std::vector<OpId>(m_[b].ops)) {
      for (ValueId& v : m_.operands(o)) v = map_(v);
      for (uint32_t r = 0; r < m_[o].numResults; ++r) checkPending(m_.result(o, r));
      const bool local = m_.record(o).regions == RegionKind::Local;
      for (uint32_t k = 0; k < m_[o].numRegions; ++k)
        local ? checkLocal(m_.region(o, k)) : fixBlock(m_.region(o, k));
      if (combines(o))
        makeWhole(o, b, out);
      else
        out.push_back(o);
    }
    m_[b].ops = std::move(out);
    for (ValueId& v : m_[b].yields) v = map_(v);
  }

  bool isInexact(ValueId v) const { return isFloat(partType(m_.typeOf(v).dtype)); }

  void checkPending(ValueId v) {
    if (!m_[v].sharding.valid() || !isInexact(v)) return;
    const PendingKind kind = m_.shardings[m_[v].sharding].pendingKind();
    if (!m_.shardings[m_[v].sharding].pending.empty() && dependsOnOrder(kind))
      diags_.error(kPending, m_[v].loc, printValueName(m_, v), pendingName(kind));
  }

  void checkLocal(BlockId b) {
    forEachOp(m_, b, [&](OpId o) {
      if (!m_.record(o).isCollective() || m_[o].numOperands == 0 || !isInexact(m_.operand(o, 0))) return;
      const std::string_view name = m_.record(o).name;
      if (!name.starts_with("all_reduce") && !name.starts_with("reduce_scatter")) return;
      const AttrId op = m_.attr(o, "op");
      const auto kind = op.valid() ? parsePendingKind(m_.strings[m_.attrs[op].text]) : PendingKind::Sum;
      if (!kind || dependsOnOrder(*kind)) diags_.error(kCollective, m_[o].loc, name);
    });
  }

  // Does it combine floats in an order of its own? What is not known to be exact does.
  bool combines(OpId o) {
    const OpRecord& rec = m_.record(o);
    if (rec.regions != RegionKind::None || rec.isCall || rec.isCollective() ||
        rec.constraint != Constraint::None || m_[o].numResults == 0)
      return false;
    bool floats = false;
    for (uint32_t r = 0; r < m_[o].numResults; ++r) floats = floats || isInexact(m_.result(o, r));
    const bool moves =
        std::ranges::any_of(rec.through, [](const Through& t) { return t.row == ThroughRow::Moving; });
    if (!floats) return false;
    Diagnostics quiet;
    Rule rule;
    if (!ruleOf(queryOf(m_, o, quiet), rule)) return true;
    return std::ranges::any_of(rule.factors, [&](const Factor& f) {
      if (f.kind == FactorKind::Reduce) return dependsOnOrder(f.reduce);
      return !moves && f.kind != FactorKind::Pass && f.kind != FactorKind::Place;
    });
  }

  ShardingId whole(ValueId v) {
    const MeshId mesh(0);
    return m_.shardings.replicated(mesh, m_.typeOf(v).rank());
  }

  ValueId constrain(ValueId v, ShardingId sharding, OpId of, BlockId b, std::vector<OpId>& out) {
    const OpId o = m_.makeOp(shard_, std::array{v}, 1, {}, 0, m_[of].loc);
    m_[o].parent = b;
    m_[m_.result(o)].type = m_[v].type;
    m_[m_.result(o)].sharding = sharding;
    m_[m_.result(o)].loc = m_[v].loc;
    out.push_back(o);
    return m_.result(o);
  }

  void makeWhole(OpId o, BlockId b, std::vector<OpId>& out) {
    std::vector<ValueId> operands(m_.operands(o).begin(), m_.operands(o).end());
    for (ValueId& v : operands)
      if (v.valid() && m_[v].kind != ValueKind::Literal && m_[v].kind != ValueKind::Symbol)
        v = constrain(v, whole(v), o, b, out);
    m_.setOperands(o, operands);
    out.push_back(o);
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      const ValueId v = m_.result(o, r);
      const ShardingId written = m_[v].sharding;
      m_[v].sharding = whole(v);
      if (!written.valid() || written == m_[v].sharding) continue;
      const ValueId named = constrain(v, written, o, b, out);
      m_[named].name = m_[v].name;
      m_[v].name = StrId();
      map_.set(v, named);
    }
  }

  Module& m_;
  Diagnostics& diags_;
  OpKind shard_;
  ValueMap map_;
};

} // namespace

bool fixReductionOrderPass(Module& m, const PassOptions&, Diagnostics& diags) {
  for (FuncId f : m.order)
    if (m[f].spmd) diags.error(kLocal, m[f].loc, m.strings[m[f].name]);
  if (m.shardings.numMeshes() > 1) diags.error(kMeshes, m[m.order[0]].loc);
  if (diags.hasErrors() || m.shardings.numMeshes() == 0)
    return !diags.hasErrors(); // without a mesh nothing is cut
  OrderFixer fixer(m, diags);
  for (FuncId f : std::vector<FuncId>(m.order)) fixer.run(f);
  return !diags.hasErrors();
}

PassInfo fixReductionOrderInfo() {
  return {
      .name = "fix-reduction-order",
      .summary = "makes sums of floats whole, so that they have the same bits on every mesh",
      .why =
          "Before propagate, which then finds the shardings of the rest: what combines floats in an order of "
          "its own takes its operands whole, on every device alike; what moves or maps elements, and what is "
          "exact in every order, stays cut. `--reduction-order fixed` runs it; outside the pipeline "
          "otherwise, for it costs the communication and the work that cutting the sums saves.",
      .needs = Level::Global,
      .gives = Level::Global,
      .run = fixReductionOrderPass,
      .before = R"(mesh @m = [a=2]

func @main(%x: f32[4, 6] @m{_, a}) -> (%y: f32[4]) {
  %e = exp %x
  %y = sum %e {dims = [1]}
  return %y
}
)",
      .after = R"(mesh @m = [a=2]

func @main(%x: f32[4, 6] @m{_, a}) -> (%y: f32[4]) {
  %e = exp %x : f32[4, 6]
  %0 = shard %e : f32[4, 6] @m{_, _}
  %y = sum %0 {dims = [1]} : f32[4] @m{_}
  return %y
}
)",
      .standard = false};
}

} // namespace dtc
