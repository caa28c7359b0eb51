#include "dtc/Cuda/Cudnn.h"
#include "CudaLibrary.h"
#include "CudnnLibrary.h"
#include "dtc/Support/NonCopyable.h"
#include <algorithm>
#include <climits>

namespace dtc {
static int cudnnType(DType dtype) {
  switch (dtype) {
  case DType::F16: return kCudnnF16;
  case DType::BF16: return kCudnnBf16;
  case DType::F64: return kCudnnF64;
  default: return kCudnnF32;
  }
}

static std::string describe(const CudnnConv& c) {
  constexpr const char* kMade[] = {"convolution", "convolution's gradient with respect to the image",
                                   "convolution's gradient with respect to the window"};
  std::string text = std::string("a ") + std::string(dtypeName(c.dtype)) + " " +
                     kMade[static_cast<size_t>(c.kind)] + ", " + std::to_string(c.n) + " x " +
                     std::to_string(c.groups * c.c) + " channels to " + std::to_string(c.groups * c.o) +
                     " in " + std::to_string(c.groups) + " group(s), along";
  for (const ConvSpatial& s : c.spatial)
    text += " " + std::to_string(s.size) + "/" + std::to_string(s.length);
  return text;
}

std::string cudnnVersionText(size_t number) {
  const size_t major = number >= 90000 ? 10000 : 1000;
  return std::to_string(number / major) + "." + std::to_string(number % major / 100) + "." +
         std::to_string(number % 100);
}

struct CudnnPlan::Impl : NonCopyable {
  std::shared_ptr<const Cudnn::Impl> library;
  CudnnConv conv;
  void *image = nullptr, *window = nullptr, *result = nullptr, *how = nullptr, *bias = nullptr;
  CudnnAlgorithm chosen{};
  Impl() = default;
  ~Impl() {
    for (void* tensor : {image, result, bias})
      if (tensor) library->table.tensorDestroy(tensor);
    if (window) library->table.filterDestroy(window);
    if (how) library->table.convDestroy(how);
  }
};

size_t CudnnPlan::workspaceBytes() const { return impl_->chosen.memory; }

bool Cudnn::found() { return !findCudaLibrary("cudnn").empty(); }
std::string Cudnn::howToInstall() {
  return "install the package cudnn9-cuda-13, or `pip install nvidia-cudnn-cu13`";
}
std::string Cudnn::version() const { return cudnnVersionText(impl_->table.version()); }

Result<Cudnn> Cudnn::open(const CudaDevice& device) {
  const std::string path = findCudaLibrary("cudnn");
  if (path.empty())
    return machineError("cuDNN (libcudnn.so.9) is not in LD_LIBRARY_PATH, CUDA_HOME, /usr/local/cuda*, the "
                        "system's folders or a Python environment; " +
                        howToInstall());
  keepNvrtcOpen();
  DTC_TRY(auto library, openLibrary(path));
  auto impl = std::make_shared<Impl>(device);
  std::string missing;
  auto bind = [&](const char* symbol, auto& to) {
    if (!bindSymbol(library, symbol, to)) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  };
#define DTC_BIND(member, symbol, parameters) bind(#symbol, impl->table.member);
  DTC_CUDNN_FUNCTIONS(DTC_BIND)
#undef DTC_BIND
  bind("cudnnGetErrorString", impl->table.errorText);
  bind("cudnnGetVersion", impl->table.version);
  if (!missing.empty())
    return machineError(path + " has no " + missing + ": it is too old or too new; " + howToInstall());
  if (impl->table.version() < 8000)
    return machineError(path + " is cuDNN " + cudnnVersionText(impl->table.version()) + ", older than 8; " +
                        howToInstall());
  if (auto s = device.makeCurrent(); !s) return s.error();
  if (int status = impl->table.create(&impl->handle)) {
    impl->handle = nullptr;
    return machineError(path + " does not start on " + device.info().name + ": " + impl->text(status));
  }
  return Cudnn(std::move(impl));
}

namespace {

// The descriptors of one convolution. cuDNN requires two spatial dims or more: one of size 1 is added where
// there is only one.
class ConvPlanner {
public:
  ConvPlanner(const CudnnTable& table, CudnnPlan::Impl& plan) : t_(table), p_(plan), c_(plan.conv) {
    if (c_.spatial.size() == 1) spatial_.push_back({});
    spatial_.insert(spatial_.end(), c_.spatial.begin(), c_.spatial.end());
  }

