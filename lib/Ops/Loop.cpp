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
    DTC_CHECK(rows, "a loop stacks values, but the number of its iterations is not known");
    Type stacked = m.typeOf(m[block].yields[i]);
    stacked.dims.insert(stacked.dims.begin(), *rows);
    types.push_back(m.types.intern(std::move(stacked)));
  }
  m.makeResults(op, types);
  b.out.push_back(op);
  return detail::all(b, op);
}

} // namespace dtc::ops
