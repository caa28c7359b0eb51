#include "dtc/Report/kernels/KernelReport.h"
#include "dtc/Kernel/Kernel.h"
#include "kernels/Passes.h"
#include "kernels/Uses.h"
#include <algorithm>
#include <map>
#include <tuple>

namespace dtc {
namespace {

std::string matmulShape(const GemmProblem<int64_t>& g) {
  std::string text;
  for (const auto& axis : g.batch) text += std::to_string(axis.extent) + " x ";
  const auto size = [](int64_t rows, int64_t columns) {
    return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  };
  return text + size(g.m.extent, g.k.extent) + " x " + size(g.k.extent, g.n.extent) + ", " +
         std::string(dtypeName(g.dtype));
}

std::vector<MatmulRow> matmulRows(const ProgramUses& uses) {
  std::vector<MatmulRow> rows;
  for (const MatmulUse& use : uses.matmuls) {
    const MatmulRow row{matmulShape(use.problem), 1, libraryCalls(use.problem)};
    const auto same = std::ranges::find_if(
        rows, [&](const MatmulRow& r) { return r.shape == row.shape && r.calls == row.calls; });
    if (same == rows.end())
      rows.push_back(row);
    else
      ++same->uses;
  }
  std::ranges::sort(rows, [](const MatmulRow& a, const MatmulRow& b) {
    return a.calls != b.calls ? a.calls > b.calls : a.shape < b.shape;
  });
  return rows;
}

// PTX of each kernel's selected schedule; empty for those on standby.
Result<std::vector<std::string>> ptxOf(const Nvrtc& nvrtc, const KernelSet& set,
                                       const std::vector<FittedKernel>& fitted, std::string_view arch) {
  std::vector<SourceUnit> units;
  std::vector<size_t> which;
  for (size_t k = 0; k < fitted.size(); ++k)
    if (!set.kernels()[k].standby)
      units.push_back({set.kernels()[k].name, fitted[k].schedule.cuda}), which.push_back(k);
  DTC_TRY(auto made, nvrtc.compile(units, arch, CudaImage::Ptx));
  std::vector<std::string> ptx(fitted.size());
  for (size_t u = 0; u < units.size(); ++u) ptx[which[u]] = std::move(made[u].image);
  return ptx;
}

KernelRow rowOf(const KernelUse& use, const KernelSource& source, const FittedKernel& fitted,
                std::string_view ptx, const GpuModel& gpu) {
  KernelLaunch launch = use.launch;
  launch.blocks = fitted.schedule.blocks(launch.sizes);
  KernelRow row{
      source.name, fitted.schedule.schedule, 1, use.fallback, kernelFacts(fitted, ptx, launch, gpu), {}, {}};
  row.estimate = estimate(row.facts, gpu), row.complaints = complaints(row.facts, gpu);
  return row;
}

} // namespace

double KernelRow::lostSeconds() const { return double(uses) * (estimate.seconds - estimate.rooflineSeconds); }

Result<ProgramKernels> programKernels(Module& m, FuncId entry, const Target& target) {
  const std::string& arch = target.name;
  Target own = target;
  own.convDTypes = own.attentionDTypes = 0;
  KernelSet set({.target = own, .otherSchedules = true}), libraries({.target = target});
  DTC_TRY(auto uses, usesOf(m, entry, set, libraries));
  const Nvrtc nvrtc;
  DTC_TRY(auto fitted, fitKernels(nvrtc, set.kernels(), arch));
  DTC_TRY(auto ptx, ptxOf(nvrtc, set, fitted, arch));
  const GpuModel& gpu = gpuModelOf(arch);
  ProgramKernels program;
  std::map<std::pair<uint32_t, std::vector<int64_t>>, size_t> known; // a kernel with its sizes
  for (const KernelUse& use : uses.kernels) {
    if (set.kernels()[use.kernel].standby) continue;
    const auto [at, isNew] = known.try_emplace({use.kernel, use.launch.sizes}, program.kernels.size());
    if (isNew)
      program.kernels.push_back(
          rowOf(use, set.kernels()[use.kernel], fitted[use.kernel], ptx[use.kernel], gpu));
    else
      ++program.kernels[at->second].uses;
  }
  std::ranges::sort(program.kernels, [](const KernelRow& a, const KernelRow& b) {
    const auto key = [](const KernelRow& r) {
      return std::tuple(r.estimate.small, -r.lostSeconds(), std::string_view(r.name), -r.facts.bytes);
    };
    return key(a) < key(b);
  });
  program.matmuls = matmulRows(uses);
  program.passes = passesOf(m, entry, uses);
  return program;
}

} // namespace dtc
