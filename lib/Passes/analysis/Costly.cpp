#include "analysis/Costly.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Ops/record/Scalar.h"
#include <algorithm>

namespace dtc {

bool CostlyOps::is(Module& m, OpId o) const {
  const OpRecord& record = m.record(o);
  if (!record.scalar || record.lowering != Lowering::Loops) return false;
  const auto [at, first] = kinds_.try_emplace(m[o].kind);
  if (first)
    at->second = std::ranges::any_of(parseScalar(record.scalar).nodes,
                                     [](const ScalarNode& n) { return n.fn && n.fn->costly; });
  return at->second;
}

} // namespace dtc
