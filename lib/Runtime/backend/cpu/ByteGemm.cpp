#include "backend/cpu/ByteGemm.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>
#include <utility>

namespace dtc {
namespace {

// A tile of the result is kRows x kColumns sums, half of the vector registers. More sums are slower (Zen 3: 100
// instead of 135 Gop/s): their additions take the two ports that multiply.
constexpr int64_t kRows = 4, kColumns = 16;
// A block of a has at most 192 KiB, one of b 128 KiB: together they fit the L2 cache.
constexpr int64_t kBlockK = 1024, kBlockRows = 24 * kRows, kBlockColumns = 8 * kColumns;

constexpr int64_t roundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
int64_t pairsOf(int64_t k) { return (k + 1) / 2; }

// Of a panel of kColumns columns: for each pair of k, the two bytes of each column.
int64_t panelBytes(int64_t k) { return 2 * pairsOf(k) * kColumns; }

template <bool isSigned> [[gnu::target("avx2")]] __m256i widened(const std::byte* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return isSigned ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
}

// sums[rows, kColumns] = a[rows, 2 pairs] b[2 pairs, kColumns].
// a: for each pair of k, kRows pairs of i16; b: a panel.
template <int rows, bool isSigned>
[[gnu::target("avx2")]] void tileOf(const int32_t* a, const std::byte* b, int64_t pairs, int32_t* sums) {
  __m256i left[rows], right[rows];
  for (int r = 0; r < rows; ++r) left[r] = right[r] = _mm256_setzero_si256();
  for (int64_t i = 0; i < pairs; ++i, a += kRows, b += 2 * kColumns) {
    const __m256i bLeft = widened<isSigned>(b), bRight = widened<isSigned>(b + kColumns);
    __m256i pair[rows];
    for (int r = 0; r < rows; ++r) pair[r] = _mm256_set1_epi32(a[r]);
    for (int r = 0; r < rows; ++r) left[r] = _mm256_add_epi32(left[r], _mm256_madd_epi16(pair[r], bLeft));
    for (int r = 0; r < rows; ++r) right[r] = _mm256_add_epi32(right[r], _mm256_madd_epi16(pair[r], bRight));
  }
  for (int r = 0; r < rows; ++r) {
    auto* to = reinterpret_cast<__m256i*>(sums + r * kColumns);
    _mm256_storeu_si256(to, left[r]);
    _mm256_storeu_si256(to + 1, right[r]);
  }
}

using Tile = void(const int32_t* a, const std::byte* b, int64_t pairs, int32_t* sums);

template <bool isSigned, int... rows>
Tile* tileFor(int64_t number, std::integer_sequence<int, rows...> /*from 0*/) {
  static constexpr Tile* kTiles[] = {&tileOf<rows + 1, isSigned>...};
  return kTiles[number - 1];
}

Tile* tileFor(int64_t rows, bool isSigned) {
  constexpr std::make_integer_sequence<int, kRows> upTo;
  return isSigned ? tileFor<true>(rows, upTo) : tileFor<false>(rows, upTo);
}

// Two rows of kColumns bytes, side by side.
void interleave(const std::byte* first, const std::byte* second, std::byte* to) {
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first)),
                high =
                    second ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(second)) : _mm_setzero_si128();
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_unpacklo_epi8(low, high));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + kColumns), _mm_unpackhi_epi8(low, high));
}

// Calls use(begin, size) for each block of [0, extent).
template <typename Use> void inBlocks(int64_t extent, int64_t block, const Use& use) {
  for (int64_t begin = 0; begin < extent; begin += block) use(begin, std::min(block, extent - begin));
}

const std::byte* bytesAt(const void* p, int64_t offset) { return static_cast<const std::byte*>(p) + offset; }

} // namespace

bool ByteGemm::fits(const DtcGemm& g) {
  const auto isByte = [](int type) { return type == DtcGemmI8 || type == DtcGemmU8; };
  return isByte(g.aType) && isByte(g.bType) && g.type == DtcGemmI32;
}

ByteGemm::ByteGemm(const DtcGemm& g) : made_(g), now_(g) {}

size_t ByteGemm::scratchBytes() const {
  const int64_t k = std::min(now_.k, kBlockK);
  const int64_t a = 4 * pairsOf(k) * roundUp(std::min(now_.m, kBlockRows), kRows),
                b = panelBytes(k) * roundUp(std::min(now_.n, kBlockColumns), kColumns) / kColumns;
  return static_cast<size_t>(roundUp(a, 64) + b);
}

// Per batch and block of k, all panels.
size_t ByteGemm::packedBytes() const {
  int64_t perPanel = 0;
  inBlocks(now_.k, kBlockK, [&](int64_t, int64_t k) { perPanel += panelBytes(k); });
  return static_cast<size_t>(now_.batch * perPanel * (roundUp(now_.n, kColumns) / kColumns));
}

bool ByteGemm::packsLike(const PackableOperand& operand) const {
  const auto* other = dynamic_cast<const ByteGemm*>(&operand);
  const auto layout = [](const DtcGemm& g) {
    return std::array<int64_t, 6>{g.batch, g.k, g.n, g.bBatch, g.bK, g.bN};
  };
  return other && layout(made_) == layout(other->made_);
}

