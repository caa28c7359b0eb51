#pragma once
// Fetches an interval of a sharded dim: used by every op whose shard of the result reads other rows than
// those of the device (slice, pad, concat, split, roll, flip, convolution, pooling). Rows come from all
// neighbors that hold them, in one p2p.
//
// A read is described by a line of rows: its sources are placed on it one after the other, and device i reads
// an interval that depends on the offset of its shard of the result. Which device holds which rows is
// computed from the device's index, so that the program text does not grow with the mesh, except for the
// pairs of the p2p.
#include "dtc/Ops/ShardedOp.h"

namespace dtc {

// Row base + v of the line, 0 <= v < length, is row offset + step * v of x along the dim; mirrored: row
// offset - v; repeated: row offset for every v, which is sent once.
enum class SourceOrder : uint8_t { Forward, Mirrored, Repeated };
struct WindowSource {
  ValueId x;          // this device's shard
  int64_t size = 0;   // of the global x along the dim
  int64_t base = 0;   // sources ascend and do not overlap
  int64_t length = 0; // 0: size
  int64_t step = 1, offset = 0;
  SourceOrder order = SourceOrder::Forward;
};

// The device whose shard of the result is [b, e) reads the rows from floor((scale * b + first) / divide) to
// floor((scale * (e - 1) + last) / divide) of the line.
struct WindowRead {
  int64_t result = 0; // size of the result's dim
  int64_t scale = 1, first = 0, last = 0, divide = 1;
  std::vector<WindowSource> sources;
  ValueId fill; // rows before the first and after the last source; invalid: they are never read
};

class WindowFetch {
public:
  WindowFetch(ShardedOp& op, size_t dim, const ShardedFactor& factor) : op_(op), dim_(dim), factor_(factor) {}
  void add(WindowRead read) { reads_.push_back(std::move(read)); }
  // One buffer per read: row 0 is the first that the device reads, and all devices have the max number of
  // rows (at least one); rows after those that this device reads are unspecified. False if sizes are
  // symbolic.
  [[nodiscard]] bool run(std::vector<Expr>& buffers);
  // The positions on the line of this device's buffer, and of its shard of the result; i32[] or i64[].
  Expr firstRow(size_t read);
  Expr firstResult(size_t read);
  // The rows of the read's buffer.
  [[nodiscard]] int64_t rows(size_t read) const;

private:
  // Rows sent from each device to at most one other, by one rule: key = source - target, where senders of
  // mirrored rows are counted from the last; or, if ordered, the sender's target number `target` and the
  // receiver's source number `key`. Covers the rows from `skip` on: rows that only some pairs have are a
  // separate part.
  struct Part {
    size_t read = 0, source = 0;
    int64_t key = 0, target = 0, skip = 0, count = 0; // the max number of rows
    bool ordered = false;
    std::vector<std::pair<int64_t, int64_t>> pairs; // source and target
    bool sameStart = true, sameLength = true;
    int64_t start = 0; // of the sent rows in the source's shard, if it is the same everywhere
    int64_t at = 0;    // of the received rows in the buffer, the same everywhere if sameAt
    bool sameAt = true;
    [[nodiscard]] bool sent() const;
  };
  struct Prepared {
    ValueId from;
    Expr filled;
    bool mirrored = false;
  };

  [[nodiscard]] bool fits() const;
  void plan();
  void planSource(size_t read, size_t source);
  static void join(Part& all, const Part& one);
  [[nodiscard]] static std::vector<int64_t> levelsOf(std::span<const Part> pairs);
  void addLevels(std::span<const Part> pairs);
  [[nodiscard]] const WindowSource& sourceOf(const Part& p) const { return reads_[p.read].sources[p.source]; }
  [[nodiscard]] int64_t senderNumber(const WindowSource&, int64_t device) const; // and the device of a number
  [[nodiscard]] int64_t hostFirst(const WindowRead&, int64_t device) const;
  [[nodiscard]] int64_t hostEnd(const WindowRead&, int64_t device) const;
  [[nodiscard]] Expr deviceIndex();
  [[nodiscard]] Expr prepare(const Part&);
  [[nodiscard]] int64_t rowsTaken(const Part&) const;
  [[nodiscard]] Expr take(const Part&);
  void exchange(std::vector<ValueId>& values);
  // The result of the p2p, if an earlier op has received the same rows: a gradient reads the rows that the op
  // itself has read, from its operand with other dims transposed. The rows are kept and transformed, not the
  // buffer, so that no copy of a full shard stays alive. `record` is filled for this fetch, to be kept; its
  // values are returned.
  [[nodiscard]] std::vector<ValueId> receivedBefore(ReceivedRows& record);
  // Identifies the rows of one value sharded along `dim`; empty for reads of several values.
  [[nodiscard]] std::vector<int64_t> asked(size_t dim) const;
  void repeatRows(std::vector<ValueId>& values);
  void mergeEqual(size_t read, std::vector<Part>& parts) const;
  [[nodiscard]] bool mayBeOne(const Part&, const Part&) const;
  [[nodiscard]] static bool tiles(std::span<const Part>, int64_t rows);
  [[nodiscard]] int64_t hostPosition(const Part&, int64_t device) const;
  [[nodiscard]] int64_t rowsAfter(const Part&) const;
  [[nodiscard]] Expr startOf(const Part&);
  [[nodiscard]] Expr assemble(size_t read, const std::vector<ValueId>& values);
  [[nodiscard]] bool needsMask(size_t read) const;
  [[nodiscard]] Expr masked(size_t read, Expr buffer);
  [[nodiscard]] bool wide() const;

  ShardedOp& op_;
  size_t dim_;
  const ShardedFactor& factor_;
  std::vector<WindowRead> reads_;
  std::vector<Part> parts_; // by read, source and key
  std::vector<Prepared> prepared_;
  Expr index_;
};

// The reads of windows of `reach` elements that begin at stride * o - low, o in `result`. For windows of one
// element that skip rows only the read rows are sent: a line of results.
[[nodiscard]] WindowRead rowsSeen(ValueId x, int64_t size, int64_t result, int64_t stride, int64_t low,
                                  int64_t reach, ValueId fill);
[[nodiscard]] inline bool skipsRows(int64_t stride, int64_t reach) { return reach == 1 && stride > 1; }

[[nodiscard]] Expr integer(ShardedOp& op, int64_t v, DType type);
// The result's shard of a dim of `size`, from one computed for the largest shard.
[[nodiscard]] Expr trimmed(Expr v, size_t dim, int64_t size, const ShardedFactor& factor);
// ceil(size / devices).
[[nodiscard]] int64_t largestShard(int64_t size, const ShardedFactor& factor);
// A factor whose sharding requires communication with neighbors, and the map of a dim that is sharded like
// it.
uint16_t addWindow(Rule& rule, Dim size, std::string name, FactorKind kind = FactorKind::Window);
[[nodiscard]] DimMap windowDim(DimMap own, uint16_t shardedAs);

// OpRecord::shard.
bool shardSlice(ShardedOp& op, std::vector<ValueId>& results);
bool shardPad(ShardedOp& op, std::vector<ValueId>& results);
bool shardStack(ShardedOp& op, std::vector<ValueId>& results);
bool shardConcat(ShardedOp& op, std::vector<ValueId>& results);
bool shardSplit(ShardedOp& op, std::vector<ValueId>& results);
bool shardRoll(ShardedOp& op, std::vector<ValueId>& results);
bool shardFlip(ShardedOp& op, std::vector<ValueId>& results);

} // namespace dtc
