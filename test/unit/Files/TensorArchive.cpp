// .npz and .safetensors files: what is written reads back, each device reads its own bytes, and what a hostile header says
// is not believed.
#include "dtc/Files/TensorArchive.h"

#include "dtc/Eval/Eval.h"
#include "dtc/Files/TensorFiles.h"

#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace dtc;

namespace {

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("dtc-archives-" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
  void write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
  }
};

Tensor ramp(DType dtype, std::vector<int64_t> shape) {
  Tensor t(dtype, std::move(shape));
  for (int64_t i = 0; i < t.numElements(); ++i)
    isFloat(dtype) ? t.setFloat(i, double(i % 200)) : t.setInt(i, i % 2);
  return t;
}

std::string safetensors(const std::string& header, const std::string& data) {
  std::string out;
  for (size_t i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> 8 * i & 255);
  return out + header + data;
}

// What is said of these bytes; "" where they are taken.
std::string refusal(const std::string& bytes) {
  auto archive = openSafetensors(InputFile::inMemory("t.safetensors", bytes));
  return archive ? "" : archive.error().message;
}

std::string npzRefusal(const std::string& bytes) {
  auto archive = openNpz(InputFile::inMemory("t.npz", bytes));
  if (!archive) return archive.error().message;
  for (const std::string& name : (*archive)->names())
    if (auto t = (*archive)->tensor(name, {}); !t) return t.error().message;
  return "";
}

bool says(const std::string& message, std::string_view part) {
  return message.find(part) != std::string::npos;
}

} // namespace

TEST(TensorArchive, EveryDTypeReadsBackBitForBit) {
  for (int d = 0; d < kNumDTypes; ++d) {
    const auto dtype = static_cast<DType>(d);
    const Tensor a = ramp(dtype, {}), b = ramp(dtype, {3, 2}), c = ramp(dtype, {2, 0, 5}),
                 e = ramp(DType::F64, {1});
    const NamedTensors all = {{"a", &a}, {"b.weight", &b}, {"c", &c}, {"e", &e}};
    if (isComplex(dtype)) { // .npz alone
      EXPECT_FALSE(writeTensorArchive("t.safetensors", all));
      auto archive = openNpz(InputFile::inMemory("t.npz", npzBytes(all)));
      ASSERT_TRUE(archive) << archive.error().message;
      EXPECT_EQ(*(*archive)->tensor("b.weight", dtype)->tensor(), b);
      continue;
    }
    const std::string npz = npzBytes(all), safe = safetensorsBytes(all);
    auto first = openNpz(InputFile::inMemory("t.npz", npz));
    auto second = openSafetensors(InputFile::inMemory("t.safetensors", safe));
    ASSERT_TRUE(first && second) << (first ? second.error().message : first.error().message);
    for (const auto& [name, t] : all)
      for (auto* archive : {first->get(), second->get()}) {
        auto back = archive->tensor(name, t->dtype());
        ASSERT_TRUE(back) << back.error().message;
        EXPECT_EQ(*back->tensor(), *t) << dtypeName(dtype) << " " << name;
      }
    EXPECT_FALSE((*second)->tensor("e", DType::F16));
  }
}

// A file that is mostly holes: to read all of it would take a terabyte.
TEST(TensorArchive, EachDeviceReadsItsOwnBytes) {
  Folder folder;
  const int64_t rows = int64_t{1} << 20, columns = int64_t{1} << 20, row = 786432;
  const std::string path = folder / "large.safetensors";
  const std::string header =
      R"({"x":{"dtype":"U8","shape":[1048576,1048576],"data_offsets":[0,1099511627776]}})";
  folder.write("large.safetensors", safetensors(header, ""));
  const auto data = static_cast<int64_t>(8 + header.size());
  if (truncate(path.c_str(), data + rows * columns) != 0) GTEST_SKIP() << "no room for a file with holes";
  int fd = open(path.c_str(), O_WRONLY);
  const char mark = 7;
  ASSERT_EQ(pwrite(fd, &mark, 1, data + row * columns + 3), 1);
  close(fd);
  auto archive = openTensorArchive(path);
  ASSERT_TRUE(archive) << archive.error().message;
  auto source = (*archive)->tensor("x", DType::U8);
  ASSERT_TRUE(source) << source.error().message;
  ShardingTable table;
  StringTable strings;
  const StrId a = strings.intern("a"), b = strings.intern("b");
  const MeshId mesh = table.addMesh({strings.intern("m"), {{a, 1 << 10}, {b, 1 << 18}}, {}});
  Sharding s{mesh, {{{{{a}, 0}}}, {{{{b}, 0}}}}, {}, {}};
  auto shard = source->shard(s, table.mesh(mesh), int64_t{768} << 18); // row 786432 is the first of shard 768
  ASSERT_TRUE(shard) << shard.error().message;
  EXPECT_EQ(shard->shape(), (std::vector<int64_t>{1024, 4}));
  EXPECT_EQ(shard->getInt(3), 7);
  EXPECT_EQ(shard->getInt(4), 0);
}

