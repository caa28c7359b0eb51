// The cache of compiled kernels against folders and entries that are not as it left them: nothing of it is ever an error, and
// nothing is believed that was not stored under its key.
#include "dtc/Jit/KernelCache.h"
#include "dtc/Jit/CpuJit.h"
#include "dtc/Support/Units.h"
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace dtc {
namespace {

namespace fs = std::filesystem;

class KernelCacheTest : public testing::Test {
protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "dtc-cache-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
  }
  void TearDown() override { fs::remove_all(root_); }

  [[nodiscard]] fs::path only() const { // the one file of the cache
    std::vector<fs::path> files;
    for (const auto& e : fs::directory_iterator(root_ / "cache")) files.push_back(e.path());
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? fs::path() : files[0];
  }
  [[nodiscard]] std::string folder() const { return (root_ / "cache").string(); }
  fs::path root_;
};

mode_t modeOf(const fs::path& p) {
  struct stat info{};
  return stat(p.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

TEST_F(KernelCacheTest, MakesFoldersForItsUserAlone) {
  KernelCache cache((root_ / "a/b/cache").string());
  ASSERT_TRUE(cache.open());
  for (const char* made : {"a", "a/b", "a/b/cache"}) EXPECT_EQ(modeOf(root_ / made), mode_t(0700)) << made;
}

TEST_F(KernelCacheTest, ClosesAFolderThatOthersCanRead) {
  fs::create_directory(folder());
  ASSERT_EQ(chmod(folder().c_str(), 0755), 0);
  EXPECT_TRUE(KernelCache(folder()).open());
  EXPECT_EQ(modeOf(folder()), mode_t(0700));
}

TEST_F(KernelCacheTest, RefusesFoldersThatOthersCanWriteTo) {
  fs::create_directory(folder());
  for (mode_t mode : {0770, 0707, 0777, 01777}) {
    ASSERT_EQ(chmod(folder().c_str(), mode), 0);
    EXPECT_FALSE(KernelCache(folder()).open()) << std::oct << mode;
    EXPECT_EQ(modeOf(folder()), mode);
  }
}

TEST_F(KernelCacheTest, RefusesLinksFilesAndForeignFolders) {
  fs::create_directory(root_ / "real");
  ASSERT_EQ(chmod((root_ / "real").c_str(), 0700), 0);
  fs::create_directory_symlink(root_ / "real", folder());
  EXPECT_FALSE(KernelCache(folder()).open());
  std::ofstream(root_ / "file") << "x";
  EXPECT_FALSE(KernelCache((root_ / "file").string()).open());
  EXPECT_FALSE(KernelCache("/proc/dtc-cache").open()); // where nothing can be made
  if (geteuid() != 0) {
    EXPECT_FALSE(KernelCache("/usr").open());
    return;
  }
  ASSERT_EQ(chown((root_ / "real").c_str(), 12345, 12345), 0);
  EXPECT_FALSE(KernelCache((root_ / "real").string()).open());
}

TEST_F(KernelCacheTest, KernelsCompileWithoutACache) {
  JitConfig config;
  config.cacheDir = "/proc/dtc-cache";
  const SourceUnit unit{"one", "extern \"C\" i32 one() { return 1; }\n"};
  auto module = CpuJit(config).compile({&unit, 1});
  ASSERT_TRUE(module.ok()) << module.error().message;
  EXPECT_EQ(module->function<int()>("one")(), 1);
}

TEST_F(KernelCacheTest, KeepsWhatItWasGiven) {
  const std::string content(100000, 'c');
  KernelCache(folder()).store("key", content);
  EXPECT_EQ(KernelCache(folder()).load("key"), content);
  EXPECT_EQ(KernelCache(folder()).load("another"), std::nullopt);
  EXPECT_EQ(modeOf(only()), mode_t(0600));
  KernelCache(folder()).store("key", "shorter");
  EXPECT_EQ(KernelCache(folder()).load("key"), "shorter");
  (void)only(); // replaced, and no temporary is left
}

// Every single byte of an entry counts, and so do its length and its name.
TEST_F(KernelCacheTest, BelievesNothingThatIsDamaged) {
  KernelCache cache(folder());
  cache.store("key", "some machine code");
  const fs::path entry = only();
  std::string bytes(fs::file_size(entry), ' ');
  std::ifstream(entry, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  auto write = [&](const std::string& text) {
    std::ofstream(entry, std::ios::binary | std::ios::trunc) << text;
  };
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    write(damaged);
    EXPECT_EQ(cache.load("key"), std::nullopt) << "byte " << i;
  }
  for (size_t length : {size_t(0), size_t(5), size_t(44), bytes.size() - 1}) {
    write(bytes.substr(0, length));
    EXPECT_EQ(cache.load("key"), std::nullopt) << "cut to " << length;
  }
  write(bytes + "x");
  EXPECT_EQ(cache.load("key"), std::nullopt);
  write(bytes);
  EXPECT_EQ(cache.load("key"), "some machine code");
  cache.store("another", "other code");
  for (const auto& e : fs::directory_iterator(folder()))
    if (e.path() != entry) fs::rename(e.path(), entry);
  EXPECT_EQ(cache.load("key"), std::nullopt) << "another key's entry under this key's name";
}

TEST_F(KernelCacheTest, ReadsOnlyFilesOfItsOwner) {
  KernelCache cache(folder());
  cache.store("key", "code");
  const fs::path entry = only(), aside = root_ / "aside";
  fs::rename(entry, aside);
  fs::create_symlink(aside, entry);
  EXPECT_EQ(cache.load("key"), std::nullopt) << "a link";
  fs::remove(entry);
  ASSERT_EQ(mkfifo(entry.c_str(), 0600), 0);
  EXPECT_EQ(cache.load("key"), std::nullopt) << "a pipe: opening it must not wait";
  fs::remove(entry);
  fs::create_directory(entry);
  EXPECT_EQ(cache.load("key"), std::nullopt) << "a folder";
  cache.store("key", "code"); // cannot replace it: silent
  fs::remove(entry);
  fs::rename(aside, entry);
  EXPECT_EQ(cache.load("key"), "code");
  if (geteuid() != 0) return;
  ASSERT_EQ(chown(entry.c_str(), 12345, 12345), 0);
  EXPECT_EQ(cache.load("key"), std::nullopt) << "of another user";
}

TEST_F(KernelCacheTest, ManyMayStoreTheSameEntry) {
  KernelCache cache(folder());
  const std::string content(1 << 16, 'x');
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&] {
      for (int n = 0; n < 50; ++n) {
        cache.store("key", content);
        EXPECT_EQ(cache.load("key"), content);
      }
    });
  for (std::thread& t : writers) t.join();
  (void)only();
}

class KernelCacheSizeTest : public KernelCacheTest {
protected:
  static constexpr size_t kContent = 1000;
  // Entries "0", "1", …, each an hour younger than the one before, the last one of now.
  void fill(int count) const {
    const KernelCache cache(folder());
    for (int i = 0; i < count; ++i) {
      cache.store(std::to_string(i), std::string(kContent, 'x'), i % 2 ? "sm_90" : "cpu-avx2");
      for (const CacheEntry& e : cache.entries())
        if (e.used > now() - 60) age(e.name, count - 1 - i);
    }
  }
  void age(const std::string& name, int hours) const {
    fs::last_write_time(fs::path(folder()) / name,
                        fs::file_time_type::clock::now() - std::chrono::hours(2 * hours));
  }
  static int64_t now() { return static_cast<int64_t>(std::time(nullptr)); }
};

TEST_F(KernelCacheSizeTest, ListsEntriesByUseWithTheirTargets) {
  fill(3);
  std::ofstream(fs::path(folder()) / "notes.txt") << "not the cache's";
  const std::vector<CacheEntry> entries = KernelCache::existing(folder()).entries();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].target, "cpu-avx2");
  EXPECT_EQ(entries[1].target, "sm_90");
  EXPECT_GT(entries[0].used, entries[1].used);
  EXPECT_GT(entries[1].used, entries[2].used);
  EXPECT_GT(entries[0].bytes, int64_t{kContent});
}

