#pragma once
// The cuSOLVER functions and constants that dtc uses (cuSOLVER Library documentation, 64-bit API), declared
// here so that dtc builds without CUDA's headers. Dtypes are cudaDataType.
#include <cstddef>
#include <cstdint>

namespace dtc {

enum CusolverConstants {
  kCusolverF32 = 0,
  kCusolverF64 = 1,
  kCusolverC64 = 4,
  kCusolverC128 = 5,
  kCusolverVectors = 1, // cusolverEigMode_t
  kCusolverLower = 0,   // cublasFillMode_t
  kCusolverUpper = 1,
};

#define DTC_CUSOLVER_FUNCTIONS(X)                                                                            \
  X(create, cusolverDnCreate, (void**))                                                                      \
  X(destroy, cusolverDnDestroy, (void*))                                                                     \
  X(setStream, cusolverDnSetStream, (void*, void*))                                                          \
  X(paramsCreate, cusolverDnCreateParams, (void**))                                                          \
  X(paramsDestroy, cusolverDnDestroyParams, (void*))                                                         \
  X(getrfSize, cusolverDnXgetrf_bufferSize,                                                                  \
    (void*, void*, int64_t, int64_t, int, const void*, int64_t, int, size_t*, size_t*))                      \
  X(getrf, cusolverDnXgetrf,                                                                                 \
    (void*, void*, int64_t, int64_t, int, void*, int64_t, int64_t*, int, void*, size_t, void*, size_t,       \
     int*))                                                                                                  \
  X(geqrfSize, cusolverDnXgeqrf_bufferSize,                                                                  \
    (void*, void*, int64_t, int64_t, int, const void*, int64_t, int, const void*, int, size_t*, size_t*))    \
  X(geqrf, cusolverDnXgeqrf,                                                                                 \
    (void*, void*, int64_t, int64_t, int, void*, int64_t, int, void*, int, void*, size_t, void*, size_t,     \
     int*))                                                                                                  \
  X(syevdSize, cusolverDnXsyevd_bufferSize,                                                                  \
    (void*, void*, int, int, int64_t, int, const void*, int64_t, int, const void*, int, size_t*, size_t*))   \
  X(syevd, cusolverDnXsyevd,                                                                                 \
    (void*, void*, int, int, int64_t, int, void*, int64_t, int, void*, int, void*, size_t, void*, size_t,    \
     int*))                                                                                                  \
  X(gesvdSize, cusolverDnXgesvd_bufferSize,                                                                  \
    (void*, void*, signed char, signed char, int64_t, int64_t, int, const void*, int64_t, int, const void*,  \
     int, const void*, int64_t, int, const void*, int64_t, int, size_t*, size_t*))                           \
  X(gesvd, cusolverDnXgesvd,                                                                                 \
    (void*, void*, signed char, signed char, int64_t, int64_t, int, void*, int64_t, int, void*, int, void*,  \
     int64_t, int, void*, int64_t, int, void*, size_t, void*, size_t, int*))

// The product of reflections has no 64-bit form: one function per dtype, in the order s, d, c, z.
#define DTC_CUSOLVER_PRODUCTS(X) X(0, S, orgqr) X(1, D, orgqr) X(2, C, ungqr) X(3, Z, ungqr)

struct CusolverTable {
#define DTC_MEMBER(member, symbol, parameters)                                                               \
  int(*member) parameters = nullptr; // NOLINT(bugprone-macro-parentheses)
  DTC_CUSOLVER_FUNCTIONS(DTC_MEMBER)
#undef DTC_MEMBER
  int (*productSize[4])(void*, int, int, int, const void*, int, const void*, int*) = {};
  int (*product[4])(void*, int, int, int, void*, int, const void*, void*, int, int*) = {};
};

} // namespace dtc
