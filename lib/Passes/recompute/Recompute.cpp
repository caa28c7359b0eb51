// recompute: the backward part of a training step computes values of the forward part again.
//
// Needs local text without `recompute` blocks: sizes and communication are those of one device. Runs before split.
// Without a budget, only ops with little arithmetic per element are computed again. With one, the price of a kept
// byte rises until the memory plan of the rest of the pipeline fits.
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Passes/Pass.h"
#include "dtc/Passes/analysis/Recomputes.h"
#include "dtc/Support/Units.h"
#include "recompute/Rematerialize.h"

namespace dtc {

static constexpr DiagKind kOverBudget{
    "over-budget",
    "recompute: the program needs {0} per device, and {1} with as much recomputation as helps, but "
    "the budget is {2}"};
static constexpr DiagKind kUnknownPeak{"over-budget",
                                       "recompute: the memory of this program is unknown until its "
                                       "sizes are bound, so that it cannot have a budget"};

// The block, and the bodies of loops in it that are not one half of a gradient: those over micro-batches have
// both halves.
static void rematerializeBlocks(Module& m, BlockId block, const Mesh& mesh, const RecomputePrices& prices,
                                Rematerialized& done, const std::unordered_set<OpId>& pairs) {
  for (OpId o : std::vector<OpId>(m[block].ops))
    if (m.record(o).regions == RegionKind::For && !pairs.contains(o))
      rematerializeBlocks(m, m.region(o, 0), mesh, prices, done, pairs);
  rematerializeBlock(m, block, mesh, prices, done);
}

static Rematerialized rewrite(Module& m, const RecomputePrices& prices) {
  Rematerialized done;
  for (FuncId f : m.order) {
    if (!devicesOf(m, f).empty())
      continue; // its messages match those of other functions, and its order is chosen
    const Mesh mesh = meshValueOf(m, f);
    const size_t before = done.ops;
    std::unordered_set<OpId> pairs;
    rematerializeLoops(m, m[f].body, mesh, prices, done, pairs);
    rematerializeBlocks(m, m[f].body, mesh, prices, done, pairs);
    if (done.ops > before) setRecomputes(m, f);
  }
  return done;
}

static void remark(const PassOptions& options, const Rematerialized& done) {
  if (!options.remarks || done.ops == 0) return;
  options.remarks->push_back({.what = "recompute " + std::to_string(done.ops) + " ops",
                              .why = "the backward part reads " + bytesText(done.keptBytes) +
                                     " of the forward part and computes the rest again",
                              .loc = {},
                              .bytes = done.keptBytes});
}

// Prices of a kept byte, as multiples of the time to write and read it: each twice the one before.
static constexpr int kNumPrices = 16;

static bool fitBudget(Module& m, int64_t budget, const PassOptions& options, Diagnostics& diags) {
  const auto before = options.plannedPeak(m);
  if (!before) return diags.fail(kUnknownPeak, {});
  if (*before <= budget) return true;
  int64_t least = *before, kept = -1;
  for (int k = -1; k < kNumPrices; ++k) {
    RecomputePrices prices;
    prices.scope = k < 0 ? RecomputeScope::Cheap : RecomputeScope::Any;
    for (int i = 0; i < k; ++i) prices.kept *= 2;
    Module copy = m;
    const Rematerialized done = rewrite(copy, prices);
    if (done.keptBytes == kept) continue; // the same choice
    kept = done.keptBytes;
    const auto peak = options.plannedPeak(copy);
    if (!peak) continue;
    least = std::min(least, *peak);
    if (*peak > budget) continue;
    m = std::move(copy);
    remark(options, done);
    return true;
  }
  return diags.fail(kOverBudget, {}, bytesText(*before), bytesText(least), bytesText(budget));
}

bool recomputePass(Module& m, const PassOptions& options, Diagnostics& diags) {
  if (const auto budget = options.bytes("budget"); budget && options.plannedPeak)
    return fitBudget(m, *budget, options, diags);
  RecomputePrices prices;
  if (options.word("scope", "cheap") == "gathers") prices.scope = RecomputeScope::Gathers;
  remark(options, rewrite(m, prices));
  return !diags.hasErrors();
}

} // namespace dtc