// Rows of a, widened to i16: blocks of kRows rows, of which each has kRows numbers for each pair of k.
void ByteGemm::packRows(const std::byte* a, Range rows, Range k, int32_t* to) const {
  const bool isSigned = now_.aType == DtcGemmI8;
  const auto at = [&](int64_t row, int64_t i) -> uint32_t {
    if (i >= k.size) return 0;
    const std::byte byte = a[(rows.begin + row) * now_.aM + (k.begin + i) * now_.aK];
    return isSigned ? static_cast<uint16_t>(std::to_integer<int8_t>(byte)) : std::to_integer<uint16_t>(byte);
  };
  inBlocks(rows.size, kRows, [&](int64_t begin, int64_t size) {
    for (int64_t r = 0; r < size; ++r)
      for (int64_t pair = 0; pair < pairsOf(k.size); ++pair)
        to[pair * kRows + r] =
            static_cast<int32_t>(at(begin + r, 2 * pair) | at(begin + r, 2 * pair + 1) << 16);
    to += pairsOf(k.size) * kRows;
  });
}

// Panels of columns of b; the last one may have fewer columns, and the last pair one k.
void ByteGemm::packColumns(const std::byte* b, Range k, Range columns, std::byte* to) const {
  inBlocks(columns.size, kColumns, [&](int64_t first, int64_t size) {
    const std::byte* panel = b + k.begin * now_.bK + (columns.begin + first) * now_.bN;
    for (int64_t i = 0; i < k.size; i += 2, to += 2 * kColumns) {
      const std::byte* row = panel + i * now_.bK;
      const std::byte* next = i + 1 < k.size ? row + now_.bK : nullptr;
      if (size == kColumns && now_.bN == 1) {
        interleave(row, next, to);
        continue;
      }
      std::memset(to, 0, 2 * kColumns);
      for (int64_t c = 0; c < size; ++c) {
        to[2 * c] = row[c * now_.bN];
        if (next) to[2 * c + 1] = next[c * now_.bN];
      }
    }
  });
}

bool ByteGemm::pack(std::byte* to) const {
  for (int64_t batch = 0; batch < now_.batch; ++batch)
    inBlocks(now_.k, kBlockK, [&](int64_t begin, int64_t size) {
      packColumns(bytesAt(now_.b, batch * now_.bBatch), {begin, size}, {0, now_.n}, to);
      to += panelBytes(size) * (roundUp(now_.n, kColumns) / kColumns);
    });
  return true;
}

// Adds a block's products to y; those of the first k also set it to the bias.
void ByteGemm::multiply(int64_t batch, Range rows, Range columns, Range k, const int32_t* a,
                        const std::byte* b) const {
  const bool isSigned = now_.bType == DtcGemmI8;
  auto* y = static_cast<int32_t*>(now_.y) + batch * now_.yBatch;
  const auto* bias = static_cast<const int32_t*>(now_.bias);
  alignas(32) int32_t sums[kRows * kColumns];
  inBlocks(columns.size, kColumns, [&](int64_t column, int64_t width) {
    const int32_t* block = a;
    inBlocks(rows.size, kRows, [&](int64_t row, int64_t height) {
      tileFor(height, isSigned)(block, b, pairsOf(k.size), sums);
      block += pairsOf(k.size) * kRows;
      for (int64_t r = 0; r < height; ++r) {
        int32_t* to = y + (rows.begin + row + r) * now_.yM + (columns.begin + column) * now_.yN;
        for (int64_t c = 0; c < width; ++c) {
          int32_t before = 0;
          if (k.begin > 0)
            before = to[c * now_.yN];
          else if (bias)
            before = bias[(columns.begin + column + c) * now_.biasStride];
          // Sums wrap around.
          to[c * now_.yN] = static_cast<int32_t>(static_cast<uint32_t>(before) +
                                                 static_cast<uint32_t>(sums[r * kColumns + c]));
        }
      }
    });
    b += panelBytes(k.size);
  });
}

void ByteGemm::run(int64_t aOffset, int64_t bOffset, void* scratch) const {
  auto* packedRows = static_cast<int32_t*>(scratch);
  const int64_t panels = roundUp(now_.n, kColumns) / kColumns;
  const std::byte* packed = packed_;
  for (int64_t batch = 0; batch < now_.batch; ++batch) {
    const std::byte *a = bytesAt(now_.a, aOffset + batch * now_.aBatch),
                    *b = bytesAt(now_.b, bOffset + batch * now_.bBatch);
    inBlocks(now_.k, kBlockK, [&](int64_t beginK, int64_t sizeK) {
      const Range k{beginK, sizeK};
      // Where all rows are one block, each column is packed once.
      inBlocks(now_.m, kBlockRows, [&](int64_t beginRow, int64_t sizeRows) {
        const Range rows{beginRow, sizeRows};
        packRows(a, rows, k, packedRows);
        const int64_t rowBytes = 4 * pairsOf(sizeK) * roundUp(sizeRows, kRows);
        auto* packedColumns = static_cast<std::byte*>(scratch) + roundUp(rowBytes, 64);
        inBlocks(now_.n, kBlockColumns, [&](int64_t beginColumn, int64_t sizeColumns) {
          const Range columns{beginColumn, sizeColumns};
          if (!packed) packColumns(b, k, columns, packedColumns);
          multiply(batch, rows, columns, k, packedRows,
                   packed ? packed + beginColumn / kColumns * panelBytes(sizeK) : packedColumns);
        });
      });
      if (packed) packed += panels * panelBytes(sizeK);
    });
  }
}

void ByteGemm::rebind(const void* from, size_t bytes, void* to) {
  const auto moved = [&](const void* made) {
    const auto offset =
        static_cast<size_t>(static_cast<const std::byte*>(made) - static_cast<const std::byte*>(from));
    return made && made >= from && offset < bytes ? static_cast<std::byte*>(to) + offset : nullptr;
  };
  const auto set = [&](const void* made, auto& now) {
    if (std::byte* at = moved(made)) now = at;
  };
  set(made_.a, now_.a), set(made_.b, now_.b), set(made_.bias, now_.bias), set(made_.y, now_.y);
}

} // namespace dtc
