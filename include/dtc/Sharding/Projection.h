#pragma once
// Dims to factors and back: the one translation that propagation, partition and the prover use (sharding.md §3, "project
// dims to factors, move axes along factors, project back").
#include "dtc/Sharding/Rule.h"

namespace dtc {

// One factor as one tensor is cut along it.
struct FactorEntry {
  uint16_t factor = 0;
  uint16_t dim = 0; // of the tensor
  PartList parts;
  bool open = false;      // the dim may be cut further, and nothing minor to this factor is cut already
  bool minorMost = false; // last of its dim: may be cut unevenly
};

struct TensorProjection {
  std::vector<FactorEntry> entries; // in the order of dims, major to minor within a dim
  // Parts that no factor can take (they do not divide, or the dim is the op's own business): by dim. A tensor with overflow
  // must be resharded before the op can run on it.
  std::vector<std::pair<uint16_t, PartList>> overflow;
  [[nodiscard]] const FactorEntry* find(uint16_t factor) const;
  void clear() { entries.clear(), overflow.clear(); }
};

// `dims` has one entry per dim of the tensor.
[[nodiscard]] TensorProjection projectDims(const TensorMap&, const Rule&, std::span<const DimSharding> dims,
                                           const Mesh&);
// The same, into an empty one: its room is used again.
void projectDims(const TensorMap&, const Rule&, std::span<const DimSharding> dims, const Mesh&,
                 TensorProjection& out);

// The dims of a tensor whose factors are cut as `perFactor` says (one list per factor of the rule). Nothing where a dim
// cannot say it: a factor that is not minor-most is cut by what does not divide it.
[[nodiscard]] std::optional<std::vector<DimSharding>>
unprojectDims(const TensorMap&, const Rule&, std::span<const PartList> perFactor, const Mesh&);

// --- Lists of parts ---
// Product of the axes' sizes and block counts.
[[nodiscard]] int64_t partsProduct(std::span<const DimPart>, const Mesh&);
// Sub-axes that continue each other are joined, trailing and unit blocks dropped.
void canonicalizeParts(PartList&, const Mesh&);
// Does `a` hold no axis that overlaps one in `b`?
[[nodiscard]] bool disjoint(std::span<const DimPart> a, std::span<const DimPart> b, const Mesh&);
// The longest common major part of two lists; a sub-axis that begins the other's counts.
[[nodiscard]] PartList commonPrefix(const PartList& a, const PartList& b, const Mesh&);
// Is `prefix` the major part of `whole` (or equal)?
[[nodiscard]] bool isPrefix(const PartList& prefix, const PartList& whole, const Mesh&);

} // namespace dtc
