#include "lower/Grouped.h"
#include "dtc/Ops/contract/GroupedMatmul.h"
#include <algorithm>

namespace dtc {

using namespace loops;

constexpr int64_t kTileRows = 64, kTileColumns = 128, kMaxEnds = 1024; // lib/Kernel/device/grouped_block.h

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

PrintedKernel printGrouped(const Kernel& k) {
  PrintedKernel out;
  Text top;
  const GroupedProduct& g = *k.grouped;
  const DType dtype = k.buffers[g.x].dtype;
  const auto number = [&](int32_t buffer) {
    return buffer < 0 ? std::string("0") : bufferText(k, static_cast<uint32_t>(buffer)) + "[0]";
  };
  std::string call = std::string("dtc_grouped_") + (g.gathered ? "gathered" : "spread") + "<" +
                     typeText(dtype) + ", " + typeText(computeType(dtype)) + ">(blockIdx.x";
  for (uint32_t b : {g.y, g.x, g.w, g.ends}) call += ", " + bufferText(k, b);
  call += ", " + sizeText(g.numEnds) + ", " + number(g.firstRow) + ", " + number(g.firstGroup);
  for (const Size* s : {&g.rows, &g.groups, &g.depth, &g.width}) call += ", " + sizeText(*s);
  line(top, call + ");");
  const auto tiles = [](const Size& s, int64_t per) {
    std::vector<SizeFormula::Factor> f = factorsOf(s);
    if (f.empty()) f.push_back({1, -1, 1});
    f[0].per = per;
    return f;
  };
  const auto product = [&](std::vector<SizeFormula::Factor> a, const std::vector<SizeFormula::Factor>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const std::vector<SizeFormula::Factor> across = tiles(g.width, kTileColumns);
  if (g.gathered)
    out.blocks.terms = {product(product(factorsOf(g.groups), tiles(g.depth, kTileRows)), across)};
  else // each group begins a tile, and so do the rows without a group
    out.blocks.terms = {product(tiles(g.rows, kTileRows), across),
                        product(factorsOf(Size{g.numEnds.number + 1, {}}), across)};
  out.threadsPerBlock = 256;
  out.body = top.text;
  return out;
}

} // namespace dtc
