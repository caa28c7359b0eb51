#pragma once
// The cuDNN functions and constants that dtc uses (its convolutions through version 7's interface, which
// versions 8 and 9 still have, and the functions that run operation graphs), declared here so that dtc builds
// without its headers; a test compares them with cudnn.h where that is installed. Source: "cuDNN API
// reference", libraries cudnn_graph, cudnn_ops and cudnn_cnn.
#include <cstddef>
#include <cstdint>

namespace dtc {

struct CudnnAlgorithm { // cudnnConvolution{Fwd,BwdData,BwdFilter}AlgoPerf_t
  int algorithm;
  int status;
  float milliseconds;
  size_t memory;
  int determinism;
  int math;
  int reserved[3];
};

enum CudnnConstants {
  kCudnnF32 = 0,
  kCudnnF64 = 1,
  kCudnnF16 = 2,
  kCudnnBf16 = 9,
  kCudnnNchw = 0,
  kCudnnCrossCorrelation = 1,
  kCudnnDeterministic = 1,
  kCudnnDefaultMath = 0, // f32 may be rounded to tf32
  kCudnnTensorMath = 1,  // f32 accumulation for narrow floats
  kCudnnFmaMath = 3,     // f32 is not rounded to tf32
  kCudnnBadParameter = 2000,
  kCudnnNotSupported = 3000,
  // Algorithms that accumulate directly, in any order: forward, image gradient, window gradient. The others
  // use a transform (FFT, Winograd).
  kCudnnForwardDirect = 0b1111,
  kCudnnImageDirect = 0b11,
  kCudnnWindowDirect = 0b1011,
};

#define DTC_CUDNN_FUNCTIONS(X)                                                                               \
  X(create, cudnnCreate, (void**))                                                                           \
  X(destroy, cudnnDestroy, (void*))                                                                          \
  X(setStream, cudnnSetStream, (void*, void*))                                                               \
  X(tensorCreate, cudnnCreateTensorDescriptor, (void**))                                                     \
  X(tensorDestroy, cudnnDestroyTensorDescriptor, (void*))                                                    \
  X(tensorSet, cudnnSetTensorNdDescriptor, (void*, int, int, const int*, const int*))                        \
  X(filterCreate, cudnnCreateFilterDescriptor, (void**))                                                     \
  X(filterDestroy, cudnnDestroyFilterDescriptor, (void*))                                                    \
  X(filterSet, cudnnSetFilterNdDescriptor, (void*, int, int, int, const int*))                               \
  X(convCreate, cudnnCreateConvolutionDescriptor, (void**))                                                  \
  X(convDestroy, cudnnDestroyConvolutionDescriptor, (void*))                                                 \
  X(convSet, cudnnSetConvolutionNdDescriptor, (void*, int, const int*, const int*, const int*, int, int))    \
  X(convGroups, cudnnSetConvolutionGroupCount, (void*, int))                                                 \
  X(convMath, cudnnSetConvolutionMathType, (void*, int))                                                     \
  X(chooseForward, cudnnGetConvolutionForwardAlgorithm_v7,                                                   \
    (void*, void*, void*, void*, void*, int, int*, CudnnAlgorithm*))                                         \
  X(chooseImage, cudnnGetConvolutionBackwardDataAlgorithm_v7,                                                \
    (void*, void*, void*, void*, void*, int, int*, CudnnAlgorithm*))                                         \
  X(chooseWindow, cudnnGetConvolutionBackwardFilterAlgorithm_v7,                                             \
    (void*, void*, void*, void*, void*, int, int*, CudnnAlgorithm*))                                         \
  X(bytesForward, cudnnGetConvolutionForwardWorkspaceSize,                                                   \
    (void*, void*, void*, void*, void*, int, size_t*))                                                       \
  X(bytesImage, cudnnGetConvolutionBackwardDataWorkspaceSize,                                                \
    (void*, void*, void*, void*, void*, int, size_t*))                                                       \
  X(bytesWindow, cudnnGetConvolutionBackwardFilterWorkspaceSize,                                             \
    (void*, void*, void*, void*, void*, int, size_t*))                                                       \
  X(forward, cudnnConvolutionForward,                                                                        \
    (void*, const void*, void*, const void*, void*, const void*, void*, int, void*, size_t, const void*,     \
     void*, void*))                                                                                          \
  X(image, cudnnConvolutionBackwardData,                                                                     \
    (void*, const void*, void*, const void*, void*, const void*, void*, int, void*, size_t, const void*,     \
     void*, void*))                                                                                          \
  X(window, cudnnConvolutionBackwardFilter,                                                                  \
    (void*, const void*, void*, const void*, void*, const void*, void*, int, void*, size_t, const void*,     \
     void*, void*))                                                                                          \
  X(add, cudnnAddTensor, (void*, const void*, void*, const void*, const void*, void*, void*))                \
  X(descriptorCreate, cudnnBackendCreateDescriptor, (int, void**))                                           \
  X(descriptorDestroy, cudnnBackendDestroyDescriptor, (void*))                                               \
  X(descriptorSet, cudnnBackendSetAttribute, (void*, int, int, int64_t, const void*))                        \
  X(descriptorGet, cudnnBackendGetAttribute, (void*, int, int, int64_t, int64_t*, void*))                    \
  X(descriptorFinalize, cudnnBackendFinalize, (void*))                                                       \
  X(execute, cudnnBackendExecute, (void*, void*, void*))

struct CudnnTable {
#define DTC_MEMBER(member, symbol, parameters)                                                               \
  int(*member) parameters = nullptr; // NOLINT(bugprone-macro-parentheses)
  DTC_CUDNN_FUNCTIONS(DTC_MEMBER)
#undef DTC_MEMBER
  const char* (*errorText)(int) = nullptr; // cudnnGetErrorString
  size_t (*version)() = nullptr;           // cudnnGetVersion
};

} // namespace dtc
