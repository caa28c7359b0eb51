#pragma once
// Which ops of one block run together (private to lib/Passes). Greedy, in program order, near linear: an op joins the groups
// that make its operands where the kernel of all of them is still one pass over the same rows, and where no path between
// them leads outside. Values flow from lower levels to higher ones only, so that no grouping can make a circle; and groups of
// one level do not meet, so that small ones of them (the updates of many weights) become one kernel.
#include "FusionForm.h"

namespace dtc {

// How many elements: a number times sizes that are not known.
struct ElementCount {
  int64_t number = 1;
  std::vector<int64_t> sizes; // sorted dims of the table
  friend bool operator==(const ElementCount&, const ElementCount&) = default;
};

struct FusionGroup {
  std::vector<OpId> ops; // in program order, without the moves that readers fold
  bool fusible = false;  // false: one op that stays as it is
  bool closed = false;   // takes in nothing but a move of its result: contractions, copies
  std::string_view kind;
  int64_t level = 0;
  int64_t minUser = INT64_MAX; // the least level of those that read it from outside
  bool rows = false;           // has reductions: of values of this shape, along these dims
  std::vector<Dim> full;
  std::vector<bool> reduced;
  std::vector<Dim> parted; // has columns' reductions beside them: of values of this shape, the rows in parts
  std::vector<bool> partReduced; // along these of its dims
  ElementCount elements;         // of its widest values
};

// A value that goes from one kernel to another by way of memory, and why.
struct KeptApart {
  OpId reader;
  ValueId value;
  std::string_view why;
};

class FusionGroups {
public:
  // `narrow`: products of f8 that is made wider and scaled first take in what does that.
  FusionGroups(Module& m, BlockId block, size_t limit, bool narrow);
  void run();

  // Groups in an order in which all that one reads stands before it.
  [[nodiscard]] std::vector<uint32_t> order() const;
  [[nodiscard]] const FusionGroup& group(uint32_t g) const { return groups_[g]; }
  // Does `reader`'s group take the value of this op by folding it in, not from memory?
  [[nodiscard]] bool folds(OpId reader, OpId op) const;

  // Of the values that one kernel writes and another reads; each pair of ops once.
  [[nodiscard]] std::vector<KeptApart> keptApart() const;

private:
  enum class Shape : uint8_t { Other, Full, RowKept, RowDropped }; // of a value beside a group's rows
  struct OpState {
    FusionForm form;
    int32_t group = -1;
    int64_t stored =
        INT64_MAX;          // when the op of a move got a group of its own: later readers take it from memory
    int64_t placed = 0;     // when the op was looked at
    bool chosen = false;    // a move that all readers take from memory: its maker writes it so
    bool again = false;     // kernels that read it compute it themselves
    bool unaligned = false; // its elements do not lie as its group's rows
  };

