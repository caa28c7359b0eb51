// The loader of compiled objects: an object from a file may hold anything, and still nothing outside of it is read.
#include "dtc/Jit/ElfLoader.h"
#include "dtc/Jit/CpuJitImpl.h"
#include "dtc/Jit/Prologue.h"
#include <memory>
#include <random>

namespace dtc {
namespace {

std::string exampleObject() {
  JitConfig config;
  config.useCache = false;
  CpuJit jit(config);
  const SourceUnit unit{"example", R"(
    static f32 table[3] = {1, 2, 3};
    f32* pointers[2] = {table, table + 1};
    extern "C" f32 example(i32 i) { return *pointers[i & 1] + expf(table[i & 1]); })"};
  auto objects = jit.impl().objects({&unit, 1}, {cpuPrologue(), {}, {}, false});
  EXPECT_TRUE(objects.ok()) << objects.error().message;
  return objects->front();
}

// The bytes in a heap block of exactly their size, so that the address sanitizer sees a read past them.
bool loads(const std::string& bytes) {
  auto exact = std::make_unique<char[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), exact.get());
  return loadObject({exact.get(), bytes.size()}).ok();
}

TEST(ElfLoader, ACompleteObjectLoadsAndItsFunctionsRun) {
  auto loaded = loadObject(exampleObject());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  for (const auto& [name, address] : (*loaded)->symbols())
    if (name == "example") {
      EXPECT_NEAR(reinterpret_cast<float (*)(int)>(address)(1), 2 + 7.3890561f, 1e-5f);
      return;
    }
  FAIL() << "the function is not exported";
}

TEST(ElfLoader, ATruncatedObjectIsAnError) {
  const std::string object = exampleObject();
  for (size_t size = 0; size < object.size(); size += 7) EXPECT_FALSE(loads(object.substr(0, size))) << size;
}

TEST(ElfLoader, ADamagedObjectIsAnErrorOrHarmless) {
  const std::string object = exampleObject();
  std::mt19937 random(1);
  size_t refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = object;
    for (uint32_t i = 0; i <= random() % 4; ++i)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    refused += !loads(damaged);
  }
  EXPECT_GT(refused, 100u);
}

} // namespace
} // namespace dtc
