// Constraints on shardings and changes of them: on one device each is the identity.
#include "RecordParts.h"
#include "dtc/IR/Builder.h"

namespace dtc {

namespace {

// The operand's cotangent is sharded as the operand, without its pending part; the result's is left open: to constrain it
// to R would turn a reduce_scatter into an all_reduce and a slice (sharding.md §3).
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
  const bool back =
      to.valid() && m.shardings[to].mesh != s.mesh; // a constraint does not lead to another mesh
  ValueId dx = b.value(back ? "reshard" : "shard", {dy[0]});
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

inline constexpr DiagKind kDirection{
    "attribute-value", "'barrier' takes direction = \"forward\", \"backward\" or \"both\", not \"{0}\""};
inline constexpr DiagKind kBarrierRule{"barrier-rule",
                                       "'barrier' takes more than one operand with a `rule` only"};

// x and the result are cut alike; of the others only the shardings count.
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
  std::string_view d = q.textAttr("direction");
  if (d != "forward" && d != "backward" && d != "both") {
    q.diags->error(kDirection, q.loc, d);
    return false;
  }
  Rule rule;
  if (q.has("rule")) return barrierFollow(q, rule);
  if (q.operandTypes.size() == 1) return true;
  q.diags->error(kBarrierRule, q.loc);
  return false;
}

// Of the operands behind x only the shardings count.
bool barrierGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  out.resize(b.module[op].numOperands);
  out[0] = b.value("barrier", {dy[0]});
  return true;
}

} // namespace

void addShardingOps(OpRegistry& ops) {
  OpRecord shard = annotation("shard", "x, constrained to the sharding that is written", Constraint::Shard);
  shard.attrs = {{"group", AttrType::Int, "", "all values of a group share one sharding"}};
  ops.add(std::move(shard));
  ops.add(annotation("reshard", "x in another sharding: communication", Constraint::Reshard));
  OpRecord barrier =
      annotation("barrier",
                 "x; no sharding propagates through, but where a `rule` in Shardy's words says how y is cut "
                 "as the operands behind x are",
                 Constraint::Barrier);
  barrier.operands = "x, of...";
  barrier.attrs = {{"direction", AttrType::String, "both", "\"forward\", \"backward\" or \"both\""},
                   {"rule", AttrType::String, "",
                    "([x0, x1], [i, j])->([i, j]) {x0=4, x1=4, i=4, j=4}: of all operands and y, x having "
                    "factors of its own"}};
  barrier.ruleText = nullptr;
  barrier.rule = barrierRule;
  barrier.follow = barrierFollow;
  barrier.infer = barrierInfer;
  barrier.resultType = OpRecord::ResultType::Custom;
  barrier.sameDType = false;
  barrier.verify = barrierVerify;
  barrier.gradFn = barrierGrad;
  barrier.samples = "T[5, 3]\nT[]";
  ops.add(std::move(barrier));
}

} // namespace dtc
