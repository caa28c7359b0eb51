// libcudnn.so.9 of the tests: convolutions by loops, in stream order, from the descriptors that dtc makes. What cuDNN's documentation
// forbids is refused: descriptors that are not set, sizes that do not fit each other, fewer than two spatial dims, memory that is not the
// device's. It offers algorithms as cuDNN does, the ones that dtc must not take first: a transform, then one that is not deterministic
// (dtc takes it unless asked for the same bits). Grouped images of three spatial dims it does not take.
#include "CudnnStub.h"

#include "../../lib/Cuda/CudnnTable.h"

#include <algorithm>
#include <bit>
#include <optional>

using namespace dtc;
#define STUB_DNN extern "C" STUB_API int

namespace {

using Numbers = std::vector<int>;

struct Tensor {
  int type = -1;
  Numbers dims, strides;
};
struct Filter {
  int type = -1;
  Numbers dims;
};
struct How {
  Numbers pad, stride, dilation;
  int type = -1, groups = 1, math = 0;
};
using Handle = stub::CudnnHandle;

std::optional<DType> typeOf(int number) {
  switch (number) {
  case kCudnnF32: return DType::F32;
  case kCudnnF64: return DType::F64;
  case kCudnnF16: return DType::F16;
  case kCudnnBf16: return DType::BF16;
  default: return std::nullopt;
  }
}

int64_t at(const Tensor& t, const Numbers& index) {
  int64_t i = 0;
  for (size_t d = 0; d < index.size(); ++d) i += int64_t{index[d]} * t.strides[d];
  return i;
}

Tensor dense(const Filter& f) {
  Tensor t{f.type, f.dims, Numbers(f.dims.size())};
  int stride = 1;
  for (size_t d = f.dims.size(); d-- > 0;) t.strides[d] = stride, stride *= f.dims[d];
  return t;
}

// Increments; false after the last.
bool next(Numbers& index, const Numbers& dims) {
  for (size_t d = dims.size(); d-- > 0;) {
    if (++index[d] < dims[d]) return true;
    index[d] = 0;
  }
  return false;
}

// Do the three fit each other?
int fit(const Tensor& x, const Filter& w, const How& how, const Tensor& y) {
  const size_t rank = x.dims.size();
  if (rank < 4 || rank > 5 || w.dims.size() != rank || y.dims.size() != rank || how.pad.size() + 2 != rank)
    return kCudnnBadParameter;
  if (!typeOf(x.type) || w.type != x.type || y.type != x.type) return kCudnnBadParameter;
  if (how.type != (x.type == kCudnnF64 ? kCudnnF64 : kCudnnF32)) return kCudnnNotSupported;
  if (x.dims[0] != y.dims[0] || x.dims[1] != w.dims[1] * how.groups || y.dims[1] != w.dims[0] ||
      w.dims[0] % how.groups)
    return kCudnnBadParameter;
  for (size_t d = 2; d < rank; ++d) {
    const int room = x.dims[d] + 2 * how.pad[d - 2] - how.dilation[d - 2] * (w.dims[d] - 1) - 1;
    if (room < 0 || room / how.stride[d - 2] + 1 != y.dims[d]) return kCudnnBadParameter;
  }
  return rank == 5 && how.groups > 1 ? int{kCudnnNotSupported} : 0;
}

int offer(int status, int transform, int wanted, int* count, CudnnAlgorithm* out) {
  *count = 0;
  if (status) return status;
  const CudnnAlgorithm list[] = {{transform, 0, 1, 64, 1, kCudnnFmaMath, {}},
                                 {0, kCudnnNotSupported, -1, 0, 1, kCudnnFmaMath, {}},
                                 {0, 0, 2, 4, 0, 0, {}}, // for tf32, which not all ask for
                                 {1, 0, 3, 1024, 1, kCudnnFmaMath, {}}};
  for (const CudnnAlgorithm& a : list)
    if (*count < wanted) out[(*count)++] = a;
  return 0;
}

// Which of the three is made: every product is added to one of its elements.
struct Convolution {
  Tensor x, w, y;
  How how;
  void *px = nullptr, *pw = nullptr, *py = nullptr;
  int made = 0; // y, x, w

