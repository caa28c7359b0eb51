#pragma once
// The machine model of a GPU: limits per multiprocessor and rates, from which the speed of a kernel is
// estimated without a GPU (docs/gpu.md). Every constant is in one table, GpuModel.cpp.
#include <cstdint>
#include <string_view>

namespace dtc {

// Limits are of the CUDA C++ Programming Guide ("technical specifications per compute capability"), and clock
// and bandwidth those of the largest product of the generation. Latencies and the rates of L2 and mma.sync
// are of published microbenchmarks, rounded; none was measured here.
struct GpuModel {
  int sm = 0; // of the first GPU with these numbers: 80, 86, …
  int multiprocessors = 0;
  int clusterBlocks = 1; // max blocks of a cluster; 1: no clusters
  // Limits of a multiprocessor.
  int threads = 2048, blocks = 32, registers = 65536;
  int sharedBytes = 0, blockSharedBytes = 0; // of all blocks together; of one block
  // Rates. Memory: of a large copy, reads and writes together.
  double hertz = 0, bytesPerSecond = 0, l2BytesPerSecond = 0;
  double latencySeconds = 700e-9;   // of a load from memory, under load
  double l2LatencySeconds = 250e-9; // of one from L2
  // Per multiprocessor and clock.
  double instructions = 4; // of warps
  double f64 = 64;         // operations of lanes
  double special = 16;     // ex2, rcp, sqrt, sin of lanes
  double sharedBytesPerClock = 128;
  double tensorFlops = 0, mmaFlops = 0; // bf16: peak; of mma.sync alone

  // The bytes that a multiprocessor must have under way to keep memory busy (Little's law).
  [[nodiscard]] double bytesNeeded() const { return bytesPerSecond * latencySeconds / multiprocessors; }
  // What a block of a given use leaves room for.
  [[nodiscard]] int blocksAtOnce(int threadsPerBlock, int registersPerThread, int64_t sharedPerBlock) const;
};

// Of a GPU target ("sm_90a"); a later or unlisted one has the numbers of the nearest earlier one.
[[nodiscard]] const GpuModel& gpuModelOf(std::string_view target);

} // namespace dtc
