// Layouts of stored values, by bytes. A value is written once. If a kernel reads it through a data-movement
// op (a transpose), either the reader or, if the value is stored in that layout, the writer is strided. A
// value that is only read through one such op is therefore stored in its layout if that saves more strided
// bytes than it adds. Library matmuls and attention read strided operands for free, and do not count. A
// matmul also writes either layout for free: a single reader is sufficient.
#include "fuse/FusionSteps.h"
#include <algorithm>

namespace dtc {

// True if all readers read the value through this op.
static bool feedsOnlyDataMovement(const FusionGroups& fusion, OpId move) {
  for (ValueId v = fusion.m.operand(move, 0); fusion.stateOf(v);
       v = fusion.m.operand(OpId(fusion.m[v].owner), 0)) {
    if (fusion.uses[v.index] != 1) return false;
    const FusionOp* s = fusion.stateOf(v);
    if (s->group >= 0) return true;
    if (!s->form->compound) return false;
  }
  return false;
}

void chooseLayouts(FusionGroups& fusion) {
  const FusionReadings all = fusion.readings();
  for (OpId o : fusion.m[fusion.block].ops) {
    FusionOp& s = fusion.at(o);
    if (!s.form->compound || s.group >= 0 || fusion.m[o].numResults != 1 || !feedsOnlyDataMovement(fusion, o))
      continue;
    const ValueId moved = fusion.m.result(o), source = fusion.sourceOf(moved).value;
    const std::span<const FusionReading> readers = all.of(source);
    std::string_view kind;
    if (readers.empty() || !fusion.joinDataMovement(o, kind) || kind == "view") continue;
    // Kernels read whole lines of it in its present layout.
    if (const std::optional<StridedView> view = viewOf(fusion, moved, false);
        view && view->keepsLines(fusion.m.typeOf(moved).dtype))
      continue;
    const auto maker = static_cast<uint32_t>(fusion.groupOf(source));
    std::vector<uint32_t> kernels; // the kernels that read it so
    bool separate = true;
    for (const FusionReading& r : readers) {
      const int in = fusion.at(r.reader).group;
      const auto g = static_cast<uint32_t>(in);
      // A view of the source would have to become a copy of the other layout.
      // A convolution's layout is decided before (ConvLayouts).
      separate &= in >= 0 && in != static_cast<int>(maker) && r.moved && fusion.group(g).kind != "view" &&
                  !fusion.layouts.convolutions.contains(r.reader.index);
      const bool free = in >= 0 && (fusion.group(g).kind == "gemm" || fusion.group(g).kind == "attention" ||
                                    fusion.formOf(r.reader).readsRows);
      if (separate && !free && std::find(kernels.begin(), kernels.end(), g) == kernels.end())
        kernels.push_back(g);
    }
    if (!separate || kernels.size() < (fusion.group(maker).kind == "gemm" ? 1U : 2U)) continue;
    fusion.store(moved);
    s.chosen = true;
    for (const FusionReading& r : readers)
      fusion.note(r.reader, moved, "stored in its readers' layout, which saves more bytes than it costs");
  }
}

} // namespace dtc