TEST_F(KernelCacheSizeTest, RemovesTheLeastRecentlyUsed) {
  fill(4);
  const KernelCache cache(folder());
  EXPECT_TRUE(cache.load("0", "cpu-avx2")); // the oldest, and now the youngest
  const int64_t one = cache.entries()[0].bytes;
  EXPECT_EQ(cache.shrinkTo(2 * one + 10).size(), 2u);
  EXPECT_TRUE(cache.load("0", "cpu-avx2"));
  EXPECT_FALSE(cache.load("1", "sm_90"));
  EXPECT_FALSE(cache.load("2", "cpu-avx2"));
  EXPECT_TRUE(cache.load("3", "sm_90"));
}

TEST_F(KernelCacheSizeTest, KeepsToItsLargestSize) {
  setenv(kCacheMaxVariable, "10KiB", 1);
  for (int i = 0; i < 30; ++i) KernelCache(folder()).store(std::to_string(i), std::string(kContent, 'x'));
  KernelCache(folder()).store("too large", std::string(20 << 10, 'x'));
  int64_t bytes = 0;
  const KernelCache cache(folder());
  for (const CacheEntry& e : cache.entries()) bytes += e.bytes;
  EXPECT_LE(bytes, 10 << 10);
  EXPECT_GT(bytes, 5 << 10);
  EXPECT_FALSE(cache.load("too large"));
  unsetenv(kCacheMaxVariable);
}

