// libcusolver.so.12 of the tests: the definitions of the factorizations, in stream order. It refuses memory that is not the
// device's, workspaces that are not of the size that it asked for, and matrices with fewer rows than columns of gesvd.
#include "Streams.h"

#include "../../lib/Cuda/CusolverTable.h"
#include "dtc/Ops/linear_algebra/Factorization.h"

#include <cstring>

using namespace dtc;
#define STUB_SOLVER extern "C" STUB_API int

namespace {

using Kind = FactorizationKind;
constexpr int kInvalid = 3, kFailed = 6, kNotSupported = 9; // of cusolverStatus_t
constexpr size_t kDeviceBytes = 1024, kHostBytes = 64;

struct Handle {
  stub::Device* device = nullptr;
  std::shared_ptr<stub::Stream> stream;
};

DType typeOf(int number) {
  return number == kCusolverF64    ? DType::F64
         : number == kCusolverC64  ? DType::C64
         : number == kCusolverC128 ? DType::C128
                                   : DType::F32;
}

// One matrix; `a` is the operand, and the first result of all but Singular.
struct Call {
  Factorization f;
  std::byte* a = nullptr;
  std::vector<std::byte*> others; // the other operand and results
  int64_t* pivots = nullptr;
  int* info = nullptr;

  std::string run() const {
    const size_t operands = f.numOperands(), results = f.numResults();
    std::vector<std::vector<std::byte>> room;
    std::vector<std::byte*> buffers;
    for (size_t i = 0; i < operands + results; ++i) {
      room.emplace_back(static_cast<size_t>(i < operands ? f.operandBytes(i) : f.resultBytes(i - operands)));
      buffers.push_back(room.back().data());
    }
    std::memcpy(buffers[0], a, room[0].size());
    if (operands == 2) std::memcpy(buffers[1], others[0], room[1].size());
    computeFactorization(f, 1, buffers);
    *info = 0;
    const auto give = [&](std::byte* to, size_t result) {
      std::memcpy(to, buffers[operands + result], room[operands + result].size());
    };
    const bool spectrum = f.kind == Kind::Eigen || f.kind == Kind::Singular;
    if (!spectrum) give(a, 0);
    if (f.kind == Kind::Lu) {
      const auto* found = reinterpret_cast<const int*>(buffers[2]);
      for (int64_t i = 0; i < f.count(); ++i) pivots[i] = found[i] + 1;
      *info = *reinterpret_cast<const int*>(buffers[4]);
    }
    if (f.kind == Kind::Qr) give(others[0], 1);
    if (spectrum) give(others[0], 0);
    if (f.kind == Kind::Eigen && f.vectors) give(a, 1);
    if (f.kind == Kind::Singular) std::memset(a, 0xee, room[0].size()); // it is lost
    for (size_t r = 1; f.kind == Kind::Singular && r < results; ++r) give(others[r], r);
    return "";
  }
};

struct Work {
  void* device;
  size_t deviceBytes;
  void* host;
  size_t hostBytes;
};

int start(void* handle, Call call, const Work& work) {
  auto* h = static_cast<Handle*>(handle);
  if (h->device != stub::current() || !h->stream) return kInvalid;
  if (work.deviceBytes != kDeviceBytes || !stub::isDeviceMemory(work.device, kDeviceBytes) ||
      (reinterpret_cast<uintptr_t>(work.device) % 256) || work.hostBytes != kHostBytes || !work.host)
    return kInvalid;
  if (!stub::isDeviceMemory(call.info, 4) ||
      !stub::isDeviceMemory(call.a, static_cast<size_t>(call.f.operandBytes(0))))
    return kInvalid;
  for (const std::byte* p : call.others)
    if (!stub::isDeviceMemory(p, 1)) return kInvalid;
  if (call.pivots && !stub::isDeviceMemory(call.pivots, static_cast<size_t>(8 * call.f.count())))
    return kInvalid;
  stub::Op op;
  op.work = [call = std::move(call)] { return call.run(); };
  return stub::enqueue(*h->stream, std::move(op)) ? kFailed : 0;
}

int sized(size_t* device, size_t* host) { return *device = kDeviceBytes, *host = kHostBytes, 0; }
std::byte* bytes(const void* p) { return static_cast<std::byte*>(const_cast<void*>(p)); }

int product(void* h, DType dtype, int m, int n, int k, void* a, int ld, const void* tau, void* work, int size,
            int* info) {
  if (ld < m || n > m || k > n || size * dtypeBytes(dtype) != int(kDeviceBytes)) return kInvalid;
  static std::byte host[kHostBytes];
  return start(h, {{Kind::Reflectors, dtype, m, n, k}, bytes(a), {bytes(tau)}, nullptr, info},
               {work, kDeviceBytes, host, kHostBytes});
}

} // namespace

