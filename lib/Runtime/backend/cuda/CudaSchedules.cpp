#include "backend/cuda/CudaSchedules.h"

#include "dtc/Cuda/FitKernels.h"

#include <algorithm>

namespace dtc {
constexpr int64_t kWorthMeasuring = int64_t(64)
                                    << 10; // minimum bytes for autotuning: less takes no longer than a launch
constexpr int kRounds = 5, kLaunches = 4;  // the first round warms up
constexpr float kGain = 0.97F;             // smaller gains are within noise: keep the first

// The source with its kernel renamed.
static std::string renamed(const std::string& text, const std::string& from, const std::string& to) {
  const std::string mark = "\n" + from + "(";
  const size_t at = text.find(mark);
  DTC_CHECK(at != std::string::npos, "a kernel's text lacks its name");
  return text.substr(0, at) + "\n" + to + "(" + text.substr(at + mark.size());
}

Status CudaSchedules::compile(const std::vector<KernelSource>& kernels) {
  DTC_TRY(auto code, nvrtc_.codeFor(queue_.device(queue_.all()[0]).info().major,
                                    queue_.device(queue_.all()[0]).info().minor));
  arch_ = code.arch;
  DTC_TRY(auto fitted, fitKernels(nvrtc_, kernels, arch_));
  std::vector<SourceUnit> units;
  std::vector<int> shared;
  for (size_t i = 0; i < kernels.size(); ++i) {
    Kernel& k = kernels_.emplace_back();
    k.source = &kernels[i];
    k.schedules.push_back(fitted[i].schedule);
    if (kernels[i].standby) continue;
    units.push_back({kernels[i].name, k.schedules[0].cuda});
    shared.push_back(k.schedules[0].sharedBytes);
    for (size_t n = 0; measure_ && n <= kernels[i].otherCuda.size(); ++n)
      if (n != fitted[i].number) k.schedules.push_back(kernels[i].cudaSchedule(n));
  }
  if (measure_)
    if (Status s = addOthers(units, shared); !s) return s;
  return queue_.load(units, shared);
}

// Schedules that spill are excluded from autotuning.
Status CudaSchedules::addOthers(std::vector<SourceUnit>& units, std::vector<int>& shared) {
  std::vector<SourceUnit> others;
  for (Kernel& k : kernels_)
    for (size_t n = 1; n < k.schedules.size(); ++n)
      others.push_back({nameOf(k, n), renamed(k.schedules[n].cuda, k.source->name, nameOf(k, n))});
  if (others.empty()) return Ok{};
  DTC_TRY(auto made, nvrtc_.compile(others, arch_, CudaImage::Cubin));
  size_t at = 0;
  for (Kernel& k : kernels_) {
    std::vector<CudaSchedule> kept = {k.schedules[0]};
    for (size_t n = 1; n < k.schedules.size(); ++n, ++at) {
      const std::vector<KernelUsage>& usage = made[at].usage;
      if (!usage.empty() && usage[0].spillStoreBytes + usage[0].spillLoadBytes > 0) continue;
      kept.push_back(k.schedules[n]);
      const std::string name = nameOf(k, kept.size() - 1);
      units.push_back({name, renamed(k.schedules[n].cuda, k.source->name, name)});
      shared.push_back(k.schedules[n].sharedBytes);
    }
    k.schedules = std::move(kept);
    k.settled = k.schedules.size() == 1;
  }
  return Ok{};
}

CudaSchedules::Chosen CudaSchedules::of(uint32_t kernel) const {
  const Kernel& k = kernels_[kernel];
  return {&k.schedules[k.chosen], nameOf(k, k.chosen)};
}

Status CudaSchedules::choose(int64_t coordinate, uint32_t kernel, std::span<const int64_t> sizes,
                             void** arguments) {
  Kernel& k = kernels_[kernel];
  if (k.settled || k.source->bytes(sizes) < kWorthMeasuring) return Ok{};
  k.settled = true;
  const CudaDeviceInfo& gpu = queue_.device(coordinate).info();
  std::string question = "fastest schedule 1\n" + gpu.name + "\n" + arch_;
  for (int64_t s : sizes) question += "\n" + std::to_string(s);
  for (const CudaSchedule& s : k.schedules) question += "\n" + s.cuda;
  if (const auto answer = nvrtc_.recall(question))
    for (size_t n = 0; n < k.schedules.size(); ++n)
      if (*answer == std::to_string(n)) return k.chosen = n, Ok{};
  DTC_TRY(auto best, fastest(coordinate, k, sizes, arguments));
  k.chosen = best;
  ++measured_;
  nvrtc_.remember(question, std::to_string(best));
  return Ok{};
}

// The minimum over a few rounds, in which all schedules are interleaved.
Result<size_t> CudaSchedules::fastest(int64_t coordinate, const Kernel& k, std::span<const int64_t> sizes,
                                      void** arguments) {
  std::vector<float> minMs(k.schedules.size(), 1e30F);
  for (int round = 0; round < kRounds; ++round)
    for (size_t n = 0; n < k.schedules.size(); ++n) {
      const CudaSchedule& s = k.schedules[n];
      DTC_TRY(auto begin, queue_.mark(coordinate));
      for (int i = 0; i < kLaunches; ++i) {
        Status started = queue_.start(coordinate, [&](const CudaDevice& d, const CudaStream& stream) {
          return d.launch(queue_.function(coordinate, nameOf(k, n)), {static_cast<uint32_t>(s.blocks(sizes))},
                          {static_cast<uint32_t>(s.threadsPerBlock)}, static_cast<uint32_t>(s.sharedBytes),
                          arguments, stream);
        });
        if (!started) return started.error();
      }
      DTC_TRY(auto end, queue_.mark(coordinate));
      if (Status done = queue_.synchronize(coordinate); !done) return done.error();
      DTC_TRY(auto time, queue_.device(coordinate).milliseconds(begin, end));
      if (round > 0) minMs[n] = std::min(minMs[n], time);
    }
  size_t best = 0;
  for (size_t n = 1; n < minMs.size(); ++n)
    if (minMs[n] < kGain * minMs[0] && minMs[n] < minMs[best]) best = n;
  return best;
}

} // namespace dtc
