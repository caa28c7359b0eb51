#pragma once
// The one door to the plugin dtc-onednn: a table of C functions, so that no C++ type of either side passes through it.
#include <cstddef>
#include <cstdint>

extern "C" {

enum DtcGemmType { DtcGemmF32 = 0, DtcGemmBf16 = 1 };
enum DtcConvKind { DtcConvForward = 0, DtcConvImage = 1, DtcConvWindow = 2 };
enum { kDtcConvSpatial = 3 };

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

// result[n, g o, p…] sums image[n, g c, stride p + dilation k - low, …] * window[g o, c, k, …] over c and k, where the image has such an
// element (+ bias[g o]); or one of image (+ bias[g c]) and window is made, as that sum's gradient. Sums in f32, strides in elements.
struct DtcConv {
  int type;                // DtcGemmType, of all tensors
  int kind;                // DtcConvKind
  int spatial;             // number of spatial dims, 1 to kDtcConvSpatial
  int64_t groups, n, c, o; // extents: at least 1; c and o of one group
  struct Spatial {
    int64_t size, length, result; // of image, window and result
    int64_t stride, dilation, low, high;
  } dims[kDtcConvSpatial];
  // Of image and result: image, group, channel, spatial dims; of the window: group, o, c, spatial dims.
  int64_t imageStrides[3 + kDtcConvSpatial], windowStrides[3 + kDtcConvSpatial],
      resultStrides[3 + kDtcConvSpatial];
  void *image, *window, *result;
  const void* bias; // dense, or null
};

struct DtcOneDnnTable {
  uint32_t abi; // kDtcOneDnnAbi
  // A product on these addresses, ready to run; null with a message in `error` where oneDNN refuses it.
  void* (*create)(const DtcGemm*, char* error, size_t errorSize);
  // With operands so many bytes behind those addresses. 0: done. From any thread, one at a time for one product; on the
  // calling thread alone.
  int (*run)(void* gemm, int64_t a, int64_t b);
  void (*destroy)(void* gemm);
  // The same for a convolution. null with an empty `error`: oneDNN has none of this kind.
  void* (*createConv)(const DtcConv*, char* error, size_t errorSize);
  // Bytes that a run needs beside the tensors.
  size_t (*convScratchBytes)(void* conv);
  // `scratch`: of this run alone, 64-byte aligned.
  int (*runConv)(void* conv, void* scratch);
  void (*destroyConv)(void* conv);
};

typedef const DtcOneDnnTable* (*DtcOneDnnEntry)(void); // the plugin exports `dtcOneDnnTable`
}

inline constexpr uint32_t kDtcOneDnnAbi = 3;
