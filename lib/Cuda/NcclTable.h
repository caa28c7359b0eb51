#pragma once
// The NCCL functions and constants that dtc uses, declared here so that dtc builds without its header; a test
// compares them with nccl.h where that is installed. RCCL exports the same.
#include <cstddef>

namespace dtc {

struct NcclUniqueId {
  char bytes[128];
};

enum NcclConstants {
  kNcclInt8 = 0,
  kNcclUint8 = 1,
  kNcclInt32 = 2,
  kNcclUint32 = 3,
  kNcclInt64 = 4,
  kNcclUint64 = 5,
  kNcclFloat16 = 6,
  kNcclFloat32 = 7,
  kNcclFloat64 = 8,
  kNcclBfloat16 = 9,
  kNcclSum = 0,
  kNcclProd = 1,
  kNcclMax = 2,
  kNcclMin = 3,
  kNcclInProgress = 7,
};

// The member of NcclTable, the symbol of the library, and its parameters. Handles (ncclComm_t, cudaStream_t)
// are pointers.
#define DTC_NCCL_FUNCTIONS(X)                                                                                \
  X(version, ncclGetVersion, (int*))                                                                         \
  X(uniqueId, ncclGetUniqueId, (NcclUniqueId*))                                                              \
  X(init, ncclCommInitRank, (void**, int, NcclUniqueId, int))                                                \
  X(split, ncclCommSplit, (void*, int, int, void**, void*))                                                  \
  X(destroy, ncclCommDestroy, (void*))                                                                       \
  X(abort, ncclCommAbort, (void*))                                                                           \
  X(asyncError, ncclCommGetAsyncError, (void*, int*))                                                        \
  X(groupStart, ncclGroupStart, ())                                                                          \
  X(groupEnd, ncclGroupEnd, ())                                                                              \
  X(allReduce, ncclAllReduce, (const void*, void*, size_t, int, int, void*, void*))                          \
  X(reduceScatter, ncclReduceScatter, (const void*, void*, size_t, int, int, void*, void*))                  \
  X(allGather, ncclAllGather, (const void*, void*, size_t, int, void*, void*))                               \
  X(broadcast, ncclBroadcast, (const void*, void*, size_t, int, int, void*, void*))                          \
  X(send, ncclSend, (const void*, size_t, int, int, void*, void*))                                           \
  X(receive, ncclRecv, (void*, size_t, int, int, void*, void*))
#define DTC_NCCL_TEXTS(X)                                                                                    \
  X(errorText, ncclGetErrorString, (int))                                                                    \
  X(lastError, ncclGetLastError, (void*))

struct NcclTable {
#define DTC_MEMBER(member, symbol, parameters)                                                               \
  int(*member) parameters = nullptr; // NOLINT(bugprone-macro-parentheses)
  DTC_NCCL_FUNCTIONS(DTC_MEMBER)
#undef DTC_MEMBER
#define DTC_MEMBER(member, symbol, parameters)                                                               \
  const char*(*member)parameters = nullptr; // NOLINT(bugprone-macro-parentheses)
  DTC_NCCL_TEXTS(DTC_MEMBER)
#undef DTC_MEMBER
};

} // namespace dtc
