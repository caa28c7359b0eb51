#pragma once
// Construction and sharding of convolutions.
#include "dtc/Ops/window/Convolution.h"
#include "record/ShapeParts.h"
#include <array>

namespace dtc {

[[nodiscard]] bool convShapeOf(const OpQuery&, ConvShape&);

struct ConvAttrs {
  std::vector<int64_t> stride, dilation, extra;
  std::vector<std::array<int64_t, 2>> padding;
};
// conv(x, w, bias); `bias` may be invalid.
[[nodiscard]] Expr buildConv(Expr x, ValueId w, ValueId bias, const ConvAttrs&, int64_t groups,
                             bool transposed);
// The groups of the local op, whose channels may be sharded.
[[nodiscard]] int64_t localGroups(const OpQuery&, std::span<const TypeId> operands,
                                  std::span<const TypeId> results);

bool shardConv(ShardedOp& op, std::vector<ValueId>& results); // OpRecord::shard

} // namespace dtc
