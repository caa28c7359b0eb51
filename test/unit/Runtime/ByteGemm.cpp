// Products of 8-bit integers in i32 are exact for all shapes, strides and dtypes, packed or not.
#include "backend/cpu/ByteGemm.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace dtc {
namespace {

struct MatmulShape {
  int64_t batch, m, n, k;
};

// Operands and result with room for strides of 2 elements.
struct MatmulData {
  MatmulData(const MatmulShape& c, int aType, int bType, std::mt19937& random)
      : a(static_cast<size_t>(2 * c.batch * c.m * c.k)), b(static_cast<size_t>(2 * c.batch * c.k * c.n)),
        bias(static_cast<size_t>(c.n)), y(static_cast<size_t>(2 * c.batch * c.m * c.n)) {
    // Half of the numbers are extreme: pairs of their products exceed i16.
    const auto fill = [&](std::vector<uint8_t>& bytes, int type) {
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
      const uint8_t extreme = type == DtcGemmI8 ? 128 : 255;
      for (uint8_t& byte : bytes)
        if (random() % 2) byte = extreme;
    };
    fill(a, aType), fill(b, bType);
    for (int32_t& x : bias) x = static_cast<int32_t>(random());
  }
  std::vector<uint8_t> a, b;
  std::vector<int32_t> bias, y;
};

int32_t numberOf(uint8_t byte, int type) { return type == DtcGemmI8 ? static_cast<int8_t>(byte) : byte; }

void expectProduct(const DtcGemm& g, const MatmulData& data, const std::vector<uint8_t>& b) {
  for (int64_t batch = 0; batch < g.batch; ++batch)
    for (int64_t row = 0; row < g.m; ++row)
      for (int64_t column = 0; column < g.n; ++column) {
        uint32_t sum = g.bias ? static_cast<uint32_t>(data.bias[static_cast<size_t>(column)]) : 0;
        for (int64_t i = 0; i < g.k; ++i)
          sum += static_cast<uint32_t>(
              numberOf(data.a[static_cast<size_t>(batch * g.aBatch + row * g.aM + i * g.aK)], g.aType) *
              numberOf(b[static_cast<size_t>(batch * g.bBatch + i * g.bK + column * g.bN)], g.bType));
        ASSERT_EQ(data.y[static_cast<size_t>(batch * g.yBatch + row * g.yM + column * g.yN)],
                  static_cast<int32_t>(sum))
            << batch << ", " << row << ", " << column << " of " << g.m << " x " << g.n << " x " << g.k;
      }
}

class ByteMatmuls : public ::testing::TestWithParam<MatmulShape> {
protected:
  void SetUp() override {
    if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "the processor lacks AVX2";
  }
};

// Columns first: the last dim of a matrix is not dense.
void expectExact(const MatmulShape& c, int aType, int bType, bool columnsFirst, int64_t step,
                 std::mt19937& random) {
  MatmulData data(c, aType, bType, random);
  const auto strides = [&](int64_t rows, int64_t columns) {
    return columnsFirst ? std::array<int64_t, 2>{step, step * rows}
                        : std::array<int64_t, 2>{step * columns, step};
  };
  const auto a = strides(c.m, c.k), b = strides(c.k, c.n), y = strides(c.m, c.n);
  const DtcGemm g{aType,
                  bType,
                  DtcGemmI32,
                  c.batch,
                  c.m,
                  c.n,
                  c.k,
                  step * c.m * c.k,
                  a[0],
                  a[1],
                  step * c.k * c.n,
                  b[0],
                  b[1],
                  step * c.m * c.n,
                  y[0],
                  y[1],
                  data.a.data(),
                  data.b.data(),
                  random() % 2 ? data.bias.data() : nullptr,
                  1,
                  data.y.data()};
  ASSERT_TRUE(ByteGemm::fits(g));
  ByteGemm gemm(g);
  std::vector<std::byte> scratch(gemm.scratchBytes()), packed(gemm.packedBytes());
  gemm.run(0, 0, scratch.data());
  expectProduct(g, data, data.b);
  ASSERT_TRUE(gemm.pack(packed.data()));
  gemm.usePacked(packed.data());
  const std::vector<uint8_t> before = data.b;
  std::ranges::fill(data.b, uint8_t{1}); // is not read
  std::ranges::fill(data.y, -1);
  gemm.run(0, 0, scratch.data());
  expectProduct(g, data, before);
  gemm.usePacked(nullptr);
  gemm.run(0, 0, scratch.data());
  expectProduct(g, data, data.b);
}

TEST_P(ByteMatmuls, AreExact) {
  std::mt19937 random(7);
  for (const int aType : {DtcGemmI8, DtcGemmU8})
    for (const int bType : {DtcGemmI8, DtcGemmU8})
      for (const bool columnsFirst : {false, true})
        for (const int64_t step : {1, 2}) expectExact(GetParam(), aType, bType, columnsFirst, step, random);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ByteMatmuls,
                         ::testing::Values(MatmulShape{1, 1, 1, 1}, MatmulShape{1, 4, 16, 2},
                                           MatmulShape{1, 5, 17, 3}, MatmulShape{1, 3, 33, 64},
                                           MatmulShape{2, 9, 16, 31}, MatmulShape{3, 1, 40, 7},
                                           MatmulShape{1, 97, 129, 20}, MatmulShape{1, 2, 18, 1025},
                                           MatmulShape{2, 100, 20, 2050}));

} // namespace
} // namespace dtc
