// Before ops are grouped: reductions of much to little, in two steps.
#include "SplitReductions.h"
#include "FusionForm.h"
#include "dtc/IR/Builder.h"
#include <algorithm>

namespace dtc {
namespace {

// Few results of many elements: one core, or one block of a GPU, would do nearly all.
constexpr int64_t kMostResults = 1 << 12, kLeastElements = 1 << 18, kMostParts = 64, kLeastParts = 4;

// x[.., n, ..] as x[.., parts, n / parts, ..], where that is worth it.
struct Split {
  size_t dim = 0; // the first that is reduced
  int64_t parts = 0;
  std::vector<int64_t> dims, shape; // all that are reduced; of x
};

std::optional<Split> splitOf(Module& m, OpId o) {
  const OpRecord& record = m.record(o);
  const bool plain = record.scalar && record.scalar == std::string_view("a"); // of the elements as they are
  if (record.lowering != Lowering::Loops || !plain || record.finish || record.scalarFor || record.element ||
      record.eval || m[o].numOperands != 1 || m[o].numResults != 1 || record.sideEffect)
    return std::nullopt;
  const Type& x = m.typeOf(m.operand(o, 0));
  if (!x.isStatic() || isNarrowFloat(x.dtype) || x.dtype != m.typeOf(m.result(o)).dtype || !x.numElements() ||
      *x.numElements() < kLeastElements)
    return std::nullopt;
  const FusionForm form = fusionFormOf(m, o);
  if (!form.reduces) return std::nullopt;
  Split s;
  s.shape = x.staticShape();
  int64_t results = 1;
  for (size_t d = 0; d < s.shape.size(); ++d) {
    if (form.reduced[d])
      s.dims.push_back(static_cast<int64_t>(d));
    else
      results *= s.shape[d];
  }
  if (s.dims.empty() || results > kMostResults || *x.numElements() / results < kLeastElements / kMostResults)
    return std::nullopt;
  s.dim = static_cast<size_t>(s.dims[0]);
  const int64_t n = s.shape[s.dim];
  for (s.parts = std::min(kMostParts, n / 2); s.parts >= kLeastParts; --s.parts)
    if (n % s.parts == 0) return s;
  return std::nullopt;
}

// The op goes on reducing what the first step leaves: the parts, and ones where it reduced other dims.
void apply(Module& m, OpId o, const Split& s, Builder& b) {
  std::vector<int64_t> cut = s.shape, inner = s.dims, left = s.shape;
  cut[s.dim] /= s.parts;
  cut.insert(cut.begin() + static_cast<std::ptrdiff_t>(s.dim), s.parts);
  for (int64_t& d : inner) ++d;
  for (int64_t d : s.dims) left[static_cast<size_t>(d)] = 1;
  left[s.dim] = s.parts;
  const ValueId parts = b.value("reshape", {m.operand(o, 0)}, {{"shape", b.ints(cut)}});
  const ValueId sums =
      b.value(m.record(o).name, {parts}, {{"dims", b.ints(inner)}, {"keepdim", b.boolean(true)}});
  m.operands(o)[0] = b.value("reshape", {sums}, {{"shape", b.ints(left)}});
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
