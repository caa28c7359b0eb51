#pragma once
// Attention whose queries and keys are cut by the same axes: the queries stay and the keys go round (Liu, Zaharia and Abbeel, Ring
// Attention with Blockwise Transformers, 2023). What the op and its gradient share: in which order blocks come, what travels, and
// how the work under a causal mask is spread. Private to lib/Ops.
#include "Merge.h"
#include <array>
#include <functional>

namespace dtc {

// The sums of a block, as ops of attention and attention_grad count them.
class RingWriter {
public:
  // Builds into `op.b`.
  explicit RingWriter(CutOp& op) : op(op), b(op.b), m(op.b.module) {}
  CutOp& op;
  Builder& b;
  Module& m;

  ValueId add(ValueId x, ValueId y) { return b.value("add", {x, y}); }
  ValueId sub(ValueId x, ValueId y) { return b.value("sub", {x, y}); }
  ValueId mul(ValueId x, ValueId y) { return b.value("mul", {x, y}); }
  ValueId select(ValueId c, ValueId x, ValueId y) { return b.value("select", {c, x, y}); }
  ValueId number(int64_t v) { return b.literal(static_cast<double>(v), DType::I32); }
  ValueId along(const char* op, ValueId x, int64_t dim) {
    return b.value(op, {x}, {{"dim", b.integer(dim)}});
  }

  // Messages have one size: uneven pieces travel filled to that of the largest. What has come is trimmed as `like` is, but along
  // dim `kept`.
  [[nodiscard]] bool isCut(Dim d) const { return !d.isStatic() && !m.dims.dynamic(d).cut.empty(); }
  ValueId filled(ValueId v);
  ValueId trimmed(ValueId v, const Type& like, int64_t kept = -1);
  // From each device to the one `distance` places on.
  std::vector<ValueId> shifted(std::span<const ValueId> values, std::span<const AxisRef> axes,
                               int64_t distance);
  std::vector<ValueId> sent(std::span<const ValueId> values, std::span<const AxisRef> axes, Attr sends);
};

// What each device does under a causal mask: `Ordered`: every block in its place, so that the last device has the most to do;
// `Balanced`: device i of n works on chunks i and 2n-1-i of 2n of the sequence, so that all do the same.
enum class RingForm : uint8_t { Ordered, Balanced };

// One tensor along the sequence, in two chunks.
struct Chunks {
  ValueId early, late;
};

class KeyRing {
public:
  // `pieces`: of the operands that go round (keys, values, a mask of keys).
  KeyRing(CutOp&, std::span<const ValueId> pieces);

  // Can offsets and messages be written? Sizes along the sequence must be numbers.
  [[nodiscard]] bool possible() const;
  // Decides how the work is spread, and says so in the CutOp.
  struct Price {
    double flops = 0;                   // of a pair of a query and a key
    std::span<const ValueId> exchanged; // what would have to change places for balance …
    std::span<const TypeId> returned;   // … and what back
    int64_t bytesBack = 0;              // sent home beside the keys, each step
    bool canExchange = true;
  };
  [[nodiscard]] RingForm choose(const Price&);

  int64_t devices, keys, queries; // n; sizes of the whole sequence
  std::vector<AxisRef> axes;

  // --- steps ---
  // A step has the block of device (own index - step) mod n. Those in which no device sees anything are left out.
  struct Step {
    RingWriter& w;
    ValueId source, before;         // whose block; Balanced: does that device stand before this one?
    std::span<const ValueId> block; // what has come, as it travels
    std::vector<ValueId>& sums;     // brought up to date
    std::vector<ValueId>& back;     // out: to be added to what goes home with the block
  };
  using Work = std::function<void(Step&)>;
  // Runs all steps but the own block's (0): `travel` goes round, `sums` stay, and what `work` gives back for a block arrives at
  // its owner in the end (as `backTypes`, filled; empty where nothing was sent).
  void run(std::vector<ValueId> travel, std::vector<ValueId>& sums, std::span<const TypeId> backTypes,
           std::vector<ValueId>& home, const Work& own, const Work& others);
  ValueId me(); // this device's index

  // --- blocks in their places ---
  ValueId begin(RingWriter&, ValueId device); // where that device's keys begin
  // bool[keys of a filled block]: those of `source` that are keys; invalid where all are.
  ValueId keyLimit(RingWriter&, ValueId source, Dim keys);

  // --- balanced ---
  [[nodiscard]] int64_t chunk() const { return (keys + 2 * devices - 1) / (2 * devices); } // the longest
  [[nodiscard]] bool evenChunks() const { return keys % (2 * devices) == 0; }
  // Pieces along their `dims` to this device's two chunks, filled with 0; and back, as pieces of these types.
  std::vector<Chunks> toChunks(std::span<const ValueId> pieces, std::span<const int64_t> dims);
  std::vector<ValueId> toPieces(std::span<const Chunks>, std::span<const int64_t> dims,
                                std::span<const Type> types);
  // bool[chunk()], as keyLimit: of device `source`'s early or late chunk.
  ValueId chunkLimit(RingWriter&, ValueId source, bool late);

private:
  [[nodiscard]] bool seen(int64_t query,
                          int64_t key) const; // does any of device query's see any of device key's?
  void findSteps();
  [[nodiscard]] double exchangeSeconds(int64_t bytes) const;
  ValueId chunkBegin(RingWriter&, ValueId chunk);
  ValueId chunkSize(RingWriter&, ValueId chunk);
  // `first`: the size of the first; invalid: both are of chunk().
  std::array<ValueId, 2> halvesOf(ValueId piece, int64_t dim, ValueId first);
  [[nodiscard]] int64_t ownerOf(int64_t chunk) const {
    return chunk < devices ? chunk : 2 * devices - 1 - chunk;
  }
  struct Loop;

  CutOp& op_;
  RingWriter w_;
  std::vector<ValueId> pieces_;
  std::vector<int64_t> steps_; // after 0
  RingForm form_ = RingForm::Ordered;
  ValueId me_;
};

} // namespace dtc
