#pragma once
// What an op asks of the kernel that it stands in, read off its record and rule (private to lib/Passes).
#include "dtc/IR/OpRecord.h"

namespace dtc {

struct FusionForm {
  bool loops = false;     // generated or library code makes it; else it stays as it is
  bool move = false;      // only other indices, or no operands at all: its readers fold it
  bool compound = false;  // a move of one operand by whole factors: reshape, transpose, broadcast
  bool reduces = false;   // a reduction or row op over operand 0
  bool contracts = false; // reduces several operands: a loop nest of its own
  bool library = false;   // of those, a matrix product
  bool attention = false; // of those, rows of one operand merged with rows of others: a walk over these
  bool ordered = false;   // stores its results in an order of its own (OpRecord::stores): a kernel by itself
  bool indexed = false;   // reads operands where data or irregular rules say: they must lie in memory
  std::vector<bool> reduced; // of `reduces`: the dims of operand 0
  Rule rule;
};
[[nodiscard]] FusionForm fusionFormOf(Module&, OpId);

// A view of a dense tensor as digits of its row-major index: what strides can say. Starts as the tensor itself.
class StridedView {
public:
  explicit StridedView(const Type& t);
  // The move's result, of which this is the operand. False where no digits can say it.
  [[nodiscard]] bool apply(const Rule& rule);
  // Is each dim one walk through memory (or the same element again)?
  [[nodiscard]] bool strided() const;
  // The same bytes in the same order?
  [[nodiscard]] bool identity() const;

private:
  struct Digit {
    Dim size;
    std::vector<int64_t> order; // place in the base's row-major order; compared lexicographically
    bool repeated = false;      // a broadcast: stride 0
  };
  using Digits = std::vector<Digit>; // major to minor
  static bool split(Digits& digits, Dim minor, Digits& taken);
  [[nodiscard]] std::vector<Digit> inOrder() const;
  std::vector<Digits> dims_;
};

} // namespace dtc
