#include "dtc/Ops/Loop.h"
#include "dtc/IR/Region.h"
#include "dtc/Support/Result.h"

namespace dtc::ops {

void writeBlock(Builder& outer, BlockId block, const BlockBody& body) {
  Module& m = outer.module;
  m[block].parentFunc = m[outer.parent].parentFunc;
  std::vector<OpId> ops;
  Builder in(m, block, ops, outer.diags);
  in.loc = outer.loc, in.mesh = outer.mesh, in.common = outer.common;
  in.forFile = outer.forFile;
  std::vector<ValueId> yields = body(in);
  m[block].ops = std::move(ops);
  m[block].yields = std::move(yields);
}

std::vector<Expr> forLoop(Builder& b, Arg first, Arg last, const Values& starts, const LoopBody& body) {
  Module& m = b.module;
  std::vector<ValueId> operands;
  for (Arg bound : {first, last})
    operands.push_back(bound.isNumber() ? bound.literal(b, DType::I32) : bound.id());
  for (const Arg& start : starts.args()) operands.push_back(start.id());
  const OpId op = m.makeOp(m.registry->find(RegionKind::For), operands, 0, b.common, 1, b.loc);
  m[op].parent = b.parent;
  const BlockId block = m.region(op);
  std::vector<ValueId> carried;
  std::vector<TypeId> types;
  const ValueId index = m.makeBlockArg(block, m.tensorType(DType::I32, std::initializer_list<int64_t>{}));
  for (const Arg& start : starts.args()) {
    types.push_back(m[start.id()].type);
    carried.push_back(m.makeBlockArg(block, types.back()));
  }
  writeBlock(b, block, [&](Builder& in) { return body(in, Expr(in, index), carried); });
  for (size_t i = types.size(); i < m[block].yields.size(); ++i) {
    const auto rows = iterationCount(m, op);
    if (!rows) b.mismatch("a loop stacks values, but the number of its iterations is not known");
    Type stacked = m.typeOf(m[block].yields[i]);
    stacked.dims.insert(stacked.dims.begin(), *rows);
    types.push_back(m.types.intern(std::move(stacked)));
  }
  m.makeResults(op, types);
  b.out.push_back(op);
  return detail::all(b, op);
}

std::vector<Expr> condition(Builder& b, Expr p, const BlockBody& ifTrue, const BlockBody& ifFalse) {
  Module& m = b.module;
  const ValueId operand = p;
  const OpId op = m.makeOp(m.registry->find(RegionKind::Cond), {&operand, 1}, 0, b.common, 2, b.loc);
  m[op].parent = b.parent;
  writeBlock(b, m.region(op, 0), ifTrue);
  writeBlock(b, m.region(op, 1), ifFalse);
  const std::vector<ValueId>&yes = m[m.region(op, 0)].yields, &no = m[m.region(op, 1)].yields;
  if (yes.size() != no.size()) b.mismatch("the branches return different numbers of values");
  std::vector<TypeId> types;
  for (size_t i = 0; i < yes.size(); ++i) {
    types.push_back(m[yes[i]].type);
    if (m[no[i]].type != types.back()) b.mismatch("the branches return values of different types");
  }
  m.makeResults(op, types);
  b.out.push_back(op);
  return detail::all(b, op);
}

std::vector<Expr> recompute(Builder& b, const BlockBody& body) {
  Module& m = b.module;
  const OpId op = m.makeOp(m.registry->find(RegionKind::Recompute), {}, 0, b.common, 1, b.loc);
  m[op].parent = b.parent;
  writeBlock(b, m.region(op), body);
  std::vector<TypeId> types;
  for (ValueId v : m[m.region(op)].yields) types.push_back(m[v].type);
  m.makeResults(op, types);
  b.out.push_back(op);
  return detail::all(b, op);
}

std::vector<Expr> whileLoop(Builder& b, const Values& starts, const WhileBody& goesOn,
                            const WhileBody& body) {
  Module& m = b.module;
  std::vector<ValueId> operands;
  std::vector<TypeId> types;
  for (const Arg& start : starts.args()) {
    operands.push_back(start.id());
    types.push_back(m[start.id()].type);
  }
  const OpId op = m.makeOp(m.registry->find(RegionKind::While), operands, 0, b.common, 2, b.loc);
  m[op].parent = b.parent;
  for (uint32_t r : {0u, 1u}) {
    const BlockId block = m.region(op, r);
    std::vector<ValueId> carried;
    for (TypeId type : types) carried.push_back(m.makeBlockArg(block, type));
    writeBlock(b, block, [&](Builder& in) { return (r ? body : goesOn)(in, carried); });
  }
  const std::vector<ValueId>& next = m[m.region(op, 1)].yields;
  if (next.size() != types.size())
    b.mismatch("the loop's body returns another number of values than it carries");
  for (size_t i = 0; i < types.size(); ++i)
    if (m[next[i]].type != types[i])
      b.mismatch("the loop's body returns a value of another type than it carries");
  m.makeResults(op, types);
  b.out.push_back(op);
  return detail::all(b, op);
}

std::vector<Expr> recomputed(Builder& b, const Values& starts, const RecomputeBody& body) {
  Module& m = b.module;
  std::vector<ValueId> operands;
  for (const Arg& start : starts.args()) operands.push_back(start.id());
  const OpId op = m.makeOp(m.registry->find(RegionKind::Recompute), operands, 0, b.common, 1, b.loc);
  m[op].parent = b.parent;
  const BlockId block = m.region(op);
  std::vector<ValueId> arguments;
  for (ValueId v : operands) arguments.push_back(m.makeBlockArg(block, m[v].type));
  writeBlock(b, block, [&](Builder& in) { return body(in, arguments); });
  std::vector<TypeId> types;
  for (ValueId v : m[block].yields) types.push_back(m[v].type);
  m.makeResults(op, types);
  b.out.push_back(op);
  return detail::all(b, op);
}

} // namespace dtc::ops
