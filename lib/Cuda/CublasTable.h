#pragma once
// The cuBLASLt functions and constants that dtc uses, declared here so that dtc builds without CUDA's
// headers; a test compares them with cublasLt.h where that is installed.
#include <cstddef>
#include <cstdint>

namespace dtc {

struct CublasAlgorithm {
  uint64_t data[8];
};
struct CublasHeuristic {
  CublasAlgorithm algorithm;
  size_t workspaceBytes;
  int status;
  float waves;
  int reserved[4];
};

enum CublasConstants {
  kCudaF32 = 0,
  kCudaF64 = 1,
  kCudaF16 = 2,
  kCudaBf16 = 14,
  kCudaF8E4M3 = 28,
  kCudaF8E5M2 = 29,
  kComputeF32 = 68,
  kComputeF64 = 70,
  kComputeTf32 = 77,    // f32 operands rounded to tf32; sums in f32
  kDescPointerMode = 2, // the dtype of alpha and beta
  kDescTransA = 3,
  kDescTransB = 4,
  kDescEpilogue = 7,
  kDescBias = 8,
  kDescAux = 11, // device pointer, its leading dimension and its batch stride
  kDescAuxLead = 12,
  kDescAuxBatchStride = 13,
  kDescScaleA = 17, // device pointer to f32
  kDescScaleB = 18,
  kDescBiasType = 26,
  kLayoutBatch = 5,
  kLayoutBatchStride = 6,
  kPreferWorkspace = 1,
  kPreferReductions = 3, // allowed split-K reductions; 0: none, one sequential sum
  kPreferAlignmentA = 5, // of the four matrices A to D
  kPreferAlignmentD = 8,
  kEpilogueDefault = 1,
  kEpilogueRelu = 2,
  kEpilogueBias = 4,
  kEpilogueGelu = 32,
  kEpilogueGeluGradient = 64, // with kEpilogueAux, which it reads
  kEpilogueAux = 128,         // with gelu: its operand is stored
  kTransposed = 1,
  kPointersOfDevice = 1,
};

#define DTC_CUBLAS_FUNCTIONS(X)                                                                              \
  X(create, cublasLtCreate, (void**))                                                                        \
  X(destroy, cublasLtDestroy, (void*))                                                                       \
  X(descCreate, cublasLtMatmulDescCreate, (void**, int, int))                                                \
  X(descDestroy, cublasLtMatmulDescDestroy, (void*))                                                         \
  X(descSet, cublasLtMatmulDescSetAttribute, (void*, int, const void*, size_t))                              \
  X(layoutCreate, cublasLtMatrixLayoutCreate, (void**, int, uint64_t, uint64_t, int64_t))                    \
  X(layoutDestroy, cublasLtMatrixLayoutDestroy, (void*))                                                     \
  X(layoutSet, cublasLtMatrixLayoutSetAttribute, (void*, int, const void*, size_t))                          \
  X(preferCreate, cublasLtMatmulPreferenceCreate, (void**))                                                  \
  X(preferDestroy, cublasLtMatmulPreferenceDestroy, (void*))                                                 \
  X(preferSet, cublasLtMatmulPreferenceSetAttribute, (void*, int, const void*, size_t))                      \
  X(heuristic, cublasLtMatmulAlgoGetHeuristic,                                                               \
    (void*, void*, void*, void*, void*, void*, void*, int, CublasHeuristic*, int*))                          \
  X(matmul, cublasLtMatmul,                                                                                  \
    (void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*,     \
     void*, void*, const CublasAlgorithm*, void*, size_t, void*))

struct CublasTable {
#define DTC_MEMBER(member, symbol, parameters)                                                               \
  int(*member) parameters = nullptr; // NOLINT(bugprone-macro-parentheses)
  DTC_CUBLAS_FUNCTIONS(DTC_MEMBER)
#undef DTC_MEMBER
};

} // namespace dtc
