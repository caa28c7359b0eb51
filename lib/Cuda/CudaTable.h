#pragma once
// The driver functions that dtc calls, declared here so that dtc builds without CUDA's headers; a test
// compares them with cuda.h where that is installed. Handles are pointers, CUdevice is an int, CUdeviceptr a
// 64-bit integer.
#include <cstddef>
#include <cstdint>

namespace dtc {

using CuResult = int;

enum CudaConstants {
  kAttributeMultiprocessors = 16,
  kAttributePciBus = 33,
  kAttributePciDevice = 34,
  kAttributePciDomain = 50,
  kAttributeMajor = 75,
  kAttributeMinor = 76,
  kAttributeSharedOptIn = 97,
  kFunctionDynamicShared = 8, // the maximum per launch, bytes
  kStreamNonBlocking = 1,
  kEventNoTiming = 2,
  kCaptureThreadLocal = 1,
  kCaptureSetDependencies = 1,
  kMemsetNode = 2,
  kGraphNodePriorities = 8, // a graph's kernels keep the priorities of the captured streams
  kConditionalNode = 13,
  kConditionalIf = 0,
  kConditionalWhile = 1,
};

// CUresult, the values that dtc distinguishes.
enum CudaErrors {
  kCudaStubLibrary = 34,
  kCudaDeviceUnavailable = 46,
  kCudaNoDevice = 100,
  kCudaInvalidImage = 200,
  kCudaNoBinary = 209,
  kCudaUnsupportedPtx = 222,
  kCudaOperatingSystem = 304,
  kCudaNotReady = 600,
  kCudaPeerAlready = 704,
  kCudaSystemNotReady = 802,
  kCudaDriverMismatch = 803,
  kCudaCompatNotSupported = 804,
  kCudaUnknown = 999,
};

// The member of CudaTable, the symbol of the library, and its parameters.
#define DTC_CUDA_FUNCTIONS(X)                                                                                \
  X(init, cuInit, (unsigned))                                                                                \
  X(driverVersion, cuDriverGetVersion, (int*))                                                               \
  X(deviceCount, cuDeviceGetCount, (int*))                                                                   \
  X(deviceGet, cuDeviceGet, (int*, int))                                                                     \
  X(deviceName, cuDeviceGetName, (char*, int, int))                                                          \
  X(deviceMemory, cuDeviceTotalMem_v2, (size_t*, int))                                                       \
  X(deviceAttribute, cuDeviceGetAttribute, (int*, int, int))                                                 \
  X(canAccessPeer, cuDeviceCanAccessPeer, (int*, int, int))                                                  \
  X(contextRetain, cuDevicePrimaryCtxRetain, (void**, int))                                                  \
  X(contextRelease, cuDevicePrimaryCtxRelease_v2, (int))                                                     \
  X(contextSet, cuCtxSetCurrent, (void*))                                                                    \
  X(memAlloc, cuMemAlloc_v2, (uint64_t*, size_t))                                                            \
  X(memFree, cuMemFree_v2, (uint64_t))                                                                       \
  X(copyIn, cuMemcpyHtoDAsync_v2, (uint64_t, const void*, size_t, void*))                                    \
  X(copyOut, cuMemcpyDtoHAsync_v2, (void*, uint64_t, size_t, void*))                                         \
  X(copyPeer, cuMemcpyPeerAsync, (uint64_t, void*, uint64_t, void*, size_t, void*))                          \
  X(enablePeer, cuCtxEnablePeerAccess, (void*, unsigned))                                                    \
  X(copy, cuMemcpyDtoDAsync_v2, (uint64_t, uint64_t, size_t, void*))                                         \
  X(fill, cuMemsetD8Async, (uint64_t, unsigned char, size_t, void*))                                         \
  X(fillWords, cuMemsetD32Async, (uint64_t, unsigned, size_t, void*))                                        \
  X(streamCreate, cuStreamCreateWithPriority, (void**, unsigned, int))                                       \
  X(streamDestroy, cuStreamDestroy_v2, (void*))                                                              \
  X(streamSynchronize, cuStreamSynchronize, (void*))                                                         \
  X(streamQuery, cuStreamQuery, (void*))                                                                     \
  X(streamWait, cuStreamWaitEvent, (void*, void*, unsigned))                                                 \
  X(captureBegin, cuStreamBeginCapture_v2, (void*, int))                                                     \
  X(captureEnd, cuStreamEndCapture, (void*, void**))                                                         \
  X(graphInstantiate, cuGraphInstantiateWithFlags, (void**, void*, unsigned long long))                      \
  X(graphUpload, cuGraphUpload, (void*, void*))                                                              \
  X(graphLaunch, cuGraphLaunch, (void*, void*))                                                              \
  X(graphDestroy, cuGraphDestroy, (void*))                                                                   \
  X(graphExecDestroy, cuGraphExecDestroy, (void*))                                                           \
  X(eventCreate, cuEventCreate, (void**, unsigned))                                                          \
  X(eventDestroy, cuEventDestroy_v2, (void*))                                                                \
  X(eventRecord, cuEventRecord, (void*, void*))                                                              \
  X(eventElapsed, cuEventElapsedTime, (float*, void*, void*))                                                \
  X(moduleLoad, cuModuleLoadData, (void**, const void*))                                                     \
  X(moduleUnload, cuModuleUnload, (void*))                                                                   \
  X(moduleFunction, cuModuleGetFunction, (void**, void*, const char*))                                       \
  X(functionSet, cuFuncSetAttribute, (void*, int, int))                                                      \
  X(launch, cuLaunchKernel,                                                                                  \
    (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**))    \
  X(errorName, cuGetErrorName, (int, const char**))                                                          \
  X(errorString, cuGetErrorString, (int, const char**))

// Additional functions of a driver of CUDA 12.4: all of them or none are used. Edges between nodes may carry
// data (created by programmatic launches of libraries), so these are the versions that pass it on.
#define DTC_CUDA_CONDITIONALS(X)                                                                             \
  X(captureInfo, cuStreamGetCaptureInfo_v3,                                                                  \
    (void*, int*, uint64_t*, void**, void* const**, const void**, size_t*))                                  \
  X(captureUpdate, cuStreamUpdateCaptureDependencies_v2, (void*, void**, const void*, size_t, unsigned))     \
  X(captureTo, cuStreamBeginCaptureToGraph, (void*, void*, void* const*, const void*, size_t, int))          \
  X(graphAddNode, cuGraphAddNode_v2, (void**, void*, void* const*, const void*, size_t, CudaNodeParams*))    \
  X(graphCondition, cuGraphConditionalHandleCreate, (uint64_t*, void*, void*, unsigned, unsigned))

// CUgraphNodeParams of a conditional node: its union has 29 words of 8 bytes.
struct CudaNodeParams {
  int type = kConditionalNode;
  int reserved[3] = {};
  uint64_t handle = 0;
  int kind = kConditionalIf;
  unsigned size = 1;
  void** bodies = nullptr; // set by the driver
  void* context = nullptr;
  uint64_t rest[25] = {};
  uint64_t reserved2 = 0;
};
static_assert(sizeof(CudaNodeParams) == 256);

// The same of a node that writes words.
struct CudaMemsetParams {
  int type = kMemsetNode;
  int reserved[3] = {};
  uint64_t to = 0, pitch = 0;
  unsigned value = 0, elementBytes = 4;
  uint64_t width = 1, height = 1;
  void* context = nullptr;
  uint64_t rest[23] = {};
  uint64_t reserved2 = 0;
};
static_assert(sizeof(CudaMemsetParams) == sizeof(CudaNodeParams));

// Since CUDA 12.4, null before: the driver may otherwise load a kernel at its first launch, which can be inside a
// capture. Drivers before that load it when it is looked up.
#define DTC_CUDA_OPTIONAL(X) X(functionLoad, cuFuncLoad, (void*))

struct CudaTable {
#define DTC_MEMBER(member, symbol, parameters)                                                               \
  CuResult(*member) parameters = nullptr; // NOLINT(bugprone-macro-parentheses)
  DTC_CUDA_FUNCTIONS(DTC_MEMBER)
  DTC_CUDA_CONDITIONALS(DTC_MEMBER)
  DTC_CUDA_OPTIONAL(DTC_MEMBER)
#undef DTC_MEMBER
};

} // namespace dtc
