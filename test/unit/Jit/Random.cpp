// The random words and numbers of the device header: the paper's answers, the evaluator's, and what chance looks like.
#include "dtc/Jit/CpuJit.h"
#include "dtc/Ops/record/Scalar.h"
#include "dtc/Support/DType.h"
#include <array>
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <numbers>

namespace dtc {
namespace {

constexpr const char* kText = R"(
extern "C" void words(u64 block, u64 key, u64 upper, u32* out) {
  const auto w = dtc_philox(block, key, upper);
  out[0] = w.w0, out[1] = w.w1, out[2] = w.w2, out[3] = w.w3;
  typedef Vec<u64, 8> V;
  const auto v = dtc_philox((V)block, (V)key, (V)upper);
  out[4] = v.w0[5], out[5] = v.w1[5], out[6] = v.w2[5], out[7] = v.w3[5];
}
// The numbers of elements first, first + step, …, by vectors of N and one by one.
template <int N, class F> static void fill(u64 first, u64 step, i64 n, u64 key, u64 upper, F each) {
  typedef Vec<u64, N> V;
  for (i64 i = 0; i < n; i += N) each(i, (V)(first + i * step) + dtc_iota<V>() * (V)step, (V)key, (V)upper);
}
extern "C" void random32(u64 first, u64 step, i64 n, u64 key, u64 upper, u64* lanes16, u64* lanes8, u64* one) {
  fill<16>(first, step, n, key, upper, [&](i64 i, auto at, auto k, auto u) { dtc_store<16>(lanes16 + i, dtc_random32(at, k, u)); });
  fill<8>(first, step, n, key, upper, [&](i64 i, auto at, auto k, auto u) { dtc_store<8>(lanes8 + i, dtc_random32(at, k, u)); });
  for (i64 i = 0; i < n; ++i) one[i] = dtc_random32(first + i * step, key, upper);
}
extern "C" void random32_wide(u64 first, u64 step, i64 n, u64 key, u64 upper, u64* lanes64, u64* lanes32, u64*) {
  fill<64>(first, step, n, key, upper, [&](i64 i, auto at, auto k, auto u) { dtc_store<64>(lanes64 + i, dtc_random32(at, k, u)); });
  fill<32>(first, step, n, key, upper, [&](i64 i, auto at, auto k, auto u) { dtc_store<32>(lanes32 + i, dtc_random32(at, k, u)); });
}
extern "C" void random64(u64 first, u64 step, i64 n, u64 key, u64 upper, u64* lanes16, u64* lanes8, u64* one) {
  fill<16>(first, step, n, key, upper, [&](i64 i, auto at, auto k, auto u) { dtc_store<16>(lanes16 + i, dtc_random64(at, k, u)); });
  fill<8>(first, step, n, key, upper, [&](i64 i, auto at, auto k, auto u) { dtc_store<8>(lanes8 + i, dtc_random64(at, k, u)); });
  for (i64 i = 0; i < n; ++i) one[i] = dtc_random64(first + i * step, key, upper);
}
extern "C" void normal32(u64 first, i64 n, u64 key, u64 upper, f32* out, f32* one) {
  fill<16>(first, 1, n, key, upper, [&](i64 i, auto at, auto k, auto u) { dtc_store<16>(out + i, dtc_random_normal((Vec<f32, 16>)1.0f, at, k, u)); });
  for (i64 i = 0; i < n; ++i) one[i] = dtc_random_normal(1.0f, first + i, key, upper);
}
extern "C" void normal64(u64 first, i64 n, u64 key, u64 upper, f64* out) {
  fill<8>(first, 1, n, key, upper, [&](i64 i, auto at, auto k, auto u) { dtc_store<8>(out + i, dtc_random_normal((Vec<f64, 8>)1.0, at, k, u)); });
}
)";

using Fill = void(uint64_t, uint64_t, long long, uint64_t, uint64_t, uint64_t*, uint64_t*, uint64_t*);

const CpuModule& device() {
  static const CpuModule module = [] {
    JitConfig config;
    config.useCache = false;
    const SourceUnit unit{"random", kText};
    auto compiled = CpuJit(config).compile({&unit, 1});
    EXPECT_TRUE(compiled.ok()) << (compiled.ok() ? "" : compiled.error().message);
    return *compiled;
  }();
  return module;
}

std::vector<uint64_t> words32(uint64_t first, size_t n, uint64_t key, uint64_t upper = 0) {
  std::vector<uint64_t> a(n), b(n), one(n);
  device().function<Fill>("random32")(first, 1, static_cast<long long>(n), key, upper, a.data(), b.data(),
                                      one.data());
  return a;
}

// Random123's known answers for philox4x32 with 10 rounds.
TEST(Random, KnownAnswers) {
  struct Answer {
    uint64_t block, upper, key;
    std::array<uint32_t, 4> words;
  };
  const Answer answers[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {~0ull, ~0ull, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x85a308d3243f6a88,
       0x0370734413198a2e,
       0x299f31d0a4093822,
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  auto* words = device().function<void(uint64_t, uint64_t, uint64_t, uint32_t*)>("words");
  for (const Answer& a : answers) {
    uint32_t got[8];
    words(a.block, a.key, a.upper, got);
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(got[i], a.words[i % 4]) << std::hex << a.key << " word " << i;
  }
}

// Vectors, consecutive or not, and numbers one by one give what the evaluator's functions give.
TEST(Random, LanesAndEvaluatorAgree) {
  for (const char* name : {"random32", "random64"})
    for (uint64_t step : {1, 3, 4})
      for (uint64_t first : {uint64_t(0), uint64_t(4096), uint64_t(5), (uint64_t(1) << 34) - 7}) {
        const uint64_t key = 0x0123456789abcdef, upper = 0xfedcba9876543210;
        std::vector<uint64_t> a(64), b(64), one(64);
        device().function<Fill>(name)(first, step, 64, key, upper, a.data(), b.data(), one.data());
        std::vector<uint64_t> wide64 = one, wide32 = one;
        if (std::string_view(name) == "random32")
          device().function<Fill>("random32_wide")(first, step, 64, key, upper, wide64.data(), wide32.data(),
                                                   nullptr);
        EXPECT_EQ(wide64, one) << first << " " << step;
        EXPECT_EQ(wide32, one) << first << " " << step;
        const Intrinsic* fn = findIntrinsic(name);
        for (size_t i = 0; i < 64; ++i) {
          const auto want =
              static_cast<uint64_t>(fn->onInts(DType::U64, static_cast<int64_t>(first + i * step),
                                               static_cast<int64_t>(key), static_cast<int64_t>(upper)));
          ASSERT_EQ(a[i], want) << name << " " << first << " " << step << " " << i;
          ASSERT_EQ(b[i], want) << name << " " << first << " " << step << " " << i;
          ASSERT_EQ(one[i], want) << name << " " << first << " " << step << " " << i;
        }
      }
}

// Sum of (found - expected)² / expected, in units of its standard deviation from its mean.
double chiSquare(std::span<const int64_t> bins, double total) {
  const double expected = total / static_cast<double>(bins.size()),
               free = static_cast<double>(bins.size()) - 1;
  double sum = 0;
  for (int64_t n : bins)
    sum += (static_cast<double>(n) - expected) * (static_cast<double>(n) - expected) / expected;
  return (sum - free) / std::sqrt(2 * free);
}

constexpr size_t kMany = 1 << 18;
constexpr double kSigmas = 4.5; // the seeds are fixed: these are no dice

TEST(Random, EveryByteIsEven) {
  const std::vector<uint64_t> w = words32(0, kMany, 42);
  for (int shift = 0; shift < 32; shift += 8) {
    std::vector<int64_t> bins(256);
    for (uint64_t x : w) ++bins[x >> shift & 255];
    EXPECT_LT(std::fabs(chiSquare(bins, kMany)), kSigmas) << "bits from " << shift;
  }
}

// The upper bits of a word beside those of `other`'s, as pairs.
double pairs(const std::vector<uint64_t>& w, const std::vector<uint64_t>& other) {
  std::vector<int64_t> bins(256);
  for (size_t i = 0; i < w.size(); ++i) ++bins[(w[i] >> 28) * 16 + (other[i] >> 28)];
  return chiSquare(bins, static_cast<double>(w.size()));
}

TEST(Random, NeighborsAndSeedsAreIndependent) {
  const std::vector<uint64_t> w = words32(0, kMany, 42);
  for (uint64_t apart : {1, 2, 4, 256}) // in the tensor
    EXPECT_LT(std::fabs(pairs(w, words32(apart, kMany, 42))), kSigmas) << apart << " apart";
  for (int bit : {0, 1, 31, 32, 63}) { // of either half of the seed
    EXPECT_LT(std::fabs(pairs(w, words32(0, kMany, 42 ^ uint64_t(1) << bit))), kSigmas) << "key bit " << bit;
    EXPECT_LT(std::fabs(pairs(w, words32(0, kMany, 42, uint64_t(1) << bit))), kSigmas) << "upper bit " << bit;
  }
}

// A bit of the seed changes half of the bits.
TEST(Random, SeedsSpread) {
  const std::vector<uint64_t> w = words32(0, 4096, 7);
  for (int bit = 0; bit < 64; ++bit) {
    const std::vector<uint64_t> v = words32(0, 4096, 7 ^ uint64_t(1) << bit);
    double changed = 0;
    for (size_t i = 0; i < w.size(); ++i) changed += std::popcount(w[i] ^ v[i]);
    EXPECT_NEAR(changed / 4096, 16, 0.25) << "bit " << bit;
  }
}

template <class T> void checkNormals(const std::vector<T>& x) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, variance = 0, skew = 0, tails = 0, neighbors = 0;
  std::vector<int64_t> bins(64);
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    ASSERT_TRUE(std::isfinite(v));
    mean += v / n, variance += v * v / n, skew += v * v * v / n, tails += v * v * v * v / n;
    neighbors += v * static_cast<double>(x[(i + 1) % x.size()]) / n;
    ++bins[std::min<size_t>(63, static_cast<size_t>(32 * std::erfc(-v / std::numbers::sqrt2)))];
  }
  const double sigma = kSigmas / std::sqrt(n);
  EXPECT_NEAR(mean, 0, sigma);
  EXPECT_NEAR(variance, 1, std::numbers::sqrt2 * sigma);
  EXPECT_NEAR(skew, 0, std::sqrt(15.0) * sigma);
  EXPECT_NEAR(tails, 3, std::sqrt(96.0) * sigma);
  EXPECT_NEAR(neighbors, 0, sigma);
  EXPECT_LT(std::fabs(chiSquare(bins, n)), kSigmas);
}

TEST(Random, NormalsAreNormal) {
  std::vector<float> x(kMany), one(kMany);
  device().function<void(uint64_t, long long, uint64_t, uint64_t, float*, float*)>("normal32")(
      8, kMany, 42, 1, x.data(), one.data());
  checkNormals(x);
  for (size_t i = 0; i < kMany; ++i) ASSERT_EQ(x[i], one[i]) << i;
  std::vector<double> y(kMany);
  device().function<void(uint64_t, long long, uint64_t, uint64_t, double*)>("normal64")(8, kMany, 42, 1,
                                                                                        y.data());
  checkNormals(y);
}

// Box and Muller in extended precision, from the words.
long double exactNormal(uint64_t i, uint64_t key, uint64_t upper) {
  const std::vector<uint64_t> w = words32(i & ~uint64_t(3), 16, key, upper);
  const size_t pair = i & 2;
  const long double u = (static_cast<long double>(w[pair]) + 0.5L) * 0x1p-32L,
                    angle =
                        static_cast<long double>(w[pair + 1]) * 0x1p-31L * std::numbers::pi_v<long double>;
  return std::sqrt(-2 * std::log(u)) * (i & 1 ? std::sin(angle) : std::cos(angle));
}

TEST(Random, NormalsKeepTheirBound) {
  constexpr size_t kFew = 1 << 14;
  std::vector<float> x(kFew), one(kFew);
  device().function<void(uint64_t, long long, uint64_t, uint64_t, float*, float*)>("normal32")(
      0, kFew, 9, 0, x.data(), one.data());
  double worst = 0;
  for (size_t i = 0; i < kFew; ++i) {
    const auto exact = static_cast<double>(exactNormal(i, 9, 0));
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::fabs(x[i] - exact) / unit);
  }
  EXPECT_LE(worst, 6.0); // docs/math.md
}

} // namespace
} // namespace dtc
