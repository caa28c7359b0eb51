#include "backend/cuda/CudaConv.h"

namespace dtc {
// A kernel that copies elements of one width between six-dimensional boxes.
static SourceUnit copyKernel(int64_t width) {
  const std::string bits = "u" + std::to_string(8 * width), name = "dtc_window_copy_" + bits;
  std::string text = "extern \"C\" __global__ void __launch_bounds__(256) " + name + "(" + bits +
                     "* to, const " + bits + "* from, long long n";
  for (int a = 0; a < 6; ++a) {
    const std::string i = std::to_string(a);
    text += ", long long extent" + i + ", long long to" + i + ", long long from" + i + ", long long rows" +
            i + ", long long shift" + i;
  }
  text += ") {\n"
          "  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;\n"
          "  if (i >= n) return;\n"
          "  i64 rest = i, target = 0, source = 0, row = 0;\n"
          "  bool inside = true;\n";
  for (int a = 6; a-- > 0;) {
    const std::string i = std::to_string(a);
    text += "  row = rest % extent" + i + ";\n  rest /= extent" + i + ";\n  target += row * to" + i +
            ";\n  row += shift" + i + ";\n  inside = inside && row >= 0 && row < rows" + i +
            ";\n  source += row * from" + i + ";\n";
  }
  return {name, text + "  to[target] = inside ? from[source] : (" + bits + ")0;\n}\n"};
}

// A tensor has two (image, result) or one (window) outer axes, the group's channels and the spatial dims: at
// most six.
class CudaConv::Planner {
public:
  Planner(CudaConv& out, const PlacedConv& c) : out_(out), c_(c), width_(dtypeBytes(c.dtype)) {}

  std::optional<CudnnConv> run() {
    CudnnConv conv{c_, c_.bias != nullptr};
    if (c_.n < 1 || c_.groups < 1 || c_.c < 1 || c_.o < 1) return std::nullopt;
    bool even = true;
    for (const ConvSpatial& s : c_.spatial) {
      if (s.size < 1 || s.length < 1 || s.result < 1) return std::nullopt;
      even &= s.low >= 0 &&
              (s.size + 2 * s.low - s.dilation * (s.length - 1) - 1) / s.stride + 1 == s.result &&
              s.size + 2 * s.low >= s.dilation * (s.length - 1) + 1;
    }
    // Elements of an image gradient outside all windows would not get a bias that way.
    if (!even && conv.bias && c_.kind == ConvKind::Image) return std::nullopt;
    if (!even) // an image with explicit padding, cropped to the windows
      for (ConvSpatial& s : conv.spatial)
        s.size = s.stride * (s.result - 1) + s.dilation * (s.length - 1) + 1, s.low = 0;
    using S = ConvSpatial;
    const bool makesImage = c_.kind == ConvKind::Image, makesWindow = c_.kind == ConvKind::Window;
    out_.image_ = tensor(c_.image, {c_.n, c_.groups, c_.c}, conv, &S::size, makesImage, !even);
    out_.result_ =
        tensor(c_.result, {c_.n, c_.groups, c_.o}, conv, &S::result, c_.kind == ConvKind::Forward, false);
    out_.window_ = tensor(c_.window, {c_.groups, c_.o, c_.c}, conv, &S::length, makesWindow, false);
    out_.bias_ = c_.bias;
    return conv;
  }

private:
  Tensor tensor(const PlacedConv::Tensor& t, std::vector<int64_t> extents, const CudnnConv& conv,
                int64_t ConvSpatial::* member, bool made, bool padded) {
    const size_t front = extents.size();
    for (const ConvSpatial& s : conv.spatial) extents.push_back(s.*member);
    std::vector<Axis> axes(extents.size());
    int64_t dense = 1;
    bool fits = !padded;
    for (size_t d = extents.size(); d-- > 0;) {
      const ConvSpatial* s = d < front ? nullptr : &c_.spatial[d - front];
      const int64_t rows = padded && s ? s->size : extents[d], shift = padded && s ? s->low : 0;
      axes[d] = {extents[d], dense, t.strides[d], rows, -shift};
      fits &= extents[d] == 1 || t.strides[d] == dense;
      dense *= extents[d];
    }
    if (fits) return {t.at, 0};
    const size_t offset = out_.scratchBytes_;
    out_.scratchBytes_ += alignedBytes(static_cast<size_t>(dense * width_));
    Copy& copy = out_.copies_.emplace_back();
    copy.offset = offset;
    copy.after = made;
    (made ? copy.to : copy.from) = t.at;
    for (size_t d = 0; d < axes.size(); ++d) {
      Axis a = axes[d]; // to the scratch; exchanged for the way back
      if (made) a = {a.rows, a.from, a.to, a.extent, -a.shift};
      copy.axes[kAxes - axes.size() + d] = a;
    }
    return {nullptr, offset};
  }

  CudaConv& out_;
  const PlacedConv& c_;
  int64_t width_;
};

Result<CudaConv> CudaConv::plan(const Cudnn& library, CudaDeviceQueue& queue, const PlacedConv& conv,
                                bool deterministic, bool tf32) {
  CudaConv out;
  std::optional<CudnnConv> asked = Planner(out, conv).run();
  if (!asked)
    return machineError(
        "cuDNN does not support convolutions over empty tensors, or a bias with uneven padding");
  asked->deterministic = deterministic;
  asked->tf32 = tf32;
  DTC_TRY(auto plan, library.plan(*asked, kMaxWorkspaceBytes));
  out.plan_.push_back(plan);
  // The workspace comes first, so that it has the alignment of the scratch.
  const size_t workspace = alignedBytes(plan.workspaceBytes());
  for (Copy& c : out.copies_) c.offset += workspace;
  for (Tensor* t : {&out.image_, &out.window_, &out.result_})
    if (!t->at) t->offset += workspace;
  out.scratchBytes_ += workspace;
  if (!out.copies_.empty()) {
    const SourceUnit unit = copyKernel(dtypeBytes(conv.dtype));
    out.copyKernel_ = unit.name;
    if (!queue.has(unit.name))
      if (Status s = queue.compile(unit); !s) return s.error();
  }
  return out;
}

Status CudaConv::copy(CudaDeviceQueue& queue, int64_t coordinate, const Copy& c, void* scratch) const {
  std::byte* here = static_cast<std::byte*>(scratch) + c.offset;
  std::byte *to = c.to ? c.to : here, *from = c.from ? c.from : here;
  std::vector<int64_t> numbers = {1};
  for (const Axis& a : c.axes) {
    numbers[0] *= a.extent;
    numbers.insert(numbers.end(), {a.extent, a.to, a.from, a.rows, a.shift});
  }
  std::vector<void*> arguments = {static_cast<void*>(&to), static_cast<void*>(&from)};
  for (int64_t& n : numbers) arguments.push_back(&n);
  return queue.launch(coordinate, copyKernel_, numbers[0], arguments);
}

Status CudaConv::run(const Cudnn& library, CudaDeviceQueue& queue, int64_t coordinate, void* scratch) const {
  for (const Copy& c : copies_)
    if (!c.after)
      if (Status s = copy(queue, coordinate, c, scratch); !s) return s;
  Status done = queue.start(coordinate, [&](const CudaDevice&, const CudaStream& stream) {
    return library.run(plan_.front(), image_.in(scratch), window_.in(scratch), result_.in(scratch), bias_,
                       scratch, stream);
  });
  for (const Copy& c : copies_)
    if (c.after && done) done = copy(queue, coordinate, c, scratch);
  return done;
}

} // namespace dtc
