// The device header's functions on the CPU: the bounds of docs/math.md over samples of all floats, and the IR's edges.
// DTC_FLOAT_STRIDE=1 tries every one of the 2^32 floats, DTC_FLOAT_FUNCTIONS=exp,log of these functions alone.
#include "dtc/Jit/CpuJit.h"
#include "dtc/Ops/record/Scalar.h"
#include "dtc/Support/DType.h"
#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

namespace dtc {
namespace {

struct Function {
  std::string name;
  double bound; // in ulp
  size_t arity;
  double (*exact)(double, double, double);
};

double sigmoidExact(double x, double, double) { return 1 / (1 + std::exp(-x)); }

std::string mathPage() {
  std::ifstream page(DTC_SOURCE_DIR "/docs/math.md");
  return {std::istreambuf_iterator<char>(page), {}};
}

// The rows of the table in docs/math.md. Results are compared with those of the evaluator, which computes the
// special functions in long double and by formulas other than the kernels'.
const std::vector<Function>& functions() {
  static const std::vector<Function> rows = [] {
    std::vector<Function> read;
    std::istringstream page(mathPage());
    for (std::string line; std::getline(page, line);) {
      char name[32];
      double bound = 0;
      if (std::sscanf(line.c_str(), "| %31s | %lf |", name, &bound) != 2) continue;
      const Intrinsic* f = findIntrinsic(name);
      if (name == std::string_view("sigmoid"))
        read.push_back({name, bound, 1, sigmoidExact});
      else if (f && f->onFloats)
        read.push_back({name, bound, f->arity, f->onFloats});
      else
        ADD_FAILURE() << "docs/math.md: " << name << " is not an intrinsic of floats";
    }
    return read;
  }();
  return rows;
}

// The distance of `got` from `exact` in units of the last place of the nearest float.
double ulpsBetween(float got, double exact) {
  const auto nearest = static_cast<float>(exact);
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : 1e30;
  if (std::isinf(got) || std::isinf(nearest)) {
    // The largest float and infinity are neighbors.
    const double edge = 0x1p128;
    const double g = std::isinf(got) ? std::copysign(edge, got) : got,
                 e = std::fabs(exact) > edge ? std::copysign(edge, exact) : exact;
    return std::fabs(g - e) / 0x1p104;
  }
  const int exponent = std::max(std::ilogb(nearest == 0 ? 0x1p-149f : nearest), -126);
  return std::fabs(static_cast<double>(got) - exact) / std::ldexp(1.0, exponent - 23);
}

JitConfig uncached() {
  JitConfig config;
  config.useCache = false;
  return config;
}

SourceUnit mapUnit() {
  SourceUnit unit{"functions", {}};
  for (const Function& f : functions()) {
    if (f.arity == 1)
      unit.text += "extern \"C\" void map_" + f.name +
                   "(const f32* x, f32* y, f32* one, i64 n) {\n  for (i64 i = 0; i < n; i += 16) {\n" +
                   "    dtc_store<16>(y + i, dtc_" + f.name + "(dtc_load<16>(x + i)));\n    one[i] = dtc_" +
                   f.name + "(x[i]);\n  }\n}\n";
    else
      unit.text += "extern \"C\" void map_" + f.name + "(const f32* x, const f32* y, f32* r, i64 n) {\n" +
                   "  for (i64 i = 0; i < n; i += 16)\n    dtc_store<16>(r + i, dtc_" + f.name +
                   "(dtc_load<16>(x + i), dtc_load<16>(y + i)));\n}\n";
  }
  return unit;
}

constexpr size_t kChunk = 4096;
using Map = void(const float*, float*, float*, long long);
using Map2 = void(const float*, const float*, float*, long long);

// Where functions change their way, and what is no number; with the floats around them.
std::vector<float> specialFloats() {
  std::vector<float> all;
  for (float v :
       {0.0f,         0x1p-149f,  0x1p-126f, 1e-30f,   1e-8f,   0.33f,    0.45f,  0.5f,        0.6f,
        0.927734375f, 1.0f,       1.5f,      2.0f,     3.0f,    4.0f,     10.0f,  10.0546875f, 17.0f,
        87.3f,        88.722839f, 89.0f,     89.4159f, 103.97f, 127.0f,   128.0f, 149.0f,      150.0f,
        1e6f,         0x1p23f,    0x1p24f,   1e30f,    FLT_MAX, INFINITY, NAN})
    for (int32_t near = -4; near <= 4; ++near) {
      const auto bits = static_cast<int32_t>(std::bit_cast<uint32_t>(v)) + near;
      if (bits >= 0)
        for (float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) all.push_back(x);
    }
  return all;
}

struct Worst {
  double ulps = 0;
  float at = 0;
  void see(float x, float got, double exact) {
    if (const double off = ulpsBetween(got, exact); off > ulps) ulps = off, at = x;
    // Zeros have a sign.
    if (exact == 0 && std::signbit(got) != std::signbit(exact)) ulps = 1e30, at = x;
  }
};

void checkBound(const Function& f, Map* map, uint64_t stride, double factor) {
  std::vector<float> x(kChunk), y(kChunk), one(kChunk);
  Worst worst;
  auto check = [&] {
    map(x.data(), y.data(), one.data(), kChunk);
    for (size_t i = 0; i < kChunk; ++i) {
      worst.see(x[i], y[i], f.exact(x[i], 0, 0));
      if (i % 16 == 0 && std::bit_cast<uint32_t>(y[i]) != std::bit_cast<uint32_t>(one[i]))
        EXPECT_TRUE(std::isnan(y[i]) && std::isnan(one[i]))
            << f.name << ": lane and number differ at " << x[i];
    }
  };
  const std::vector<float> special = specialFloats();
  ASSERT_LE(special.size(), kChunk);
  std::copy(special.begin(), special.end(), x.begin());
  check();
  for (uint64_t at = 0; at < (uint64_t{1} << 32);) {
    for (float& v : x) v = std::bit_cast<float>(static_cast<uint32_t>(at)), at += stride;
    check();
  }
  EXPECT_LE(worst.ulps, f.bound * factor)
      << f.name << " at " << worst.at << " on " << std::hexfloat << worst.at;
  if (std::getenv("DTC_FLOAT_STRIDE"))
    std::printf("%-8s %.3f ulp at %a\n", f.name.c_str(), worst.ulps, static_cast<double>(worst.at));
}

// All pairs of special numbers, and pairs of which one has any exponent and the other a moderate one.
void checkBound2(const Function& f, Map2* map, uint64_t stride, double factor) {
  std::vector<float> x, y;
  for (float a : specialFloats())
    for (float b : specialFloats()) x.push_back(a), y.push_back(b);
  uint64_t state = 1;
  for (uint64_t at = 0; at < (uint64_t{1} << 32); at += stride) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const auto moderate = static_cast<float>(static_cast<double>(state >> 11) * 0x1p-50 - 4);
    const float any = std::bit_cast<float>(static_cast<uint32_t>(at));
    const bool swap = state >> 63;
    x.push_back(swap ? any : std::exp(8 * moderate)), y.push_back(swap ? moderate : any);
    x.push_back(std::exp(moderate)), y.push_back(8 * moderate);
  }
  x.resize((x.size() + 15) / 16 * 16), y.resize(x.size());
  std::vector<float> r(x.size());
  map(x.data(), y.data(), r.data(), static_cast<long long>(x.size()));
  Worst worst;
  float other = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double before = worst.ulps;
    worst.see(x[i], r[i], f.exact(x[i], y[i], 0));
    if (worst.ulps > before) other = y[i];
  }
  EXPECT_LE(worst.ulps, f.bound * factor)
      << f.name << " of " << std::hexfloat << worst.at << " and " << other;
  if (std::getenv("DTC_FLOAT_STRIDE"))
    std::printf("%-8s %.3f ulp at %a, %a\n", f.name.c_str(), worst.ulps, static_cast<double>(worst.at),
                static_cast<double>(other));
}

