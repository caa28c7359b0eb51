// libcublasLt.so.13 of the tests: matrix products by three loops, in stream order, from the descriptors that dtc makes.
#include "Streams.h"

#include "../../lib/Cuda/CublasTable.h"
#include "dtc/Support/DType.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

using namespace dtc;
#define STUB_LT extern "C" STUB_API int

namespace {

constexpr int kInvalid = 7, kNotSupported = 15; // of cublasStatus_t

struct Attributes {
  std::map<int, std::string> set;
  template <class T> T get(int key, T otherwise) const {
    auto at = set.find(key);
    if (at == set.end() || at->second.size() != sizeof(T)) return otherwise;
    T value;
    std::memcpy(&value, at->second.data(), sizeof value);
    return value;
  }
};
struct Layout : Attributes {
  int type = 0;
  int64_t rows = 0, columns = 0, lead = 0;
};
struct Description : Attributes {
  int compute = 0, scale = 0;
};

// As the library does, it takes a value of the attribute's own size only.
int put(Attributes& to, int key, const void* value, size_t bytes, const std::map<int, size_t>& sizes) {
  const auto known = sizes.find(key);
  if (known == sizes.end() || known->second != bytes) return kInvalid;
  const auto* begin = static_cast<const char*>(value);
  to.set[key] = std::string(begin, begin + bytes);
  return 0;
}

std::optional<DType> typeOf(int number) {
  switch (number) {
  case kCudaF32: return DType::F32;
  case kCudaF64: return DType::F64;
  case kCudaF16: return DType::F16;
  case kCudaBf16: return DType::BF16;
  case kCudaF8E4M3: return DType::F8E4M3;
  case kCudaF8E5M2: return DType::F8E5M2;
  default: return std::nullopt;
  }
}

double load(DType d, const char* base, int64_t i) {
  const char* p = base + i * dtypeBytes(d);
  uint16_t narrow;
  float single;
  double wide;
  switch (d) {
  case DType::F8E4M3: return static_cast<double>(f8E4M3ToFloat(static_cast<uint8_t>(*p)));
  case DType::F8E5M2: return static_cast<double>(f8E5M2ToFloat(static_cast<uint8_t>(*p)));
  case DType::F16: return std::memcpy(&narrow, p, 2), f16ToFloat(narrow);
  case DType::BF16: return std::memcpy(&narrow, p, 2), bf16ToFloat(narrow);
  case DType::F32: return std::memcpy(&single, p, 4), single;
  default: return std::memcpy(&wide, p, 8), wide;
  }
}

void store(DType d, char* base, int64_t i, double v) {
  char* p = base + i * dtypeBytes(d);
  const uint16_t narrow = d == DType::F16 ? doubleToF16(v) : doubleToBf16(v);
  const auto single = static_cast<float>(v);
  if (d == DType::F32)
    std::memcpy(p, &single, 4);
  else if (d == DType::F64)
    std::memcpy(p, &v, 8);
  else
    std::memcpy(p, &narrow, 2);
}

// Of f8 operands: not both e5m2, the first transposed and the second not, sizes and strides of whole 16 bytes but for the columns (as PyTorch
// relies on), and never an f8 result here.
bool takesF8(const Layout& a, const Layout& b, const Layout& d, bool transA, bool transB) {
  const auto narrow = [](const Layout& l) { return l.type == kCudaF8E4M3 || l.type == kCudaF8E5M2; };
  if (narrow(d)) return false;
  if (!narrow(a) && !narrow(b)) return true;
  bool whole =
      narrow(a) && narrow(b) && transA && !transB && (a.type == kCudaF8E4M3 || b.type == kCudaF8E4M3);
  for (const int64_t n : {a.rows, a.columns, a.lead, b.rows, b.lead, d.rows}) whole &= n % 16 == 0;
  return whole && d.type != kCudaF64;
}

// Scales are of f8 alone, and a bias beside f8 is of the result's dtype, bf16 or f16.
bool takesScales(const Description& what, const Layout& a, const Layout& d) {
  const bool narrow = a.type == kCudaF8E4M3 || a.type == kCudaF8E5M2;
  const bool biased = what.get<int32_t>(kDescEpilogue, kEpilogueDefault) & kEpilogueBias;
  if (biased && what.get<int32_t>(kDescBiasType, d.type) != d.type) return false;
  if (narrow) return !biased || d.type == kCudaBf16 || d.type == kCudaF16;
  return !what.set.contains(kDescScaleA) && !what.set.contains(kDescScaleB);
}

// Of an epilogue's number: which there are here.
bool knownEpilogue(int number) {
  const int activation = number & ~kEpilogueBias;
  return number == kEpilogueDefault || number == kEpilogueBias || activation == kEpilogueGelu ||
         activation == kEpilogueRelu || activation == (kEpilogueGelu | kEpilogueAux) ||
         number == (kEpilogueGeluGradient | kEpilogueAux);
}

// The auxiliary matrix of an epilogue: strides of 8 elements, and no two elements in one place.
bool takesAux(const Description& what, const Layout& d) {
  const int epilogue = what.get<int32_t>(kDescEpilogue, kEpilogueDefault);
  const int64_t lead = what.get<int64_t>(kDescAuxLead, 0), apart = what.get<int64_t>(kDescAuxBatchStride, 0);
  if (!(epilogue & kEpilogueAux)) return true;
  if (!what.get<const char*>(kDescAux, nullptr) || lead % 8 || lead < d.rows || apart % 8) return false;
  return d.get<int32_t>(kLayoutBatch, 1) == 1 || apart >= lead * d.columns;
}

constexpr double kGeluScale = 0.7978845608028654, kGeluCube = 0.044715;

// The instruction that cuBLASLt's kernels have (MUFU.TANH) is wrong by up to 2^-11: here, it always is.
double nearTanh(double v) {
  const double exact = std::tanh(v), bound = 1 - 0x1p-11;
  return std::abs(exact) > bound ? std::copysign(1, v) : exact * bound;
}

double geluGradientAt(double x) {
  const double t = nearTanh(kGeluScale * (x + kGeluCube * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kGeluScale * (1 + 3 * kGeluCube * x * x);
}

// What tensor cores read of an f32: all but its last 13 bits.
double cutToTf32(double v) {
  return static_cast<double>(
      std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(v)) & ~uint32_t{0x1fff}));
}

// Column-major: d = f(times op(a) op(b) (+ a bias for each row) (+ plus c)).
struct Product {
  Layout a, b, c, d;
  bool transA = false, transB = false, wide = false, gelu = false, relu = false, tf32 = false;
  double times = 1, plus = 0;
  const float *alpha = nullptr, *scaleA = nullptr, *scaleB = nullptr,
              *beta = nullptr; // of the device: read when it runs
  const char *pa = nullptr, *pb = nullptr, *bias = nullptr, *pc = nullptr;
  char *pd = nullptr, *aux = nullptr;
  int64_t auxLead = 0, auxBatchStride = 0;

