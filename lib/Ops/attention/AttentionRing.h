#pragma once
// Attention with queries and keys sharded by the same axes: the queries stay and the keys circulate (Liu,
// Zaharia and Abbeel, Ring Attention with Blockwise Transformers, 2023). Shared by the op and its gradient:
// the order of blocks, the exchanged tensors, and load balancing under a causal mask.
#include "reduce/Merge.h"
#include <array>
#include <functional>

namespace dtc {

// Writes the messages of a ring: shards padded to one size, sent around the ring, and trimmed.
class RingWriter {
public:
  // Appends to `op.b`.
  explicit RingWriter(ShardedOp& op) : op(op), b(op.b), m(op.b.module) {}
  ShardedOp& op;
  Builder& b;
  Module& m;

  // A value as an operand of ops that are appended to `op.b`: values of an enclosing block have its Builder.
  Expr in(ValueId v) { return {b, v}; }
  Expr number(int64_t v) { return in(b.literal(static_cast<double>(v), DType::I32)); }

  // Messages have equal sizes: uneven shards are padded to the largest. A received tensor is trimmed like
  // `like`, except along dim `kept`.
  [[nodiscard]] bool isSharded(Dim d) const { return !d.isStatic() && !m.dims.dynamic(d).axes.empty(); }
  Expr filled(ValueId v);
  Expr trimmed(ValueId v, const Type& like, int64_t kept = -1);
  // Sends from each device to the one `distance` after it.
  std::vector<ValueId> shifted(std::span<const ValueId> values, std::span<const AxisRef> axes,
                               int64_t distance);
  std::vector<ValueId> sent(std::span<const ValueId> values, std::span<const AxisRef> axes,
                            std::vector<AttrId> sends);
};

// The schedule under a causal mask. `Ordered`: each device keeps its queries, so that the last device has the
// most work. `Balanced`: device i of n works on chunks i and 2n-1-i of 2n of the sequence, so that all have
// the same work.
enum class RingForm : uint8_t { Ordered, Balanced };

// One tensor along the sequence, as two chunks.
struct Chunks {
  ValueId early, late;
};

class KeyRing {
public:
  // `shards`: the operands that circulate (keys, values, a mask of keys).
  KeyRing(ShardedOp&, std::span<const ValueId> shards);

  // Whether offsets and messages can be expressed: sizes along the sequence must be static.
  [[nodiscard]] bool possible() const;
  // Chooses the schedule and records the choice in the ShardedOp.
  struct Price {
    double flops = 0;                   // per pair of a query and a key
    std::span<const ValueId> exchanged; // what must be redistributed for balance …
    std::span<const TypeId> returned;   // … and what is sent back
    int64_t bytesBack = 0;              // returned along with the keys, each step
    bool canExchange = true;
  };
  [[nodiscard]] RingForm choose(const Price&);

  int64_t devices, keys, queries; // n; sizes of the full sequence
  std::vector<AxisRef> axes;

  // --- steps ---
  // A step processes the block of device (own index - step) mod n. Steps without visible keys on any device
  // are skipped.
  struct Step {
    RingWriter& w;
    Expr source, before;            // the block's device; Balanced: whether that device comes before this one
    std::span<const ValueId> block; // the received block, as sent
    std::vector<ValueId>& sums;     // updated
    std::vector<ValueId>& back;     // out: added to what returns to the owner of the block
  };
  using Work = std::function<void(Step&)>;
  // Runs all steps except 0, the device's own block. `travel` circulates, `sums` stay, and what `work`
  // returns for a block is sent to its owner (types `backTypes`, padded; empty if nothing is sent).
  void run(std::vector<ValueId> travel, std::vector<ValueId>& sums, std::span<const TypeId> backTypes,
           std::vector<ValueId>& home, const Work& own, const Work& others);
  Expr me(); // this device's index

  // --- ordered ---
  Expr begin(Expr device); // the offset of that device's keys
  // bool[keys of a padded block]: the valid keys of `source`; invalid if all are.
  Expr keyLimit(RingWriter&, Expr source, Dim keys);

  // --- balanced ---
  // the largest chunk
  [[nodiscard]] int64_t chunk() const { return (keys + 2 * devices - 1) / (2 * devices); }
  [[nodiscard]] bool evenChunks() const { return keys % (2 * devices) == 0; }
  // Redistributes shards along their `dims` to this device's two chunks, padded with 0; and back, to shards
  // of these types.
  std::vector<Chunks> toChunks(std::span<const ValueId> shards, std::span<const int64_t> dims);
  std::vector<ValueId> toShards(std::span<const Chunks>, std::span<const int64_t> dims,
                                std::span<const Type> types);
  // bool[chunk()], as keyLimit, for the early or late chunk of device `source`.
  Expr chunkLimit(RingWriter&, Expr source, bool late);

private:
  // whether any query of device `query` sees any key of device `key`
  [[nodiscard]] bool seen(int64_t query, int64_t key) const;
  void findSteps();
  [[nodiscard]] double exchangeSeconds(int64_t bytes) const;
  Expr chunkBegin(Expr chunk);
  Expr chunkSize(Expr chunk);
  // `first`: the size of the first; invalid: both have chunk() elements.
  std::array<Expr, 2> halvesOf(ValueId shard, int64_t dim, Expr first);
  [[nodiscard]] int64_t ownerOf(int64_t chunk) const {
    return chunk < devices ? chunk : 2 * devices - 1 - chunk;
  }

  ShardedOp& op_;
  RingWriter w_;
  std::vector<ValueId> shards_;
  std::vector<int64_t> steps_; // after step 0
  RingForm form_ = RingForm::Ordered;
  Expr me_;
};

} // namespace dtc
