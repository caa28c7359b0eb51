// grouped_matmul in blocks, as in MegaBlocks (Gale, Narayanan, Young and Zaharia, 2022): the rows of each
// group start at a block boundary, and the rest of its last block is zero-padded. Each block then has rows of
// one group, and a loop over the blocks in use multiplies each by its group's matrix.
#include "split/BlockGroups.h"
#include "dtc/Ops/Loop.h"
#include "dtc/Ops/OpName.h"
#include "dtc/Ops/contract/GroupedMatmul.h"
#include <algorithm>
#include <array>

namespace dtc {
namespace {

constexpr size_t kOffsets = 2, kRowOffset = 3, kGroupOffset = 4;
constexpr int64_t kMinProducts = 1 << 20; // below, a single kernel is faster
constexpr int64_t kShortest = 16, kLongest = 256;

struct Grouped {
  // True: x [k, rows], w [rows, n] -> y [groups, k, n]; false: x [rows, k], w [groups, k, n] -> y [rows, n].
  bool gathered = false;
  int64_t rows = 0, depth = 0, width = 0, groups = 0, ends = 0;
  int64_t length = 0, maxBlocks = 0; // rows per block; max number of blocks
};

std::optional<Grouped> groupedOf(const Module& m, OpId o) {
  for (ValueId v : m.operands(o))
    if (!m.typeOf(v).isStatic()) return std::nullopt;
  const Type &x = m.typeOf(m.operand(o, 0)), &w = m.typeOf(m.operand(o, 1)), &y = m.typeOf(m.result(o));
  if (!y.isStatic() || !isFloat(x.dtype)) return std::nullopt;
  Grouped g;
  g.gathered = w.rank() == 2;
  g.rows = x.dims[g.gathered ? 1 : 0].value(), g.depth = x.dims[g.gathered ? 0 : 1].value();
  g.width = w.dims.back().value();
  g.groups = (g.gathered ? y : w).dims[0].value();
  g.ends = m.typeOf(m.operand(o, kOffsets)).dims[0].value();
  if (g.groups == 0 || g.ends == 0 || g.rows > INT32_MAX / 2 || g.depth * g.width == 0 ||
      g.rows < kMinProducts / std::min(g.depth * g.width, kMinProducts))
    return std::nullopt;
  // Half of the average group: padding is then a quarter of the rows.
  const int64_t half = g.rows / g.groups / 2;
  for (g.length = kShortest; g.length * 2 <= std::min(half, kLongest);) g.length *= 2;
  g.maxBlocks = (g.rows + g.length - 1) / g.length + g.groups;
  return g;
}

class BlockWriter {
public:
  BlockWriter(Builder& b, OpId o, const Grouped& g) : b_(b), m_(b.module), o_(o), g_(g) {}

  // The op becomes the last op of the list and keeps its result.
  void apply() {
    findGroups();
    findBlocks();
    const DType dtype = m_.typeOf(m_.result(o_)).dtype;
    const std::vector<ValueId> made = g_.gathered ? gathered(dtype) : spread(dtype);
    std::erase_if(m_[o_].attrs, [&](const NamedAttr& a) { return m_.strings[a.name] == "groups"; });
    m_[o_].kind = m_.registry->find(g_.gathered ? OpName("convert") : OpName("select"));
    m_.setOperands(o_, made);
    if (g_.gathered) m_.setAttr(o_, AttributeName("dtype"), b_.word(dtypeName(dtype)));
  }

private:
  Expr operand(size_t i) { return {b_, m_.operand(o_, i)}; }
  ops::Arg optional(size_t i) { return m_[o_].numOperands > i ? ops::Arg(operand(i)) : ops::Arg(0); }
  Expr numbers(int64_t rows, int64_t columns, int64_t dim) {
    return ops::iota(b_, m_.tensorType(DType::I32, {rows, columns}), {.dim = dim});
  }
  static Expr count(Expr which, int64_t dim) { return sum(which.as(DType::I32), {.dims = {dim}}); }
  static Expr at(Expr x, ops::Arg i) { return index_select(x, i, {.dim = 0}); }
  static Expr reshaped(Expr x, const std::vector<int64_t>& shape) { return reshape(x, shape); }

  void findGroups() {
    row_ = numbers(1, g_.rows, 1);
    const Expr coordinate = row_ + optional(kRowOffset), end = expand_dims(operand(kOffsets), {1});
    own_ = count(end <= coordinate, 0);
    group_ = own_ - optional(kGroupOffset);
    const Expr each = expand_dims(group_, {0}), number = numbers(g_.groups, 1, 0);
    count_ = count(eq(each, number), 1);
    begin_ = count(each < number, 1);
    // Rows after the last end have an out-of-range group.
    const Expr blockCounts = floor_div(count_ + (g_.length - 1), g_.length);
    stop_ = cumsum(blockCounts, {.dim = 0});
    start_ = stop_ - blockCounts;
    blocks_ = sum(blockCounts);
  }

