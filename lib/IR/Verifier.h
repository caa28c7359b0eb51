#pragma once
// The verifier of lib/IR, over several files: Verifier.cpp (functions, names, types), VerifyRegion.cpp (ops with blocks,
// calls), VerifyLocal.cpp (pieces, varying values, handles).
#include "LocalTypes.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/Region.h"
#include <functional>

namespace dtc {

struct WrittenContract;

class Verifier {
public:
  Verifier(Module& m, Diagnostics& diags) : m_(m), diags_(diags), defined_(m.values.size()) {}
  // Everything that verifyModule asks of one function by itself (not: recursion). Its types are known.
  void function(FuncId);
  // What is asked of the module as a whole.
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
  // `what` says which part, if it must be told.
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
  // The piece of `global` under a closed sharding; invalid (and reported, if `range` is given) where there is none.
  TypeId pieceType(TypeId global, ShardingId, SourceRange);
  void localOp(OpId);
  void handles(BlockId);
  void varying(const Varying&, BlockId);
  // What a `local` block yields is, along each axis, what its results say.
  void localYields(OpId, const LocalTypes&);
  void localYield(OpId, const LocalTypes&, uint32_t result, AxisSet part);
  void varyingResults(const Function&, const Varying&);

  Module& m_;
  Diagnostics& diags_;
  std::vector<uint32_t> defined_; // by value: when it was defined, from 1; 0 where it is not visible
  std::vector<ValueId> stack_;    // the defined values
  uint32_t visibleFrom_ = 0;
  std::unordered_map<ValueId, MeshId> meshes_; // of values without a sharding, in modules of several meshes
  FuncId func_;
  bool freeAxes_ = false; // in a `local` block that leaves axes free: its values may be annotated along those
  bool local_ = false;    // in an spmd function or a `local` block
  std::vector<TypeId> types_;
};

// Of the ops with a callee, the one that gives gradients, too.
[[nodiscard]] bool takesGradients(const OpRecord&);

} // namespace dtc