TEST(TensorArchive, ShardsOfAFileAreThoseOfTheTensor) {
  const Tensor t = ramp(DType::F32, {7, 5, 3});
  const std::string bytes = safetensorsBytes({{"t", &t}});
  auto archive = openSafetensors(InputFile::inMemory("t.safetensors", bytes));
  auto source = (*archive)->tensor("t", {});
  ASSERT_TRUE(source && source->inFile());
  ShardingTable table;
  StringTable strings;
  const StrId a = strings.intern("a"), b = strings.intern("b");
  const MeshId mesh = table.addMesh({strings.intern("m"), {{a, 2}, {b, 3}}, {}});
  for (size_t dim = 0; dim < 3; ++dim)
    for (size_t other = 0; other < 3; ++other) {
      Sharding s{mesh, {{}, {}, {}}, {}, {}};
      s.dims[dim].parts.push_back({{a}, 0});
      s.dims[other].parts.push_back({{b}, 0});
      for (int64_t coordinate = 0; coordinate < 6; ++coordinate)
        EXPECT_EQ(*source->shard(s, table.mesh(mesh), coordinate),
                  takeShard(t, s, table.mesh(mesh), coordinate));
    }
}

TEST(TensorArchive, RangesMustTileTheData) {
  const std::string x = R"("x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  EXPECT_EQ(refusal(safetensors("{" + x + "}", "ab")), "");
  EXPECT_EQ(refusal(safetensors("{" + x + R"(,"__metadata__":{"format":"pt"}}   )", "ab")), "");
  EXPECT_TRUE(
      says(refusal(safetensors("{" + x + "}", "abc")), "accounts for 2 bytes of data, but the file has 3"));
  EXPECT_TRUE(says(refusal(safetensors("{" + x + "}", "a")), "outside the file's 1 byte"));
  EXPECT_TRUE(
      says(refusal(safetensors(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "abc")), "a gap"));
  EXPECT_TRUE(
      says(refusal(safetensors("{" + x + R"(,"y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "abc")),
           "an overlap before \"y\""));
  EXPECT_TRUE(says(refusal(safetensors(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,2]}})", "ab")),
                   "need 8"));
  EXPECT_TRUE(says(refusal(safetensors(
                       R"({"x":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "")),
                   "more than 2^63-1 elements"));
  EXPECT_TRUE(says(
      refusal(safetensors(R"({"x":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}})", "")),
      "more than 2^63-1"));
}

TEST(TensorArchive, SafetensorsHeadersOfOtherShapesAreRefused) {
  EXPECT_TRUE(says(refusal("abc"), "fewer than 8 bytes"));
  EXPECT_TRUE(says(refusal(std::string(8, '\xff')), "more than 100000000"));
  EXPECT_TRUE(
      says(refusal(std::string("\x10\0\0\0\0\0\0\0", 8)), "its header has 16 bytes, but the file has 8"));
  EXPECT_TRUE(says(refusal(safetensors("[]", "")), "does not start with {"));
  EXPECT_TRUE(says(refusal(safetensors("{", "")), "is not JSON"));
  const std::string x = R"("x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_TRUE(says(refusal(safetensors("{" + x + "," + x + "}", "")), "names \"x\" twice"));
  for (const char* bad :
       {R"({"x":{"dtype":"U8","shape":[0]}})", R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}})",
        R"({"x":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
        R"({"x":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})",
        R"({"x":{"dtype":"U8","shape":[0.0],"data_offsets":[0,0]}})",
        R"({"x":{"dtype":"U8","shape":[[0]],"data_offsets":[0,0]}})",
        R"({"x":{"dtype":8,"shape":[0],"data_offsets":[0,0]}})",
        R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"more":1}})", R"({"x":1})",
        R"({"__metadata__":{"a":{}}})",
        R"({"x":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,0]}})"})
    EXPECT_TRUE(says(refusal(safetensors(bad, "")), "its header")) << bad;
  EXPECT_TRUE(says(refusal(safetensors(std::string(100000, '{'), "")), "its header"));
  // A dtype that dtc has not hurts only who asks for it.
  const std::string strange =
      safetensors(R"({"x":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[0,2]}})", "ab");
  auto archive = openSafetensors(InputFile::inMemory("t.safetensors", strange));
  ASSERT_TRUE(archive);
  EXPECT_TRUE(says((*archive)->tensor("x", {}).error().message, "as F8_E8M0, which dtc does not read"));
}

