#include "dtc/Runtime/trace/Roofline.h"

#include <algorithm>
#include <chrono>
#include <memory>

namespace dtc {
namespace {

using Clock = std::chrono::steady_clock;
using Four = float __attribute__((ext_vector_type(4)));
using Eight = float __attribute__((ext_vector_type(8)));
using Sixteen = float __attribute__((ext_vector_type(16)));

double nsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

constexpr int64_t kElements = int64_t(8) << 20; // 32 MiB per array
constexpr int64_t kChunk = int64_t(1) << 16;

void triad(float* a, const float* b, const float* c, bool streaming) {
  for (int64_t i = 0; i < kChunk; i += 4) {
    const Four x = *reinterpret_cast<const Four*>(b + i) + 3.0f * *reinterpret_cast<const Four*>(c + i);
    if (streaming)
      __builtin_nontemporal_store(x, reinterpret_cast<Four*>(a + i));
    else
      *reinterpret_cast<Four*>(a + i) = x;
  }
}

struct AlignedFloats {
  std::unique_ptr<std::byte[]> bytes;
  float* data = nullptr;
  explicit AlignedFloats(int64_t n) : bytes(new(std::nothrow) std::byte[static_cast<size_t>(n) * 4 + 64]) {
    void* p = bytes.get();
    size_t room = static_cast<size_t>(n) * 4 + 64;
    if (p) data = static_cast<float*>(std::align(64, static_cast<size_t>(n) * 4, p, room));
  }
};

double measureBytes(ThreadPool& pool) {
  AlignedFloats a(kElements), b(kElements), c(kElements);
  if (!a.data || !b.data || !c.data) return 0;
  const int64_t chunks = kElements / kChunk;
  pool.parallelFor(chunks, [&](int64_t i) { // first touch by the threads that will use it
    for (float* p : {a.data, b.data, c.data}) std::fill_n(p + i * kChunk, kChunk, 1.0f);
  });
  double best = 0;
  for (int round = 0; round < 6; ++round) {
    const auto begin = Clock::now();
    pool.parallelFor(chunks, [&](int64_t i) {
      triad(a.data + i * kChunk, b.data + i * kChunk, c.data + i * kChunk, round % 2 == 1);
    });
    best = std::max(best, 12.0 * static_cast<double>(kElements) / nsSince(begin));
  }
  return best;
}

constexpr int64_t kSteps = 200000;
constexpr int kSums = 12; // independent accumulators, enough to hide the latency

template <class V> __attribute__((always_inline)) inline float multiplyAdds(float seed) {
  V sums[kSums], by = V(0.999f);
  for (int i = 0; i < kSums; ++i) sums[i] = V(seed + static_cast<float>(i));
  for (int64_t n = 0; n < kSteps; ++n)
    for (V& s : sums) s = __builtin_elementwise_fma(s, by, by);
  V all = sums[0];
  for (int i = 1; i < kSums; ++i) all += sums[i];
  return all[0];
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) float withAvx512(float seed) { return multiplyAdds<Sixteen>(seed); }
__attribute__((target("avx2,fma"))) float withAvx2(float seed) { return multiplyAdds<Eight>(seed); }
#endif

// Runs the steps of one worker; returns the number of operations.
double operations(float& keep) {
  int lanes = 4;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    keep += withAvx512(keep), lanes = 16;
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    keep += withAvx2(keep), lanes = 8;
  else
#endif
    keep += multiplyAdds<Four>(keep);
  return 2.0 * kSteps * kSums * lanes;
}

double measureFlops(ThreadPool& pool) {
  std::vector<float> keep(static_cast<size_t>(pool.size()), 1.0f);
  double best = 0, each = 0;
  for (int round = 0; round < 3; ++round) {
    const auto begin = Clock::now();
    pool.parallelFor(pool.size(), [&](int64_t i) {
      const double n = operations(keep[static_cast<size_t>(i)]);
      if (i == 0) each = n;
    });
    best = std::max(best, each * pool.size() / nsSince(begin));
  }
  return best;
}

} // namespace

double MachineRate::rooflineNs(int64_t bytes, int64_t flops) const {
  const double moving = bytesPerNs > 0 ? static_cast<double>(bytes) / bytesPerNs : 0;
  const double computing = flopsPerNs > 0 ? static_cast<double>(flops) / flopsPerNs : 0;
  return std::max(moving, computing);
}

MachineRate measureHost(ThreadPool& pool) { return {measureBytes(pool), measureFlops(pool)}; }

} // namespace dtc
