// Before ops are grouped: reductions of much to little, in two steps.
#include "SplitReductions.h"
#include "FusionForm.h"
#include "dtc/IR/Builder.h"
#include "dtc/Ops/Scalar.h"
#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

namespace dtc {
namespace {

// Few results of many elements: one core, or one block of a GPU, would do nearly all. How many parts there are follows from the
// extents alone: enough for a GPU of 132 processors with two to four blocks each, few enough that writing and reading them
// again costs a few percent of the bytes.
constexpr int64_t kLeastElements = 1 << 18, kLeastParts = 4;
// Rows that lie together are work for as many cores, and run in one kernel with what stands around them, which parts would break up.
// A CPU's few cores find work enough in few rows, and keep a row of this length in the second cache.
constexpr int64_t kMostRows = 1 << 8, kMostCpuRows = 1 << 4, kRowBlocks = 1 << 10, kLeastRow = 1 << 12,
                  kLongCpuRow = 1 << 17;
// Columns: threads lie along them, 1,024 columns a block.
constexpr int64_t kMostColumns = 1 << 17, kColumns = 1 << 10, kColumnBlocks = 1 << 9, kLeastParted = 8;
// Columns of values whose rows are reduced too: each part is a block that walks over whole rows (Nest::walked).
constexpr int64_t kWalks = 1 << 8, kLeastWalked = 4;
// More where rows are short, so that a processor has enough of them at a time, if each walk remains this long.
constexpr int64_t kWalkedAtOnce = 1 << 20, kLongWalk = 32;
// A CPU has fewer cores than a GPU has blocks at a time: fewer and longer walks and parts, so that storing these takes little time.
constexpr int64_t kCpuWalks = 1 << 7, kLeastCpuWalks = 1 << 6, kCpuWalk = 16, kCpuParted = 32;

// x[.., n, ..] as x[.., parts, n / parts, ..], where that is worth it. Of several reduced dims those before the one that is cut
// are parts as they stand.
struct Split {
  size_t cut = 0; // the dim
  int64_t parts = 0, length = 0;
  int64_t padded = 0;               // elements of nothing behind the dim, so that parts * length have room
  std::vector<int64_t> dims, shape; // all that are reduced; of x
  bool mean = false;                // of parts that are summed
  bool wide = false;                // sums of narrow floats, which must not be rounded on the way: in f32
  PendingKind kind = PendingKind::Sum;
};

// Finds values that lie beside reductions of their rows: such a reduction has an operand that elementwise ops of the same shape
// lead to, or that they lead from.
class RowSearch {
public:
  RowSearch(Module& m, BlockId block) : m_(m) {
    for (OpId o : m[block].ops)
      for (ValueId v : m.operands(o)) readers_[v.index].push_back(o);
  }
  [[nodiscard]] bool beside(ValueId x) {
    constexpr size_t kMostOps = 64;
    const std::vector<Dim> dims = m_.typeOf(x).dims;
    std::vector<ValueId> work = {x};
    std::unordered_set<uint32_t> seen = {x.index};
    auto see = [&](ValueId v) {
      if (m_[v].kind != ValueKind::Literal && m_.typeOf(v).dims == dims && seen.insert(v.index).second)
        work.push_back(v);
    };
    for (size_t i = 0; i < work.size() && i < kMostOps; ++i) {
      const Value& value = m_[work[i]];
      if (value.kind == ValueKind::OpResult && m_.record(OpId(value.owner)).scalar)
        for (ValueId v : m_.operands(OpId(value.owner))) see(v);
      for (OpId reader : readers_[work[i].index]) {
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
  std::unordered_map<uint32_t, std::vector<OpId>> readers_; // by value
};

// Where the dims are cut for about `wanted` parts of at least `least` elements along them. `pads`: an uneven cut is worth more than
// what it keeps out of the kernel.
bool chooseCut(Split& s, int64_t wanted, int64_t least, bool pads) {
  int64_t reduced = 1, before = 1;
  for (int64_t d : s.dims) reduced *= s.shape[static_cast<size_t>(d)];
  wanted = std::min(wanted, reduced / least);
  if (wanted < kLeastParts) return false;
  for (int64_t d : s.dims) {
    s.cut = static_cast<size_t>(d);
    const int64_t n = s.shape[s.cut];
    if (before * n < wanted && d != s.dims.back()) {
      before *= n;
      continue;
    }
    const int64_t most = std::min(wanted / before, n);
    for (s.parts = std::max<int64_t>(most, 1); n % s.parts != 0;) --s.parts;
    if (before * s.parts < kLeastParts || s.parts * 8 < most) {
      if (pads && most > 1) {
        s.length = (n + most - 1) / most;
        s.parts = (n + s.length - 1) / s.length;
        s.padded = s.parts * s.length - n;
        return true;
      }
    }
    s.length = n / s.parts;
    return before * s.parts >= kLeastParts;
  }
  return false;
}

// Is the value in memory before any kernel that reads it, or would one more op make it?
bool isStored(const Module& m, ValueId v) {
  const Value& value = m[v];
  return value.kind == ValueKind::BlockArg ||
         (value.kind == ValueKind::OpResult && m.record(OpId(value.owner)).isCollective());
}

// Parts of `rows` rows of `results` elements, of which each is a walk.
int64_t walksOf(int64_t rows, int64_t results, bool gpu) {
  if (!gpu) return std::clamp(rows / kCpuWalk, kLeastCpuWalks, kCpuWalks);
  return std::max(kWalks, std::min(kWalkedAtOnce / results, rows / kLongWalk));
}

// `gpu`: the regions are for a GPU's blocks.
std::optional<Split> splitOf(Module& m, OpId o, RowSearch& rows, bool gpu) {
  const OpRecord& record = m.record(o);
  const bool plain = record.scalar && record.scalar == std::string_view("a"); // of the elements as they are
  Split s;
  s.mean = record.name == std::string_view("mean");
  if (record.lowering != Lowering::Loops || !plain || (record.finish && !s.mean) || record.scalarFor ||
      record.element || record.eval || m[o].numOperands != 1 || m[o].numResults != 1 || record.sideEffect)
    return std::nullopt;
  const Type& x = m.typeOf(m.operand(o, 0));
  if (!x.isStatic() || x.dtype != m.typeOf(m.result(o)).dtype || !x.numElements() ||
      *x.numElements() < kLeastElements)
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
  if (s.dims.empty() || results > (columns ? kMostColumns : !gpu && shortRows ? kMostCpuRows : kMostRows))
    return std::nullopt;
  for (const Factor& f : form.rule.factors)
    if (f.reduce != PendingKind::None) s.kind = f.reduce == PendingKind::Avg ? PendingKind::Sum : f.reduce;
  s.wide = isNarrowFloat(x.dtype) && s.kind != PendingKind::Max && s.kind != PendingKind::Min;
  const bool stored = isStored(m, m.operand(o, 0)) && (isFloat(x.dtype) || s.kind == PendingKind::Sum);
  if (!columns) {
    const bool found = chooseCut(s, kRowBlocks / results, kLeastRow, stored);
    return found ? std::optional(s) : std::nullopt;
  }
  const bool walked = rows.beside(m.operand(o, 0));
  const int64_t wanted = walked ? walksOf(*x.numElements() / results, results, gpu)
                                : kColumnBlocks / ((results + kColumns - 1) / kColumns);
  const int64_t parted = gpu || results < kColumns
                             ? kLeastParted
                             : std::clamp(*x.numElements() / results / kCpuParted, kLeastParted, kCpuParted);
  bool found = chooseCut(s, wanted, walked ? kLeastWalked : parted, stored && !walked);
  // Of fewer parts the columns' kernel would read the rows again (FusionColumns.cpp): an extent without a divisor near by.
  if (const int64_t rows = *x.numElements() / results;
      walked && !gpu && found && rows / s.length < kLeastCpuWalks)
    found = chooseCut(s, walksOf(rows, results, true), kLeastWalked, false);
  return found ? std::optional(s) : std::nullopt;
}

// Moves the op's work to a new one with an f32 result, which `o` narrows.
void widen(Module& m, OpId o, ValueId operand, Builder& b) {
  const ValueId result = m.result(o);
  Type wide = m.typeOf(result);
  wide.dtype = DType::F32;
  const OpId made = m.makeOp(m[o].kind, std::array{operand}, 1, m[o].attrs, 0, m[o].loc);
  m[made].parent = m[o].parent;
  m[m.result(made)].type = m.types.intern(std::move(wide));
  b.out.push_back(made);
  const AttrList before = std::exchange(m[o].attrs, {});
  for (const auto& attr : before) // what any op may have stays with the value's name
    if (std::ranges::none_of(m.record(o).attrs,
                             [&](const AttrSpec& own) { return own.name == m.strings[attr.name]; }))
      m[o].attrs.push_back(attr);
  m[o].kind = m.registry->find("convert");
  m.setOperands(o, std::array{m.result(made)});
  m.setAttr(o, "dtype", b.word(dtypeName(m.typeOf(result).dtype)));
}

// What changes nothing where it is combined with, behind the dim that is cut.
ValueId padded(Module& m, const Split& s, ValueId x, Builder& b) {
  const DType dtype = m.typeOf(x).dtype;
  const ScalarValue nothing = reduceIdentity(s.kind, dtype);
  const ValueId value = b.literal(isFloat(dtype) ? nothing.f : static_cast<double>(nothing.i), dtype);
  std::vector<int64_t> low(s.shape.size()), high(s.shape.size());
  high[s.cut] = s.padded;
  return b.value("pad", {x, value}, {{"low", b.ints(low)}, {"high", b.ints(high)}});
}

// The op goes on reducing what the first step leaves: the parts, and ones where it reduced later dims.
void apply(Module& m, OpId o, const Split& s, Builder& b) {
  std::vector<int64_t> cut = s.shape, inner, left = s.shape;
  const int64_t at = static_cast<int64_t>(s.cut);
  cut[s.cut] = s.length;
  cut.insert(cut.begin() + at, s.parts);
  int64_t count = 1;
  for (int64_t d : s.dims) {
    count *= s.shape[static_cast<size_t>(d)];
    if (d < at) continue; // parts as they stand
    inner.push_back(d + 1);
    left[static_cast<size_t>(d)] = d == at ? s.parts : 1;
  }
  ValueId x = m.operand(o, 0);
  if (s.padded > 0) x = padded(m, s, x, b);
  if (s.wide) x = b.value("convert", {x}, {{"dtype", b.word("f32")}});
  const ValueId parts = b.value("reshape", {x}, {{"shape", b.ints(cut)}});
  const ValueId sums = b.value(s.mean ? "sum" : m.record(o).name, {parts},
                               {{"dims", b.ints(inner)}, {"keepdim", b.boolean(true)}});
  const ValueId rest = b.value("reshape", {sums}, {{"shape", b.ints(left)}});
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
