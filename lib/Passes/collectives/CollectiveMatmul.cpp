// collective-matmul: finds rings, prices them and writes them.
#include "dtc/Passes/collectives/CollectiveMatmul.h"

#include "collectives/CollectiveRing.h"
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/PipelineText.h"
#include "dtc/Sharding/Sharding.h"
#include "dtc/Support/Words.h"
#include "dtc/Target/GpuModel.h"

#include <array>
#include <cstdio>

namespace dtc {

// The receive bandwidth of a GPU's NVLinks, of the largest product of its generation.
constexpr struct {
  int sm;
  double bytesPerSecond;
} kNvLinks[] = {{80, 300e9}, {90, 450e9}, {100, 900e9}};
// An f32 matmul runs on 128 lanes per multiprocessor, a multiplication and an addition each.
constexpr double kWideFlopsPerClock = 256;

RingMachine ringMachineOf(std::string_view target) {
  RingMachine out;
  if (!target.starts_with("sm_")) return out;
  const GpuModel& gpu = gpuModelOf(target);
  const double clocks = gpu.hertz * gpu.multiprocessors;
  out.nominal.memoryBytesPerSecond = gpu.bytesPerSecond;
  out.nominal.flopsPerSecond = gpu.tensorFlops * clocks;
  out.wideFlopsPerSecond = kWideFlopsPerClock * clocks;
  for (const auto& link : kNvLinks)
    if (link.sm <= gpu.sm) out.nominal.link.bytesPerSecond = link.bytesPerSecond;
  return out;
}

namespace {

class Rings {
public:
  Rings(Module& m, FuncId f, const CollectiveMatmulOptions& options, Diagnostics& diags)
      : m_(m), options_(options), diags_(diags), meshId_(meshOfFunction(m, f)), mesh_(meshValueOf(m, f)),
        pricer_(m, mesh_, options_.machine) {}

  void run(BlockId block, std::vector<CollectiveRing>& out) {
    const std::vector<OpId> ops = m_[block].ops;
    std::optional<RingFinder> finder; // of the block as it is
    for (OpId o : ops) {
      for (uint32_t r = 0; r < m_[o].numRegions; ++r)
        if (!isIsolated(m_.record(o).regions)) run(m_.region(o, r), out);
      if (m_.record(o).collective == CollectiveKind::None) continue;
      if (!finder) finder.emplace(m_, block, mesh_, options_.fixedOrder);
      const auto plan = finder->find(o);
      if (!plan) continue;
      CollectiveRing ring = describe(*plan);
      ring.times = pricer_.price(block, *plan);
      if (options_.rings == RingChoice::Auto && !ring.times.pays) continue;
      writeRing(m_, block, meshId_, *plan, diags_);
      finder.reset();
      out.push_back(std::move(ring));
    }
  }

private:
  CollectiveRing describe(const RingPlan& plan) const {
    const bool gather = plan.kind == CollectiveKind::AllGather;
    const ValueId all = gather ? m_.result(plan.collective) : m_.operand(plan.collective, 0);
    CollectiveRing out{.collective = m_.record(plan.collective).name};
    std::vector<std::string> axes;
    for (const AxisRef& a : plan.axes) axes.push_back(printAxis(a, m_.strings));
    out.axes = joined(axes);
    const ValueId named = m_.result(plan.collective);
    if (m_[named].name.valid()) out.value = "%" + std::string(m_.strings[m_[named].name]);
    out.devices = plan.devices, out.products = plan.products.size();
    for (const RingProduct& p : plan.products) out.sums += p.resultDim < 0 || !gather;
    out.bytes = largestBytes(m_, m_[all].type, mesh_).value_or(0);
    out.loc = m_[plan.collective].loc;
    return out;
  }

  Module& m_;
  const CollectiveMatmulOptions& options_;
  Diagnostics& diags_;
  MeshId meshId_;
  Mesh mesh_;
  RingPricer pricer_;
};

} // namespace

std::vector<CollectiveRing> collectiveMatmul(Module& m, const CollectiveMatmulOptions& options,
                                             Diagnostics& diags) {
  std::vector<CollectiveRing> out;
  if (options.rings == RingChoice::Off) return out;
  std::vector<FuncId> functions;
  for (FuncId f :
       m.order) // stages are divided among devices later, and programs of several functions must match
    if (m[f].spmd && m[f].body && devicesOf(m, f).empty() && meshOfFunction(m, f).valid() && !hasStages(m, f))
      functions.push_back(f);
  const auto seconds = [&] {
    double sum = 0;
    for (FuncId f : functions) sum += overlapTimeOf(m, f, options.machine).seconds;
    return sum;
  };
  if (options.rings == RingChoice::On) {
    for (FuncId f : functions) Rings(m, f, options, diags).run(m[f].body, out);
    return out;
  }
  Module before = m;
  for (FuncId f : functions) Rings(m, f, options, diags).run(m[f].body, out);
  if (out.empty()) return out;
  const double after = seconds();
  std::swap(m, before);
  if (after >= seconds()) return {}; // each pays in its part of the program, but not in all of it
  std::swap(m, before);
  return out;
}

static std::string microseconds(double seconds) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.1f us", seconds * 1e6);
  return text.data();
}

bool collectiveMatmulPass(Module& m, const PassOptions& written, Diagnostics& diags) {
  CollectiveMatmulOptions options;
  const std::string_view target = written.word("target", "cpu"), rings = written.word("rings", "on");
  options.rings = rings == "on" ? RingChoice::On : rings == "off" ? RingChoice::Off : RingChoice::Auto;
  // On a CPU, nothing overlaps with a message.
  if (options.rings == RingChoice::Auto && !target.starts_with("sm_")) return true;
  options.fixedOrder = written.word("order", "any") == "fixed";
  options.machine = ringMachineOf(target);
  for (const CollectiveRing& r : collectiveMatmul(m, options, diags))
    if (written.remarks)
      written.remarks->push_back(
          {.what = "ring of " + std::to_string(r.devices) + " steps: " + std::string(r.collective) + ", " +
                   std::to_string(r.products) + (r.products == 1 ? " matmul" : " matmuls"),
           .why = "messages of this part are exposed for " + microseconds(r.times.exposedAfter) +
                  " instead of " + microseconds(r.times.exposedBefore),
           .loc = r.loc,
           .bytes = 0});
  return !diags.hasErrors();
}

} // namespace dtc
