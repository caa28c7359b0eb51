// Before ops are grouped: reductions of much to little, in two steps.
#include "SplitReductions.h"
#include "FusionForm.h"
#include "dtc/IR/Builder.h"
#include <algorithm>
#include <array>
#include <utility>

namespace dtc {
namespace {

// Few results of many elements: one core, or one block of a GPU, would do nearly all.
constexpr int64_t kMostResults = 1 << 12, kLeastElements = 1 << 18, kMostParts = 64, kLeastParts = 4;
// Rows that lie together are work for as many cores, and run in one kernel with what stands around them, which parts would break up.
constexpr int64_t kMostRows = 1 << 8;

// x[.., n, ..] as x[.., parts, n / parts, ..], where that is worth it.
struct Split {
  size_t dim = 0; // the first that is reduced
  int64_t parts = 0;
  std::vector<int64_t> dims, shape; // all that are reduced; of x
  bool mean = false;                // of parts that are summed
  bool wide = false;                // sums of narrow floats, which must not be rounded on the way: in f32
};

std::optional<Split> splitOf(Module& m, OpId o) {
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
  if (s.dims.empty() || results > (form.reduced.back() ? kMostRows : kMostResults) ||
      *x.numElements() / results < kLeastElements / kMostResults)
    return std::nullopt;
  const std::vector<Factor>& factors = form.rule.factors;
  s.wide = isNarrowFloat(x.dtype) && std::none_of(factors.begin(), factors.end(), [](const Factor& f) {
             return f.reduce == PendingKind::Max || f.reduce == PendingKind::Min;
           });
  s.dim = static_cast<size_t>(s.dims[0]);
  const int64_t n = s.shape[s.dim];
  for (s.parts = std::min(kMostParts, n / 2); s.parts >= kLeastParts; --s.parts)
    if (n % s.parts == 0) return s;
  return std::nullopt;
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

// The op goes on reducing what the first step leaves: the parts, and ones where it reduced other dims.
void apply(Module& m, OpId o, const Split& s, Builder& b) {
  std::vector<int64_t> cut = s.shape, inner = s.dims, left = s.shape;
  cut[s.dim] /= s.parts;
  cut.insert(cut.begin() + static_cast<std::ptrdiff_t>(s.dim), s.parts);
  for (int64_t& d : inner) ++d;
  int64_t count = 1;
  for (int64_t d : s.dims) count *= std::exchange(left[static_cast<size_t>(d)], 1);
  left[s.dim] = s.parts;
  ValueId x = m.operand(o, 0);
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

void splitReductions(Module& m, BlockId block, Diagnostics& diags) {
  std::vector<OpId> out;
  Builder b(m, block, out, diags);
  for (OpId o : std::vector<OpId>(m[block].ops)) {
    for (uint32_t r = 0; r < m[o].numRegions; ++r)
      if (m.record(o).regions != RegionKind::Fused) splitReductions(m, m.region(o, r), diags);
    b.loc = m[o].loc;
    if (const std::optional<Split> s = splitOf(m, o)) apply(m, o, *s, b);
    out.push_back(o);
  }
  m[block].ops = std::move(out);
}

} // namespace dtc
