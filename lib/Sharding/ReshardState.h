#pragma once
// The states of the reshard planner: shardings in terms of atoms, the finest sub-axes that either sharding
// uses.
#include "dtc/Sharding/Reshard.h"
#include <compare>

namespace dtc {

// One entry of a dim's list: an atom (its index), or a factor of -part blocks. A list is normalized: no two
// factors are adjacent, none is 1, and none is last.
using Part = int64_t;
using PartRow = std::vector<Part>;

struct PlanState {
  std::vector<PartRow> dims;
  std::vector<std::pair<int, PendingKind>> pending; // by atom, ascending
  friend auto operator<=>(const PlanState&, const PlanState&) = default;
  [[nodiscard]] bool uses(int atom) const; // sharded by it or pending on it
  [[nodiscard]] bool pendingOn(int atom) const;
};

struct PlanStateHash {
  size_t operator()(const PlanState&) const;
};

struct PlanSpace {
  const Mesh& mesh;
  std::span<const PlannedSize> shape;
  DType dtype;
  const NominalMachine& machine;
  MeshId meshId;
  std::vector<AxisRef> atoms; // in mesh order, major first
  std::vector<int64_t> atomSize;
  // by atom: one of the two shardings uses it. Axes that both replicate are not used as scratch space.
  std::vector<bool> usable;

  [[nodiscard]] int64_t sizeOf(Part p) const { return p < 0 ? -p : atomSize[static_cast<size_t>(p)]; }
  [[nodiscard]] int64_t productOf(std::span<const Part>) const; // saturates
  [[nodiscard]] PlanState stateOf(const Sharding&) const;
  [[nodiscard]] Sharding shardingOf(const PlanState&) const; // canonical
  [[nodiscard]] int64_t localBytes(const PlanState&) const;  // of the largest shard
  [[nodiscard]] bool valid(const PlanState&) const;          // strided lists divide
  // canonical, with adjacent sub-axes joined
  [[nodiscard]] std::vector<AxisRef> axesOf(std::span<const Part> atomRun) const;
};

// Splits every axis at each boundary of a part in either sharding. An axis whose sub-axes in the two
// shardings do not refine each other is listed in `incompatible`, and its atoms follow `from` only.
[[nodiscard]] std::vector<AxisRef> commonAtoms(const Sharding& from, const Sharding& to, const Mesh&,
                                               std::vector<StrId>& incompatible);

void normalize(PartRow&);

struct PlanMove {
  PlanState next;
  StepKind kind = StepKind::AllGather;
  PendingKind op = PendingKind::None;
  std::vector<Part> run; // the atoms of the collective, major to minor
  StepSlot concat = {}, split = {};
};
// Direct: only steps towards the target. Detours: also shard a dim temporarily, if that makes later gathers
// or reductions smaller. All: every collective over usable atoms, whatever the target.
enum class MoveSet : uint8_t { Direct, Detours, All };
// All useful single steps from `at` towards `to`.
void collectMoves(const PlanSpace&, const PlanState& at, const PlanState& to, MoveSet,
                  std::vector<PlanMove>& out);
// A lower bound on the seconds and bytes of any plan from `at` to `to`: a device must receive what it lacks.
[[nodiscard]] double lowerBound(const PlanSpace&, const PlanState& at, const PlanState& to);
// The move as a step, without result and prices.
[[nodiscard]] ReshardStep stepOf(const PlanSpace&, const PlanState& at, const PlanMove&);

} // namespace dtc