  std::string run() const {
    const DType type = *typeOf(x.type);
    const Tensor& out = made == 0 ? y : made == 1 ? x : w;
    void* to = made == 0 ? py : made == 1 ? px : pw;
    std::vector<double> sums;
    Numbers counted(out.dims.size());
    int64_t most = 0;
    for (size_t d = 0; d < out.dims.size(); ++d) most += int64_t{out.dims[d] - 1} * out.strides[d];
    sums.resize(static_cast<size_t>(most + 1));
    Numbers p(y.dims.size());
    do {
      addAt(p, type, sums);
    } while (next(p, y.dims));
    do {
      stub::storeNumber(type, to, at(out, counted), sums[static_cast<size_t>(at(out, counted))]);
    } while (next(counted, out.dims));
    return "";
  }

  // What tensor cores read of an f32 that may be truncated to tf32: all but its last 13 bits.
  [[nodiscard]] double factor(DType type, const void* from, int64_t i) const {
    const double v = stub::loadNumber(type, from, i);
    if (type != DType::F32 || how.math != kCudnnDefaultMath) return v;
    return static_cast<double>(
        std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(v)) & ~uint32_t{0x1fff}));
  }

  void addAt(const Numbers& p, DType type, std::vector<double>& sums) const {
    const int group = p[1] / (w.dims[0] / how.groups);
    Numbers k(w.dims.size() - 1);
    const Numbers range(w.dims.begin() + 1, w.dims.end());
    do {
      Numbers from = {p[0], group * w.dims[1] + k[0]}, window = {p[1]};
      window.insert(window.end(), k.begin(), k.end());
      bool inside = true;
      for (size_t d = 2; d < p.size(); ++d) {
        from.push_back(p[d] * how.stride[d - 2] + k[d - 1] * how.dilation[d - 2] - how.pad[d - 2]);
        inside &= from[d] >= 0 && from[d] < x.dims[d];
      }
      if (!inside) continue;
      const int64_t i = at(x, from), j = at(w, window), l = at(y, p);
      double& sum = sums[static_cast<size_t>(made == 0 ? l : made == 1 ? i : j)];
      const double product = made == 0   ? factor(type, px, i) * factor(type, pw, j)
                             : made == 1 ? factor(type, py, l) * factor(type, pw, j)
                                         : factor(type, py, l) * factor(type, px, i);
      sum = type == DType::F64 ? sum + product : static_cast<double>(static_cast<float>(sum + product));
    } while (next(k, range));
  }
};

int run(void* handle, int algorithm, void* workspace, size_t bytes, const void* alpha, const void* beta,
        Convolution c, const Filter& w) {
  if (int status = fit(c.x, w, c.how, c.y)) return status;
  if (static_cast<Handle*>(handle)->device != stub::current()) return kCudnnBadParameter;
  if (algorithm > 1) return kCudnnNotSupported; // a transform
  if (c.x.type == kCudnnF64
          ? c.how.math != kCudnnFmaMath
          : c.x.type == kCudnnF32 && c.how.math != kCudnnFmaMath && c.how.math != kCudnnDefaultMath)
    return kCudnnNotSupported;
  if (bytes < (c.how.math == kCudnnDefaultMath ? 4u
               : algorithm == 0                ? 512u
                                               : 1024u) ||
      !stub::isDeviceMemory(workspace, bytes) || reinterpret_cast<uintptr_t>(workspace) % 256)
    return kCudnnBadParameter;
  const bool wide = c.x.type == kCudnnF64;
  const double one =
      wide ? *static_cast<const double*>(alpha) : static_cast<double>(*static_cast<const float*>(alpha));
  const double zero =
      wide ? *static_cast<const double*>(beta) : static_cast<double>(*static_cast<const float*>(beta));
  if (one != 1 || zero != 0) return kCudnnNotSupported;
  c.w = dense(w);
  for (const void* p : {c.px, c.pw, c.py})
    if (!stub::isDeviceMemory(p, 1)) return kCudnnBadParameter;
  stub::Op op;
  op.work = [c] { return c.run(); };
  return stub::enqueue(*static_cast<Handle*>(handle)->stream, std::move(op)) ? 5000 : 0;
}

} // namespace