TEST(TensorArchive, AnIndexStaysInItsFolder) {
  Folder folder;
  std::filesystem::create_directories(folder.path / "model" / "sub");
  const Tensor t = ramp(DType::F32, {4});
  const std::string bytes = safetensorsBytes({{"t", &t}});
  for (const char* name : {"outside.safetensors", "model/part.safetensors", "model/sub/deep.safetensors",
                           "model/twice.safetensors"})
    folder.write(name, bytes);
  std::filesystem::create_symlink("part.safetensors", folder.path / "model" / "link.safetensors");
  std::filesystem::create_hard_link(folder.path / "model" / "twice.safetensors",
                                    folder.path / "model" / "hard.safetensors");
  auto ask = [&](const std::string& file, const char* tensor = "t") -> std::string {
    folder.write("model/m.safetensors.index.json",
                 R"({"metadata":{"total_size":16,"more":[{}]},"weight_map":{")" + std::string(tensor) +
                     R"(":")" + file + "\"}}");
    auto archive = openTensorArchive(folder / "model/m.safetensors.index.json");
    if (!archive) return archive.error().message;
    auto source = (*archive)->tensor(tensor, DType::F32);
    if (!source) return source.error().message;
    return *source->tensor() == t ? "" : "another tensor";
  };
  EXPECT_EQ(ask("part.safetensors"), "");
  EXPECT_EQ(ask("./part.safetensors"), "");
  EXPECT_TRUE(says(ask("part.safetensors", "u"), "which does not contain it"));
  EXPECT_TRUE(says(ask("../outside.safetensors"), "is outside the folder"));
  EXPECT_TRUE(says(ask((folder.path / "outside.safetensors").string()), "is outside the folder"));
  EXPECT_TRUE(says(ask("link.safetensors"), "symbolic link"));
  EXPECT_TRUE(says(ask("hard.safetensors"), "hard links"));
  EXPECT_TRUE(says(ask("none.safetensors"), "No such file"));
  EXPECT_TRUE(says(ask("sub"), "which is not a .safetensors file"));
  for (const char* bad : {"{}", "[]", R"({"weight_map":{"t":1}})", R"({"weight_map":{"t":"a","t":"b"}})",
                          R"({"weight_map":["t"]})", "{"}) {
    const std::string text = bad;
    EXPECT_FALSE(openSafetensorsIndex(InputFile::inMemory("i", text), ".")) << bad;
  }
}

TEST(TensorArchive, DamagedZipFilesAreRefused) {
  const Tensor t = ramp(DType::F32, {3}), u = ramp(DType::I32, {2});
  const std::string good = npzBytes({{"t", &t}, {"u", &u}});
  ASSERT_EQ(npzRefusal(good), "");
  EXPECT_EQ(npzRefusal(npzBytes({})), "");
  // Every byte matters, but for times, versions and the like.
  size_t refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    refused += !npzRefusal(bad).empty();
  }
  EXPECT_GT(refused, good.size() - 80);
  for (size_t n = 0; n < good.size(); ++n) EXPECT_NE(npzRefusal(good.substr(0, n)), "") << n;
  EXPECT_TRUE(says(npzRefusal(good + "x"), "has no zip end record"));
  EXPECT_TRUE(says(npzRefusal(npzBytes({{"t", &t}, {"t", &u}})), "two entries \"t.npy\""));
}

TEST(TensorArchive, ZipEntriesDoNotShareBytes) {
  const Tensor t = ramp(DType::F32, {3});
  // Two records of the directory that point to one entry: quoted overlap makes a small file a large one.
  std::string one = npzBytes({{"t", &t}});
  const size_t directory = one.find("PK\x01\x02"), end = one.find("PK\x05\x06");
  const std::string record = one.substr(directory, end - directory);
  std::string bytes = one.substr(0, end) + record + one.substr(end);
  const auto put = [&](size_t at, uint32_t n, size_t width) {
    for (size_t i = 0; i < width; ++i) bytes[at + i] = static_cast<char>(n >> 8 * i);
  };
  const size_t last = end + record.size();
  put(last + 8, 2, 2), put(last + 10, 2, 2);
  put(last + 12, static_cast<uint32_t>(2 * record.size()), 4);
  EXPECT_TRUE(says(npzRefusal(bytes), "two entries"));
}
