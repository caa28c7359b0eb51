#pragma once
// How axes move along the factors of one relation, in Shardy's way (https://openxla.org/shardy/propagation, the "aggressive"
// strategy): what all tensors agree on along a factor goes to each tensor that can take it, a tensor that cannot does not
// keep the others from it, and where two factors of a tensor want one axis, the factor of the largest tensor has it; of a
// cotangent, the one that cuts its primal. Pure values: no module, no variables.
#include "dtc/Sharding/Projection.h"

namespace dtc {

// In which directions axes may move along a factor: from operands to results, from results to operands.
enum class Flow : uint8_t { None = 0, Forward = 1, Backward = 2, Both = 3 };
[[nodiscard]] constexpr Flow operator|(Flow a, Flow b) {
  return static_cast<Flow>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}

struct MovingTensor {
  const TensorMap* map = nullptr; // null: a literal, which has no sharding
  std::span<const DimSharding> dims;
  std::vector<DimSharding> own; // what `dims` shows, where that is no variable's
  std::vector<AxisRef>
      taken; // axes that may not cut it further: replicated, pending, reserved by a later priority
};

struct FactorMoves {
  const Rule& rule;
  const Mesh& mesh;
  std::vector<MovingTensor> tensors; // operands, then results
  size_t numOperands = 0;
  bool tiesAreNobodys = false; // where two factors of a tensor want one axis, neither has it
  bool elementwise = false;    // every tensor with dims has all factors, one a dim, in one order
  // Where the first result is a cotangent: the tensor that it belongs to, as it is cut. Of factors that want one axis the
  // one that cuts this so has it, whatever the sizes: what is computed from it meets that tensor, or others cut as it is.
  MovingTensor primal = {};
};

struct MovedTensor {
  size_t tensor = 0;
  std::vector<DimSharding> dims; // open and priority as they were
};

using FlowTable = std::vector<Flow>; // by factor

// The tensors that change, operands before results; empty where nothing moves. `agreed`: set where all tensors are cut alike
// along every factor, so that nothing would move whichever way.
[[nodiscard]] std::vector<MovedTensor> moveAxes(const FactorMoves&, const FlowTable&, bool& agreed);

} // namespace dtc
