// The estimate of a kernel's speed from its facts, and the defects that it should not have.
#include "dtc/Cuda/KernelFacts.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dtc {
namespace {

constexpr double kManyWaves = 4; // beyond so many, the last wave is little of the whole
constexpr double kKiB = 1024;
constexpr double kWave = 0.9; // of the multiprocessors have a block
constexpr int kWord = 4,
              kFast = 90;       // narrow accesses of words are no defect of a kernel with so many percent
constexpr double kFewOf = 0.75; // the bytes in flight are an average, so a few less than needed are no defect
constexpr double kSharpness = 4; // of the sum of limits: 1 adds them, large ones take the max

std::string text(const char* format, auto... values) {
  char buffer[200];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

std::string argumentName(const KernelFacts& f, uint32_t argument) {
  return argument < f.inputs ? "in" + std::to_string(argument) : "out" + std::to_string(argument - f.inputs);
}

// The argument with most traffic among those with a defect; -1: none.
int worstArgument(const KernelFacts& f, bool (KernelFacts::*defect)(size_t) const) {
  int worst = -1;
  for (size_t a = 0; a < f.arguments.size(); ++a)
    if ((f.*defect)(a) && (worst < 0 || f.arguments[a].sectors > f.arguments[worst].sectors))
      worst = static_cast<int>(a);
  return worst;
}

std::string narrowText(const KernelFacts& f, int argument) {
  const ArgumentFacts& a = f.arguments[argument];
  return text("%d-byte %s of %s, rows are %d-byte divisible", a.usual, a.stored ? "stores" : "loads",
              argumentName(f, argument).c_str(), a.wanted);
}

std::string stridedText(const KernelFacts& f, int argument) {
  const ArgumentFacts& a = f.arguments[argument];
  return text("%s is %s across its rows: %.0f times its bytes", argumentName(f, argument).c_str(),
              a.stored ? "stored" : "read", a.sectors / a.traffic);
}

std::string idleText(const KernelFacts& f) {
  return text("%d of %d threads have no work", f.threadsPerBlock - f.activeThreads, f.threadsPerBlock);
}

std::string inFlightText(const KernelFacts& f) {
  return text("%.1f KiB in flight per SM, %.1f needed", f.bytesInFlight / kKiB, f.bytesNeeded / kKiB);
}

std::string gridText(const KernelFacts& f, const GpuModel& gpu) {
  return text("%lld blocks for %d multiprocessors", static_cast<long long>(f.blocks), gpu.multiprocessors);
}

// Of a multiprocessor's port to the L2, per clock (NVIDIA, "A100 Tensor Core GPU Architecture", 2020).
constexpr double kPortBytes = 64;

// The times of a launch if each resource were the only limit.
struct Limits {
  double memory = 0, l2 = 0, latency = 0, issue = 0, special = 0, f64 = 0, shared = 0, tensor = 0;
  [[nodiscard]] double together() const {
    double sum = 0;
    for (double t : {memory, l2, latency, issue, special, f64, shared, tensor})
      sum += std::pow(t, kSharpness);
    return std::pow(sum, 1 / kSharpness);
  }
};

Limits limitsOf(const KernelFacts& f, const GpuModel& gpu) {
  Limits t;
  const double used =
      std::clamp<double>(double(f.blocks), 1, gpu.multiprocessors); // multiprocessors with a block
  const double clocks = used * gpu.hertz;
  t.memory = double(f.bytes) / gpu.bytesPerSecond;
  t.l2 = std::max(f.sectors / gpu.l2BytesPerSecond, f.sectors / (clocks * kPortBytes));
  double waves = double(f.blocks) / (double(gpu.multiprocessors) * std::max(1, f.blocksAtOnce));
  if (waves < kManyWaves) waves = std::ceil(waves);
  t.latency = std::max(1.0, waves) * f.cycles / gpu.hertz;
  t.issue = f.issue / (clocks * gpu.instructions);
  t.special = f.special / (clocks * gpu.special), t.f64 = f.f64 / (clocks * gpu.f64);
  t.shared = f.sharedTraffic / (clocks * gpu.sharedBytesPerClock);
  t.tensor = f.tensorFlops / (clocks * gpu.mmaFlops);
  return t;
}

std::string latencyReason(const KernelFacts& f, const GpuModel& gpu) {
  if (double(f.blocks) < kWave * gpu.multiprocessors) return gridText(f, gpu);
  if (f.activeShare() < 0.5) return idleText(f);
  if (const int a = worstArgument(f, &KernelFacts::isNarrow); a >= 0) return narrowText(f, a);
  if (f.tensorFlops > 0)
    return text("tensor cores wait: %d threads per SM, %.0f loads in turn",
                f.blocksAtOnce * f.threadsPerBlock, f.waits);
  if (f.blocks <= int64_t(gpu.multiprocessors) * f.blocksAtOnce && f.waits <= 1)
    return "short: one wave of blocks";
  if (f.bytesInFlight < f.bytesNeeded) return inFlightText(f);
  return text("latency: %.0f loads in turn, %d threads per SM", f.waits, f.blocksAtOnce * f.threadsPerBlock);
}

std::string divisionsText(const KernelFacts& f) {
  return text("%d 64-bit division%s in a loop", f.loopDivisions, f.loopDivisions == 1 ? "" : "s");
}

std::string issueReason(const KernelFacts& f) {
  if (f.loopDivisions > 0) return divisionsText(f);
  if (f.activeShare() < 0.5) return idleText(f);
  return text("%.0f instructions per element: issue-bound", f.instructionsPerElement());
}

std::string reasonOf(const KernelFacts& f, const GpuModel& gpu, const Limits& t) {
  const double most = std::max({t.memory, t.l2, t.latency, t.issue, t.special, t.f64, t.shared, t.tensor});
  if (most == t.tensor) return "tensor cores";
  if (most == t.issue) return issueReason(f);
  if (most == t.f64) return "f64 arithmetic";
  if (most == t.special) return "exponentials and divisions";
  if (most == t.shared) return "shared memory";
  if (most == t.memory && t.together() < 1.3 * t.memory) return "memory";
  if (const int a = worstArgument(f, &KernelFacts::isStrided); a >= 0) return stridedText(f, a);
  if (most == t.l2) return text("L2: requests %.1f times the bytes", f.sectors / double(f.bytes));
  if (most == t.latency) return latencyReason(f, gpu);
  return t.issue >= t.latency ? "memory and " + issueReason(f) : "memory and latency";
}

} // namespace

KernelEstimate estimate(const KernelFacts& f, const GpuModel& gpu) {
  KernelEstimate e;
  e.small = f.bytes < kSmallBytes;
  e.rooflineSeconds = std::max(double(f.bytes) / gpu.bytesPerSecond,
                               f.tensorFlops / (gpu.tensorFlops * gpu.hertz * gpu.multiprocessors));
  if (!f.traced || f.isSample()) {
    e.reason = !f.traced  ? "unknown: no PTX"
               : f.cutOff ? "unknown: too long to trace"
                          : "unknown: depends on data";
    e.seconds = e.rooflineSeconds;
    return e;
  }
  const Limits t = limitsOf(f, gpu);
  e.seconds = std::max(t.together(), e.rooflineSeconds);
  e.percent = e.seconds > 0 ? std::max(1, static_cast<int>(100 * e.rooflineSeconds / e.seconds)) : 0;
  e.reason = e.small ? "small" : reasonOf(f, gpu, t);
  if (!e.small && f.cutOff) e.reason += " (at most)";
  return e;
}

std::vector<KernelComplaint> complaints(const KernelFacts& f, const GpuModel& gpu) {
  std::vector<KernelComplaint> found;
  if (const int bytes = std::max(f.usage.stackBytes, f.usage.spillStoreBytes + f.usage.spillLoadBytes);
      bytes > 0)
    found.push_back({"local-memory", text("%d bytes of local memory per thread", bytes)});
  if (!f.traced) return found;
  if (f.loopDivisions > 0) found.push_back({"division", divisionsText(f)});
  const bool fewBlocks = double(f.blocks) < kWave * gpu.multiprocessors;
  if (f.bytes < kSmallBytes || (f.isSample() && !f.cutOff)) return found;
  if (f.activeShare() < 0.5) found.push_back({"idle-threads", idleText(f)});
  if (f.isSample()) { // of what was traced, the accesses are those of the first loops
    if (fewBlocks) found.push_back({"grid", gridText(f, gpu)});
    return found;
  }
  if (const int a = worstArgument(f, &KernelFacts::isNarrow);
      a >= 0 && (f.arguments[a].usual < kWord || estimate(f, gpu).percent < kFast))
    found.push_back({"narrow", narrowText(f, a)});
  if (const int a = worstArgument(f, &KernelFacts::isStrided); a >= 0)
    found.push_back({"strided", stridedText(f, a)});
  if (fewBlocks) found.push_back({"grid", gridText(f, gpu)});
  const Limits t = limitsOf(f, gpu);
  const bool memoryBound = f.tensorFlops == 0 && std::max({t.issue, t.f64, t.special, t.shared}) < t.memory;
  const bool few = f.loadedBytes > 0 && f.bytesInFlight < kFewOf * f.bytesNeeded;
  if (memoryBound && few && !fewBlocks) found.push_back({"in-flight", inFlightText(f)});
  return found;
}

} // namespace dtc
