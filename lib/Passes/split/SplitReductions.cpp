// Splits reductions with many elements per result into two steps, before fusion.
#include "split/SplitReductions.h"
#include "analysis/ByValue.h"
#include "analysis/FusionForm.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/Ops/OpName.h"
#include "dtc/Ops/Reduce.h"
#include "dtc/Ops/record/Scalar.h"
#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

namespace dtc {
namespace {

// With few results of many elements, one core or one block of a GPU would do most of the work. The number of
// parts depends on the extents alone: enough for a GPU of 132 processors with two to four blocks each, but
// few enough that writing and rereading the partial results costs a few percent of the bytes.
constexpr int64_t kMinElements = 1 << 18, kMinParts = 4;
// Contiguous rows parallelize over cores, and fuse with the ops around them, which splitting would prevent.
// For the few cores of a CPU a few rows are enough, and a row of this length fits into the L2 cache.
constexpr int64_t kMaxRows = 1 << 8, kMaxCpuRows = 1 << 4, kRowBlocks = 1 << 10, kMinRow = 1 << 12,
                  kLongCpuRow = 1 << 17;
// Columns: one thread per column, 1,024 columns per block.
constexpr int64_t kMaxColumns = 1 << 17, kColumns = 1 << 10, kColumnBlocks = 1 << 9, kMinParted = 8;
// Columns of values whose rows are reduced too: each part is a block that loops over full rows
// (Nest::walked).
constexpr int64_t kWalks = 1 << 8, kMinWalked = 4;
// More parts if rows are short, so that a processor has enough of them in flight, provided that each loop
// remains this long. A block has a warp for each 512 elements of a row: kWalkedAtOnce are 16 warps on each of
// 132 processors. Shorter loops are worth it for rows of so few warps that 256 blocks would not make half of
// that.
constexpr int64_t kWalkedAtOnce = 1 << 20, kLongWalk = 32, kShortRow = 1 << 12, kShortWalk = 8;
// A CPU has fewer cores than a GPU has concurrent blocks: fewer, longer parts, so that storing partial
// results takes little time.
constexpr int64_t kCpuWalks = 1 << 7, kMinCpuWalks = 1 << 6, kCpuWalk = 16, kCpuParted = 32;

// x[.., n, ..] as x[.., parts, n / parts, ..], if profitable. Of several reduced dims, those before the split
// one serve as parts themselves.
struct Split {
  size_t dim = 0; // the dim to split
  int64_t parts = 0, length = 0;
  int64_t padded = 0;               // padding after the dim, so that its size is parts * length
  std::vector<int64_t> dims, shape; // all reduced dims; the shape of x
  bool mean = false;                // a mean of parts that are summed
  bool wide = false;                // sums of narrow floats, whose partial sums stay in f32
  PendingKind kind = PendingKind::Sum;
};

// Finds values that are used together with reductions of their rows: an operand of such a reduction is
// connected to the value through elementwise ops of the same shape.
class RowSearch {
public:
  RowSearch(Module& m, BlockId block) : m_(m) {
    for (OpId o : m[block].ops)
      for (ValueId v : m.operands(o)) readers_.add(v, o);
    readers_.group();
  }
  [[nodiscard]] bool usedWithRowReduction(ValueId x) {
    constexpr size_t kMaxOps = 64;
    const std::vector<Dim> dims = m_.typeOf(x).dims;
    std::vector<ValueId> work = {x};
    std::unordered_set<uint32_t> seen = {x.index};
    auto see = [&](ValueId v) {
      if (m_[v].kind != ValueKind::Literal && m_.typeOf(v).dims == dims && seen.insert(v.index).second)
        work.push_back(v);
    };
    for (size_t i = 0; i < work.size() && i < kMaxOps; ++i) {
      const Value& value = m_[work[i]];
      if (value.kind == ValueKind::OpResult && m_.record(OpId(value.owner)).scalar)
        for (ValueId v : m_.operands(OpId(value.owner))) see(v);
      for (OpId reader : readers_.of(work[i])) {
        if (m_.typeOf(m_.result(reader)).dims == dims)
          see(m_.result(reader));
        else if (reducesRows(reader))
          return true;
      }
    }
    return false;
  }

private:
  bool reducesRows(OpId o) {
    if (m_[o].numOperands == 0 || m_[o].numResults != 1) return false;
    const FusionForm form = fusionFormOf(m_, o);
    return form.reduces && form.reduced.back() && !form.reduced.front();
  }
  Module& m_;
  ByValue<OpId> readers_;
};

// Finds where to split the dims into about `wanted` parts of at least `minLength` elements each. `pads`: an
// uneven split is worth the padding that keeps it out of the kernel.
bool chooseSplit(Split& s, int64_t wanted, int64_t minLength, bool pads) {
  int64_t reduced = 1, before = 1;
  for (int64_t d : s.dims) reduced *= s.shape[static_cast<size_t>(d)];
  wanted = std::min(wanted, reduced / minLength);
  if (wanted < kMinParts) return false;
  for (int64_t d : s.dims) {
    s.dim = static_cast<size_t>(d);
    const int64_t n = s.shape[s.dim];
    if (before * n < wanted && d != s.dims.back()) {
      before *= n;
      continue;
    }
    const int64_t maxParts = std::min(wanted / before, n);
    for (s.parts = std::max<int64_t>(maxParts, 1); n % s.parts != 0;) --s.parts;
    if (before * s.parts < kMinParts || s.parts * 8 < maxParts) {
      if (pads && maxParts > 1) {
        s.length = (n + maxParts - 1) / maxParts;
        s.parts = (n + s.length - 1) / s.length;
        s.padded = s.parts * s.length - n;
        return true;
      }
    }
    s.length = n / s.parts;
    return before * s.parts >= kMinParts;
  }
  return false;
}

// True if the value is in memory before any kernel that reads it, or one more op would store it.
bool isStored(const Module& m, ValueId v) {
  const Value& value = m[v];
  return value.kind == ValueKind::BlockArg ||
         (value.kind == ValueKind::OpResult && m.record(OpId(value.owner)).isCollective());
}

// Parts of `rows` rows of `results` elements, one loop each.
int64_t walksOf(int64_t rows, int64_t results, bool gpu) {
  if (!gpu) return std::clamp(rows / kCpuWalk, kMinCpuWalks, kCpuWalks);
  return std::max(kWalks,
                  std::min(kWalkedAtOnce / results, rows / (results < kShortRow ? kShortWalk : kLongWalk)));
}

// `gpu`: the target is a GPU.
std::optional<Split> splitOf(Module& m, OpId o, RowSearch& rows, bool gpu) {
  const OpRecord& record = m.record(o);
  const bool plain = record.scalar && record.scalar == std::string_view("a"); // of unmodified elements
  Split s;
  s.mean = record.combines == PendingKind::Avg;
  if (record.lowering != Lowering::Loops || !plain || (record.finish && !s.mean) || record.scalarFor ||
      record.element || record.eval || m[o].numOperands != 1 || m[o].numResults != 1 || record.sideEffect)
    return std::nullopt;
  const Type& x = m.typeOf(m.operand(o, 0));
  if (!x.isStatic() || x.dtype != m.typeOf(m.result(o)).dtype || !x.numElements() ||
      *x.numElements() < kMinElements)
    return std::nullopt;
  const FusionForm form = fusionFormOf(m, o);
  if (!form.reduces) return std::nullopt;
  s.shape = x.staticShape();
  int64_t results = 1;
  for (size_t d = 0; d < s.shape.size(); ++d) {
    if (form.reduced[d])
      s.dims.push_back(static_cast<int64_t>(d));
    else
      results *= s.shape[d];
  }
  const bool columns = !form.reduced.back(), shortRows = *x.numElements() / results <= kLongCpuRow;
  if (s.dims.empty() || results > (columns ? kMaxColumns : !gpu && shortRows ? kMaxCpuRows : kMaxRows))
    return std::nullopt;
  for (const Factor& f : form.rule.factors)
    if (f.reduce != PendingKind::None) s.kind = f.reduce == PendingKind::Avg ? PendingKind::Sum : f.reduce;
  s.wide = isNarrowFloat(x.dtype) && s.kind != PendingKind::Max && s.kind != PendingKind::Min;
  const bool stored = isStored(m, m.operand(o, 0)) && (isFloat(x.dtype) || s.kind == PendingKind::Sum);
  if (!columns) {
    const bool found = chooseSplit(s, kRowBlocks / results, kMinRow, stored);
    return found ? std::optional(s) : std::nullopt;
  }
  const bool walked = rows.usedWithRowReduction(m.operand(o, 0));
  const int64_t wanted = walked ? walksOf(*x.numElements() / results, results, gpu)
                                : kColumnBlocks / ((results + kColumns - 1) / kColumns);
  const int64_t parted = gpu || results < kColumns
                             ? kMinParted
                             : std::clamp(*x.numElements() / results / kCpuParted, kMinParted, kCpuParted);
  bool found = chooseSplit(s, wanted, walked ? kMinWalked : parted, stored && !walked);
  // With fewer parts the column kernel would reread the rows (FusionRows.cpp): an extent without a
  // suitable divisor.
  if (const int64_t rows = *x.numElements() / results;
      walked && !gpu && found && rows / s.length < kMinCpuWalks)
    found = chooseSplit(s, walksOf(rows, results, true), kMinWalked, false);
  return found ? std::optional(s) : std::nullopt;
}

// Moves the op's work to a new op with an f32 result, which `o` converts.
void widen(Module& m, OpId o, ValueId operand, Builder& b) {
  const ValueId result = m.result(o);
  Type wide = m.typeOf(result);
  wide.dtype = DType::F32;
  const OpId made = m.makeOp(m[o].kind, std::array{operand}, 1, m[o].attrs, 0, m[o].loc);
  m[made].parent = m[o].parent;
  m[m.result(made)].type = m.types.intern(std::move(wide));
  b.out.push_back(made);
  const AttrList before = std::exchange(m[o].attrs, {});
  for (const auto& attr : before) // the common attributes stay with the value's name
    if (std::ranges::none_of(m.record(o).attrs,
                             [&](const AttrSpec& own) { return own.name == m.strings[attr.name]; }))
      m[o].attrs.push_back(attr);
  m[o].kind = m.registry->find(OpName("convert"));
  m.setOperands(o, std::array{m.result(made)});
  m.setAttr(o, "dtype", b.word(dtypeName(m.typeOf(result).dtype)));
}

// Pads with the neutral element after the dim to split.
ValueId padded(Module& m, const Split& s, ValueId x, Builder& b) {
  const DType dtype = m.typeOf(x).dtype;
  const ScalarValue nothing = reduceIdentity(s.kind, dtype);
  const ValueId value = b.literal(isFloat(dtype) ? nothing.f : static_cast<double>(nothing.i), dtype);
  std::vector<int64_t> low(s.shape.size()), high(s.shape.size());
  high[s.dim] = s.padded;
  return ops::pad(Expr(b, x), {.value = value, .low = low, .high = high});
}

// `o` now reduces the result of the first step: the parts, and dims of size 1 for later reduced dims.
void apply(Module& m, OpId o, const Split& s, Builder& b) {
  std::vector<int64_t> split = s.shape, inner, left = s.shape;
  const int64_t at = static_cast<int64_t>(s.dim);
  split[s.dim] = s.length;
  split.insert(split.begin() + at, s.parts);
  int64_t count = 1;
  for (int64_t d : s.dims) {
    count *= s.shape[static_cast<size_t>(d)];
    if (d < at) continue; // these dims serve as parts
    inner.push_back(d + 1);
    left[static_cast<size_t>(d)] = d == at ? s.parts : 1;
  }
  ValueId x = m.operand(o, 0);
  if (s.padded > 0) x = padded(m, s, x, b);
  if (s.wide) x = ops::convert(Expr(b, x), DType::F32);
  const Expr parts = reshape(Expr(b, x), split);
  const ValueId rest = reshape(reduced(s.kind, parts, {.dims = inner, .keepdim = true}), left);
  if (s.mean && !m.attr(o, "count").valid()) m.setAttr(o, "count", b.integer(count));
  if (s.wide)
    widen(m, o, rest, b);
  else
    m.operands(o)[0] = rest;
}

} // namespace

void splitReductions(Module& m, BlockId block, bool gpu, Diagnostics& diags) {
  std::vector<OpId> out;
  Builder b(m, block, out, diags);
  RowSearch rows(m, block);
  for (OpId o : std::vector<OpId>(m[block].ops)) {
    for (uint32_t r = 0; r < m[o].numRegions; ++r)
      if (m.record(o).regions != RegionKind::Fused) splitReductions(m, m.region(o, r), gpu, diags);
    b.loc = m[o].loc;
    if (const std::optional<Split> s = splitOf(m, o, rows, gpu)) apply(m, o, *s, b);
    out.push_back(o);
  }
  m[block].ops = std::move(out);
}

} // namespace dtc