  uint32_t newGroup(OpId o, bool fusible, std::string_view kind);
  void stay(OpId o);
  void place(OpId o);
  void contract(OpId o);
  [[nodiscard]] bool madeOfNothing(OpId o) const;
  // Behind a matrix product (FusionEpilogue.cpp).
  bool joinEpilogue(OpId o);
  std::string_view epilogueObstacle(OpId o, uint32_t g); // "" only between the tests of joinEpilogue
  [[nodiscard]] bool libraryBias(OpId sum, ValueId product, ValueId bias, uint32_t g) const;
  void takeInReaders();
  struct Reading {
    OpId reader;
    bool moved; // by way of moves that the reader folds
  };
  using Readings = std::unordered_map<uint32_t, std::vector<Reading>>; // by value
  [[nodiscard]] Readings readings() const;
  bool takeIn(uint32_t g, uint32_t reader, ValueId product, const Readings& readings);
  [[nodiscard]] bool elementwiseBeside(const FusionGroup& g, const Type& product) const;
  // Before a matrix product (FusionFactors.cpp).
  struct NarrowFactor {
    std::vector<OpId> through;   // conversions and products with one number, which the product folds
    std::vector<ValueId> scales; // the numbers, where they lie in memory
  };
  [[nodiscard]] bool takesNarrow(OpId product, NarrowFactor& both);
  [[nodiscard]] bool isNarrow(ValueId operand, NarrowFactor& factor);
  [[nodiscard]] int widened(OpId o, NarrowFactor& factor) const;
  [[nodiscard]] ValueId oneNumber(ValueId v) const;
  void foldFactors(OpId product, const NarrowFactor& both);
  void store(ValueId v); // a folded move that must be in memory
  bool joinMove(OpId o, std::string_view& kind);
  // Why the op cannot join the group that makes one of its operands; "" where it can.
  std::string_view obstacle(OpId o, uint32_t g);
  bool candidate(OpId o, uint32_t g) { return obstacle(o, g).empty(); }
  void note(OpId o, ValueId v, std::string_view why) { apart_.push_back({o, v, why}); }
  bool fitsRows(OpId o, const FusionGroup& g);
  // Beside rows that are reduced, parts of their columns (FusionColumns.cpp).
  [[nodiscard]] bool columnsOf(OpId o, const FusionGroup& g) const;
  [[nodiscard]] int rowsBeside(OpId o,
                               std::span<const uint32_t> join); // a group that reads what `o` reduces, or -1
  [[nodiscard]] bool mergeable(const FusionGroup& a, const FusionGroup& b) const;
  void merge(uint32_t into, uint32_t from);
  void add(OpId o, uint32_t g);
  void chooseLayouts(); // in which order a value is stored (FusionLayouts.cpp)
  [[nodiscard]] bool onlyMovedBy(OpId move) const;
  void computeAgain(); // producers that cost less to compute twice than to store (FusionBytes.cpp)
  [[nodiscard]] bool cheaperAgain(OpId o, const std::vector<OpId>& readers) const;
  void joinSmall(); // horizontally: small kernels that do not meet become one
  [[nodiscard]] static Shape shapeBeside(const FusionGroup& g, const Type& t);

  // The value behind the folded moves that lead to `v`; `aligned`: none of them changes the order of dims; `near`: by
  // whole factors alone.
  struct Source {
    ValueId value;
    bool aligned = true, near = true, moved = false;
  };
  [[nodiscard]] Source sourceOf(ValueId v) const;
  [[nodiscard]] int groupOf(ValueId v) const;
  [[nodiscard]] int64_t levelOf(ValueId v) const; // that a reader must pass; -1: none
  void noteUses(OpId o, int64_t level, uint32_t own);
  [[nodiscard]] std::vector<ValueId> valuesReadBy(OpId o) const; // in its regions too
  [[nodiscard]] ElementCount elementsOf(const Type& t) const;
  [[nodiscard]] bool strided(ValueId v, bool lookups);
  [[nodiscard]] std::optional<StridedView> viewOf(ValueId v, bool lookups);
  void storeForOneWalk(OpId o);
  [[nodiscard]] bool permuted(ValueId v) const; // in memory but for the order of its dims
  [[nodiscard]] OpState* stateOf(ValueId v);
  [[nodiscard]] const OpState* stateOf(ValueId v) const;

  Module& m_;
  BlockId block_;
  size_t limit_;
  bool narrow_;
  std::vector<FusionGroup> groups_;
  std::unordered_map<uint32_t, std::vector<OpId>> factors_;    // by product: what it folds of NarrowFactor
  std::unordered_map<uint32_t, OpState> state_;                // by op of this block
  std::unordered_map<uint32_t, uint32_t> uses_;                // by value, in this block
  std::unordered_map<uint32_t, std::vector<OpId>> rowReaders_; // by value: ops placed so far that read it
  std::unordered_map<uint32_t, size_t> position_;
  int64_t now_ = 0;
  std::vector<KeptApart> apart_; // as decided; some groups were joined later
  int64_t effectLevel_ = -1;     // of the last op whose order must be kept
};

} // namespace dtc