class Math : public ::testing::TestWithParam<CpuLevel> {};

TEST_P(Math, FunctionsKeepTheirBounds) {
  if (GetParam() > hostCpuLevel()) GTEST_SKIP() << "this machine has no " << cpuLevelName(GetParam());
  const char* wish = std::getenv("DTC_FLOAT_STRIDE");
  const uint64_t stride = wish ? std::max<uint64_t>(1, std::strtoull(wish, nullptr, 10)) : 20011;
  const char* names = std::getenv("DTC_FLOAT_FUNCTIONS");
  auto wanted = [&](const std::string& name) {
    return !names || ("," + std::string(names) + ",").find("," + name + ",") != std::string::npos;
  };
  const SourceUnit unit = mapUnit();
  auto module = CpuJit(uncached()).compile({&unit, 1}, {GetParam(), 1});
  ASSERT_TRUE(module.ok()) << module.error().message;
  const double factor = GetParam() == CpuLevel::Generic ? 2.0 : 1.0;
  for (const Function& f : functions()) {
    if (!wanted(f.name)) continue;
    if (f.arity == 1)
      checkBound(f, module->function<Map>("map_" + f.name), stride, factor);
    else
      checkBound2(f, module->function<Map2>("map_" + f.name), std::max<uint64_t>(stride, 4099), factor);
  }
}

