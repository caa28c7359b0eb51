// Sharding constraints and reshards: each is the identity on one device.
#include "dtc/Ops/OpFunctions.h"
#include "record/RecordParts.h"

namespace dtc {

namespace {

// The operand's cotangent has the operand's sharding without its pending part; the result's is left open:
// constraining it to R would turn a reduce_scatter into an all_reduce and a slice (sharding.md).
bool constraintGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  Module& m = b.module;
  ShardingId of = m[m.operand(op, 0)].sharding;
  if (!of.valid()) {
    out.push_back(dy[0]);
    return true;
  }
  Sharding s = m.shardings[of];
  s.pending.clear();
  const ShardingId to = m[m.result(op, 0)].sharding;
  const bool back = to.valid() && m.shardings[to].mesh != s.mesh; // a constraint does not change the mesh
  const Expr g(b, dy[0]), dx = back ? reshard(g) : shard(g);
  m[dx].sharding = m.shardings.intern(std::move(s));
  out.push_back(dx);
  return true;
}

OpRecord annotation(const char* name, const char* summary, Constraint constraint) {
  OpRecord r{.name = name, .family = "sharding", .summary = summary};
  r.complex = OpRecord::ComplexForm::Planes;
  r.ruleText = "pointwise";
  r.through = {moving()};
  r.gradFn = constraintGrad;
  r.lowering = Lowering::Annotation;
  r.constraint = constraint;
  r.flopsPerPoint = 0;
  return r;
}

inline constexpr DiagKind kBarrierRule{"barrier-rule",
                                       "'barrier' takes more than one operand only with a `rule`"};

// x and the result are sharded alike; of the other operands only the shardings matter.
bool barrierRule(const OpQuery& q, Rule& rule) {
  addOperandFactors(q, 0, rule);
  rule.results.push_back(rule.operands[0]);
  for (size_t i = 1; i < q.operandTypes.size(); ++i) {
    TensorMap& map = rule.operands.emplace_back();
    for (Dim d : q.type(i).dims)
      map.dims.push_back(plainDim(addFactor(rule, d, "s" + std::to_string(rule.factors.size()))));
  }
  return true;
}

bool barrierFollow(const OpQuery& q, Rule& rule) {
  return readShardyRule(q, q.textAttr("rule"), q.operandTypes.first(1), rule);
}

bool barrierInfer(const OpQuery& q, std::vector<TypeId>& results) {
  results.assign(1, q.operandTypes[0]);
  return true;
}

bool barrierVerify(const OpQuery& q) {
  if (!textChoice(q, "direction", {"forward", "backward", "both"})) return false;
  Rule rule;
  if (q.has("rule")) return barrierFollow(q, rule);
  if (q.operandTypes.size() == 1) return true;
  return q.diags->fail(kBarrierRule, q.loc);
}

// Of the operands after x only the shardings matter.
bool barrierGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  out.resize(b.module[op].numOperands);
  out[0] = barrier(Expr(b, dy[0]), {});
  return true;
}

} // namespace

void addShardingOps(OpRegistry& ops) {
  OpRecord& shard = ops.add(annotation("shard", "x, constrained to the written sharding", Constraint::Shard));
  shard.attrs = {{"group", AttrType::Int, "", "values with the same group share one sharding"}};
  ops.add(annotation("reshard", "x with another sharding (communicates)", Constraint::Reshard));
  OpRecord& barrier = ops.add(annotation(
      "barrier",
      "x, through which no sharding propagates; a `rule` in Shardy's notation may derive y's sharding "
      "from those of the operands after x",
      Constraint::Barrier));
  barrier.operands = "x, of...";
  barrier.attrs = {
      {"direction", AttrType::String, "both", "\"forward\", \"backward\" or \"both\""},
      {"rule", AttrType::String, "",
       "([x0, x1], [i, j])->([i, j]) {x0=4, x1=4, i=4, j=4}: over all operands and y, where x has "
       "its own factors"}};
  barrier.ruleText = nullptr;
  barrier.rule = barrierRule;
  barrier.follow = barrierFollow;
  barrier.infer = barrierInfer;
  barrier.resultType = OpRecord::ResultType::Custom;
  barrier.sameDType = false;
  barrier.verify = barrierVerify;
  barrier.gradFn = barrierGrad;
  barrier.samples = "T[5, 3]\nT[]";
}

} // namespace dtc
