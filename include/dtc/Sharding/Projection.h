#pragma once
// Maps dims to factors and back: the one translation used by propagation, partition and the prover
// (sharding.md: project dims to factors, move axes along factors, project back).
#include "dtc/Sharding/Rule.h"

namespace dtc {

// How one tensor is sharded along one factor.
struct FactorEntry {
  uint16_t factor = 0;
  uint16_t dim = 0; // of the tensor
  PartList parts;
  bool open = false;      // the dim may be sharded further, and no factor minor to this one is sharded
  bool minorMost = false; // last of its dim: may be sharded unevenly
};

struct TensorProjection {
  std::vector<FactorEntry> entries; // in dim order, major to minor within a dim
  // By dim: parts that no factor can take, because they do not divide or the op handles the dim itself. A
  // tensor with overflow must be resharded before the op can run on it.
  std::vector<std::pair<uint16_t, PartList>> overflow;
  [[nodiscard]] const FactorEntry* find(uint16_t factor) const;
  void clear() { entries.clear(), overflow.clear(); }
};

// `dims` has one entry per dim of the tensor.
[[nodiscard]] TensorProjection projectDims(const TensorMap&, const Rule&, std::span<const DimSharding> dims,
                                           const Mesh&);
// The same, into an existing object, to reuse its memory.
void projectDims(const TensorMap&, const Rule&, std::span<const DimSharding> dims, const Mesh&,
                 TensorProjection& out);

// The dims of a tensor whose factors are sharded as in `perFactor` (one list per factor of the rule). Empty
// if a dim cannot express it: a factor that is not minor-most is sharded by axes that do not divide it.
[[nodiscard]] std::optional<std::vector<DimSharding>>
unprojectDims(const TensorMap&, const Rule&, std::span<const PartList> perFactor, const Mesh&);

// --- Lists of parts ---
// Product of the axes' sizes and block counts.
[[nodiscard]] int64_t partsProduct(std::span<const DimPart>, const Mesh&);
// Joins consecutive sub-axes, and drops trailing and unit blocks.
void canonicalizeParts(PartList&, const Mesh&);
// Whether `a` has no axis that overlaps one in `b`.
[[nodiscard]] bool disjoint(std::span<const DimPart> a, std::span<const DimPart> b, const Mesh&);
// The longest common major part of two lists; a sub-axis that is a major part of the other's axis counts.
[[nodiscard]] PartList commonPrefix(const PartList& a, const PartList& b, const Mesh&);
// Whether `prefix` is the major part of `list`, or equal to it.
[[nodiscard]] bool isPrefix(const PartList& prefix, const PartList& list, const Mesh&);

} // namespace dtc