// Few of them list the folder.
TEST_F(KernelCacheSizeTest, StaysNearItsLargestSizeOverManyProcesses) {
  setenv(kCacheMaxVariable, "400KiB", 1);
  int64_t most = 0;
  for (int i = 0; i < 2000; ++i) {
    KernelCache(folder()).store(std::to_string(i), std::string(kContent, 'x'));
    if (i % 50 != 0) continue;
    int64_t bytes = 0;
    for (const CacheEntry& e : KernelCache::existing(folder()).entries()) bytes += e.bytes;
    most = std::max(most, bytes);
  }
  EXPECT_LE(most, 480 << 10);
  EXPECT_GT(most, 300 << 10);
  unsetenv(kCacheMaxVariable);
}

TEST_F(KernelCacheSizeTest, EntriesAreCompleteWhileOthersRemove) {
  const std::string content(kContent, 'x');
  std::atomic<int> damaged = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const KernelCache cache(folder());
      for (int i = 0; i < 50; ++i) {
        cache.store(std::to_string(i % 7), content);
        if (auto read = cache.load(std::to_string((i + t) % 7)); read && *read != content) ++damaged;
        if (i % 5 == t) cache.shrinkTo(2500);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(damaged, 0);
  const KernelCache cache(folder());
  cache.shrinkTo(0);
  EXPECT_TRUE(cache.entries().empty());
}

TEST(ParseBytes, TakesUnitsAndNothingElse) {
  EXPECT_EQ(parseBytes("100"), 100);
  EXPECT_EQ(parseBytes("2KiB"), 2048);
  EXPECT_EQ(parseBytes("3GiB"), int64_t{3} << 30);
  EXPECT_EQ(parseBytes("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(parseBytes("5.4 MiB"), 5662310); // as dtc prints it
  EXPECT_EQ(parseBytes("0.5KiB"), 512);
  EXPECT_EQ(parseBytes("1.5 kB"), 1500);
  EXPECT_EQ(parseBytes("2GB"), 2000000000);
  for (const char* wrong :
       {"", "-1", "MiB", "1.5", "1.5B", "1.GiB", ".5GiB", "1.5.5GiB", "1.5e3KiB", "1  GiB", "1 ", "1KB",
        "1gb", "9223372036854775807KiB", "8388607.99999999999999TiB"})
    EXPECT_FALSE(parseBytes(wrong)) << wrong;
}

} // namespace
} // namespace dtc
