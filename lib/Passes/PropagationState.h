#pragma once
// What propagate knows while it runs: one sharding variable per set of values that must agree, and the relations between
// them. Private to lib/Passes.
#include "FactorMoves.h"
#include "dtc/IR/Naming.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/CutProgram.h"
#include "dtc/Passes/Propagate.h"
#include "dtc/Sharding/Reshard.h"
#include <array>
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
  bool shared = false;   // what a loop carries, a branch gives, a group has: several values
  bool isResult = false; // of a function's result, not of the value that is returned
};

// Tensors whose dims share factors: an op, or the boundary of a region or function (then `op` is invalid).
struct Relation {
  OpId op;
  Rule rule;
  std::optional<Rule>
      follow; // the rule that shardings follow, where it is not the op's own (OpRecord::follow)
  std::vector<VarId> tensors; // operands, then results; kNoVar for literals
  std::vector<ValueId> values;
  // When axes move: what is simple goes first (see flowOf in PropagateSolve.cpp).
  Flow early = Flow::None;      // elementwise ops, views, boundaries; forward only: dynamic slices
  bool elementwise = false;     // FactorMoves.h
  bool singleUse = true;        // no operand is used elsewhere too
  bool broadcast = false;       // the result has dims of its own: backward before forward
  bool barrier = false;         // `early` at all times
  bool inner = false;           // within a `local` region, or at its edge: nothing is resharded for it
  size_t prefixed = SIZE_MAX;   // the tensor that is inside of such a region, of which …
  std::vector<PartList> prefix; // … the region's own axes cut each dim before
  VarId primal = kNoVar;        // the result is the cotangent of this tensor (AdjointRelations.cpp)
  bool returned = false;        // of a function's result: looked at before and after all others
  [[nodiscard]] const Rule& moving() const { return follow ? *follow : rule; }
};

class PropagationState {
public:
  PropagationState(Module& m, Diagnostics& diags, PropagationReport& report)
      : m(m), diags(diags), report(report), cutPrograms(m), names(m), uses_(m),
        constant_(m.registry->find("constant")) {}

  Module& m;
  Diagnostics& diags;
  PropagationReport& report;
  std::vector<VarId> varOf; // by value; kNoVar where a value has none (literals, values inside `local`)
  std::vector<ShardingVar> vars;
  std::vector<Relation> relations;
  std::vector<uint32_t> relationOf;                             // by op; ~0u where an op has none
  mutable CutPrograms cutPrograms;                              // a memo
  ValueNames names;                                             // until reshards are written
  mutable std::map<std::array<uint32_t, 3>, ReshardPlan> plans; // a memo of recordDecision: from, to, type

  std::vector<std::vector<VarId>> resultVars; // by function: one per result

  // Is it made of equal elements? Then each device makes what it needs.
  [[nodiscard]] bool isSplat(ValueId) const;
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
  void buildShard(OpId o, MeshId mesh);
  [[nodiscard]] bool buildBarrier(OpId o);
  // The relation of an op with a rule.
  [[nodiscard]] bool buildRuled(OpId o);
  [[nodiscard]] bool buildFree(OpId o, MeshId mesh, AttrId free);
  void linkInner(ValueId outer, ValueId inner, ShardingId written, bool inward);
  void findPrimals();
  void collectConstraints();
  void constrainOperand(ValueId x, ShardingId written);
  void classify(Relation&, const OpRecord&) const;
  [[nodiscard]] bool buildBlock(BlockId b, MeshId mesh);
  [[nodiscard]] bool buildOp(OpId o, MeshId mesh);
  [[nodiscard]] bool buildRegionOp(OpId o, MeshId mesh);
  VarId addVar(ValueId v, MeshId mesh, ShardingId written);
  void unite(ValueId a, ValueId b);
  void link(ValueId a, ValueId b, size_t skipDimsOfB = 0);
  // Values that flow into one: of a loop's carried value the start and what is yielded, of a branch's what its blocks yield.
  void linkAll(std::span<const ValueId> sources, ValueId target);
  Relation* linkVars(VarId a, VarId b, std::span<const Dim> dimsOfA, ValueId valueA, ValueId valueB,
                     size_t skipDimsOfB = 0);
  void annotate(VarId v, ShardingId written);
  void reveal(int32_t priority);
  // Updates the relations of `work` (the last first), and those of what changes, until nothing does.
  void runStage(int level, std::vector<uint32_t> work);
  void runStageOnAll(int level);
  void updateReturned();
  void resolveTies(bool viewsOnly);
  bool settle(const Relation&, bool viewsOnly, std::vector<VarId>& changed);
  [[nodiscard]] uint64_t versionOf(uint32_t relation) const;
  [[nodiscard]] bool agrees(uint32_t relation) const { return agreedAt_[relation] == versionOf(relation); }
  [[nodiscard]] bool anyCut(const Relation&) const;
  [[nodiscard]] FactorMoves movesOf(const Relation&, const Mesh&) const;
  bool update(uint32_t relation, int level, std::vector<VarId>& changed);
  void queueRelationsOf(VarId, uint32_t except, std::vector<uint32_t>& work);
  void recordReasons(const Relation&, const MovedTensor&);
  UseCounts uses_;
  OpKind constant_;
  std::unordered_map<uint32_t, ShardingId> constraintOn_; // by value
  bool tiesAreNobodys_ = false;                           // FactorMoves.h
  std::vector<std::vector<uint32_t>> relationsOfVar_;     // without those of function results
  // How often a variable has changed, and the sum of that over a relation's variables when it was last found to agree in all
  // factors: until one changes there is nothing to do for it, at any level.
  std::vector<uint32_t> version_;
  std::vector<uint64_t> agreedAt_;
  // The same for relations that do not agree: by which flows nothing moved, at that sum.
  struct Tried {
    uint64_t version = 0, flows = 0;
  };
  std::vector<Tried> tried_;
  FlowTable flows_;                             // of one update
  std::vector<bool> queued_;                    // by relation; all false between stages
  std::unordered_map<int64_t, ValueId> groups_; // shard {group = N}
};

// --- helpers shared with InsertReshards ---
// An identity between tensors of equal rank: `numSources` operands, one result (without its first `skip` dims).
[[nodiscard]] Rule identityRule(std::span<const Dim> dims, size_t skipDimsOfB, size_t numSources = 1);

} // namespace dtc
