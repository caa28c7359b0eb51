#pragma once
// The reverse sweep over one block of a forward program. Private to lib/Passes.
#include "GradientPaths.h"
#include "LocalGradient.h"
#include "dtc/IR/Builder.h"
#include "dtc/Passes/Clone.h"

namespace dtc {

// What all blocks of one differentiation share.
struct Differentiation {
  Module& m;
  Diagnostics& diags;
  std::unordered_map<std::string, bool>& names; // in use in the function
  GradientPaths paths;
  ValueMap replaced; // results of forward ops that had to give more, to those of the ops in their places
  AttrList taker;    // `within` of the op that takes the gradient
  const LocalCotangents* local = nullptr; // of the `local` region that is being differentiated

  // Gives `v` the name where it has none and the name is free.
  void name(ValueId v, std::string wanted);
};

// A block's cotangents, made from its last op to its first. Values of the block itself are kept in a table. What the block
// reads from around it (a weight that every trip of a loop uses) is accumulated in what is there already: in a loop it becomes
// a carried value that starts from the cotangent so far, in a branch it is added to that; so sums over trips are made in one
// place, and reduced over devices once.
class GradientSweep {
public:
  enum class Scope : uint8_t {
    Whole,  // of the function: every value is its own
    Loop,   // cotangents of outer values are further arguments of the backward block
    Branch, // they are visible by name
  };
  // New ops belong to block `backward`; they stand in `out` until the caller puts them there.
  GradientSweep(Differentiation& shared, GradientSweep* outer, Scope scope, BlockId forward, BlockId backward)
      : shared(shared), m(shared.m), outer(outer), forward(forward), b(shared.m, backward, out, shared.diags),
        scope_(scope) {}
  GradientSweep(const GradientSweep&) = delete;

  // Sweeps over `ops` (those of the block `forward`), replacing those that have to keep something for the way back. False,
  // with a diagnostic, where one has no gradient.
  [[nodiscard]] bool run(std::vector<OpId>& ops);

  // The cotangent of `v` so far, as it can be read here; invalid: zero.
  [[nodiscard]] ValueId visible(ValueId v);
  [[nodiscard]] ValueId visibleOrZero(ValueId v);
  // Ops with ids from `fresh` on were made for this cotangent alone. In local text it differs between devices along `from`.
  void accumulate(ValueId v, ValueId cotangent, size_t fresh = SIZE_MAX, AxisSet from = 0);
  // The cotangent of one value, as that of another which it is handed on to.
  void hand(ValueId from, ValueId to, ValueId cotangent) {
    accumulate(to, cotangent, SIZE_MAX, shared.local ? shared.local->along(from) : 0);
  }
  // `cotangent` has what visible(v) gave so far in it.
  void set(ValueId v, ValueId cotangent);
  ValueId zeros(ValueId like) { return b.constant(0, m[like].type); }
  // Outer values that got a contribution here, in the order of their first; of a loop: as its further arguments.
  [[nodiscard]] const std::vector<ValueId>& touched() const { return touched_; }
  [[nodiscard]] bool onPath(ValueId v) const { return shared.paths(v); }

  // The slice %ws[%i] of an outer value that each trip of a `for` has for itself: its cotangents are stacked, not
  // accumulated. The slices of branches and recomputed blocks in the loop are given back to it.
  struct Slices {
    ValueId trip; // the loop's index
    BlockId loop; // its block: what is defined there is no outer value
    int64_t lo = 0;
    Dim trips{0};
    std::vector<ValueId> sources;                    // outer values, in the order of their first slice …
    std::unordered_map<ValueId, ValueId> cotangents; // … and the cotangents of their slices
  };
  std::optional<Slices> slices;
  void takeSlicesOf(const GradientSweep& around); // for a block inside
  void addSlice(ValueId source, ValueId cotangent);
  [[nodiscard]] TypeId sliceType(ValueId source);

  Differentiation& shared;
  Module& m;
  GradientSweep* outer;
  BlockId forward;
  std::vector<OpId> out;
  std::vector<OpId> before; // forward ops that are to stand before the one that is being differentiated
  Builder b;

private:
  [[nodiscard]] bool owns(ValueId v) const;
  [[nodiscard]] bool step(OpId& o);
  [[nodiscard]] bool sliceOfTrip(OpId o) const;
  void call(OpId o, const std::vector<ValueId>& results);
  [[nodiscard]] bool plain(OpId o, const std::vector<ValueId>& results);
  [[nodiscard]] bool scattersInto(ValueId sum, ValueId cotangent, size_t fresh);
  void nameCotangents(OpId o, const std::vector<ValueId>& results);

  Scope scope_;
  std::unordered_map<ValueId, ValueId> cotangents_;
  std::vector<ValueId> touched_;
};

// The function that {grad = @g} names; invalid where there is none.
[[nodiscard]] FuncId ownGradient(const Module&, FuncId);
// Removes ops of which neither `yields` nor another op reads a result.
void dropUnused(Module&, std::vector<OpId>& ops, std::span<const ValueId> yields);
// Puts the ops in the block and sets what it yields.
void fillBlock(Module&, BlockId, std::vector<OpId> ops, std::vector<ValueId> yields);
// Calls fn(ValueId&) for every operand of the op and of those in its blocks, and for what these yield.
template <class Fn> void forEachUse(Module& m, OpId o, Fn&& fn) {
  for (ValueId& v : m.operands(o)) fn(v);
  for (uint32_t k = 0; k < m[o].numRegions; ++k) {
    for (OpId inner : m[m.region(o, k)].ops) forEachUse(m, inner, fn);
    for (ValueId& v : m[m.region(o, k)].yields) fn(v);
  }
}
// Gives an op made without results its operands and results.
void completeOp(Module&, OpId, std::span<const ValueId> operands, std::span<const TypeId> results);

} // namespace dtc
