#include "dtc/Target/GpuModel.h"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace dtc {
constexpr int kWarp = 32;
constexpr int kRegisterUnit = 256;    // registers are allocated to a warp in units of so many
constexpr int kReservedShared = 1024; // bytes of shared memory that the system takes for each block

constexpr double kGHz = 1e9, kTB = 1e12;
constexpr int kKiB = 1024;

// Sorted by `sm`.
constexpr GpuModel kModels[] = {
    // sm, SMs, cluster, threads, blocks, registers, shared, per block, clock, memory, L2, latency, of L2,
    // instructions, f64, special, shared bytes, tensor, mma
    {80, 108, 1, 2048, 32, 65536, 164 * kKiB, 163 * kKiB, 1.41 * kGHz, 1.75 * kTB, 4.0 * kTB, 600e-9, 250e-9,
     4, 32, 16, 128, 2048, 2048},
    {86, 128, 1, 1536, 16, 65536, 100 * kKiB, 99 * kKiB, 1.7 * kGHz, 0.85 * kTB, 2.5 * kTB, 600e-9, 250e-9, 4,
     2, 16, 128, 1024, 1024},
    {87, 108, 1, 1536, 16, 65536, 164 * kKiB, 163 * kKiB, 1.3 * kGHz, 0.2 * kTB, 0.6 * kTB, 600e-9, 250e-9, 4,
     2, 16, 128, 1024, 1024},
    {88, 128, 1, 1536, 16, 65536, 100 * kKiB, 99 * kKiB, 1.7 * kGHz, 0.85 * kTB, 2.5 * kTB, 600e-9, 250e-9, 4,
     2, 16, 128, 1024, 1024},
    {89, 128, 1, 1536, 24, 65536, 100 * kKiB, 99 * kKiB, 2.5 * kGHz, 0.9 * kTB, 4.0 * kTB, 600e-9, 250e-9, 4,
     2, 16, 128, 1024, 1024},
    {90, 132, 8, 2048, 32, 65536, 228 * kKiB, 227 * kKiB, 1.73 * kGHz, 3.0 * kTB, 5.5 * kTB, 700e-9, 250e-9,
     4, 64, 16, 128, 4096, 2540},
    {100, 148, 8, 2048, 32, 65536, 228 * kKiB, 227 * kKiB, 1.85 * kGHz, 7.0 * kTB, 10.0 * kTB, 750e-9, 250e-9,
     4, 64, 16, 128, 8192, 2048},
    {103, 148, 8, 2048, 32, 65536, 228 * kKiB, 227 * kKiB, 1.85 * kGHz, 7.0 * kTB, 10.0 * kTB, 750e-9, 250e-9,
     4, 2, 32, 128, 8192, 2048},
    {110, 132, 8, 1536, 24, 65536, 228 * kKiB, 227 * kKiB, 1.6 * kGHz, 0.25 * kTB, 1.0 * kTB, 750e-9, 250e-9,
     4, 2, 16, 128, 4096, 2048},
    {120, 170, 8, 1536, 24, 65536, 100 * kKiB, 99 * kKiB, 2.4 * kGHz, 1.6 * kTB, 5.0 * kTB, 650e-9, 250e-9, 4,
     2, 16, 128, 1024, 1024},
};

int GpuModel::blocksAtOnce(int threadsPerBlock, int registersPerThread, int64_t sharedPerBlock) const {
  const int warps = (threadsPerBlock + kWarp - 1) / kWarp;
  if (warps == 0) return 0;
  const int ofWarp = (registersPerThread * kWarp + kRegisterUnit - 1) / kRegisterUnit * kRegisterUnit;
  int64_t atOnce = std::min(blocks, threads / (warps * kWarp));
  if (ofWarp > 0) atOnce = std::min<int64_t>(atOnce, registers / ofWarp / warps);
  atOnce = std::min<int64_t>(atOnce, sharedBytes / (sharedPerBlock + kReservedShared));
  return static_cast<int>(atOnce);
}

const GpuModel& gpuModelOf(std::string_view target) {
  const int sm = target.starts_with("sm_") ? std::atoi(std::string(target.substr(3)).c_str()) : 0;
  const GpuModel* found = kModels;
  for (const GpuModel& m : kModels)
    if (m.sm <= sm) found = &m;
  return *found;
}

} // namespace dtc
