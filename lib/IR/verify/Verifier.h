#pragma once
// The verifier, in several files: Verifier.cpp (functions, names, types), VerifyRegion.cpp (ops with blocks,
// calls), VerifyLocal.cpp (shards, varying values, handles).
#include "dtc/IR/OpRecord.h"
#include "infer/LocalTypes.h"
#include <functional>
#include <unordered_set>

namespace dtc {

struct WrittenContract;

class Verifier {
public:
  Verifier(Module& m, Diagnostics& diags) : m_(m), diags_(diags), defined_(m.values.size()) {}
  // The checks of a single function; recursion is checked for the module. Types are known.
  void function(FuncId);
  // The checks of the module.
  void recursion();

private:
  template <class... Args> Diagnostic& error(const DiagKind& kind, SourceRange range, const Args&... args) {
    return diags_.error(kind, range, args...);
  }
  std::string name(ValueId) const; // "%x"
  std::string typeName(TypeId) const;
  std::string functionName(FuncId) const; // "@f"

  // --- functions (Verifier.cpp) ---
  void signature(const Function&);
  // `what` identifies the part in the message, if there are several.
  void signaturePart(const Function&, const std::function<std::string()>& what, SourceRange, TypeId type,
                     TypeId global, ShardingId);
  void labels(const Function&);
  void functionAttrs(const Function&);
  void contract(const WrittenContract&);
  void gradientSignature(const Function& f, const Function& gradient);
  void oneMesh(const Function&);
  void returned(const Function&);
  void block(BlockId);
  void op(OpId);
  void operandsVisible(std::span<const ValueId>, SourceRange);
  bool typed(OpId);
  void inferred(OpId);
  void resultShardings(OpId);
  void sharding(ShardingId, TypeId global, SourceRange);
  void define(ValueId);
  bool visible(ValueId v) const { return defined_[v.index] && defined_[v.index] > visibleFrom_; }
  void meshes(OpId);
  MeshId meshOf(ValueId) const;
  void setMesh(ValueId, MeshId);

  // --- ops with blocks, calls (VerifyRegion.cpp) ---
  void regionOp(OpId);
  void regionBlock(OpId, uint32_t region, size_t firstArg);
  void argTypes(OpId, BlockId, size_t firstArg, size_t firstStart);
  void yieldTypes(OpId, BlockId, std::span<const TypeId> wanted, std::string_view why);
  void cond(OpId);
  void whileLoop(OpId);
  void forLoop(OpId);
  void localRegion(OpId);
  void call(OpId);
  std::vector<TypeId> resultTypes(OpId) const;

  // --- local text (VerifyLocal.cpp) ---
  // The shard type of `global` under a closed sharding; invalid if there is none, which is reported if
  // `range` is given.
  TypeId shardType(TypeId global, ShardingId, SourceRange);
  void localOp(OpId);
  void placement(const Function&);
  void handles(BlockId);
  void varying(const Varying&, BlockId);
  // Checks that the yields of a `local` block match its results along each axis.
  void localYields(OpId, const LocalTypes&);
  void localYield(OpId, const LocalTypes&, uint32_t result, AxisSet part);
  void varyingResults(const Function&, const Varying&);

  Module& m_;
  Diagnostics& diags_;
  std::vector<uint32_t> defined_; // by value: definition order from 1; 0: not visible
  std::vector<ValueId> stack_;    // the visible values
  uint32_t visibleFrom_ = 0;
  std::unordered_map<ValueId, MeshId> meshes_; // of values without a sharding, in modules of several meshes
  FuncId func_;
  bool freeAxes_ = false; // in a `local` block with free axes: its values may be annotated along those
  bool local_ = false;    // in an spmd function or a `local` block
  std::vector<TypeId> types_;
  std::unordered_set<uint64_t> valid_; // pairs of a sharding and a global type that were found to agree
};

// Programs whose devices differ (VerifyDevices.cpp): their sets of devices, signatures and collectives.
void verifyDevices(const Module&, Diagnostics&);

} // namespace dtc
