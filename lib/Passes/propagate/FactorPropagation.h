#pragma once
// Propagation of axes along the factors of one relation, as in Shardy
// (https://openxla.org/shardy/propagation, the "aggressive" strategy). Axes on which all tensors agree along
// a factor propagate to each tensor that can take them; a tensor that cannot does not block the others. If
// two factors of a tensor compete for an axis, the factor of the largest tensor wins; for a cotangent, the
// factor that shards its primal. Pure values: no module, no variables.

namespace dtc {

// The directions in which axes may propagate along a factor: from operands to results, from results to
// operands.
enum class Flow : uint8_t { None = 0, Forward = 1, Backward = 2, Both = 3 };
[[nodiscard]] constexpr Flow operator|(Flow a, Flow b) {
  return static_cast<Flow>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}

struct FactorTensor {
  const TensorMap* map = nullptr; // null: a literal, which has no sharding
  std::span<const DimSharding> dims;
  std::vector<DimSharding> own; // storage for `dims` if they are not those of a variable
  std::vector<AxisRef>
      taken; // axes that may not shard it further: replicated, pending, reserved by a later priority
};

struct FactorPropagation {
  const Rule& rule;
  const Mesh& mesh;
  std::vector<FactorTensor> tensors; // operands, then results
  size_t numOperands = 0;
  bool tiesAreNobodys = false; // if two factors of a tensor compete for an axis, neither takes it
  bool elementwise = false;    // every tensor with dims has all factors, one per dim, in the same order
  // If the first result is a cotangent: its primal, as sharded. Among factors that compete for an axis, the
  // one that shards the primal wins, whatever the sizes: the consumers of the cotangent read the primal too.
  FactorTensor primal = {};
};

struct TensorUpdate {
  size_t tensor = 0;
  std::vector<DimSharding> dims; // open and priority are unchanged
};

using FlowTable = std::vector<Flow>; // by factor

// The tensors that change, operands before results; empty if nothing propagates. `agreed` is set if all
// tensors are sharded alike along every factor, so that nothing would propagate in any direction.
[[nodiscard]] std::vector<TensorUpdate> propagateAxes(const FactorPropagation&, const FlowTable&,
                                                      bool& agreed);

} // namespace dtc
