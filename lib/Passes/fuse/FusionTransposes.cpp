// Transposed operands of row ops (softmax, norms) on GPUs. A row kernel reads an operand that is not contiguous
// along its rows element by element, each access of a warp over 32 lines. Stored in the layout of the rows, by the
// kernel that computes it or by a copy, it passes through tiles in shared memory: two accesses more, of full lines.
#include "analysis/ByValue.h"
#include "fuse/FusionSteps.h"
#include <algorithm>
#include <unordered_set>

namespace dtc {

namespace {

constexpr int64_t kMinBytes = 1 << 20, kMinRow = 32; // smaller operands stay in the cache
constexpr size_t kMaxOps = 64;

} // namespace

TransposedRows::TransposedRows(FusionGroups& fusion) : fusion_(fusion) {
  for (OpId o : fusion.m[fusion.block].ops)
    for (ValueId v : fusion.m.operands(o)) readers_.add(v, o);
  readers_.group();
}

// True if a row op reads the value, or an elementwise function of it, along its last dim.
bool TransposedRows::readByRows(ValueId moved) const {
  const Module& m = fusion_.m;
  const std::vector<Dim> dims = m.typeOf(moved).dims;
  std::vector<ValueId> work = {moved};
  std::unordered_set<uint32_t> seen = {moved.index};
  for (size_t i = 0; i < work.size() && i < kMaxOps; ++i)
    for (OpId reader : readers_.of(work[i])) {
      if (m[reader].numResults != 1 || m.typeOf(m.result(reader)).dims != dims) continue;
      const FusionForm& form = fusion_.forms.of(reader);
      if (form.reduces && !form.ordered && form.reduced.back() && m.operand(reader, 0) == work[i])
        return true;
      if (m.record(reader).scalar && seen.insert(m.result(reader).index).second)
        work.push_back(m.result(reader));
    }
  return false;
}

bool TransposedRows::stores(OpId move) const {
  const Module& m = fusion_.m;
  const FusionForm& form = fusion_.forms.of(move);
  if (!form.compound || m[move].numResults != 1) return false;
  const ValueId moved = m.result(move);
  const Type &to = m.typeOf(moved), &from = m.typeOf(m.operand(move, 0));
  if (!to.isStatic() || to.dims.empty() || !to.numElements() || to.numElements() != from.numElements() ||
      *to.numElements() * dtypeBytes(to.dtype) < kMinBytes || to.dims.back().value() < kMinRow)
    return false;
  const std::optional<StridedView> view = viewOf(fusion_, moved, false);
  return view && view->strided() && !view->isRows() && !view->keepsLines(to.dtype) && readByRows(moved);
}

} // namespace dtc
