#pragma once
// An op that communicates inside itself (sharding.md §2): its merged, scanned, windowed, … dim is cut, and each device computes
// its piece of the results from its pieces of the operands and what it receives. The op's record says how (OpRecord::cut), in
// ops of the local program; `partition` runs that, propagation asks its price, and the prover compares it with the whole op.
#include "dtc/IR/Builder.h"
#include "dtc/Sharding/Machine.h"

namespace dtc {

// How one factor of the op's rule is cut.
struct CutFactor {
  std::vector<AxisRef> axes; // major to minor; empty: not cut
  int64_t devices = 1;       // product of the axes' sizes
  [[nodiscard]] bool cut() const { return devices > 1; }
};

// What an op has received already, of a value of the local program, by what it asked for (numbers of the asking code's own), and
// the buffer that it has put it into. Ops behind it in its block that ask for the same use it.
struct ReceivedRows {
  ValueId of;
  std::vector<int64_t> asked;
  std::vector<ValueId> values;
  ValueId buffer;
  ValueId like;            // the buffer holds what this one holds, moved …
  std::vector<OpId> moves; // … as these ops do, the last of them first; invalid: it is the first
};

class CutOp {
public:
  // `factors` has one entry per factor of `rule`; `whole` is the query of the op on whole tensors.
  CutOp(Builder& builder, const OpQuery& whole, const Rule& rule, std::vector<ValueId> operands,
        std::vector<TypeId> results, std::vector<CutFactor> factors);

  Builder& b;
  const OpQuery& whole;
  const Rule& rule;
  std::vector<ValueId>
      operands; // this device's pieces; literals as they are; invalid: an optional one left out
  std::vector<TypeId> results;           // the local types that must come out
  std::vector<CutFactor> factors;        // by factor of `rule`
  std::optional<DType> reduceDType = {}; // what sums of floats travel in; nothing: as Sharding/Wire.h says

  std::vector<ReceivedRows>* received = nullptr; // by the ops before this one in its block; nothing: not kept

  // Said by the record where it chooses between programs, for a person to read: which this is, and why. And the time of messages
  // and work together, where the one hides the other; 0: not said.
  std::string choice;
  double seconds = 0;

  // The axes of all factors of communicating kinds that are cut, and of those that exchange rows, in the order of the factors.
  [[nodiscard]] const std::vector<AxisRef>& axes() const { return axes_; }
  [[nodiscard]] int64_t devices() const; // product of their sizes
  [[nodiscard]] const Mesh& mesh() const;
  // How dim `dim` of an operand or result is cut.
  [[nodiscard]] const CutFactor& cutOf(const TensorMap&, size_t dim) const;
  [[nodiscard]] const CutFactor& operandCut(size_t operand, size_t dim) const;
  [[nodiscard]] const CutFactor& resultCut(size_t result, size_t dim) const;

  // --- ops of the local program ---
  [[nodiscard]] DType dtypeOf(ValueId) const;
  [[nodiscard]] const Type& typeOf(ValueId) const;
  ValueId convert(ValueId, DType); // itself where it has the dtype
  ValueId wide(ValueId v) { return convert(v, accumulationType(dtypeOf(v))); } // what sums are carried in
  ValueId scalar(double v, ValueId like) { return b.literal(v, dtypeOf(like)); }
  ValueId over(const char* reduction, ValueId, std::span<const int64_t> dims, bool keepdim = true);
  ValueId allReduce(ValueId, PendingKind, std::span<const AxisRef> axes);
  ValueId allReduce(ValueId v, PendingKind kind) { return allReduce(v, kind, axes_); }
  // What one device has and the others have zeros (false) of: a sum that adds nothing, and travels unrounded.
  ValueId fromOne(ValueId);
  // The pieces along `dim` put together.
  ValueId allGather(ValueId, int64_t dim, std::span<const AxisRef> axes);
  // What each device has, along a new dim 0 (its size: devices()), in the order of their index along axes().
  ValueId gatherAll(ValueId);
  // This device's index; where its piece of `size` begins; how long that is. i32[].
  ValueId index(std::span<const AxisRef> axes);
  ValueId pieceOffset(Dim size, std::span<const AxisRef> axes);
  ValueId pieceSize(Dim size, std::span<const AxisRef> axes);
  // Row `row` of dim 0, which goes.
  ValueId row(ValueId, int64_t row);

  // Do summaries of `count` values this large cost less gathered at once than reduced one after the other?
  [[nodiscard]] bool gatherIsCheaper(ValueId summary, int count) const;

private:
  std::vector<AxisRef> axes_;
};

// The op's local program, appended to `b.out`: by OpRecord::cut. False where the record has none for these cuts; what was
// appended is then no use.
[[nodiscard]] bool writeCut(CutOp&, std::vector<ValueId>& results);

// Is factor f, which is no communicating kind's, cut by axes that cut the factor beside it, too (Factor::alongside)? Then rows are
// exchanged. (`factors` by factor of the rule.)
[[nodiscard]] bool exchanges(const Rule&, std::span<const PartList> factors, size_t f);
// Does a factor of a communicating kind have a cut, or are rows exchanged?
[[nodiscard]] bool communicates(const Rule&, std::span<const PartList> factors);
// The axes over which results are pending because factor f is cut by them, but for results that the same axes cut: of what is
// summed, those that exchange nothing.
[[nodiscard]] PartList leftPending(const Rule&, std::span<const PartList> factors, size_t f);
// The axes of the lists, as a CutOp takes them. Nothing where a communicating factor's list has blocks (strided).
[[nodiscard]] std::optional<std::vector<CutFactor>> cutFactors(const Rule&, std::span<const PartList> factors,
                                                               const Mesh&);

} // namespace dtc
