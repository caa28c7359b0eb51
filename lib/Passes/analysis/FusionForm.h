#pragma once
// The properties of an op that fusion needs, derived from its record and rule.
#include "dtc/IR/OpRecord.h"
#include "dtc/Support/Layout.h"
#include <deque>
#include <optional>
#include <unordered_map>

namespace dtc {

struct FusionForm {
  bool loops = false;     // computed by generated or library code; otherwise the op is unchanged
  bool move = false;      // a data-movement op, or no operands at all: its readers fold it
  bool compound = false;  // a data-movement op on one operand by full factors: reshape, transpose, broadcast
  bool slices = false;    // a data-movement op with static offsets and sizes
  bool lookup = false;    // a data-movement op that reads the row of operand 0 given by the scalar operand 1
  bool reduces = false;   // a reduction or row op over operand 0
  bool contracts = false; // reduces several operands: has loops of its own
  bool library = false;   // a contraction that is a matrix product
  // a contraction that merges rows of one operand with rows of others, over which it loops
  bool attention = false;
  bool window = false; // a contraction that is a convolution of floats
  bool alone = false;  // otherwise decomposed: a kernel by itself, on targets that have it
  // `alone`, a gradient of attention: reads isRowsOperand() in any layout of rows, and writes its results so
  bool readsRows = false, writesRows = false;
  bool ordered = false;      // has its own store order (OpRecord::stores): a kernel by itself
  bool joins = false;        // a concatenation of many operands: a copy kernel of its own
  bool indexed = false;      // reads operands at data-dependent or irregular indices: they must be in memory
  std::vector<bool> reduced; // if `reduces`: the dims of operand 0
  Rule rule;
};
[[nodiscard]] FusionForm fusionFormOf(Module&, OpId);

// The forms of the ops of one function, each derived once: ops of one kind with the same types, attributes and
// literal operands share it.
class FusionForms {
public:
  explicit FusionForms(Module& m) : m_(m) {}
  [[nodiscard]] const FusionForm& of(OpId);
  // A copy that is folded by its readers.
  [[nodiscard]] const FusionForm& asMove(const FusionForm&);

private:
  struct KeyHash {
    size_t operator()(const std::vector<uint32_t>& key) const;
  };
  Module& m_;
  std::vector<uint32_t> key_; // of the op that is looked up
  std::unordered_map<std::vector<uint32_t>, FusionForm, KeyHash> forms_;
  std::deque<FusionForm> moves_;
};
// True if the op is decomposed unless the target has a kernel for it with these dtypes and sizes (its record
// derives "one kernel").
[[nodiscard]] bool mayHaveKernel(Module&, OpId);
// For an op that only permutes the operand's dims: the operand's dim of each dim of the result.
[[nodiscard]] std::optional<std::vector<size_t>> permutationOf(const FusionForm& move);
// True if the op only permutes the operand's dims, and the last one stays last.
[[nodiscard]] bool permutesAllButLast(const FusionForm& move);

// The number of parts, where a reduction of columns reduces values of the same rows as another reduction, one
// dim of which is split in two (`parted`): it reduces the inner part, and the dims after it up to the rows' own
// dims. The parts remain, and each row is within one part.
[[nodiscard]] std::optional<int64_t> columnParts(const std::vector<bool>& rowReduced,
                                                 const std::vector<Dim>& full,
                                                 const std::vector<bool>& reduced,
                                                 const std::vector<Dim>& parted);

// A view of a dense tensor as its layout, one mode per dim; starts as the tensor itself. An unknown size is
// represented by a prime that does not divide any static size: products of sizes are then equal as integers
// only if they are equal symbolically.
class StridedView {
public:
  StridedView(const Module& m, const Type& t);
  // Applies the data-movement op whose operand 0 has this layout. False if the result has no strided layout.
  [[nodiscard]] bool apply(const Rule& rule);
  // True if each dim has a single stride (possibly 0).
  [[nodiscard]] bool strided() const;
  // The same, and the elements along the last dim are contiguous.
  [[nodiscard]] bool isRows() const;
  // True if it has each element of the tensor once, and the tensor is rows in the memory of the view, stored
  // contiguously: a kernel that writes rows can write the view instead of the tensor.
  [[nodiscard]] bool storesRows() const;
  // True if rows of at least 64 bytes of the tensor are contiguous in it: a kernel reads whole lines of memory.
  [[nodiscard]] bool keepsLines(DType) const;
  // A run of elements with one stride in the tensor and one in the memory of the view, stored contiguously.
  struct Run {
    int64_t size, in, out;
  };
  // The whole tensor as runs, by increasing `in`; empty if the view does not have each element once.
  [[nodiscard]] std::vector<Run> runs() const;
  // The runs of each dim of the tensor.
  [[nodiscard]] std::optional<std::vector<std::vector<Run>>> runsByDim() const;
  // True if it has the same bytes in the same order.
  [[nodiscard]] bool identity() const;
  // False: it has no layout, because the product of its sizes is too large, or unknown sizes meet an empty dim.
  [[nodiscard]] bool known() const { return fits_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }

private:
  int64_t number(Dim d);
  const Module& m_;
  std::unordered_map<int64_t, int64_t> primes_; // by symbol, or by dim
  std::vector<int64_t> known_;                  // the static sizes of the tensor
  std::vector<int64_t> sizes_;                  // all its sizes
  bool fits_ = true;                            // the product of all sizes is below 2^62
  Layout layout_;
  int64_t size_ = 1;
  bool allCompound_ = true; // no slice was applied
};

} // namespace dtc
