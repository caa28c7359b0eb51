#pragma once
// Fetching an interval of a cut dim: the source of every op whose piece of the result reads other rows than the device's own
// (slice, pad, concat, split, roll, flip, convolution, pooling). Rows come from as many neighbours as hold them, all in one p2p.
//
// A read is laid out along a line of rows: its sources stand on it one behind the other, and device i wants an interval of it
// that follows from where its piece of the result begins. Which device holds what is arithmetic on the device's index, so the
// text of the program does not grow with the mesh, but for the pairs of the p2p.
#include "dtc/IR/CutOp.h"

namespace dtc {

// Row base + v of the line, 0 <= v < length, is row offset + step * v of x along the dim; mirrored, row offset - v; repeated,
// row offset for every v, which travels once.
enum class SourceOrder : uint8_t { Forward, Mirrored, Repeated };
struct WindowSource {
  ValueId x;          // this device's piece
  int64_t size = 0;   // of all of x along the dim
  int64_t base = 0;   // sources ascend and do not overlap
  int64_t length = 0; // 0: size
  int64_t step = 1, offset = 0;
  SourceOrder order = SourceOrder::Forward;
};

// The device whose piece of the result is [b, e) wants the rows from floor((scale * b + first) / divide) to
// floor((scale * (e - 1) + last) / divide) of the line.
struct WindowRead {
  int64_t result = 0; // size of the result's dim
  int64_t scale = 1, first = 0, last = 0, divide = 1;
  std::vector<WindowSource> sources;
  ValueId fill; // rows before the first and behind the last source; invalid: they are never looked at
};

class WindowFetch {
public:
  WindowFetch(CutOp& op, size_t dim, const CutFactor& cut) : op_(op), dim_(dim), cut_(cut) {}
  void add(WindowRead read) { reads_.push_back(std::move(read)); }
  // One buffer per read: row 0 is the first that the device wants, and there are as many as any device wants (at least one);
  // what stands behind those that this device wants is anything. False where sizes are no numbers.
  [[nodiscard]] bool run(std::vector<ValueId>& buffers);
  // Where on the line the buffer begins on this device, and where its piece of the result does; i32[] or i64[].
  ValueId firstRow(size_t read);
  ValueId firstResult(size_t read);
  // The rows of the read's buffer.
  [[nodiscard]] int64_t rows(size_t read) const;

private:
  // What goes from each device to at most one other, by one rule: key = source - target, where devices that send mirrored rows
  // are counted from the last; or, ordered, it goes to the sender's target number `target` and is the receiver's source number
  // `key`. Of those rows the ones from `skip` on: what only some pairs have is a part of its own.
  struct Part {
    size_t read = 0, source = 0;
    int64_t key = 0, target = 0, skip = 0, count = 0; // the most rows
    bool ordered = false;
    std::vector<std::pair<int64_t, int64_t>> pairs; // source and target
    bool sameStart = true, sameLength = true;
    int64_t start = 0; // of the sent rows within the source's piece, where it is the same everywhere
    int64_t at = 0;    // of the received rows within the buffer, the same everywhere where sameAt
    bool sameAt = true;
    [[nodiscard]] bool sent() const;
  };
  struct Prepared {
    ValueId from, filled;
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
  [[nodiscard]] ValueId deviceIndex();
  [[nodiscard]] ValueId prepare(const Part&);
  [[nodiscard]] int64_t rowsTaken(const Part&) const;
  [[nodiscard]] ValueId take(const Part&);
  void exchange(std::vector<ValueId>& values);
  // What the p2p would give, where an op before this one has received it: a gradient reads the rows that the op itself has read,
  // of its operand with other dims transposed. The rows are kept and moved likewise, not the buffer, so that no copy of a whole
  // piece lives until then. `record` is of this fetch, to be kept; its values are what is returned.
  [[nodiscard]] std::vector<ValueId> receivedBefore(ReceivedRows& record);
  // Says which rows come, of one value that is cut along `dim`; of reads of several values, nothing.
  [[nodiscard]] std::vector<int64_t> asked(size_t dim) const;
  void repeatRows(std::vector<ValueId>& values);
  void mergeEqual(size_t read, std::vector<Part>& parts) const;
  [[nodiscard]] bool mayBeOne(const Part&, const Part&) const;
  [[nodiscard]] static bool tiles(std::span<const Part>, int64_t rows);
  [[nodiscard]] int64_t hostPlace(const Part&, int64_t device) const;
  [[nodiscard]] int64_t rowsBehind(const Part&) const;
  [[nodiscard]] ValueId placeOf(const Part&);
  [[nodiscard]] ValueId assemble(size_t read, const std::vector<ValueId>& values);
  [[nodiscard]] bool needsMask(size_t read) const;
  [[nodiscard]] ValueId masked(size_t read, ValueId buffer);
  [[nodiscard]] bool wide() const;

  CutOp& op_;
  size_t dim_;
  const CutFactor& cut_;
  std::vector<WindowRead> reads_;
  std::vector<Part> parts_; // by read, source and key
  std::vector<Prepared> prepared_;
  ValueId index_;
};

// What windows of `reach` elements see that begin at stride * o - low, o one of `result`. Of windows of one element that skip some
// only what they see is sent: a line of results.
[[nodiscard]] WindowRead rowsSeen(ValueId x, int64_t size, int64_t result, int64_t stride, int64_t low,
                                  int64_t reach, ValueId fill);
[[nodiscard]] inline bool skipsRows(int64_t stride, int64_t reach) { return reach == 1 && stride > 1; }

[[nodiscard]] ValueId integer(CutOp& op, int64_t v, DType type);
// The result's piece of a dim of `size` that was computed for the largest piece.
[[nodiscard]] ValueId trimmed(CutOp& op, ValueId v, size_t dim, int64_t size, const CutFactor& cut);
// ceil(size / devices).
[[nodiscard]] int64_t largestPiece(int64_t size, const CutFactor& cut);
// A factor whose cut makes the op communicate with neighbours, and the map of a dim that is cut as it is.
uint16_t addWindow(Rule& rule, Dim size, std::string name, FactorKind kind = FactorKind::Window);
[[nodiscard]] DimMap windowDim(DimMap own, uint16_t cutAs);

// OpRecord::cut.
bool cutSlice(CutOp& op, std::vector<ValueId>& results);
bool cutPad(CutOp& op, std::vector<ValueId>& results);
bool cutStack(CutOp& op, std::vector<ValueId>& results);
bool cutConcat(CutOp& op, std::vector<ValueId>& results);
bool cutSplit(CutOp& op, std::vector<ValueId>& results);
bool cutRoll(CutOp& op, std::vector<ValueId>& results);
bool cutFlip(CutOp& op, std::vector<ValueId>& results);

} // namespace dtc