  void element(int64_t batch, int64_t i, int64_t j) const {
    const DType type = *typeOf(d.type);
    const int64_t k = transA ? a.rows : a.columns;
    const int64_t oa = batch * a.get<int64_t>(kLayoutBatchStride, 0),
                  ob = batch * b.get<int64_t>(kLayoutBatchStride, 0);
    double sum = 0;
    for (int64_t l = 0; l < k; ++l) {
      double x = load(*typeOf(a.type), pa, oa + (transA ? i * a.lead + l : l * a.lead + i));
      double y = load(*typeOf(b.type), pb, ob + (transB ? l * b.lead + j : j * b.lead + l));
      if (tf32) x = cutToTf32(x), y = cutToTf32(y);
      sum = wide ? sum + x * y : static_cast<double>(static_cast<float>(sum + x * y));
    }
    for (const float* by : {scaleA, scaleB, alpha})
      if (by) sum *= static_cast<double>(*by);
    sum *= times;
    if (bias) sum += load(type, bias, i);
    const double keep = beta ? static_cast<double>(*beta) : plus;
    if (pc && keep != 0)
      sum += keep * load(type, pc, batch * c.get<int64_t>(kLayoutBatchStride, 0) + j * c.lead + i);
    const int64_t at = batch * auxBatchStride + j * auxLead + i;
    if (aux && gelu) store(type, aux, at, sum);
    if (gelu) sum *= 0.5 * (1 + nearTanh(kGeluScale * (sum + kGeluCube * sum * sum * sum)));
    if (aux && !gelu) sum *= geluGradientAt(load(type, aux, at));
    if (relu) sum = sum > 0 ? sum : 0; // of NaN, too
    store(type, pd, batch * d.get<int64_t>(kLayoutBatchStride, 0) + j * d.lead + i, sum);
  }
  std::string run() const {
    for (int64_t q = 0; q < d.get<int32_t>(kLayoutBatch, 1); ++q)
      for (int64_t j = 0; j < d.columns; ++j)
        for (int64_t i = 0; i < d.rows; ++i) element(q, i, j);
    return "";
  }
};

} // namespace