  // The last block is never in use.
  void findBlocks() {
    const Expr block = numbers(g_.maxBlocks, 1, 0);
    of_ = min(count(expand_dims(stop_, {0}) <= block, 1), g_.groups - 1);
    const Expr starts = at(start_, of_), begins = at(begin_, of_), counts = at(count_, of_);
    const Expr start = expand_dims(starts, {1}), begin = expand_dims(begins, {1}),
               rows = expand_dims(counts, {1});
    const Expr skipped = (block - start) * g_.length;
    const Expr rank = skipped + numbers(1, g_.length, 1);
    const Expr here = rank < rows;
    rows_ = reshaped(select(here, begin + rank, -1), {g_.maxBlocks * g_.length});
  }

  // The rows of x in each slot of each block; 0 where there is none.
  Expr rowsOf(Expr x, int64_t dim) { return index_select(x, rows_, {.offset = 0, .dim = dim}); }

  // y = select inside, taken, 0
  std::vector<ValueId> spread(DType dtype) {
    const Expr x = reshaped(rowsOf(operand(0), 0), {g_.maxBlocks, g_.length, g_.depth});
    const ValueId zeros = b_.constant(0, m_.tensorType(dtype, {g_.maxBlocks, g_.length, g_.width}));
    // The group is carried: as a scalar in memory, it can index a library operand.
    const Expr products = ops::forLoop(
        b_, 0, blocks_, {zeros, at(of_, 0)}, [&](Builder& in, Expr i, std::span<const ValueId> carried) {
          const Expr xi = at(Expr(in, x), i), wi = at(Expr(in, operand(1)), carried[1]);
          const Expr product = expand_dims(matmul(xi, wi), {0});
          const Expr y = dynamic_update_slice(Expr(in, carried[0]), product, {i, 0, 0});
          return std::vector<ValueId>{y, at(Expr(in, of_), i + 1)};
        })[0];
    const Expr lines = reshaped(products, {g_.maxBlocks * g_.length, g_.width});
    const Expr low = group_ >= 0, between = low & (group_ < g_.groups), valid = between & (own_ < g_.ends);
    const Expr safe = min(max(group_, 0), g_.groups - 1);
    const Expr start = at(start_, safe), begin = at(begin_, safe);
    const Expr nth = reshaped(row_, {g_.rows}) - begin;
    const Expr line = start * g_.length + nth;
    const Expr taken = index_select(lines, select(valid, line, -1), {.offset = 0, .dim = 0});
    return {expand_dims(valid, {1}), taken, b_.literal(0, dtype)};
  }

  // Sums over the blocks of a group, which are consecutive; narrow floats accumulate in f32.
  std::vector<ValueId> gathered(DType dtype) {
    const DType sum = accumulationType(dtype);
    const auto wide = [&](Expr v) { return sum == dtype ? v + -0.0 : v.as(sum); };
    const Expr narrow =
        transpose(reshaped(rowsOf(operand(0), 1), {g_.depth, g_.maxBlocks, g_.length}), {1, 0, 2});
    const Expr other = reshaped(rowsOf(operand(1), 0), {g_.maxBlocks, g_.length, g_.width});
    const Expr x = wide(narrow), w = wide(other);
    const ValueId zeros = b_.constant(0, m_.tensorType(sum, {g_.groups, g_.depth, g_.width}));
    return {ops::forLoop(b_, 0, blocks_, {zeros}, [&](Builder& in, Expr i, std::span<const ValueId> carried) {
      const Expr y(in, carried[0]), xi = at(Expr(in, x), i), wi = at(Expr(in, w), i),
                                    gi = at(Expr(in, of_), i);
      const Expr product = matmul(xi, wi), next = expand_dims(at(y, gi) + product, {0});
      return std::vector<ValueId>{dynamic_update_slice(y, next, {gi, 0, 0})};
    })[0]};
  }

  Builder& b_;
  Module& m_;
  OpId o_;
  const Grouped& g_;
  // Per row of the shard: its number, its group, and its group among those of the shard.
  Expr row_, own_, group_;
  // Per group: its number of rows, its first row, its first block and the block after it.
  Expr count_, begin_, start_, stop_;
  Expr blocks_;    // the number of blocks in use
  Expr of_, rows_; // each block's group; the row in each slot of each block, or -1
};

} // namespace

void blockGroups(Module& m, BlockId block, Diagnostics& diags) {
  std::vector<OpId> out;
  Builder b(m, block, out, diags);
  for (OpId o : std::vector<OpId>(m[block].ops)) {
    for (uint32_t r = 0; r < m[o].numRegions; ++r)
      if (m.record(o).regions != RegionKind::Fused) blockGroups(m, m.region(o, r), diags);
    b.loc = m[o].loc;
    if (isGroupedMatmul(m.record(o)))
      if (const std::optional<Grouped> g = groupedOf(m, o)) BlockWriter(b, o, *g).apply();
    out.push_back(o);
  }
  m[block].ops = std::move(out);
}

} // namespace dtc
