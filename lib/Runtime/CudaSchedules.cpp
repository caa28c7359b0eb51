#include "CudaSchedules.h"

#include "dtc/Jit/FitKernels.h"

#include <algorithm>

namespace dtc {
namespace {

constexpr int64_t kWorthMeasuring = int64_t(64) << 10; // bytes; less is over sooner than a launch
constexpr int kRounds = 5, kLaunches = 4;              // the first round warms up
constexpr float kGain = 0.97F;                         // less is noise: the first stays

// The text with its kernel renamed.
std::string renamed(const std::string& text, const std::string& from, const std::string& to) {
  const std::string mark = "\n" + from + "(";
  const size_t at = text.find(mark);
  DTC_CHECK(at != std::string::npos, "a kernel's text lacks its name");
  return text.substr(0, at) + "\n" + to + "(" + text.substr(at + mark.size());
}

} // namespace

Status CudaSchedules::compile(const std::vector<KernelSource>& kernels) {
  auto code = nvrtc_.codeFor(places_.device(0).info().major, places_.device(0).info().minor);
  if (!code) return code.error();
  arch_ = code->arch;
  auto fitted = fitKernels(nvrtc_, kernels, arch_);
  if (!fitted) return fitted.error();
  std::vector<SourceUnit> units;
  std::vector<int> shared;
  for (size_t i = 0; i < kernels.size(); ++i) {
    Kernel& k = kernels_.emplace_back();
    k.source = &kernels[i];
    k.schedules.push_back((*fitted)[i].schedule);
    if (kernels[i].standby) continue;
    units.push_back({kernels[i].name, k.schedules[0].cuda});
    shared.push_back(k.schedules[0].sharedBytes);
    for (size_t n = 0; measure_ && n <= kernels[i].otherCuda.size(); ++n)
      if (n != (*fitted)[i].number) k.schedules.push_back(kernels[i].cudaSchedule(n));
  }
  if (measure_)
    if (Status s = addOthers(units, shared); !s) return s;
  return places_.load(units, shared);
}

// Those that spill are none to measure.
Status CudaSchedules::addOthers(std::vector<SourceUnit>& units, std::vector<int>& shared) {
  std::vector<SourceUnit> others;
  for (Kernel& k : kernels_)
    for (size_t n = 1; n < k.schedules.size(); ++n)
      others.push_back({nameOf(k, n), renamed(k.schedules[n].cuda, k.source->name, nameOf(k, n))});
  if (others.empty()) return Ok{};
  auto made = nvrtc_.compile(others, arch_, CudaImage::Cubin);
  if (!made) return made.error();
  size_t at = 0;
  for (Kernel& k : kernels_) {
    std::vector<CudaSchedule> kept = {k.schedules[0]};
    for (size_t n = 1; n < k.schedules.size(); ++n, ++at) {
      const std::vector<KernelUsage>& usage = (*made)[at].usage;
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

Status CudaSchedules::choose(int64_t place, uint32_t kernel, std::span<const int64_t> sizes,
                             void** arguments) {
  Kernel& k = kernels_[kernel];
  if (k.settled || k.source->bytes(sizes) < kWorthMeasuring) return Ok{};
  k.settled = true;
  const CudaDeviceInfo& gpu = places_.device(place).info();
  std::string question = "fastest schedule 1\n" + gpu.name + "\n" + arch_;
  for (int64_t s : sizes) question += "\n" + std::to_string(s);
  for (const CudaSchedule& s : k.schedules) question += "\n" + s.cuda;
  if (const auto answer = nvrtc_.recall(question))
    for (size_t n = 0; n < k.schedules.size(); ++n)
      if (*answer == std::to_string(n)) return k.chosen = n, Ok{};
  auto best = fastest(place, k, sizes, arguments);
  if (!best) return best.error();
  k.chosen = *best;
  ++measured_;
  nvrtc_.remember(question, std::to_string(*best));
  return Ok{};
}

// The least of a few rounds, in which all take turns.
Result<size_t> CudaSchedules::fastest(int64_t place, const Kernel& k, std::span<const int64_t> sizes,
                                      void** arguments) {
  std::vector<float> least(k.schedules.size(), 1e30F);
  for (int round = 0; round < kRounds; ++round)
    for (size_t n = 0; n < k.schedules.size(); ++n) {
      const CudaSchedule& s = k.schedules[n];
      auto begin = places_.mark(place);
      if (!begin) return begin.error();
      for (int i = 0; i < kLaunches; ++i) {
        Status started = places_.start(place, [&](const CudaDevice& d, const CudaStream& stream) {
          return d.launch(places_.function(place, nameOf(k, n)), {static_cast<uint32_t>(s.blocks(sizes))},
                          {static_cast<uint32_t>(s.threadsPerBlock)}, static_cast<uint32_t>(s.sharedBytes),
                          arguments, stream);
        });
        if (!started) return started.error();
      }
      auto end = places_.mark(place);
      if (!end) return end.error();
      if (Status done = places_.synchronize(place); !done) return done.error();
      auto time = places_.device(place).milliseconds(*begin, *end);
      if (!time) return time.error();
      if (round > 0) least[n] = std::min(least[n], *time);
    }
  size_t best = 0;
  for (size_t n = 1; n < least.size(); ++n)
    if (least[n] < kGain * least[0] && least[n] < least[best]) best = n;
  return best;
}

} // namespace dtc
