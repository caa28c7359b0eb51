#pragma once
// What the reshard planner walks over: shardings in terms of atoms, the finest sub-axes that either end names.
#include "dtc/Sharding/Reshard.h"
#include <compare>

namespace dtc {

// One entry of a dim's list: an atom (its index), or a factor of -part blocks. A list is normal where no two factors are
// neighbours, none is 1 and none stands last.
using Part = int64_t;
using PartRow = std::vector<Part>;

struct PlanState {
  std::vector<PartRow> dims;
  std::vector<std::pair<int, PendingKind>> pending; // by atom, ascending
  friend auto operator<=>(const PlanState&, const PlanState&) = default;
  [[nodiscard]] bool uses(int atom) const; // cut by it or pending on it
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
  std::vector<bool> usable; // by atom: one of the two ends uses it. What replicates both is no scratch space.

  [[nodiscard]] int64_t sizeOf(Part p) const { return p < 0 ? -p : atomSize[static_cast<size_t>(p)]; }
  [[nodiscard]] int64_t productOf(std::span<const Part>) const; // saturates
  [[nodiscard]] PlanState stateOf(const Sharding&) const;
  [[nodiscard]] Sharding shardingOf(const PlanState&) const; // canonical
  [[nodiscard]] int64_t localBytes(const PlanState&) const;  // of the largest piece
  [[nodiscard]] bool valid(const PlanState&) const;          // strided lists divide
  [[nodiscard]] std::vector<AxisRef>
  axesOf(std::span<const Part> atomRun) const; // canonical, neighbours joined
};

// Splits every axis at all places where a list of either end begins or ends a part. An axis whose two ends' sub-axes do
// not refine each other is named in `incompatible`, and its atoms serve `from` alone.
[[nodiscard]] std::vector<AxisRef> commonAtoms(const Sharding& from, const Sharding& to, const Mesh&,
                                               std::vector<StrId>& incompatible);

void normalize(PartRow&);

struct PlanMove {
  PlanState next;
  StepKind kind = StepKind::AllGather;
  PendingKind op = PendingKind::None;
  std::vector<Part> run; // the atoms that the collective runs over, major to minor
  StepSlot concat = {}, split = {};
};
// Direct: towards the goal at once. Detours: also setting axes down in a dim that is not their goal, where the pieces that
// are gathered or reduced later get smaller by it. All: every collective that there is over usable atoms, whatever the goal.
enum class MoveSet : uint8_t { Direct, Detours, All };
// All sensible single steps from `at` on the way to `to`.
void collectMoves(const PlanSpace&, const PlanState& at, const PlanState& to, MoveSet,
                  std::vector<PlanMove>& out);
// Seconds and bytes that no plan from `at` to `to` is below: what a device lacks it must receive.
[[nodiscard]] double lowerBound(const PlanSpace&, const PlanState& at, const PlanState& to);
// The move as a step, without result and prices.
[[nodiscard]] ReshardStep stepOf(const PlanSpace&, const PlanState& at, const PlanMove&);

} // namespace dtc
