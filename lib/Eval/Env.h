#pragma once
// The values of sizes on one device: symbols, and the mesh and device coordinate that determine shards.
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"

namespace dtc {

struct Env {
  const Module* module = nullptr;
  std::vector<std::pair<StrId, int64_t>> symbols;
  const Mesh* mesh = nullptr; // null in a global program
  int64_t coordinate = 0;

  // Empty if a symbol is unbound, a product overflows, or a sharded size has no mesh.
  [[nodiscard]] std::optional<int64_t> sizeOf(Dim d) const;
  [[nodiscard]] std::optional<std::vector<int64_t>> shapeOf(const Type& t) const;
  // The interval of the unsharded dim that this device holds: [0, n) if it is not sharded.
  [[nodiscard]] std::optional<Interval> intervalOf(const DimExpr& e) const;
};

// The max tensor size of the evaluator; a larger one is an error, not an allocation.
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 35;
// Whether a tensor of this shape fits.
[[nodiscard]] bool fitsInMemory(DType, std::span<const int64_t> shape);

// "mlp.dt:9:8: 'gather': what", for an op of the module's text; without a location if there is none.
[[nodiscard]] Error opError(const Module&, SourceRange loc, std::string_view op, std::string_view what);

} // namespace dtc
