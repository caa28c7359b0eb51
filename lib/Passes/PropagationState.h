#pragma once
// What propagate knows while it runs: one sharding variable per set of values that must agree, and the relations between
// them. Private to lib/Passes.
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/Propagate.h"
#include "dtc/Sharding/Projection.h"
#include <deque>

namespace dtc {

using VarId = uint32_t;
inline constexpr VarId kNoVar = ~0u;

// The sharding of one variable, being found.
struct ShardingVar {
  MeshId mesh;
  std::vector<DimSharding> dims;
  std::vector<DimSharding>
      annotated; // as written, to be revealed at its priority; empty where nothing was written
  std::vector<PendingAxis> pending; // as annotated
  std::vector<AxisRef> replicated;  // rep(…)
  PartList reserved;     // annotated parts whose priority has not come yet: nobody else may use them
  ValueId value;         // one of its values, for reasons
  bool written = false;  // a sharding is written on one of its values: a constraint
  bool isResult = false; // of a function's result, not of the value that is returned
};

// Tensors whose dims share factors: an op, or the boundary of a region or function (then `op` is invalid).
struct Relation {
  OpId op;
  Rule rule;
  std::vector<VarId> tensors; // operands, then results; kNoVar for literals
  std::vector<ValueId> values;
  bool passThrough = false; // all factors are in all tensors (elementwise, reshape, transpose, boundaries)
};

class PropagationState {
public:
  PropagationState(Module& m, Diagnostics& diags, PropagationReport& report)
      : m(m), diags(diags), report(report) {}

  Module& m;
  Diagnostics& diags;
  PropagationReport& report;
  std::vector<VarId> varOf; // by value; kNoVar where a value has none (literals, values inside `local`)
  std::vector<ShardingVar> vars;
  std::vector<Relation> relations;
  std::vector<uint32_t> relationOf; // by op; ~0u where an op has none

  std::vector<std::vector<VarId>> resultVars; // by function: one per result

  // Makes variables and relations of all global functions. False where a rule does not hold.
  [[nodiscard]] bool build();
  // Moves axes to the fixed point, as the policy says, and closes all dims. False where policy explicit meets a conflict.
  [[nodiscard]] bool solve(const PropagateOptions&);
  [[nodiscard]] const Mesh& mesh(VarId v) const { return m.shardings.mesh(vars[v].mesh); }
  // The interned closed sharding of a variable, its pending annotation included.
  [[nodiscard]] ShardingId shardingOf(VarId v);
  VarId newVar(ValueId v, MeshId mesh, size_t rank, ShardingId written);

private:
  void buildBoundary(FuncId f);
  [[nodiscard]] bool buildFunction(FuncId f);
  void buildCall(OpId o);
  [[nodiscard]] bool buildBlock(BlockId b, MeshId mesh);
  [[nodiscard]] bool buildOp(OpId o, MeshId mesh);
  [[nodiscard]] bool buildRegionOp(OpId o, MeshId mesh);
  VarId addVar(ValueId v, MeshId mesh, ShardingId written);
  void unite(ValueId a, ValueId b);
  void link(ValueId a, ValueId b, size_t skipDimsOfB = 0);
  void linkVars(VarId a, VarId b, std::span<const Dim> dimsOfA, ValueId valueA, ValueId valueB,
                size_t skipDimsOfB = 0);
  void annotate(VarId v, ShardingId written);
  void reveal(int32_t priority);
  // Updates the relations of `work`, and those of what changes, until nothing does. Adds to `changed`.
  void runStage(int level, bool aggressive, std::deque<uint32_t> work, std::vector<VarId>& changed);
  void runStageOnAll(int level, bool aggressive);
  void resolveTies();
  bool settle(const Relation&, std::vector<VarId>& changed);
  [[nodiscard]] uint64_t versionOf(uint32_t relation) const;
  [[nodiscard]] bool agrees(uint32_t relation) const { return agreedAt_[relation] == versionOf(relation); }
  [[nodiscard]] bool anyCut(const Relation&) const;
  bool update(uint32_t relation, int level, bool aggressive, std::vector<VarId>& changed);
  std::vector<std::vector<uint32_t>> relationsOfVar_;
  // How often a variable has changed, and the sum of that over a relation's variables when it was last found to agree in all
  // factors: until one changes there is nothing to do for it, at any level.
  std::vector<uint32_t> version_;
  std::vector<uint64_t> agreedAt_;
  // The same for relations that do not agree: in which ways (bits) nothing moved, at that sum.
  struct Tried {
    uint64_t version = 0;
    uint8_t ways = 0;
  };
  std::vector<Tried> tried_;
  std::vector<TensorProjection> projections_; // of one update
  std::vector<PartList> axes_;
  std::vector<bool> queued_;                    // by relation; all false between stages
  std::unordered_map<int64_t, ValueId> groups_; // shard {group = N}
};

// --- helpers shared with InsertReshards ---
// An identity between two tensors of equal rank (b without its first `skip` dims).
[[nodiscard]] Rule identityRule(std::span<const Dim> dims, size_t skipDimsOfB);

} // namespace dtc
