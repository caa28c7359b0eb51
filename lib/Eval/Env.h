#pragma once
// What a size means on one device: the values of symbols, and the mesh and place that cuts are resolved with.
#include "dtc/IR/OpRecord.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"

namespace dtc {

struct Env {
  const Module* module = nullptr;
  std::vector<std::pair<StrId, int64_t>> symbols;
  const Mesh* mesh = nullptr; // null in a global program
  int64_t place = 0;

  // Nothing where a symbol is not bound, a product overflows or a cut has no mesh.
  [[nodiscard]] std::optional<int64_t> sizeOf(Dim d) const;
  [[nodiscard]] std::optional<std::vector<int64_t>> shapeOf(const Type& t) const;
  // The interval of the uncut dim that this place holds: [0, n) where nothing is cut.
  [[nodiscard]] std::optional<Interval> intervalOf(const DimExpr& e) const;
};

// The largest tensor the evaluator makes; what is larger is an error, not an allocation.
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 35;
// Does a tensor of this shape fit?
[[nodiscard]] bool fitsInMemory(DType, std::span<const int64_t> shape);

// "mlp.dt:9:8: 'gather': what", for an op of the module's text; without a place where there is none.
[[nodiscard]] Error opError(const Module&, SourceRange loc, std::string_view op, std::string_view what);

} // namespace dtc