STUB_DNN cudnnCreate(void** out) {
  if (!stub::current() || stub::capturing()) return 1001; // CUDNN_STATUS_NOT_INITIALIZED
  return *out = new Handle{stub::current(), nullptr}, 0;
}
STUB_DNN cudnnDestroy(void* h) { return delete static_cast<Handle*>(h), 0; }
STUB_DNN cudnnSetStream(void* h, void* stream) {
  static_cast<Handle*>(h)->stream = static_cast<std::shared_ptr<stub::Stream>*>(stream)->get();
  return 0;
}
extern "C" STUB_API size_t cudnnGetVersion() { return 91900; }
extern "C" STUB_API const char* cudnnGetErrorString(int status) {
  return status == kCudnnNotSupported   ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status == kCudnnBadParameter ? "CUDNN_STATUS_BAD_PARAM"
                                        : "CUDNN_STATUS_EXECUTION_FAILED";
}

STUB_DNN cudnnCreateTensorDescriptor(void** out) { return *out = new Tensor(), 0; }
STUB_DNN cudnnDestroyTensorDescriptor(void* t) { return delete static_cast<Tensor*>(t), 0; }
STUB_DNN cudnnSetTensorNdDescriptor(void* t, int type, int rank, const int* dims, const int* strides) {
  if (rank < 3 || rank > 8 || std::any_of(dims, dims + rank, [](int d) { return d < 1; }))
    return kCudnnBadParameter;
  *static_cast<Tensor*>(t) = {type, {dims, dims + rank}, {strides, strides + rank}};
  return 0;
}
STUB_DNN cudnnCreateFilterDescriptor(void** out) { return *out = new Filter(), 0; }
STUB_DNN cudnnDestroyFilterDescriptor(void* f) { return delete static_cast<Filter*>(f), 0; }
STUB_DNN cudnnSetFilterNdDescriptor(void* f, int type, int format, int rank, const int* dims) {
  if (format != kCudnnNchw) return kCudnnNotSupported;
  *static_cast<Filter*>(f) = {type, {dims, dims + rank}};
  return 0;
}
STUB_DNN cudnnCreateConvolutionDescriptor(void** out) { return *out = new How(), 0; }
STUB_DNN cudnnDestroyConvolutionDescriptor(void* h) { return delete static_cast<How*>(h), 0; }
STUB_DNN cudnnSetConvolutionNdDescriptor(void* h, int rank, const int* pad, const int* stride,
                                         const int* dilation, int mode, int type) {
  if (mode != kCudnnCrossCorrelation || rank < 2) return kCudnnBadParameter;
  for (int i = 0; i < rank; ++i)
    if (pad[i] < 0 || stride[i] < 1 || dilation[i] < 1) return kCudnnBadParameter;
  auto& how = *static_cast<How*>(h);
  how.pad = {pad, pad + rank}, how.stride = {stride, stride + rank},
  how.dilation = {dilation, dilation + rank};
  how.type = type;
  return 0;
}
STUB_DNN cudnnSetConvolutionGroupCount(void* h, int groups) {
  return static_cast<How*>(h)->groups = groups, 0;
}
STUB_DNN cudnnSetConvolutionMathType(void* h, int math) { return static_cast<How*>(h)->math = math, 0; }

STUB_DNN cudnnGetConvolutionForwardAlgorithm_v7(void*, void* x, void* w, void* how, void* y, int wanted,
                                                int* count, CudnnAlgorithm* out) {
  return offer(fit(*static_cast<Tensor*>(x), *static_cast<Filter*>(w), *static_cast<How*>(how),
                   *static_cast<Tensor*>(y)),
               7, wanted, count, out);
}
STUB_DNN cudnnGetConvolutionBackwardDataAlgorithm_v7(void*, void* w, void* y, void* how, void* x, int wanted,
                                                     int* count, CudnnAlgorithm* out) {
  return offer(fit(*static_cast<Tensor*>(x), *static_cast<Filter*>(w), *static_cast<How*>(how),
                   *static_cast<Tensor*>(y)),
               5, wanted, count, out);
}
STUB_DNN cudnnGetConvolutionBackwardFilterAlgorithm_v7(void*, void* x, void* y, void* how, void* w,
                                                       int wanted, int* count, CudnnAlgorithm* out) {
  return offer(fit(*static_cast<Tensor*>(x), *static_cast<Filter*>(w), *static_cast<How*>(how),
                   *static_cast<Tensor*>(y)),
               5, wanted, count, out);
}

