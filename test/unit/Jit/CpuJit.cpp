// The CPU JIT: source to functions, the loader, errors, the cache.
#include "dtc/Jit/CpuJitImpl.h"
#include <filesystem>
#include <fstream>
#include <thread>
#include <unistd.h>

namespace dtc {
namespace {

std::string temporaryFolder(const char* name) {
  const auto folder =
      std::filesystem::temp_directory_path() / (std::string("dtc-jit-") + name + std::to_string(getpid()));
  std::filesystem::remove_all(folder);
  return folder.string();
}

JitConfig uncached() {
  JitConfig config;
  config.useCache = false;
  return config;
}

SourceUnit scaleUnit(int factor) {
  return {"scale_" + std::to_string(factor),
          "extern \"C\" void scale_" + std::to_string(factor) +
              "(f32* x, i64 n) { for (i64 i = 0; i < n; ++i) x[i] *= " + std::to_string(factor) + "; }"};
}

using Scale = void(float*, long long);

// All files of the build are there, and code is the same with and without them: two units with the families of
// headers that are parsed on demand, comparisons of bools, and templates with arguments of every kind.
TEST(CpuJit, APrecompiledPrologueMakesTheSameCode) {
  const CpuJit jit(uncached());
  const auto& impl = jit.impl();
  const auto table = impl.clang.table();
  ASSERT_TRUE(table.ok()) << table.error().message;
  const SourceUnit units[] = {{"functions", R"(
    extern "C" void functions(f32* x, bool* b, i64 n) {
      typedef Vec<f32, 16> V;
      dtc_each<16>(0, n, [&](i64 i, auto lanes) DTC_INLINE {
        const V v = lanes.load(x + i);
        const auto c = dtc_or(dtc_lt(dtc_gt(v, (V)0.0f), dtc_is_nan(v)), dtc_ne(dtc_eq(v, v), dtc_le(v, v)));
        lanes.store(b + i, dtc_ge(c, dtc_is_finite(v)));
        lanes.store(x + i, dtc_select(c, dtc_erfc(dtc_exp(v)), dtc_tanh(dtc_sin(v)) + dtc_round(v)));
      });
      for (i64 i = 0; i < n; ++i) x[i] = dtc_convert<f32>(dtc_convert<bf16>(dtc_lgamma(dtc_pow(x[i], 2.5f))));
    })"},
                              {"integers", R"(
    extern "C" void integers(i32* x, u8* y, i64 n) {
      typedef Vec<i32, 16> V;
      dtc_each<16>(0, n, [&](i64 i, auto lanes) DTC_INLINE {
        const V v = lanes.load(x + i);
        lanes.store(y + i, dtc_convert<u8>(dtc_convert<f32>(dtc_min(v, (V)7))));
        lanes.store(x + i, dtc_shr(dtc_shl(dtc_div(v, (V)3), (V)2), dtc_max(v, (V)1)));
      });
    })"}};
  const SourceUnit* const both[] = {&units[0], &units[1]};
  for (CpuLevel level : {CpuLevel::Generic, CpuLevel::Avx2, CpuLevel::Avx512})
    for (int opt : {0, 1, 3}) {
      CompileMode mode{cpuPrologue(), cpuFlags(), {level, opt}};
      ASSERT_FALSE(impl.precompiled.find(impl.clang.folder(), **table, mode).empty());
      const auto precompiled = impl.run(both, mode, DtcClangObject);
      ASSERT_TRUE(precompiled.ok()) << precompiled.error().message;
      mode.usePrecompiled = false;
      EXPECT_TRUE(impl.precompiled.find(impl.clang.folder(), **table, mode).empty());
      const auto parsed = impl.run(both, mode, DtcClangObject);
      ASSERT_TRUE(parsed.ok()) << parsed.error().message;
      EXPECT_TRUE(*precompiled == *parsed) << "level " << static_cast<int>(level) << ", -O" << opt;
    }
}

// A file of another Clang, other flags or another prologue is not used.
TEST(CpuJit, APrecompiledPrologueOfAnotherBuildIsNotUsed) {
  const CpuJit jit(uncached());
  const auto& impl = jit.impl();
  const auto table = impl.clang.table();
  ASSERT_TRUE(table.ok()) << table.error().message;
  DtcClangTable other = **table;
  other.build = "another Clang";
  const std::vector<const char*> none, flag = {"-fno-builtin"};
  const CpuCompileOptions options;
  const std::string& folder = impl.clang.folder();
  EXPECT_FALSE(PrecompiledPrologues().find(folder, **table, {cpuPrologue(), none, options}).empty());
  EXPECT_TRUE(PrecompiledPrologues().find(folder, other, {cpuPrologue(), none, options}).empty());
  EXPECT_TRUE(PrecompiledPrologues().find(folder, **table, {cpuPrologue(), flag, options}).empty());
  EXPECT_TRUE(PrecompiledPrologues().find(folder, **table, {emuPrologue(), none, options}).empty());
  EXPECT_TRUE(PrecompiledPrologues().find("/nowhere", **table, {cpuPrologue(), none, options}).empty());
}

TEST(CpuJit, CompilesAndRunsAtEveryLevelOfThisMachine) {
  CpuJit jit(uncached());
  for (int level = 0; level <= static_cast<int>(hostCpuLevel()); ++level)
    for (int opt : {0, 1, 3}) {
      const SourceUnit unit = scaleUnit(3);
      auto module = jit.compile({&unit, 1}, {static_cast<CpuLevel>(level), opt});
      ASSERT_TRUE(module.ok()) << module.error().message;
      std::vector<float> x(100, 2.0f);
      module->function<Scale>("scale_3")(x.data(), 99);
      EXPECT_EQ(x[98], 6.0f);
      EXPECT_EQ(x[99], 2.0f);
      EXPECT_EQ(module->find("scale_4"), nullptr);
    }
}

TEST(CpuJit, ConstantsGlobalsAndCallsOfTheCLibraryAreLinked) {
  CpuJit jit(uncached());
  const SourceUnit unit{"linked", R"(
    static const f32 table[4] = {1, 2, 4, 8};
    static i64 calls = 0;
    static f64 (*const functions[2])(f64) = {sin, cos};
    extern "C" f64 linked(i32 i, char* to, const char* from, i64 n) {
      __builtin_memcpy(to, from, n);
      return table[i & 3] + functions[i & 1](0.0) + 100 * ++calls;
    })"};
  auto module = jit.compile({&unit, 1}, {hostCpuLevel(), 0});
  ASSERT_TRUE(module.ok()) << module.error().message;
  auto* linked = module->function<double(int, char*, const char*, long long)>("linked");
  char to[6] = {};
  EXPECT_EQ(linked(1, to, "hello", 5), 2 + 1 + 100);
  EXPECT_EQ(linked(2, to, "hello", 5), 4 + 0 + 200);
  EXPECT_STREQ(to, "hello");
}

// The text of kernels is generated, so that users could not act on the compiler's warnings.
TEST(CpuJit, PrintsNoWarningsOfTheOptimizer) {
  CpuJit jit(uncached());
  const SourceUnit unit{"rolled", R"(
    extern "C" void rolled(f32* x, i64 n) {
    #pragma unroll
      for (i64 i = 0; i < 4; ++i) {
        if (x[i] > n) return;
        #pragma unroll
        for (i64 j = i; j < n; j += x[j] > 0 ? 1 : 2) x[j] += sin(x[j]);
      }
    })"};
  testing::internal::CaptureStderr();
  for (int level : {1, 2, 3}) {
    auto module = jit.compile({&unit, 1}, {hostCpuLevel(), level});
    EXPECT_TRUE(module.ok()) << module.error().message;
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(CpuJit, ASourceThatDoesNotCompileIsABugWithClangsMessage) {
  CpuJit jit(uncached());
  const SourceUnit unit{"broken \"name\"", "extern \"C\" void f() {\n  nonsense(1);\n}\n"};
  auto module = jit.compile({&unit, 1});
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.error().kind, Error::Bug);
  EXPECT_NE(module.error().message.find("broken__name_:2:3: error: use of undeclared identifier 'nonsense'"),
            std::string::npos)
      << module.error().message;
}

TEST(CpuJit, AnUnknownSymbolIsABugThatNamesIt) {
  CpuJit jit(uncached());
  const SourceUnit unit{
      "caller", "extern \"C\" int system(const char*); extern \"C\" int f() { return system(\"true\"); }"};
  auto module = jit.compile({&unit, 1});
  ASSERT_FALSE(module.ok());
  EXPECT_NE(module.error().message.find("unknown symbol 'system'"), std::string::npos)
      << module.error().message;
}

TEST(CpuJit, AMissingPluginIsAnErrorOfTheMachine) {
  JitConfig config = uncached();
  config.pluginDir = "/nonexistent";
  const SourceUnit unit = scaleUnit(1);
  auto module = CpuJit(config).compile({&unit, 1});
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.error().kind, Error::Machine);
  EXPECT_NE(module.error().message.find("/nonexistent"), std::string::npos);
}

TEST(CpuJit, EmitsIrAndAssembly) {
  CpuJit jit(uncached());
  auto ir = jit.emit(scaleUnit(5), CpuText::Llvm);
  ASSERT_TRUE(ir.ok()) << ir.error().message;
  EXPECT_NE(ir->find("void @scale_5("), std::string::npos) << *ir;
  auto assembly = jit.emit(scaleUnit(5), CpuText::Asm);
  ASSERT_TRUE(assembly.ok()) << assembly.error().message;
  EXPECT_NE(assembly->find("scale_5:"), std::string::npos);
}

TEST(CpuJit, SeveralThreadsMayCompileAtOnce) {
  CpuJit jit(uncached());
  std::vector<std::thread> threads;
  std::vector<float> results(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const SourceUnit units[] = {scaleUnit(t + 2), scaleUnit(t + 10)};
      auto module = jit.compile(units);
      if (!module) return;
      float x = 1;
      module->function<Scale>("scale_" + std::to_string(t + 10))(&x, 1);
      results[static_cast<size_t>(t)] = x;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(results, (std::vector<float>{10, 11, 12, 13}));
}

// Ten units are compiled in fewer translation units; each keeps its own helpers and types.
TEST(CpuJit, UnitsOfABatchDoNotSeeEachOther) {
  CpuJit jit(uncached());
  std::vector<SourceUnit> units;
  for (int i = 0; i < 10; ++i) {
    const std::string n = std::to_string(i);
    units.push_back({"own_" + n, "struct Own { i32 v[" + n +
                                     " + 1]; };\nstatic i32 helper(i32 x) { return x + " + n +
                                     "; }\nstatic i32 state = " + n + ";\nextern \"C\" i32 own_" + n +
                                     "(i32 x) { return helper(x) + 100 * sizeof(Own) + 10000 * state++; }"});
  }
  auto module = jit.compile(units);
  ASSERT_TRUE(module.ok()) << module.error().message;
  for (int i = 0; i < 10; ++i) {
    auto* own = module->function<int(int)>("own_" + std::to_string(i));
    ASSERT_NE(own, nullptr);
    EXPECT_EQ(own(1000), 1000 + i + 400 * (i + 1) + 10000 * i);
    EXPECT_EQ(own(1000), 1000 + i + 400 * (i + 1) + 10000 * (i + 1));
  }
}

TEST(CpuJit, TheUnitOfABatchThatIsWrongIsNamed) {
  CpuJit jit(uncached());
  std::vector<SourceUnit> units;
  for (int i = 0; i < 6; ++i) units.push_back(scaleUnit(i));
  units[4].text += "\n}";
  auto module = jit.compile(units);
  ASSERT_FALSE(module.ok());
  EXPECT_NE(module.error().message.find("scale_4:2:1: error:"), std::string::npos) << module.error().message;
  EXPECT_EQ(module.error().message.find("scale_3"), std::string::npos);
}

// Damage in the content, in the head, and truncation: each time the kernel is compiled anew and runs.
TEST(CpuJit, ADamagedCacheEntryIsCompiledAnew) {
  JitConfig config;
  config.cacheDir = temporaryFolder("damaged");
  const SourceUnit unit = scaleUnit(7);
  ASSERT_TRUE(CpuJit(config).compile({&unit, 1}).ok());
  size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(config.cacheDir)) {
    ++entries;
    EXPECT_EQ(entry.status().permissions() & std::filesystem::perms::all,
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    for (int way = 0; way < 3; ++way) {
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(way == 0 ? 200 : 20);
      file.put('!');
      file.close();
      if (way == 2) std::filesystem::resize_file(entry.path(), 100);
      auto module = CpuJit(config).compile({&unit, 1});
      ASSERT_TRUE(module.ok()) << module.error().message;
      float x = 1;
      module->function<Scale>("scale_7")(&x, 1);
      EXPECT_EQ(x, 7.0f);
    }
  }
  EXPECT_EQ(entries, 1u);
  std::filesystem::remove_all(config.cacheDir);
}

} // namespace
} // namespace dtc
