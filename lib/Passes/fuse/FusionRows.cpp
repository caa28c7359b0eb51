// Kernels that reduce along rows: which ops they can compute in the same loops. A column reduction, along the rows
// of a value that the kernel computes or reads, is computed in parts while the kernel loops over its rows, so that
// the reduced value is read once and never stored.
#include "fuse/FusionSteps.h"
#include <algorithm>

namespace dtc {

// With fewer parts a GPU is idle while each block loops over its rows: then the column kernel rereads the
// rows.
static constexpr int64_t kMinParts = 64;

// `o` reduces values with the group's rows, one dim of which is split in two: it reduces the inner part, and
// the dims after it up to the rows' own dims; the parts remain, and each row is within one part.
bool columnsOf(const FusionGroups& fusion, OpId o, const FusionGroup& g) {
  const FusionForm& form = fusion.formOf(o);
  if (!g.rows || !form.reduces || fusion.m[o].numOperands != 1 || fusion.m[o].numResults != 1) return false;
  const ValueId operand = fusion.m.operand(o, 0);
  const Type& parted = fusion.m.typeOf(operand);
  const Type& result = fusion.m.typeOf(fusion.m.result(o));
  if (isNarrowFloat(result.dtype) || isBool(result.dtype) || isComplex(result.dtype)) return false;
  const FusionOp* producer =
      fusion.stateOf(operand); // a reshape that the reader folds, of a value with these rows
  if (!producer || !producer->form->move || !producer->form->compound || producer->group >= 0) return false;
  const ValueId source = fusion.m.operand(OpId(fusion.m[operand].owner), 0);
  const FusionOp* made = fusion.stateOf(source);
  if (fusion.m.typeOf(source).dims != g.full || fusion.sourceOf(source).moved || (made && made->unaligned))
    return false;
  if (!g.parted.empty()) return g.parted == parted.dims && g.partReduced == form.reduced;
  const auto parts = columnParts(g.reduced, g.full, form.reduced, parted.dims);
  return parts && *parts >= kMinParts;
}

namespace {

enum class Shape : uint8_t { Other, Full, RowKept, RowDropped }; // of a value relative to a group's rows

} // namespace

static Shape shapeRelativeTo(const FusionGroup& g, const Type& t) {
  if (t.dims == g.full) return Shape::Full;
  std::vector<Dim> kept = g.full, dropped;
  for (size_t d = 0; d < g.full.size(); ++d) {
    if (g.reduced[d])
      kept[d] = Dim(1);
    else
      dropped.push_back(g.full[d]);
  }
  if (t.dims == kept) return Shape::RowKept;
  return t.dims == dropped ? Shape::RowDropped : Shape::Other;
}

// In a group with reductions every value must have the layout of the rows, or must not be read by a
// reduction.
static bool fitsRows(FusionGroups& fusion, OpId o, const FusionGroup& g) {
  FusionOp& s = fusion.at(o);
  if (s.form->reduces && columnsOf(fusion, o, g)) return s.unaligned = true;
  const std::vector<ValueId> operands(fusion.m.operands(o).begin(), fusion.m.operands(o).end());
  const Type& result = fusion.m.typeOf(fusion.m.result(o));
  Shape shape = shapeRelativeTo(g, result);
  bool unaligned = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    const FusionSource source = fusion.sourceOf(operands[i]);
    const int from = fusion.groupOf(source.value);
    if (from < 0 || &fusion.group(from) != &g) continue;
    const FusionOp* made = fusion.stateOf(source.value);
    unaligned |= !source.aligned || (made && made->unaligned);
    const Shape in = shapeRelativeTo(g, fusion.m.typeOf(operands[i]));
    if (s.form->reduces) {
      if (unaligned || in == Shape::Other || (i == 0 && in != Shape::Full)) return false;
      continue;
    }
    const bool wide = fusion.elementsOf(fusion.m.typeOf(operands[i])) == g.elements;
    if (unaligned || shape == Shape::Other || in == Shape::Other) {
      if (!wide || fusion.elementsOf(result) != g.elements) return false;
      unaligned = true;
    } else if (in != shape && !(shape == Shape::Full && in == Shape::RowKept)) {
      return false;
    }
  }
  if (s.form->reduces && (fusion.m.typeOf(operands[0]).dims != g.full || s.form->reduced != g.reduced))
    return false;
  s.unaligned = unaligned;
  return true;
}

std::string_view kernelObstacle(FusionGroups& fusion, OpId o, uint32_t gi) {
  const FusionGroup& g = fusion.group(gi);
  const FusionForm& form = fusion.formOf(o);
  if (!g.fusible) return "its producer is not a kernel";
  if (g.closed) return "a contraction or a copy fuses only data-movement ops on its result";
  if (g.ops.size() >= fusion.limit) return "the op limit of the region is reached";
  if (form.indexed) return "it is read by a gather or at irregular indices";
  for (ValueId v : fusion.m.operands(o)) {
    const FusionSource s = fusion.sourceOf(v);
    if (fusion.groupOf(s.value) == static_cast<int>(gi) && !s.near)
      return "it is read through a data-movement op that would recompute it";
  }
  if (g.rows)
    return fitsRows(fusion, o, g) ? "" : "its layout differs from the rows of the reduction in the region";
  for (ValueId v : fusion.m.operands(o))
    if (fusion.sourceGroup(v) == static_cast<int>(gi) && fusion.elementsOf(fusion.m.typeOf(v)) != g.elements)
      return "it has fewer elements than the other values of the region";
  const ValueId wide = form.reduces ? fusion.m.operand(o, 0) : fusion.m.result(o);
  return fusion.elementsOf(fusion.m.typeOf(wide)) == g.elements
             ? ""
             : "its reader has a different number of elements";
}

void addTo(FusionGroups& fusion, OpId o, uint32_t g) {
  FusionGroup& group = fusion.group(g);
  FusionOp& s = fusion.at(o);
  if (s.group < 0) group.ops.push_back(o);
  s.group = static_cast<int32_t>(g);
  if (s.form->reduces && group.rows && columnsOf(fusion, o, group)) {
    group.parted = fusion.m.typeOf(fusion.m.operand(o, 0)).dims;
    group.partReduced = s.form->reduced;
    group.kind = "columns";
  }
  if (!s.form->reduces || group.rows) return;
  const Type& rows = fusion.m.typeOf(fusion.m.operand(o, 0));
  group.rows = true;
  group.full = rows.dims;
  group.reduced = s.form->reduced;
  group.elements = fusion.elementsOf(rows);
  group.kind = s.form->reduced.back() ? "row" : "reduce";
}

} // namespace dtc
