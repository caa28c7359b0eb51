#pragma once
// The verifier: functions, names and types; ops with blocks and calls; local text.
#include "dtc/IR/OpRecord.h"
#include "infer/LocalTypes.h"
#include <functional>
#include <unordered_set>

namespace dtc {

struct WrittenContract;

// What the parts of the verifier share.
class VerifierPart {
public:
  VerifierPart(Module& m, Diagnostics& diags) : m_(m), diags_(diags) {}

protected:
  template <class... Args> Diagnostic& error(const DiagKind& kind, SourceRange range, const Args&... args) {
    return diags_.error(kind, range, args...);
  }
  std::string name(ValueId) const; // "%x"
  std::string typeName(TypeId) const;

  Module& m_;
  Diagnostics& diags_;
};

// Functions, names, types.
class Verifier : public VerifierPart {
public:
  Verifier(Module& m, Diagnostics& diags) : VerifierPart(m, diags), defined_(m.values.size()) {}
  // The checks of a single function; recursion is checked for the module. Types are known.
  void function(FuncId);
  // The checks of the module.
  void recursion();

  // --- for RegionVerifier ---
  [[nodiscard]] bool inLocal() const { return local_; }
  // In a `local` block; with `freeAxes` its values may be annotated along those.
  void setLocal(bool local, bool freeAxes) { local_ = local, freeAxes_ = freeAxes; }
  // An isolated block does not see the values around it.
  void innerBlock(BlockId, bool isolated);
  void sharding(ShardingId, TypeId global, SourceRange);
  MeshId meshOf(ValueId) const;
  void setMesh(ValueId, MeshId);

private:
  std::string functionName(FuncId) const; // "@f"
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
  void define(ValueId);
  bool visible(ValueId v) const { return defined_[v.index] && defined_[v.index] > visibleFrom_; }
  void meshes(OpId);

  std::vector<uint32_t> defined_; // by value: definition order from 1; 0: not visible
  std::vector<ValueId> stack_;    // the visible values
  uint32_t visibleFrom_ = 0;
  std::unordered_map<ValueId, MeshId> meshes_; // of values without a sharding, in modules of several meshes
  FuncId func_;
  bool freeAxes_ = false;
  bool local_ = false; // in an spmd function or a `local` block
  std::vector<TypeId> types_;
  std::unordered_set<uint64_t> valid_; // pairs of a sharding and a global type that were found to agree
};

// An op with blocks, or a call (VerifyRegion.cpp).
class RegionVerifier : public VerifierPart {
public:
  RegionVerifier(Module& m, Diagnostics& diags, Verifier& verifier, FuncId function, OpId op)
      : VerifierPart(m, diags), verifier_(verifier), function_(function), op_(op) {}
  void region();
  void call();

private:
  void block(uint32_t region, size_t firstArg);
  void argTypes(BlockId, size_t firstArg, size_t firstStart);
  void yieldTypes(BlockId, std::span<const TypeId> wanted, std::string_view why);
  void cond();
  void whileLoop();
  void forLoop();
  void local();
  std::vector<TypeId> resultTypes() const;

  Verifier& verifier_;
  FuncId function_;
  OpId op_;
};

// Local text: shards, varying values, handles (VerifyLocal.cpp).
class LocalVerifier : public VerifierPart {
public:
  LocalVerifier(Module& m, Diagnostics& diags, FuncId function)
      : VerifierPart(m, diags), function_(function) {}
  // The shard type of `global` under a closed sharding; invalid if there is none, which is reported if
  // `range` is given.
  TypeId shardType(TypeId global, ShardingId, SourceRange);
  void op(OpId, bool local, bool freeAxes);
  void placement();
  void handles(BlockId);
  void varying(const Varying&, BlockId);
  void varyingResults(const Varying&);
  // Checks that the yields of a `local` block match its results along each axis.
  void yields(OpId, const LocalTypes&);

private:
  void yield(OpId, const LocalTypes&, uint32_t result, AxisSet part);

  FuncId function_;
};

// Programs whose devices differ (VerifyDevices.cpp): their sets of devices, signatures and collectives.
void verifyDevices(const Module&, Diagnostics&);

} // namespace dtc
