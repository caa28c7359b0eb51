// .npy and raw files: what is written reads back, and what does not fit its file is refused.
#include "dtc/Files/TensorFiles.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace dtc;

namespace {
struct TensorFolder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("dtc-files-" + std::to_string(getpid()));
  TensorFolder() { std::filesystem::create_directory(path); }
  ~TensorFolder() { std::filesystem::remove_all(path); }
  std::string operator/(const char* name) const { return (path / name).string(); }
  std::string write(const char* name, std::string_view bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
    return *this / name;
  }
};

// A version 1 header around `dict`, then `data`.
std::string npy(const std::string& dict, const std::string& data, char version = 1) {
  std::string out = std::string("\x93NUMPY") + version + std::string(1, '\0');
  out += static_cast<char>(dict.size() & 255);
  out += static_cast<char>(dict.size() >> 8);
  if (version > 1) out += std::string(2, '\0');
  return out + dict + data;
}

Tensor countedTensor(DType dtype, std::vector<int64_t> shape) {
  Tensor t(dtype, std::move(shape));
  for (int64_t i = 0; i < t.numElements(); ++i) isFloat(dtype) ? t.setFloat(i, double(i)) : t.setInt(i, i);
  return t;
}
} // namespace

TEST(TensorFiles, EveryDTypeReadsBackBitForBit) {
  TensorFolder folder;
  for (int d = 0; d < kNumDTypes; ++d)
    for (std::vector<int64_t> shape : {std::vector<int64_t>{}, {3}, {2, 0}, {2, 3, 4}}) {
      Tensor t = countedTensor(static_cast<DType>(d), shape);
      ASSERT_TRUE(writeNpy(folder / "t.npy", t));
      auto back = readNpy(folder / "t.npy", t.dtype());
      ASSERT_TRUE(back) << back.error().message;
      EXPECT_EQ(*back, t) << dtypeName(t.dtype());
    }
}

TEST(TensorFiles, BitsOfBf16AreNotTakenForNumbers) {
  TensorFolder folder;
  ASSERT_TRUE(writeNpy(folder / "b.npy", countedTensor(DType::BF16, {2})));
  EXPECT_EQ(readNpy(folder / "b.npy")->dtype(), DType::U16);
  EXPECT_FALSE(readNpy(folder / "b.npy", DType::F16));
  std::string raw =
      folder.write("v.npy", npy("{'descr': '|V2', 'fortran_order': False, 'shape': (1,)}", "\x80\x3f"));
  ASSERT_TRUE(readNpy(raw, DType::BF16));
  EXPECT_EQ(readNpy(raw, DType::BF16)->getFloat(0), 1.0);
  EXPECT_FALSE(readNpy(raw, DType::U16));
}

TEST(TensorFiles, OrdersOfBytesAndElements) {
  TensorFolder folder;
  std::string big = folder.write("big.npy", npy("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }",
                                                std::string("\0\1\1\0", 4)));
  ASSERT_TRUE(readNpy(big));
  EXPECT_EQ(readNpy(big)->getInt(0), 1);
  EXPECT_EQ(readNpy(big)->getInt(1), 256);
  std::string columns = folder.write(
      "f.npy", npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", "\1\2\3\4\5\6", 3));
  auto t = readNpy(columns);
  ASSERT_TRUE(t) << t.error().message;
  for (int64_t i = 0; i < 6; ++i)
    EXPECT_EQ(t->getInt(i), (std::vector<int64_t>{1, 3, 5, 2, 4, 6}[size_t(i)]));
}

TEST(TensorFiles, HostileHeadersAreRefused) {
  const std::string data(64, '\0');
  const char* dicts[] = {
      "",
      "{",
      "[]",
      "{'descr': '<f4'}",
      "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}",
      "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'extra': 'x'}",
      "{'descr': '<c4', 'fortran_order': False, 'shape': (1,)}"};
  for (const char* dict : dicts) EXPECT_FALSE(parseNpyHeader(npy(dict, data), "it")) << dict;
  std::string good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", data);
  for (size_t n = 0; n < 40; ++n) EXPECT_FALSE(parseNpyHeader(good.substr(0, n), "it"));
  EXPECT_TRUE(parseNpyHeader(good, "it"));
  std::string endless("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12);
  EXPECT_FALSE(parseNpyHeader(endless, "it"));
}

TEST(TensorFiles, SizesAreCheckedBeforeAnythingIsAllocated) {
  TensorFolder folder;
  std::string huge = folder.write(
      "h.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}", "1234"));
  auto t = readNpy(huge);
  ASSERT_FALSE(t);
  EXPECT_EQ(t.error().kind, Error::Input);
  EXPECT_FALSE(openRaw(*InputFile::open(huge), DType::F32, {int64_t(1) << 40}));
  EXPECT_FALSE(openRaw(*InputFile::open(huge), DType::F32, {int64_t(1) << 62, 8}));
  EXPECT_TRUE(openRaw(*InputFile::open(huge), DType::U8, {6}));
  EXPECT_FALSE(readNpy(folder / "absent.npy"));
  EXPECT_FALSE(readNpy(folder.path.string()));
}

TEST(TensorFiles, NoPartialFileRemains) {
  TensorFolder folder;
  Status s = writeFileAtomically(folder / "no/such/folder", "x");
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().kind, Error::Machine);
  ASSERT_TRUE(writeFileAtomically(folder / "a", "first"));
  ASSERT_TRUE(writeFileAtomically(folder / "a", "second"));
  std::string text;
  std::getline(std::ifstream(folder / "a"), text);
  EXPECT_EQ(text, "second");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path), {}), 1);
}

// What processes compare: any byte of a small file, and the blocks of a large one.
TEST(InputFile, DigestsTellContentsApart) {
  const auto digest = [](const std::string& bytes) { return *InputFile::inMemory("f", bytes).digest(); };
  EXPECT_EQ(digest(""), "0 bytes, SHA-256 e3b0c44298fc1c14");
  EXPECT_EQ(digest("abc"), "3 bytes, SHA-256 ba7816bf8f01cfea");
  for (const size_t size : {size_t{1} << 20, (size_t{1} << 20) + 1, size_t{5} << 20}) {
    const std::string zeros(size, '\0'), same = digest(zeros);
    const size_t between = (size - 4096) / 63 * 31; // the begin of a block
    for (const size_t at : {size_t{0}, between, between + 4095, size - 1}) {
      std::string other = zeros;
      other[at] = 1;
      EXPECT_NE(digest(other), same) << size << " " << at;
    }
    EXPECT_NE(digest(zeros + '\0'), same);
  }
}
