#include "match/Grouped.h"
#include "dtc/Ops/contract/GroupedMatmul.h"
#include <algorithm>

namespace dtc {

using namespace loops;

constexpr int64_t kMaxEnds = 1024; // lib/Kernel/device/grouped_block.h

std::optional<GroupedProduct> matchGrouped(Module& m, OpId fused, const Lowered& l) {
  const Block& block = m[m.region(fused)];
  if (block.ops.size() != 1 || !isGroupedMatmul(m.record(block.ops[0]))) return std::nullopt;
  const OpId op = block.ops[0];
  const Type &x = m.typeOf(m.operand(op, 0)), &w = m.typeOf(m.operand(op, 1)), &y = m.typeOf(m.result(op));
  const Dim ends = m.typeOf(m.operand(op, 2)).dims[0];
  if (!isFloat(x.dtype) || !ends.isStatic() || ends.value() < 1 || ends.value() > kMaxEnds)
    return std::nullopt;
  GroupedProduct g;
  // Operand i of the op is a buffer: literals have none.
  const auto buffer = [&](size_t operand) -> std::optional<uint32_t> {
    const auto arg = std::find(block.args.begin(), block.args.end(), m.operand(op, operand));
    const auto at =
        std::find(l.inputs.begin(), l.inputs.end(), static_cast<uint32_t>(arg - block.args.begin()));
    if (arg == block.args.end() || at == l.inputs.end()) return std::nullopt;
    return static_cast<uint32_t>(at - l.inputs.begin());
  };
  std::optional<uint32_t> numbers[5];
  for (size_t i = 0; i < m[op].numOperands && i < 5; ++i) {
    numbers[i] = buffer(i);
    if (!numbers[i]) return std::nullopt;
    if (i > 2 && l.kernel.buffers[*numbers[i]].dtype != DType::I32) return std::nullopt;
  }
  if (m[op].numOperands > 3) g.firstRow = static_cast<int32_t>(*numbers[3]);
  if (m[op].numOperands > 4) g.firstGroup = static_cast<int32_t>(*numbers[4]);
  g.gathered = w.rank() == 2;
  g.x = *numbers[0], g.w = *numbers[1], g.ends = *numbers[2], g.y = l.kernel.numInputs;
  SizeArgs args(m, fused);
  args.list = l.sizes;
  g.rows = args.of(x.dims[g.gathered ? 1 : 0]);
  g.depth = args.of(x.dims[g.gathered ? 0 : 1]);
  g.width = args.of(w.dims.back());
  g.groups = args.of((g.gathered ? y : w).dims[0]);
  g.numEnds = args.of(ends);
  // Extents that are products of sizes cannot be rounded up by themselves.
  for (const Size* s : {&g.rows, &g.depth, &g.width})
    if (!s->isStatic() && (s->number != 1 || s->args.size() != 1)) return std::nullopt;
  if (args.list.size() != l.sizes.size()) return std::nullopt;
  return g;
}

} // namespace dtc
