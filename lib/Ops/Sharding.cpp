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
  ValueId dx = b.value("shard", {dy[0]});
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
    "barrier-direction", "'barrier' takes direction = \"forward\", \"backward\" or \"both\", not \"{0}\""};
bool barrierVerify(const OpQuery& q) {
  std::string_view d = q.textAttr("direction");
  if (d == "forward" || d == "backward" || d == "both") return true;
  q.diags->error(kDirection, q.loc, d);
  return false;
}

} // namespace

void addShardingOps(OpRegistry& ops) {
  OpRecord shard = annotation("shard", "x, constrained to the sharding that is written", Constraint::Shard);
  shard.attrs = {{"group", AttrType::Int, "", "all values of a group share one sharding"}};
  ops.add(std::move(shard));
  ops.add(annotation("reshard", "x in another sharding: communication", Constraint::Reshard));
  OpRecord barrier = annotation("barrier", "x; no sharding propagates through", Constraint::Barrier);
  barrier.attrs = {{"direction", AttrType::String, "both", "\"forward\", \"backward\" or \"both\""}};
  barrier.verify = barrierVerify;
  barrier.grad = "%dx = barrier %dy\nyield %dx";
  barrier.gradFn = nullptr;
  ops.add(std::move(barrier));
}

} // namespace dtc
