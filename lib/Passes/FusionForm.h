#pragma once
// What an op asks of the kernel that it stands in, read off its record and rule (private to lib/Passes).
#include "dtc/IR/OpRecord.h"
#include "dtc/Support/Layout.h"
#include <unordered_map>

namespace dtc {

struct FusionForm {
  bool loops = false;     // generated or library code makes it; else it stays as it is
  bool move = false;      // only other indices, or no operands at all: its readers fold it
  bool compound = false;  // a move of one operand by whole factors: reshape, transpose, broadcast
  bool slices = false;    // of moves: dims are cut, at places that are known
  bool lookup = false;    // of moves: the row of operand 0 that operand 1, one number, says
  bool reduces = false;   // a reduction or row op over operand 0
  bool contracts = false; // reduces several operands: a loop nest of its own
  bool library = false;   // of those, a matrix product
  bool attention = false; // of those, rows of one operand merged with rows of others: a walk over these
  bool window = false;    // of those, a convolution of floats
  bool alone = false;     // is otherwise made of others: a kernel by itself, of a target that has it
  bool ordered = false;   // stores its results in an order of its own (OpRecord::stores): a kernel by itself
  bool joins = false;     // many operands one after the other: copied by a kernel that does nothing else
  bool indexed = false;   // reads operands where data or irregular rules say: they must lie in memory
  std::vector<bool> reduced; // of `reduces`: the dims of operand 0
  Rule rule;
};
[[nodiscard]] FusionForm fusionFormOf(Module&, OpId);
// Does the move put the operand's dims in another order and nothing else, the last one staying last?
[[nodiscard]] bool permutesAllButLast(const FusionForm& move);

// A view of a dense tensor as its layout, one mode for each dim; starts as the tensor itself. A size that is not known stands as a
// prime that divides no size that is: products of sizes are then equal as numbers only where they are equal as products.
class StridedView {
public:
  StridedView(const Module& m, const Type& t);
  // The move's result, of which this is the operand (operand 0). False where no layout can say it.
  [[nodiscard]] bool apply(const Rule& rule);
  // Is each dim one walk through memory (or the same element again)?
  [[nodiscard]] bool strided() const;
  // The same bytes in the same order?
  [[nodiscard]] bool identity() const;
  [[nodiscard]] const Layout& layout() const { return layout_; }

private:
  int64_t number(Dim d);
  const Module& m_;
  std::unordered_map<int64_t, int64_t> primes_; // by symbol, or by dim
  std::vector<int64_t> known_;                  // the numbers of the tensor's sizes
  bool fits_ = true;                            // all sizes together stay below 2^62
  Layout layout_;
  int64_t size_ = 1;
  bool whole_ = true; // nothing was cut away
};

} // namespace dtc
