#include "dtc/Passes/split/Split.h"

#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/split/Decompose.h"
#include "dtc/Target/Target.h"
#include "split/BlockGroups.h"
#include "split/ShareTables.h"
#include "split/SplitAttention.h"
#include "split/SplitReductions.h"
#include "split/SplitRows.h"
#include "split/UnrollSmall.h"

namespace dtc {
// `parts`: ops are split for parallelism; otherwise only ops without a kernel are decomposed. `fixed`: the
// order of sums is kept.
static bool splitFunction(Module& m, FuncId f, const Target& target, bool parts, bool fixed,
                          Diagnostics& diags) {
  const BlockId body = m[f].body;
  // Row ops first: the decomposition of a softmax or of a norm has reductions, which are decomposed and split
  // in turn.
  if (parts && !fixed) splitRows(m, body, target.gpu, diags);
  if (!decomposeNeeded(m, body, diags, target.gpu && !fixed)) return false;
  if (parts && !target.gpu) unrollSmall(m, body, diags);
  if (parts) shareTables(m, body);
  if (parts && !target.gpu) blockGroups(m, body, diags);
  if (parts && target.gpu && !fixed) splitAttention(m, body, diags);
  if (parts && !fixed) splitReductions(m, body, target.gpu, diags);
  return true;
}

bool splitPass(Module& m, const PassOptions& options, Diagnostics& diags) {
  const std::string name(options.word("target", "cpu"));
  const auto target = targetNamed(name);
  DTC_CHECK(target, "checkOptions() accepts only targets");
  const bool parts = options.flag("parts", true), fixed = options.word("order", "any") == "fixed";
  for (FuncId f : m.order) {
    if (!m[f].spmd || levelOf(m, f) >= Level::Split) continue;
    if (!splitFunction(m, f, *target, parts, fixed, diags)) return false;
    m[f].attrs.push_back({m.strings.intern("target"), m.attrs.string(m.strings.intern(name))});
  }
  return !diags.hasErrors();
}

} // namespace dtc