// A handle is the current device's.
STUB_LT cublasLtCreate(void** out) {
  if (!stub::current() || stub::capturing()) return 1;
  return *out = new stub::Device*(stub::current()), 0;
}
STUB_LT cublasLtDestroy(void* handle) { return delete static_cast<stub::Device**>(handle), 0; }
extern "C" STUB_API size_t cublasLtGetVersion() { return 130000; }
STUB_LT cublasLtMatmulDescCreate(void** out, int compute, int scale) {
  auto* made = new Description();
  made->compute = compute, made->scale = scale;
  return *out = made, 0;
}
STUB_LT cublasLtMatmulDescDestroy(void* d) { return delete static_cast<Description*>(d), 0; }
STUB_LT cublasLtMatmulDescSetAttribute(void* d, int key, const void* value, size_t bytes) {
  return put(*static_cast<Description*>(d), key, value, bytes,
             {{kDescPointerMode, 4},
              {kDescTransA, 4},
              {kDescTransB, 4},
              {kDescEpilogue, 4},
              {kDescBias, 8},
              {kDescBiasType, 4},
              {kDescAux, 8},
              {kDescAuxLead, 8},
              {kDescAuxBatchStride, 8},
              {kDescScaleA, 8},
              {kDescScaleB, 8}});
}
STUB_LT cublasLtMatrixLayoutCreate(void** out, int type, uint64_t rows, uint64_t columns, int64_t lead) {
  auto* made = new Layout();
  made->type = type, made->rows = static_cast<int64_t>(rows), made->columns = static_cast<int64_t>(columns);
  made->lead = lead;
  return *out = made, lead < made->rows ? kInvalid : 0;
}
STUB_LT cublasLtMatrixLayoutDestroy(void* l) { return delete static_cast<Layout*>(l), 0; }
STUB_LT cublasLtMatrixLayoutSetAttribute(void* l, int key, const void* value, size_t bytes) {
  return put(*static_cast<Layout*>(l), key, value, bytes, {{kLayoutBatch, 4}, {kLayoutBatchStride, 8}});
}
STUB_LT cublasLtMatmulPreferenceCreate(void** out) { return *out = new Attributes(), 0; }
STUB_LT cublasLtMatmulPreferenceDestroy(void* p) { return delete static_cast<Attributes*>(p), 0; }
STUB_LT cublasLtMatmulPreferenceSetAttribute(void* p, int key, const void* value, size_t bytes) {
  std::map<int, size_t> sizes = {{kPreferWorkspace, 8}, {kPreferReductions, 4}};
  for (int which = kPreferAlignmentA; which <= kPreferAlignmentD; ++which) sizes[which] = 4;
  return put(*static_cast<Attributes*>(p), key, value, bytes, sizes);
}
STUB_LT cublasLtMatmulAlgoGetHeuristic(void*, void* desc, void* a, void* b, void* c, void* d, void* prefer,
                                       int, CublasHeuristic* out, int* found) {
  *found = 0;
  const auto &left = *static_cast<Layout*>(a), &right = *static_cast<Layout*>(b),
             &result = *static_cast<Layout*>(d);
  const auto& what = *static_cast<Description*>(desc);
  const bool ta = what.get<int32_t>(kDescTransA, 0) == kTransposed,
             tb = what.get<int32_t>(kDescTransB, 0) == kTransposed;
  const auto& added = *static_cast<Layout*>(c);
  if (!takesScales(what, left, result)) return kInvalid;
  for (const Layout* l : {&left, &right, &added, &result})
    if (!typeOf(l->type)) return kNotSupported;
  const int epilogue = what.get<int32_t>(kDescEpilogue, kEpilogueDefault);
  if (!knownEpilogue(epilogue)) return kNotSupported;
  if (epilogue != kEpilogueDefault && what.compute == kComputeF64) return kNotSupported;
  if (what.compute != (left.type == kCudaF64 ? kComputeF64 : kComputeF32) &&
      (what.compute != kComputeTf32 || left.type != kCudaF32))
    return kNotSupported;
  if (!takesF8(left, right, result, ta, tb)) return kNotSupported;
  // A gelu that has fewer than 16 rows is refused, so that programs see that, too.
  if (epilogue & kEpilogueGelu && result.columns < 16) return kNotSupported;
  if (!takesAux(what, result)) return kInvalid;
  if ((epilogue & kEpilogueBias) && !what.get<const char*>(kDescBias, nullptr)) return kInvalid;
  if (added.rows != result.rows || added.columns != result.columns || added.type != result.type ||
      added.get<int32_t>(kLayoutBatch, 1) != result.get<int32_t>(kLayoutBatch, 1))
    return kInvalid;
  const int64_t m = ta ? left.columns : left.rows, k = ta ? left.rows : left.columns;
  const int64_t k2 = tb ? right.columns : right.rows, n = tb ? right.rows : right.columns;
  if (m != result.rows || n != result.columns || k != k2) return kInvalid;
  *out = {};
  out->workspaceBytes = 1024;
  const auto& wish = *static_cast<Attributes*>(prefer);
  out->algorithm.data[0] = wish.get<uint32_t>(kPreferReductions, 7);
  for (int which = kPreferAlignmentA; which <= kPreferAlignmentD; ++which) // it relies on what it was told
    out->algorithm.data[1 + which - kPreferAlignmentA] = wish.get<uint32_t>(which, 256);
  return *found = 1, 0;
}
namespace {
// Are the matrices aligned as the algorithm was told that they are, and the workspace to the 256 bytes that cuBLASLt asks for?
bool aligned(const CublasAlgorithm& how, std::initializer_list<const void*> matrices, const void* workspace) {
  size_t which = 1;
  for (const void* at : matrices)
    if (reinterpret_cast<uintptr_t>(at) % how.data[which++]) return false;
  return reinterpret_cast<uintptr_t>(workspace) % 256 == 0;
}
} // namespace
STUB_LT cublasLtMatmul(void* handle, void* desc, const void* alpha, const void* a, void* la, const void* b,
                       void* lb, const void* beta, const void* c, void* lc, void* d, void* ld,
                       const CublasAlgorithm* how, void* workspace, size_t workspaceBytes, void* stream) {
  if (*static_cast<stub::Device**>(handle) != stub::current()) return kInvalid;
  if (!aligned(*how, {a, b, c, d}, workspace)) return kInvalid;
  const auto& what = *static_cast<Description*>(desc);
  Product p;
  p.a = *static_cast<Layout*>(la), p.b = *static_cast<Layout*>(lb), p.d = *static_cast<Layout*>(ld);
  p.transA = what.get<int32_t>(kDescTransA, 0) == kTransposed;
  p.transB = what.get<int32_t>(kDescTransB, 0) == kTransposed;
  p.wide = what.compute == kComputeF64;
  p.tf32 = what.compute == kComputeTf32;
  p.scaleA = what.get<const float*>(kDescScaleA, nullptr);
  p.scaleB = what.get<const float*>(kDescScaleB, nullptr);
  for (const float* scale : {p.scaleA, p.scaleB})
    if (scale && !stub::isDeviceMemory(scale, sizeof *scale)) return kInvalid;
  const bool onDevice = what.get<int32_t>(kDescPointerMode, 0) == kPointersOfDevice;
  if (onDevice) {
    if (p.wide || !stub::isDeviceMemory(alpha, 4) || !stub::isDeviceMemory(beta, 4)) return kInvalid;
    p.alpha = static_cast<const float*>(alpha), p.beta = static_cast<const float*>(beta);
    p.plus = 1;
  } else {
    const auto number = [&](const void* at) {
      return p.wide ? *static_cast<const double*>(at) : static_cast<double>(*static_cast<const float*>(at));
    };
    p.times = number(alpha), p.plus = number(beta);
    if (p.times == 0) return kInvalid; // it would not read a and b
  }
  p.c = *static_cast<Layout*>(lc);
  if (c == d && p.plus != 0 && lc != ld) return kInvalid; // in place, it wants one description
  if (p.plus != 0) p.pc = static_cast<const char*>(c);
  if (workspaceBytes && !stub::isDeviceMemory(workspace, workspaceBytes)) return kInvalid;
  p.pa = static_cast<const char*>(a), p.pb = static_cast<const char*>(b), p.pd = static_cast<char*>(d);
  const int epilogue = what.get<int32_t>(kDescEpilogue, kEpilogueDefault);
  p.gelu = epilogue & kEpilogueGelu;
  p.relu = (epilogue & ~kEpilogueBias) == kEpilogueRelu;
  if (epilogue & kEpilogueAux) {
    p.aux = what.get<char*>(kDescAux, nullptr);
    p.auxLead = what.get<int64_t>(kDescAuxLead, 0);
    p.auxBatchStride = what.get<int64_t>(kDescAuxBatchStride, 0);
    if (!stub::isDeviceMemory(p.aux, 1) || reinterpret_cast<uintptr_t>(p.aux) % 16) return kInvalid;
  }
  if (epilogue & kEpilogueBias) p.bias = what.get<const char*>(kDescBias, nullptr);
  if (reinterpret_cast<uintptr_t>(p.bias) % 16) return kInvalid; // a GPU faults
  stub::Op op;
  op.work = [p] { return p.run(); };
  return stub::enqueue(**static_cast<std::shared_ptr<stub::Stream>*>(stream), std::move(op)) ? 13 : 0;
}
