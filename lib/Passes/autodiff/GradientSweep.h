#pragma once
// The reverse sweep over one block of a forward program.
#include "analysis/Reads.h"
#include "autodiff/GradientPaths.h"
#include "autodiff/LocalGradient.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/Passes/analysis/Clone.h"

namespace dtc {

// The state shared by all blocks of one differentiation.
struct Differentiation {
  Module& m;
  Diagnostics& diags;
  std::unordered_map<std::string, bool>& names; // used in the function
  GradientPaths paths;
  // results of forward ops that were replaced to produce more results, to those of the new ops
  ValueMap replaced;
  AttrList taker;                         // `within` of the value_and_grad op
  const LocalCotangents* local = nullptr; // of the `local` region being differentiated

  // Names `v`, if it has no name and the name is free.
  void name(ValueId v, std::string wanted);
};

// The cotangents of a block, computed from its last op to its first. Cotangents of the block's own values are
// kept in a table. Those of outer values (a weight used in every iteration of a loop) accumulate in place: in
// a loop as a carried value that starts from the cotangent so far, in a branch by adding to it. Sums over
// iterations are therefore accumulated in one value, and reduced over devices once.
class GradientSweep {
public:
  enum class Scope : uint8_t {
    Whole,  // a function: every value is its own
    Loop,   // cotangents of outer values are additional arguments of the backward block
    Branch, // outer cotangents are visible by name
  };
  // New ops belong to block `backward`; they stay in `out` until the caller inserts them.
  GradientSweep(Differentiation& shared, GradientSweep* outer, Scope scope, BlockId forward, BlockId backward)
      : shared(shared), m(shared.m), outer(outer), forward(forward), b(shared.m, backward, out, shared.diags),
        scope_(scope) {}
  GradientSweep(const GradientSweep&) = delete;

  // Sweeps over `ops` (those of the block `forward`), replacing ops that have to produce residuals. False,
  // with a diagnostic, if one has no gradient.
  [[nodiscard]] bool run(std::vector<OpId>& ops);

  // The cotangent of `v` so far, as visible in this block; invalid: zero.
  [[nodiscard]] ValueId visible(ValueId v);
  [[nodiscard]] ValueId visibleOrZero(ValueId v);
  // Ops with ids from `fresh` on were created for this cotangent alone. In local text it differs between
  // devices along `from`.
  void accumulate(ValueId v, ValueId cotangent, size_t fresh = SIZE_MAX, AxisSet from = 0);
  // Forwards the cotangent of one value to another.
  void forwardCotangent(ValueId from, ValueId to, ValueId cotangent) {
    accumulate(to, cotangent, SIZE_MAX, shared.local ? shared.local->along(from) : 0);
  }
  // `cotangent` includes what visible(v) returned.
  void set(ValueId v, ValueId cotangent);
  ValueId zeros(ValueId like) { return b.constant(0, m[like].type); }
  // Outer values with a contribution from this block, in order of the first one; for a loop: in the order of
  // its additional arguments.
  [[nodiscard]] const std::vector<ValueId>& touched() const { return touched_; }
  [[nodiscard]] bool onPath(ValueId v) const { return shared.paths(v); }

  // The per-iteration slice %ws[%i] of an outer value in a `for`: its cotangents are stacked, not
  // accumulated. Slices in nested branches and recomputed blocks are attributed to the loop.
  struct Slices {
    ValueId iteration; // the loop's index
    BlockId loop;      // the loop's block; values defined there are not outer values
    int64_t lo = 0;
    Dim iterations{0};
    std::vector<ValueId> sources;                    // outer values, in the order of their first slice …
    std::unordered_map<ValueId, ValueId> cotangents; // … and the cotangents of their slices
  };
  std::optional<Slices> slices;
  void takeSlicesOf(const GradientSweep& around); // for a nested block
  void addSlice(ValueId source, ValueId cotangent);
  [[nodiscard]] TypeId sliceType(ValueId source);

  Differentiation& shared;
  Module& m;
  GradientSweep* outer;
  BlockId forward;
  std::vector<OpId> out;
  std::vector<OpId> before; // forward ops to insert before the one being differentiated
  Builder b;

private:
  [[nodiscard]] bool owns(ValueId v) const;
  [[nodiscard]] bool step(OpId& o);
  [[nodiscard]] bool isIterationSlice(OpId o) const;
  void call(OpId o, const std::vector<ValueId>& results);
  [[nodiscard]] bool plain(OpId o, const std::vector<ValueId>& results);
  [[nodiscard]] bool scattersInto(ValueId sum, ValueId cotangent, size_t fresh);
  // Adds the stage and phase of the builder's attributes to an op that has none.
  void addPlace(OpId o);
  void nameCotangents(OpId o, const std::vector<ValueId>& results);

  Scope scope_;
  std::unordered_map<ValueId, ValueId> cotangents_;
  std::vector<ValueId> touched_;
};

// Removes ops whose results are neither in `yields` nor read by another op.
void dropUnused(Module&, std::vector<OpId>& ops, std::span<const ValueId> yields);
// Inserts the ops into the block and sets its yields.
void fillBlock(Module&, BlockId, std::vector<OpId> ops, std::vector<ValueId> yields);
// Sets the operands and results of an op that was created without results.
void completeOp(Module&, OpId, std::span<const ValueId> operands, std::span<const TypeId> results);

} // namespace dtc
