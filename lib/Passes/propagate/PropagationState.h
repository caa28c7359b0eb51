#pragma once
// The state of propagate: one sharding variable per set of values that must agree, and the relations between
// variables.
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/TextNames.h"
#include "dtc/Passes/analysis/ShardedOpProgram.h"
#include "dtc/Passes/propagate/Propagate.h"
#include "dtc/Sharding/Reshard.h"
#include "propagate/FactorPropagation.h"
#include <array>

namespace dtc {

using VarId = uint32_t;
inline constexpr VarId kNoVar = ~0u;

// The sharding of one variable during the solve.
struct ShardingVar {
  MeshId mesh;
  std::vector<DimSharding> dims;
  std::vector<DimSharding> annotated; // as written, revealed at its priority; empty: not annotated
  std::vector<PendingAxis> pending;   // as annotated
  std::vector<AxisRef> replicated;    // rep(…)
  PartList reserved;                  // annotated parts with a later priority: reserved for this dim
  ValueId value;                      // one of its values, for reasons
  bool written = false;               // one of its values is annotated: a constraint
  bool shared = false;                // stands for several values: loop-carried, a branch result, a group
  bool isResult = false;              // of a function's result, not of the returned value
};

// Tensors whose dims share factors: an op, or the boundary of a region or function (`op` is invalid).
struct Relation {
  OpId op;
  Rule rule;
  std::optional<Rule> follow; // the propagation rule, if not the op's own (OpRecord::follow)
  std::vector<VarId> tensors; // operands, then results; kNoVar for literals
  std::vector<ValueId> values;
  // When axes propagate: simple ops first (see flowOf in PropagateSolve.cpp).
  Flow early = Flow::None;      // elementwise ops, views, boundaries; forward only: dynamic slices
  bool elementwise = false;     // FactorPropagation.h
  bool singleUse = true;        // no operand has another use
  bool broadcast = false;       // the result has dims of its own: backward before forward
  bool barrier = false;         // `early` at all times
  bool inner = false;           // inside a `local` region, or on its boundary: never resharded
  size_t prefixed = SIZE_MAX;   // the tensor inside such a region, of which …
  std::vector<PartList> prefix; // … each dim is first sharded by the region's own axes
  VarId primal = kNoVar;        // the result is the cotangent of this tensor (AdjointRelations.cpp)
  bool returned = false;        // of a function's result: processed before and after all others
  [[nodiscard]] const Rule& moving() const { return follow ? *follow : rule; }
};

class PropagationState {
public:
  PropagationState(Module& m, Diagnostics& diags, PropagationReport& report)
      : m(m), diags(diags), report(report), shardedPrograms(m), names(m), uses_(m) {}

  Module& m;
  Diagnostics& diags;
  PropagationReport& report;
  std::vector<VarId> varOf; // by value; kNoVar if a value has none (literals, values inside `local`)
  std::vector<ShardingVar> vars;
  std::vector<Relation> relations;
  std::vector<uint32_t> relationOf;                             // by op; ~0u if an op has none
  mutable ShardedOpPrograms shardedPrograms;                    // a memo
  TextNames names;                                              // until reshards are written
  mutable std::map<std::array<uint32_t, 3>, ReshardPlan> plans; // a memo of recordDecision: from, to, type

  std::vector<std::vector<VarId>> resultVars;        // by function: one per result
  std::vector<std::vector<uint32_t>> relationsOfVar; // without those of function results

  // True for a splat (all elements equal), which each device materializes itself.
  // Builds the variables and relations of all global functions. False if a rule does not hold.
  [[nodiscard]] bool build();
  [[nodiscard]] const Mesh& mesh(VarId v) const { return m.shardings.mesh(vars[v].mesh); }
  // The interned closed sharding of a variable, including its pending annotation.
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
  void collectConstraints();
  void constrainOperand(ValueId x, ShardingId written);
  void classify(Relation&, const OpRecord&) const;
  [[nodiscard]] bool buildBlock(BlockId b, MeshId mesh);
  [[nodiscard]] bool buildOp(OpId o, MeshId mesh);
  [[nodiscard]] bool buildRegionOp(OpId o, MeshId mesh);
  VarId addVar(ValueId v, MeshId mesh, ShardingId written);
  void unite(ValueId a, ValueId b);
  void link(ValueId a, ValueId b, size_t skipDimsOfB = 0);
  // Links the values that flow into one: the start and the yield of a carried value, the yields of a branch.
  void linkAll(std::span<const ValueId> sources, ValueId target);
  Relation* linkVars(VarId a, VarId b, std::span<const Dim> dimsOfA, ValueId valueA, ValueId valueB,
                     size_t skipDimsOfB = 0);
  void annotate(VarId v, ShardingId written);
  UseCounts uses_;
  std::unordered_map<uint32_t, ShardingId> constraintOn_; // by value
  std::unordered_map<int64_t, ValueId> groups_;           // shard {group = N}
};

// Finds each contraction whose result has the shape of another contraction's operand, as a gradient has
// (AdjointRelations.cpp), and sets Relation::primal.
void findPrimals(std::vector<Relation>&);

// Propagates axes to the fixed point under the policy, and closes all dims (PropagateSolve.cpp). False if
// policy explicit finds a conflict.
[[nodiscard]] bool solveShardings(PropagationState&, const PropagateOptions&);

// --- helpers shared with InsertReshards ---
// An identity between tensors of equal rank: `numSources` operands, one result (without its first `skip`
// dims).
[[nodiscard]] Rule identityRule(std::span<const Dim> dims, size_t skipDimsOfB, size_t numSources = 1);

} // namespace dtc
