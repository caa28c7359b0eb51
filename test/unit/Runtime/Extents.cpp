// Whether results share memory, over random tensors in one block of memory, against the sets of their bytes.
#include "run/Extents.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace dtc;

namespace {

using Random = std::mt19937;
int64_t pick(Random& r, int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(r); }

struct View {
  std::vector<int64_t> shape, strides; // in elements
  int64_t begin = 0;                   // in bytes
  DType dtype = DType::F32;
  [[nodiscard]] BorrowedTensor in(std::byte* memory) const {
    return {.data = memory + begin, .dtype = dtype, .shape = shape, .strides = strides};
  }
  // Each byte once for each element that has it.
  [[nodiscard]] std::vector<int64_t> bytes() const {
    std::vector<int64_t> starts{begin}, out;
    for (size_t d = 0; d < shape.size(); ++d) {
      std::vector<int64_t> next;
      for (int64_t at : starts)
        for (int64_t i = 0; i < shape[d]; ++i) next.push_back(at + i * strides[d] * dtypeBytes(dtype));
      starts = next;
    }
    for (int64_t at : starts)
      for (int64_t b = 0; b < dtypeBytes(dtype); ++b) out.push_back(at + b);
    return out;
  }
};

// A slice of a row-major tensor of 4 x 6 x 4 floats, at times one of any strides.
View randomView(Random& r) {
  View v;
  const int64_t sizes[] = {4, 6, 4}, strides[] = {24, 4, 1};
  v.begin = 512;
  for (size_t d = 0; d < 3; ++d) {
    const int64_t from = pick(r, 0, sizes[d] - 1), step = pick(r, 0, 3) ? 1 : 2;
    v.shape.push_back(pick(r, 1, (sizes[d] - from + step - 1) / step));
    v.strides.push_back(strides[d] * step);
    v.begin += 4 * from * strides[d];
    if (pick(r, 0, 9) == 0) v.strides.back() = pick(r, -7, 30);
    if (pick(r, 0, 9) == 0) v.begin += 4 * (v.shape.back() - 1) * v.strides.back(), v.strides.back() *= -1;
  }
  std::vector<size_t> order{0, 1, 2};
  std::shuffle(order.begin(), order.end(), r);
  View out = v;
  for (size_t d = 0; d < 3; ++d) out.shape[d] = v.shape[order[d]], out.strides[d] = v.strides[order[d]];
  if (pick(r, 0, 9) == 0) out.dtype = DType::F16, out.begin += 2 * pick(r, 0, 1);
  return out;
}

TEST(Extents, ResultsThatShareMemory) {
  Random r(1);
  std::vector<std::byte> memory(4096);
  int shared = 0, own = 0, apart = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const View a = randomView(r), b = randomView(r);
    const BorrowedTensor tensors[] = {a.in(memory.data()), b.in(memory.data())};
    const std::vector<int64_t> inA = a.bytes(), inB = b.bytes();
    const std::set<int64_t> setA(inA.begin(), inA.end()), setB(inB.begin(), inB.end());
    const bool selfA = setA.size() < inA.size(), selfB = setB.size() < inB.size();
    bool both = false;
    for (int64_t at : setA) both |= setB.contains(at);
    const Status s = checkDisjoint(tensors);
    ASSERT_EQ(s.ok(), !selfA && !selfB && !both) << trial;
    if (s.ok()) {
      ++apart;
    } else if (selfA || selfB) {
      EXPECT_EQ(s.error().message, "the memory of result " + std::string(selfA ? "0" : "1") +
                                       " overlaps itself: elements share it");
      ++own;
    } else {
      EXPECT_EQ(s.error().message, "the memory of the results 0 and 1 overlaps");
      ++shared;
    }
  }
  EXPECT_GT(shared, 1000);
  EXPECT_GT(own, 300);
  EXPECT_GT(apart, 1000);
}

TEST(Extents, SkippedAndEmptyResults) {
  std::byte memory[16] = {};
  const std::vector<int64_t> two{2}, none{0}, zero{0};
  const BorrowedTensor a{.data = memory, .shape = two}, empty{.data = memory, .shape = none};
  BorrowedTensor skipped = a;
  skipped.skip = true;
  EXPECT_TRUE(checkDisjoint(std::array{a, empty, skipped}).ok());
  EXPECT_FALSE(checkDisjoint(std::array{a, empty, a}).ok());
  EXPECT_FALSE(checkDisjoint(std::array{BorrowedTensor{.data = memory, .shape = two, .strides = zero}}).ok());
}

} // namespace