  int describe() {
    using S = ConvSpatial;
    int status = tensor(p_.image, {c_.n, c_.groups * c_.c}, &S::size);
    if (!status) status = tensor(p_.result, {c_.n, c_.groups * c_.o}, &S::result);
    if (!status && c_.bias)
      status = tensor(p_.bias, {1, c_.groups * (c_.kind == ConvKind::Image ? c_.c : c_.o)}, nullptr);
    if (!status) status = t_.filterCreate(&p_.window);
    const std::vector<int> dims = numbers({c_.groups * c_.o, c_.c}, &S::length);
    if (!status && fits_)
      status = t_.filterSet(p_.window, cudnnType(c_.dtype), kCudnnNchw, static_cast<int>(dims.size()),
                            dims.data());
    if (!status) status = t_.convCreate(&p_.how);
    const std::vector<int> pads = numbers({}, &S::low), strides = numbers({}, &S::stride),
                           dilations = numbers({}, &S::dilation);
    if (!status && fits_)
      status =
          t_.convSet(p_.how, static_cast<int>(pads.size()), pads.data(), strides.data(), dilations.data(),
                     kCudnnCrossCorrelation, c_.dtype == DType::F64 ? kCudnnF64 : kCudnnF32);
    if (!status && fits_) status = t_.convGroups(p_.how, static_cast<int>(c_.groups));
    const bool narrow = c_.dtype == DType::F16 || c_.dtype == DType::BF16;
    if (!status && fits_) status = t_.convMath(p_.how, narrow ? int{kCudnnTensorMath} : wideMath());
    return status ? status : fits_ ? 0 : int{kCudnnNotSupported};
  }

  // The fastest allowed algorithm by cuDNN's own estimate. An estimate may be for another math mode than
  // requested: the workspace is queried again for the mode that is used.
  int choose(void* handle, size_t workspaceBytes) {
    const Made made = calls();
    CudnnAlgorithm offered[16] = {};
    int count = 0;
    constexpr int kMaxAlgorithms = std::size(offered);
    if (int status =
            made.choose(handle, made.first, made.second, p_.how, made.third, kMaxAlgorithms, &count, offered))
      return status;
    const bool wide = c_.dtype == DType::F32 || c_.dtype == DType::F64;
    for (CudnnAlgorithm& a : std::span(offered, static_cast<size_t>(std::clamp(count, 0, kMaxAlgorithms)))) {
      if (wide && a.math != kCudnnFmaMath) a.math = wideMath();
      const bool may = a.status == 0 && (made.direct >> a.algorithm & 1) &&
                       (!c_.deterministic || a.determinism == kCudnnDeterministic);
      if (!may || t_.convMath(p_.how, a.math) ||
          made.bytes(handle, made.first, made.second, p_.how, made.third, a.algorithm, &a.memory) ||
          a.memory > workspaceBytes)
        continue;
      p_.chosen = a;
      return 0;
    }
    return kCudnnNotSupported;
  }

private:
  // By direction: the functions, the order of their descriptors, and the algorithms that accumulate directly.
  struct Made {
    decltype(CudnnTable::chooseForward) choose;
    decltype(CudnnTable::bytesForward) bytes;
    void *first, *second, *third; // the convolution descriptor precedes the third
    unsigned direct;
  };
  [[nodiscard]] int wideMath() const {
    return c_.tf32 && c_.dtype == DType::F32 ? kCudnnDefaultMath : kCudnnFmaMath;
  }
  [[nodiscard]] Made calls() const {
    switch (c_.kind) {
    case ConvKind::Image:
      return {t_.chooseImage, t_.bytesImage, p_.window, p_.result, p_.image, kCudnnImageDirect};
    case ConvKind::Window:
      return {t_.chooseWindow, t_.bytesWindow, p_.image, p_.result, p_.window, kCudnnWindowDirect};
    default: return {t_.chooseForward, t_.bytesForward, p_.image, p_.window, p_.result, kCudnnForwardDirect};
    }
  }

