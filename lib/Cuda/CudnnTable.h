#pragma once
// The cuDNN functions and constants that dtc uses, those that run operation graphs, declared here so that dtc
// builds without its headers; a test compares them with cudnn.h where that is installed. Source: "cuDNN API
// reference", library cudnn_graph.
#include <cstddef>
#include <cstdint>

namespace dtc {

enum CudnnConstants {
  kCudnnF32 = 0,
  kCudnnF64 = 1,
  kCudnnF16 = 2,
  kCudnnBf16 = 9,
  kCudnnCrossCorrelation = 1,
  kCudnnBadParameter = 2000,
  kCudnnNotSupported = 3000,
};

#define DTC_CUDNN_FUNCTIONS(X)                                                                               \
  X(create, cudnnCreate, (void**))                                                                           \
  X(destroy, cudnnDestroy, (void*))                                                                          \
  X(setStream, cudnnSetStream, (void*, void*))                                                               \
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
