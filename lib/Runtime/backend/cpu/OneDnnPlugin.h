#pragma once
// The interface of the plugin dtc-onednn: a table of C functions, so that no C++ types cross the boundary.
#include <cstddef>
#include <cstdint>

extern "C" {

enum DtcGemmType { DtcGemmF32 = 0, DtcGemmBf16 = 1, DtcGemmI8 = 2, DtcGemmU8 = 3, DtcGemmI32 = 4 };
enum DtcConvKind { DtcConvForward = 0, DtcConvImage = 1, DtcConvWindow = 2 };
enum { kDtcConvSpatial = 3 };

// y[i, m, n] = sum over k of a[i, m, k] * b[i, k, n] (+ bias[n]), sums in f32, or in i32 if y is. Extents are at
// least 1, strides in elements.
struct DtcGemm {
  int aType, bType, type; // DtcGemmType; `type`: of y and bias. Equal, or (I8 or U8, I8, I32)
  int64_t batch, m, n, k;
  int64_t aBatch, aM, aK;
  int64_t bBatch, bK, bN;
  int64_t yBatch, yM, yN;
  const void *a, *b, *bias; // bias: null, or biasStride 0 or 1 along n
  int64_t biasStride;
  void* y;
};

// result[n, g o, p…] = sum over c and k of image[n, g c, stride p + dilation k - low, …] * window[g o, c, k,
// …], with zero padding (+ bias[g o]); or the gradient with respect to image (+ bias[g c]) or window. Sums in
// f32, strides in elements.
struct DtcConv {
  int type;                // DtcGemmType of all tensors
  int kind;                // DtcConvKind
  int spatial;             // number of spatial dims, 1 to kDtcConvSpatial
  int64_t groups, n, c, o; // extents, at least 1; c and o per group
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
  uint32_t abi;                                        // kDtcOneDnnAbi
  void (*version)(int* major, int* minor, int* patch); // of the library that is loaded
  // Prepares a matmul on these addresses; null with a message in `error` if oneDNN rejects it.
  void* (*create)(const DtcGemm*, char* error, size_t errorSize);
  // Scratch bytes of a run; packedGemmBytes may increase them.
  size_t (*gemmScratchBytes)(void* gemm);
  // Runs with operands at these byte offsets from those addresses; returns 0 on success. Runs on the calling
  // thread; calls for the same matmul must not overlap. `scratch`: exclusive to this run, 64-byte aligned.
  int (*run)(void* gemm, int64_t a, int64_t b, void* scratch);
  void (*destroy)(void* gemm);
  // Tensors that were created in [from, from + bytes) are at the same offsets from `to` in later runs.
  void (*rebind)(void* gemm, const void* from, size_t bytes, void* to);
  // Bytes of b in the layout of the fastest matmul that reads b packed; 0: there is none but `run` as it is, or b is
  // not one matrix.
  size_t (*packedGemmBytes)(void* gemm);
  // Whether both read the same packed bytes, given the same b.
  bool (*packGemmAlike)(void* gemm, void* other);
  // Writes the packed b to `to`, 64-byte aligned; returns 0 on success.
  int (*packGemm)(void* gemm, void* to);
  // Later runs read b from `packed`, without an offset; null: as it is.
  void (*usePackedGemm)(void* gemm, void* packed);
  // The same for a convolution. Null with an empty `error` if oneDNN does not support it.
  void* (*createConv)(const DtcConv*, char* error, size_t errorSize);
  size_t (*convScratchBytes)(void* conv);
  int (*runConv)(void* conv, void* scratch);
  void (*destroyConv)(void* conv);
  void (*rebindConv)(void* conv, const void* from, size_t bytes, void* to);
  // Bytes of the window in the convolution's own layout; 0: it reads the window as it is, or writes it.
  size_t (*packedBytes)(void* conv);
  // Whether both convolutions read the same packed bytes, given the same window.
  bool (*packAlike)(void* conv, void* other);
  // Writes the packed window to `to`, 64-byte aligned; returns 0 on success.
  int (*packWindow)(void* conv, void* to);
  // Later runs read the window from `packed`; null: they pack it into their scratch.
  void (*usePacked)(void* conv, void* packed);
};

typedef const DtcOneDnnTable* (*DtcOneDnnEntry)(void); // the plugin exports `dtcOneDnnTable`
}

inline constexpr uint32_t kDtcOneDnnAbi = 8;
