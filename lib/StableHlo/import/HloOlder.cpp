// Deprecated ops that few producers still print.
#include "import/HloRegions.h"
#include "import/HloSlices.h"
#include "import/HloTable.h"

namespace dtc {

namespace {

// operand.shape[:dim] + index.shape[batch:] + operand.shape[dim + 1:]; the first `batch` dims are batch dims.
bool torchIndexSelect(HloContext& c) {
  auto dim = c.integer("dim"), batch = c.integerOr("batch_dims", 0);
  const ValueId x = c.operand(0), index = c.operand(1);
  if (!dim || !batch || !x.valid() || !index.valid()) return false;
  const auto rank = static_cast<int64_t>(c.rankOf(x)), indexRank = static_cast<int64_t>(c.rankOf(index));
  if (*dim < 0 || *dim >= rank || *batch < 0 || *batch > *dim || *batch > indexRank)
    return c.fail("names dims that its operands do not have");
  HloSliceDims d;
  std::vector<int64_t> sizes = c.shapeOf(x);
  for (int64_t k = 0; k < *batch; ++k) {
    d.batching.push_back(k);
    d.indicesBatching.push_back(k);
    sizes[static_cast<size_t>(k)] = 1;
  }
  sizes[static_cast<size_t>(*dim)] = 1;
  for (int64_t k = *batch; k < rank; ++k)
    if (k != *dim) d.window.push_back(k < *dim ? k : k - 1 + indexRank - *batch);
  d.dropped = {*dim};
  d.map = {*dim};
  d.vector = indexRank;
  return c.setResult(gatherSlices(c, x, index, d, sizes));
}

bool einsum(HloContext& c) {
  const std::string config = c.text("einsum_config");
  if (config.empty()) return c.fail("needs its einsum_config");
  return c.setResult(c.emit("einsum", {c.operand(0), c.operand(1)}, {{"equation", c.stringAttr(config)}}));
}

// The upper half of integer products.
bool upperProduct(HloContext& c) {
  const ValueId a = c.operand(0), b = c.operand(1);
  const DType d = c.dtypeOf(a);
  if (!a.valid() || !b.valid()) return false;
  if (!isInteger(d)) return c.fail("multiplies integers");
  const int bits = 8 * dtypeBytes(d);
  if (bits < 64) { // exact in 64 bits
    const DType wide = isSignedInt(d) ? DType::I64 : DType::U64;
    const ValueId product = c.emit("mul", {c.convert(a, wide), c.convert(b, wide)});
    return c.setResult(c.convert(c.emit("shr", {product, c.literal(bits, wide)}), d));
  }
  // With halves a = 2^32 a1 + a0, a0 unsigned: a1 b1 + (a1 b0 + a0 b1 + (a0 b0 >> 32)) >> 32, in two steps
  // that do not overflow.
  auto low = [&](ValueId v) {
    return c.convert(c.convert(v, DType::U32), d); // modulo 2^32
  };
  auto high = [&](ValueId v) { return c.emit("shr", {v, c.literal(32, d)}); };
  const ValueId a0 = low(a), b0 = low(b), a1 = high(a), b1 = high(b);
  const ValueId lowest =
      c.convert(c.emit("mul", {c.convert(a0, DType::U64), c.convert(b0, DType::U64)}), DType::U64);
  const ValueId carry = c.convert(c.emit("shr", {lowest, c.literal(32, DType::U64)}), d);
  const ValueId first = c.emit("add", {c.emit("mul", {a1, b0}), carry});
  const ValueId second = c.emit("add", {c.emit("mul", {a0, b1}), low(first)});
  return c.setResult(c.emit("add", {c.emit("add", {c.emit("mul", {a1, b1}), high(first)}), high(second)}));
}

const HloRow kOlderRows[] = {
    {"chlo.mulhi", upperProduct, 2},
    {"stablehlo.einsum", einsum, 2},
    {"stablehlo.torch_index_select", torchIndexSelect, 2},
};

} // namespace

std::span<const HloRow> hloOlderRows() { return kOlderRows; }

} // namespace dtc