TEST(MathPage, HasARowForEveryCostlyFunction) {
  const std::string page = mathPage();
  const size_t end = page.find("` are exact"), begin = page.rfind('`', end - 1) + 1;
  const std::string exact = " " + page.substr(begin, end - begin) + " ";
  for (const Intrinsic& f : intrinsics()) {
    if (!f.onFloats || !f.costly || exact.find(" " + std::string(f.name) + " ") != std::string::npos)
      continue;
    EXPECT_TRUE(std::ranges::any_of(functions(), [&](const Function& row) { return row.name == f.name; }))
        << "docs/math.md has no row for " << f.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Math, ::testing::Values(CpuLevel::Generic, CpuLevel::Avx2, CpuLevel::Avx512),
                         [](const auto& level) { return std::string(cpuLevelName(level.param)); });

// Every 16-bit pattern widened, and floats around every value of the format (and its neighbors' middle) narrowed.
template <class Bits> void checkNarrow(const char* type, float (*widen)(Bits), Bits (*narrow)(double)) {
  CpuJit jit(uncached());
  const std::string t(type);
  const SourceUnit unit{t,
                        "extern \"C\" void widen(const " + t +
                            "* x, f32* y) { dtc_store<16>(y, dtc_load<16>(x)); y[16] = dtc_load(x); }\n"
                            "extern \"C\" void narrow(const f32* x, " +
                            t +
                            "* y) { dtc_store<16>(y, dtc_load<16>(x)); dtc_store(y + 16, dtc_load(x)); }\n"
                            "extern \"C\" void round(const f64* x, f32* y) { dtc_store<16>(y, dtc_convert<" +
                            t + ">(dtc_load<16>(x))); y[16] = dtc_convert<" + t + ">(x[0]); }\n"};
  auto module = jit.compile({&unit, 1});
  ASSERT_TRUE(module.ok()) << module.error().message;
  auto* widenJit = module->function<void(const Bits*, float*)>("widen");
  auto* narrowJit = module->function<void(const float*, Bits*)>("narrow");
  auto* roundJit = module->function<void(const double*, float*)>("round");
  for (uint32_t code = 0; code < (1u << (8 * sizeof(Bits))); ++code) {
    Bits in[16], back[17];
    float wide[17], rounded[17];
    double exact[16];
    for (int i = 0; i < 16; ++i) in[i] = static_cast<Bits>(code + static_cast<uint32_t>(i));
    widenJit(in, wide);
    const float expected = widen(in[0]);
    for (float got : {wide[0], wide[16]})
      ASSERT_TRUE(got == expected ? std::signbit(got) == std::signbit(expected)
                                  : std::isnan(got) && std::isnan(expected))
          << type << " " << code;
    // Between this value and the next: the middle and its neighbors.
    const float next = widen(static_cast<Bits>(code + 1)),
                middle = static_cast<float>((0.5 * expected) + (0.5 * next));
    const float around[] = {expected,
                            middle,
                            std::nextafter(middle, INFINITY),
                            std::nextafter(middle, -INFINITY),
                            -middle,
                            3 * middle,
                            1e-44f,
                            0.3f * middle};
    float x[16];
    for (int i = 0; i < 16; ++i)
      x[i] = around[i % 8], exact[i] = static_cast<double>(middle) * (1 + (i - 8) * 0x1p-40);
    narrowJit(x, back);
    for (int i = 0; i < 17; ++i) {
      const float from = x[i % 16];
      const Bits want = narrow(from);
      ASSERT_TRUE(back[i] == want || (std::isnan(from) && std::isnan(widen(back[i]))))
          << type << " " << std::hexfloat << from;
    }
    roundJit(exact, rounded);
    for (int i = 0; i < 17; ++i) {
      const float want = widen(narrow(exact[i % 16]));
      ASSERT_TRUE(rounded[i] == want || (std::isnan(want) && std::isnan(rounded[i])))
          << type << " " << std::hexfloat << exact[i % 16];
    }
  }
}

TEST(Narrow, Bf16) { checkNarrow<uint16_t>("bf16", bf16ToFloat, doubleToBf16); }
TEST(Narrow, F16) { checkNarrow<uint16_t>("f16", f16ToFloat, doubleToF16); }
TEST(Narrow, F8E4M3) { checkNarrow<uint8_t>("f8e4m3", f8E4M3ToFloat, doubleToF8E4M3); }
TEST(Narrow, F8E5M2) { checkNarrow<uint8_t>("f8e5m2", f8E5M2ToFloat, doubleToF8E5M2); }

// Each edge of ir.md §3, as a scalar and as a vector of one width and another: the function returns the number of the
// first line that does not hold.
TEST(Edges, IntegersAndNaNs) {
  const SourceUnit unit{"edges", R"(
#define SAME(got, want) do { auto g = (got); decltype(g) w = (want); if (!(g == w || (g != g && w != w))) return __LINE__; } while (0)
template <class T> static i32 integers() {
  const T least = (T)((u64)1 << (sizeof(T) * 8 - 1)), most = (T)~least, width = (T)(sizeof(T) * 8);
  SAME(dtc_div((T)7, (T)0), 0); SAME(dtc_rem((T)7, (T)0), 0); SAME(dtc_mod((T)7, (T)0), 0); SAME(dtc_floor_div((T)7, (T)0), 0);
  SAME(dtc_div(least, (T)-1), least); SAME(dtc_rem(least, (T)-1), 0); SAME(dtc_floor_div(least, (T)-1), least);
  SAME(dtc_div((T)-7, (T)2), -3); SAME(dtc_floor_div((T)-7, (T)2), -4); SAME(dtc_rem((T)-7, (T)2), -1); SAME(dtc_mod((T)-7, (T)2), 1);
  SAME(dtc_mod((T)7, (T)-2), -1); SAME(dtc_floor_div((T)6, (T)-2), -3);
  SAME(dtc_add(most, (T)1), least); SAME(dtc_neg(least), least); SAME(dtc_abs(least), least); SAME(dtc_mul(most, most), 1);
  SAME(dtc_shl((T)1, width), 0); SAME(dtc_shl((T)1, (T)(width - 1)), least); SAME(dtc_shl((T)1, (T)-1), 0);
  SAME(dtc_shr((T)-5, width), -1); SAME(dtc_shr((T)5, width), 0); SAME(dtc_shr((T)-5, (T)1), -3);
  SAME(dtc_convert<T>(1e30f), most); SAME(dtc_convert<T>(-1e30f), least); SAME(dtc_convert<T>(dtc_quiet_nan<f32>()), 0);
  SAME(dtc_convert<T>(1e30), most); SAME(dtc_convert<T>(-2.9), -2); SAME(dtc_convert<T>(2.9f), 2);
  SAME(dtc_convert<T>(dtc_infinity<f64>()), most); SAME(dtc_sign(least), -1);
  SAME(dtc_pow_int((T)-2, 3), -8); SAME(dtc_pow_int((T)3, 0), 1); SAME(dtc_pow_int((T)-1, -3), -1); SAME(dtc_pow_int((T)2, -1), 0);
  SAME(dtc_clamp((T)5, (T)7, (T)3), 3);
  return 0;
}
template <class T> static i32 naturals() {
  const T most = (T)~(T)0;
  SAME(dtc_div((T)7, (T)0), 0); SAME(dtc_div(most, most), 1); SAME(dtc_floor_div((T)7, (T)2), 3);
  SAME(dtc_convert<T>(-1.0f), 0); SAME(dtc_convert<T>(1e30f), most); SAME(dtc_convert<T>(-0.5), 0);
  SAME(dtc_shr(most, (T)(sizeof(T) * 8)), 0); SAME(dtc_sign(most), 1); SAME(dtc_mul(most, most), 1);
  return 0;
}
template <class T> static i32 floats() {
  const T nan = dtc_quiet_nan<T>(), inf = dtc_infinity<T>();
  SAME(dtc_max(nan, (T)1), nan); SAME(dtc_max((T)1, nan), nan); SAME(dtc_min(nan, (T)1), nan); SAME(dtc_min((T)1, nan), nan);
  SAME(dtc_relu(nan), nan); SAME(dtc_sign(nan), nan); SAME(dtc_clamp(nan, (T)0, (T)1), nan); SAME(dtc_clamp((T)5, (T)7, (T)3), 3);
  SAME(dtc_round((T)2.5), 2); SAME(dtc_round((T)-1.5), -2); SAME(dtc_round((T)0.5), 0);
  SAME(dtc_exp(nan), nan); SAME(dtc_exp(inf), inf); SAME(dtc_exp(-inf), 0); SAME(dtc_log((T)0), -inf); SAME(dtc_log((T)-1), nan);
  SAME(dtc_log(inf), inf); SAME(dtc_tanh(inf), 1); SAME(dtc_tanh(-inf), -1); SAME(dtc_erf(inf), 1); SAME(dtc_erf(nan), nan);
  SAME(dtc_sin(inf), nan); SAME(dtc_expm1(-inf), -1); SAME(dtc_log1p((T)-1), -inf); SAME(dtc_sigmoid(-inf), 0);
  SAME(dtc_mod((T)-7, (T)3), 2); SAME(dtc_rem((T)-7, (T)3), -1); SAME(dtc_floor_div((T)-7, (T)2), -4);
  SAME(dtc_convert<bool>(nan), true); SAME(dtc_convert<bool>((T)-0.0), false);
  return 0;
}
extern "C" i32 edges() {
  if (i32 r = integers<i8>()) return 1000 + r;
  if (i32 r = integers<i16>()) return 2000 + r;
  if (i32 r = integers<i32>()) return 3000 + r;
  if (i32 r = integers<i64>()) return 4000 + r;
  if (i32 r = naturals<u8>()) return 5000 + r;
  if (i32 r = naturals<u16>()) return 6000 + r;
  if (i32 r = naturals<u32>()) return 7000 + r;
  if (i32 r = naturals<u64>()) return 8000 + r;
  if (i32 r = floats<f32>()) return 9000 + r;
  if (i32 r = floats<f64>()) return 10000 + r;
  return 0;
}
template <class T> static i32 lanes(T a, T b) {
  Vec<T, 8> x = a, y = b;
  SAME((T)dtc_div(x, y)[3], dtc_div(a, b)); SAME((T)dtc_rem(x, y)[3], dtc_rem(a, b)); SAME((T)dtc_mod(x, y)[3], dtc_mod(a, b));
  SAME((T)dtc_floor_div(x, y)[3], dtc_floor_div(a, b)); SAME((T)dtc_max(x, y)[3], dtc_max(a, b)); SAME((T)dtc_sign(x)[3], dtc_sign(a));
  SAME((i8)dtc_convert<i8>(x)[3], dtc_convert<i8>(a)); SAME((u64)dtc_convert<u64>(x)[3], dtc_convert<u64>(a));
  SAME((f32)dtc_convert<f32>(x)[3], dtc_convert<f32>(a)); SAME((f32)dtc_convert<bf16>(x)[3], dtc_convert<bf16>(a));
  SAME((bool)dtc_convert<bool>(x)[3], dtc_convert<bool>(a)); SAME((bool)dtc_lt(x, y)[3], dtc_lt(a, b));
  SAME((T)dtc_select(dtc_lt(x, y), x, y)[3], dtc_select(dtc_lt(a, b), a, b));
  return 0;
}
extern "C" i32 vectors() {
  const f64 values[] = {0, 1, -1, 2.5, -7, 100, 1e10, -128, 3};
  for (f64 a : values)
    for (f64 b : values) {
      if (i32 r = lanes<i8>(dtc_convert<i8>(a), dtc_convert<i8>(b))) return 1000 + r;
      if (i32 r = lanes<i32>(dtc_convert<i32>(a), dtc_convert<i32>(b))) return 2000 + r;
      if (i32 r = lanes<i64>(dtc_convert<i64>(a), dtc_convert<i64>(b))) return 3000 + r;
      if (i32 r = lanes<u16>(dtc_convert<u16>(a), dtc_convert<u16>(b))) return 4000 + r;
      if (i32 r = lanes<f32>(dtc_convert<f32>(a), dtc_convert<f32>(b))) return 5000 + r;
      if (i32 r = lanes<f64>(a, b)) return 6000 + r;
    }
  return 0;
})"};
  CpuJit jit(uncached());
  for (int level = 0; level <= static_cast<int>(hostCpuLevel()); ++level) {
    auto module = jit.compile({&unit, 1}, {static_cast<CpuLevel>(level), 1});
    ASSERT_TRUE(module.ok()) << module.error().message;
    EXPECT_EQ(module->function<int()>("edges")(), 0);
    EXPECT_EQ(module->function<int()>("vectors")(), 0);
  }
}

} // namespace
} // namespace dtc