  std::vector<int> numbers(std::vector<int64_t> list, int64_t ConvSpatial::* member) {
    for (const ConvSpatial& s : spatial_) list.push_back(member ? s.*member : 1);
    for (int64_t v : list) fits_ &= v >= 0 && v <= INT_MAX;
    return {list.begin(), list.end()};
  }

  int tensor(void*& to, std::vector<int64_t> front, int64_t ConvSpatial::* member) {
    const std::vector<int> dims = numbers(std::move(front), member);
    std::vector<int> strides(dims.size());
    int64_t stride = 1;
    for (size_t d = dims.size(); d-- > 0;) {
      fits_ &= stride <= INT_MAX;
      strides[d] = static_cast<int>(fits_ ? stride : 0);
      stride = fits_ ? stride * dims[d] : stride;
    }
    fits_ &= stride <= INT_MAX;
    const int status = t_.tensorCreate(&to);
    if (status || !fits_) return status;
    return t_.tensorSet(to, cudnnType(c_.dtype), static_cast<int>(dims.size()), dims.data(), strides.data());
  }

  const CudnnTable& t_;
  CudnnPlan::Impl& p_;
  const CudnnConv& c_;
  std::vector<ConvSpatial> spatial_;
  bool fits_ = true; // all numbers are ints
};

} // namespace

Result<CudnnPlan> Cudnn::plan(const CudnnConv& conv, size_t workspaceBytes) const {
  auto plan = std::make_shared<CudnnPlan::Impl>();
  plan->library = impl_;
  plan->conv = conv;
  if (auto s = impl_->device.makeCurrent(); !s) return s.error();
  ConvPlanner planner(impl_->table, *plan);
  int status = planner.describe();
  if (!status) status = planner.choose(impl_->handle, workspaceBytes);
  if (status) return machineError("cuDNN does not support " + describe(conv) + ": " + impl_->text(status));
  return CudnnPlan(std::move(plan));
}

Status Cudnn::run(const CudnnPlan& plan, void* image, void* window, void* result, const void* bias,
                  void* workspace, const CudaStream& stream) const {
  CudnnPlan::Impl& p = plan.impl();
  const CudnnTable& t = impl_->table;
  if (auto s = impl_->device.makeCurrent(); !s) return s;
  const double one64 = 1, zero64 = 0;
  const float one32 = 1, zero32 = 0;
  const bool wide = p.conv.dtype == DType::F64;
  const void* one = wide ? static_cast<const void*>(&one64) : &one32;
  const void* zero = wide ? static_cast<const void*>(&zero64) : &zero32;
  int status = t.setStream(impl_->handle, stream.get);
  if (status) return machineError("cuDNN rejected the stream: " + impl_->text(status));
  const int algorithm = p.chosen.algorithm;
  const size_t bytes = p.chosen.memory;
  switch (p.conv.kind) {
  case ConvKind::Forward:
    status = t.forward(impl_->handle, one, p.image, image, p.window, window, p.how, algorithm, workspace,
                       bytes, zero, p.result, result);
    break;
  case ConvKind::Image:
    status = t.image(impl_->handle, one, p.window, window, p.result, result, p.how, algorithm, workspace,
                     bytes, zero, p.image, image);
    break;
  case ConvKind::Window:
    status = t.window(impl_->handle, one, p.image, image, p.result, result, p.how, algorithm, workspace,
                      bytes, zero, p.window, window);
    break;
  }
  const bool forward = p.conv.kind == ConvKind::Forward;
  if (!status && p.bias)
    status =
        t.add(impl_->handle, one, p.bias, bias, one, forward ? p.result : p.image, forward ? result : image);
  if (status)
    return machineError("cuDNN failed to compute " + describe(p.conv) + " on " + impl_->device.info().name +
                        ": " + impl_->text(status));
  return Ok{};
}

} // namespace dtc
