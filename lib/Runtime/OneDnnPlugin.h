#pragma once
// The one door to the plugin dtc-onednn: a table of C functions, so that no C++ type of either side passes through it.
#include <cstddef>
#include <cstdint>

extern "C" {

enum DtcGemmType { DtcGemmF32 = 0, DtcGemmBf16 = 1 };

// y[i, m, n] = sum over k of a[i, m, k] * b[i, k, n] (+ bias[n]), sums in f32. Extents are at least 1, strides in elements.
struct DtcGemm {
  int type; // DtcGemmType, of all tensors
  int64_t batch, m, n, k;
  int64_t aBatch, aM, aK;
  int64_t bBatch, bK, bN;
  int64_t yBatch, yM, yN;
  const void *a, *b, *bias; // bias: null, or biasStride 0 or 1 along n
  int64_t biasStride;
  void* y;
};

struct DtcOneDnnTable {
  uint32_t abi; // kDtcOneDnnAbi
  // A product on these addresses, ready to run; null with a message in `error` where oneDNN refuses it.
  void* (*create)(const DtcGemm*, char* error, size_t errorSize);
  // With operands so many bytes behind those addresses. 0: done. From any thread, one at a time for one product; on the
  // calling thread alone.
  int (*run)(void* gemm, int64_t a, int64_t b);
  void (*destroy)(void* gemm);
};

typedef const DtcOneDnnTable* (*DtcOneDnnEntry)(void); // the plugin exports `dtcOneDnnTable`
}

inline constexpr uint32_t kDtcOneDnnAbi = 2;