namespace {
int bytesOf(const void* how, int algorithm, size_t* out) {
  if (algorithm > 1) return kCudnnNotSupported;
  const bool tf32 = static_cast<const How*>(how)->math == 0;
  return *out = tf32 ? 4 : algorithm == 0 ? 512 : 1024, 0;
}
} // namespace
STUB_DNN cudnnGetConvolutionForwardWorkspaceSize(void*, void*, void*, void* how, void*, int algorithm,
                                                 size_t* out) {
  return bytesOf(how, algorithm, out);
}
STUB_DNN cudnnGetConvolutionBackwardDataWorkspaceSize(void*, void*, void*, void* how, void*, int algorithm,
                                                      size_t* out) {
  return bytesOf(how, algorithm, out);
}
STUB_DNN cudnnGetConvolutionBackwardFilterWorkspaceSize(void*, void*, void*, void* how, void*, int algorithm,
                                                        size_t* out) {
  return bytesOf(how, algorithm, out);
}

STUB_DNN cudnnConvolutionForward(void* h, const void* alpha, void* xd, const void* x, void* wd, const void* w,
                                 void* how, int algorithm, void* workspace, size_t bytes, const void* beta,
                                 void* yd, void* y) {
  Convolution c{*static_cast<Tensor*>(xd),
                {},
                *static_cast<Tensor*>(yd),
                *static_cast<How*>(how),
                const_cast<void*>(x),
                const_cast<void*>(w),
                y,
                0};
  return run(h, algorithm, workspace, bytes, alpha, beta, std::move(c), *static_cast<Filter*>(wd));
}
STUB_DNN cudnnConvolutionBackwardData(void* h, const void* alpha, void* wd, const void* w, void* yd,
                                      const void* y, void* how, int algorithm, void* workspace, size_t bytes,
                                      const void* beta, void* xd, void* x) {
  Convolution c{*static_cast<Tensor*>(xd), {}, *static_cast<Tensor*>(yd),
                *static_cast<How*>(how),   x,  const_cast<void*>(w),
                const_cast<void*>(y),      1};
  return run(h, algorithm, workspace, bytes, alpha, beta, std::move(c), *static_cast<Filter*>(wd));
}
STUB_DNN cudnnConvolutionBackwardFilter(void* h, const void* alpha, void* xd, const void* x, void* yd,
                                        const void* y, void* how, int algorithm, void* workspace,
                                        size_t bytes, const void* beta, void* wd, void* w) {
  Convolution c{*static_cast<Tensor*>(xd), {}, *static_cast<Tensor*>(yd), *static_cast<How*>(how),
                const_cast<void*>(x),      w,  const_cast<void*>(y),      2};
  return run(h, algorithm, workspace, bytes, alpha, beta, std::move(c), *static_cast<Filter*>(wd));
}
STUB_DNN cudnnAddTensor(void* h, const void*, void* ad, const void* a, const void*, void* cd, void* c) {
  const Tensor added = *static_cast<Tensor*>(ad), to = *static_cast<Tensor*>(cd);
  if (added.dims.size() != to.dims.size() || added.type != to.type) return kCudnnBadParameter;
  for (size_t d = 0; d < to.dims.size(); ++d)
    if (added.dims[d] != 1 && added.dims[d] != to.dims[d]) return kCudnnBadParameter;
  stub::Op op;
  op.work = [=]() -> std::string {
    const DType type = *typeOf(to.type);
    Numbers i(to.dims.size());
    do {
      Numbers from = i;
      for (size_t d = 0; d < from.size(); ++d)
        if (added.dims[d] == 1) from[d] = 0;
      stub::storeNumber(type, c, at(to, i),
                        stub::loadNumber(type, c, at(to, i)) + stub::loadNumber(type, a, at(added, from)));
    } while (next(i, to.dims));
    return "";
  };
  return stub::enqueue(*static_cast<Handle*>(h)->stream, std::move(op)) ? 5000 : 0;
}