STUB_SOLVER cusolverDnCreate(void** handle) { return *handle = new Handle{stub::current(), {}}, 0; }
STUB_SOLVER cusolverDnDestroy(void* handle) { return delete static_cast<Handle*>(handle), 0; }
STUB_SOLVER cusolverDnCreateParams(void** params) { return *params = new int, 0; }
STUB_SOLVER cusolverDnDestroyParams(void* params) { return delete static_cast<int*>(params), 0; }
STUB_SOLVER cusolverDnSetStream(void* handle, void* stream) {
  return static_cast<Handle*>(handle)->stream = *static_cast<std::shared_ptr<stub::Stream>*>(stream), 0;
}
STUB_SOLVER cusolverGetProperty(int part, int* value) { return *value = part == 0 ? 12 : 0, 0; }

STUB_SOLVER cusolverDnXgetrf_bufferSize(void*, void*, int64_t, int64_t, int, const void*, int64_t, int,
                                        size_t* device, size_t* host) {
  return sized(device, host);
}
STUB_SOLVER cusolverDnXgetrf(void* h, void*, int64_t m, int64_t n, int type, void* a, int64_t ld,
                             int64_t* pivots, int, void* work, size_t workBytes, void* host, size_t hostBytes,
                             int* info) {
  if (ld < m || !pivots) return kInvalid;
  return start(h, {{Kind::Lu, typeOf(type), m, n}, bytes(a), {}, pivots, info},
               {work, workBytes, host, hostBytes});
}
STUB_SOLVER cusolverDnXgeqrf_bufferSize(void*, void*, int64_t, int64_t, int, const void*, int64_t, int,
                                        const void*, int, size_t* device, size_t* host) {
  return sized(device, host);
}
STUB_SOLVER cusolverDnXgeqrf(void* h, void*, int64_t m, int64_t n, int type, void* a, int64_t ld, int tauType,
                             void* tau, int, void* work, size_t workBytes, void* host, size_t hostBytes,
                             int* info) {
  if (ld < m || tauType != type) return kInvalid;
  return start(h, {{Kind::Qr, typeOf(type), m, n}, bytes(a), {bytes(tau)}, nullptr, info},
               {work, workBytes, host, hostBytes});
}
STUB_SOLVER cusolverDnXsyevd_bufferSize(void*, void*, int, int, int64_t, int, const void*, int64_t, int,
                                        const void*, int, size_t* device, size_t* host) {
  return sized(device, host);
}
STUB_SOLVER cusolverDnXsyevd(void* h, void*, int job, int half, int64_t n, int type, void* a, int64_t ld,
                             int realType, void* values, int, void* work, size_t workBytes, void* host,
                             size_t hostBytes, int* info) {
  if (ld < n || typeOf(realType) != partType(typeOf(type))) return kInvalid;
  const Factorization f{Kind::Eigen, typeOf(type), n, n, 0, half == kCusolverLower, job == kCusolverVectors};
  return start(h, {f, bytes(a), {bytes(values)}, nullptr, info}, {work, workBytes, host, hostBytes});
}
STUB_SOLVER cusolverDnXgesvd_bufferSize(void*, void*, signed char, signed char, int64_t m, int64_t n, int,
                                        const void*, int64_t, int, const void*, int, const void*, int64_t,
                                        int, const void*, int64_t, int, size_t* device, size_t* host) {
  return m < n ? kNotSupported : sized(device, host);
}
STUB_SOLVER cusolverDnXgesvd(void* h, void*, signed char u, signed char v, int64_t m, int64_t n, int type,
                             void* a, int64_t ld, int realType, void* s, int, void* left, int64_t ldu, int,
                             void* right, int64_t ldv, int, void* work, size_t workBytes, void* host,
                             size_t hostBytes, int* info) {
  if (m < n || u != v || ld < m || ldu < m || ldv < n || typeOf(realType) != partType(typeOf(type)))
    return kInvalid;
  Call call{{Kind::Singular, typeOf(type), m, n, 0, true, u == 'S'}, bytes(a), {bytes(s)}, nullptr, info};
  if (u == 'S') call.others.push_back(bytes(left)), call.others.push_back(bytes(right));
  return start(h, std::move(call), {work, workBytes, host, hostBytes});
}

#define STUB_PRODUCT(number, letter, name)                                                                   \
  STUB_SOLVER cusolverDn##letter##name##_bufferSize(void*, int, int, int, const void*, int, const void*,     \
                                                    int* size) {                                             \
    const DType types[] = {DType::F32, DType::F64, DType::C64, DType::C128};                                 \
    return *size = int(kDeviceBytes) / dtypeBytes(types[number]), 0;                                         \
  }                                                                                                          \
  STUB_SOLVER cusolverDn##letter##name(void* h, int m, int n, int k, void* a, int ld, const void* tau,       \
                                       void* work, int size, int* info) {                                    \
    const DType types[] = {DType::F32, DType::F64, DType::C64, DType::C128};                                 \
    return product(h, types[number], m, n, k, a, ld, tau, work, size, info);                                 \
  }
DTC_CUSOLVER_PRODUCTS(STUB_PRODUCT)
