#include "backend/cuda/CudaConv.h"
#include <algorithm>
#include <numeric>

namespace dtc {
// A kernel that copies elements between six-dimensional boxes, or adds them.
static SourceUnit copyKernel(DType dtype, bool adds) {
  const std::string type(dtypeName(dtype)),
      name = std::string(adds ? "dtc_bias_add_" : "dtc_window_copy_") + type;
  std::string text = "extern \"C\" __global__ void __launch_bounds__(256) " + name + "(" + type +
                     "* to, const " + type + "* from, long long n";
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
  text +=
      adds ? "  dtc_store(to + target, dtc_load(to + target) + dtc_load(from + source));\n}\n"
           : "  if (inside)\n    to[target] = from[source];\n  else\n    dtc_store(to + target, 0.0f);\n}\n";
  return {name, text};
}

namespace {

// Dims of a tensor of a convolution by increasing strides, if its channels are first or last.
std::vector<size_t> layoutOrder(size_t rank, bool channelsLast) {
  std::vector<size_t> order;
  if (channelsLast) order.push_back(1);
  for (size_t d = rank; d-- > 2;) order.push_back(d);
  if (!channelsLast) order.push_back(1);
  order.push_back(0);
  return order;
}

std::vector<int64_t> denseStrides(const std::vector<int64_t>& dims, bool channelsLast) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t d : layoutOrder(dims.size(), channelsLast)) strides[d] = stride, stride *= dims[d];
  return strides;
}

struct Simplified { // what is kept from cuDNN
  bool bias = false, strides = false;
};

} // namespace

// A tensor has two (image, result) or one (window) outer axes, the group's channels and the spatial dims: at
// most six.
class CudaConv::Planner {
public:
  Planner(CudaConv& out, const PlacedConv& c, Simplified simplified)
      : out_(out), c_(c), simplified_(simplified), width_(dtypeBytes(c.dtype)) {
    if (c.spatial.size() == 1) spatial_.push_back({}); // cuDNN requires two spatial dims
    spatial_.insert(spatial_.end(), c.spatial.begin(), c.spatial.end());
  }

  CudnnConv run() {
    out_.dtype_ = c_.dtype;
    call_.kind = c_.kind, call_.dtype = c_.dtype;
    bool padded = false; // the image is materialized, with the padding and without what is cropped
    for (const ConvSpatial& s : spatial_) padded |= !slide(s);
    if (padded) {
      call_.before.assign(spatial_.size(), 0), call_.after = call_.before;
      for (size_t d = 0; d < spatial_.size(); ++d) sizes_[d] = reach(spatial_[d]), crop_[d] = 0;
    }
    const View image = viewOf(c_.image, {c_.n, c_.groups, c_.c}, &ConvSpatial::size),
               window = viewOf(c_.window, {c_.groups, c_.o, c_.c}, &ConvSpatial::length),
               result = viewOf(c_.result, {c_.n, c_.groups, c_.o}, &ConvSpatial::result);
    const bool last = channelsLast(padded ? std::vector{window, result} : std::vector{image, window, result},
                                   elements(image) + elements(result));
    using C = CudnnConv;
    place(C::Image, image, last, c_.kind == ConvKind::Image, padded);
    place(C::Window, window, last, c_.kind == ConvKind::Window, false);
    place(C::Result, result, last, c_.kind == ConvKind::Forward, false);
    if (c_.bias) addBias(last);
    return std::move(call_);
  }

private:
  // A tensor by its own axes: `front` of them before the spatial ones.
  struct View {
    const PlacedConv::Tensor* tensor = nullptr;
    std::vector<int64_t> axes;          // extents, groups apart
    std::vector<int64_t> dims, strides; // groups and channels as one dim
    bool regular = false;               // which have one stride
    std::byte* at = nullptr;
  };

  // Extent of the image that windows read.
  static int64_t reach(const ConvSpatial& s) {
    return s.stride * (s.result - 1) + s.dilation * (s.length - 1) + 1;
  }

  // Adds a spatial dim's parameters. Reads of an image can skip rows at both ends; a gradient is written whole.
  // False if cuDNN cannot express it.
  bool slide(const ConvSpatial& s) {
    const bool reads = c_.kind != ConvKind::Image;
    const int64_t crop = reads ? std::max<int64_t>(-s.low, 0) : 0, low = s.low + crop;
    int64_t size = s.size - crop, after = reach(s) - low - size;
    if (reads && -after >= s.stride) size += after, after = 0;
    const int64_t same = (size + 2 * low - s.dilation * (s.length - 1) - 1);
    if (low >= 0 && same >= 0 && same / s.stride + 1 == s.result) after = low;
    const bool fits = low >= 0 && size >= 1 && -after < s.stride;
    after = std::max<int64_t>(after, 0);
    call_.stride.push_back(s.stride), call_.dilation.push_back(s.dilation);
    call_.before.push_back(low), call_.after.push_back(after);
    sizes_.push_back(size), crop_.push_back(crop);
    return fits && !(simplified_.strides && (after != low || size != s.size));
  }

  View viewOf(const PlacedConv::Tensor& t, std::vector<int64_t> axes, int64_t ConvSpatial::* member) {
    View v{&t, axes, {}, {}, true, t.at};
    // The group is the second axis of image and result, and the first of the window.
    const bool window = member == &ConvSpatial::length, image = member == &ConvSpatial::size;
    const size_t group = window ? 0 : 1;
    v.dims = window ? std::vector{axes[0] * axes[1], axes[2]} : std::vector{axes[0], axes[1] * axes[2]};
    v.strides = window ? std::vector{t.strides[1], t.strides[2]} : std::vector{t.strides[0], t.strides[2]};
    v.regular = axes[group] == 1 || t.strides[group] == t.strides[group + 1] * axes[group + 1];
    if (axes[group + 1] == 1) v.strides[window ? 0 : 1] = t.strides[group];
    const size_t given = spatial_.size() - c_.spatial.size();
    for (size_t d = 0; d < spatial_.size(); ++d) {
      const int64_t stride = d < given ? 1 : t.strides[3 + d - given];
      v.axes.push_back(spatial_[d].*member);
      v.dims.push_back(image ? sizes_[d] : spatial_[d].*member);
      v.strides.push_back(stride);
      if (image) v.at += crop_[d] * stride * width_;
    }
    return v;
  }

  static int64_t elements(const View& v) {
    return std::accumulate(v.dims.begin(), v.dims.end(), int64_t{1}, std::multiplies<>());
  }

  // True if the tensor is in the layout; strides of dims of size 1, which may be any, are then made so.
  bool laidOut(const View& v, bool last, std::vector<int64_t>& strides) const {
    if (!v.regular) return false;
    strides = v.strides;
    int64_t extent = 1;
    for (size_t d : layoutOrder(v.dims.size(), last)) {
      if (v.dims[d] == 1) strides[d] = extent;
      if (strides[d] < extent || (simplified_.strides && strides[d] != extent)) return false;
      extent = strides[d] * v.dims[d];
    }
    return true;
  }

  // Whether to have the channels last: by the elements to be copied. In 16 bits, channels first costs cuDNN
  // copies of its own of image and result, since tensor cores read channels.
  bool channelsLast(const std::vector<View>& views, int64_t inside) const {
    int64_t first = width_ == 2 ? inside : 0, last = 0;
    std::vector<int64_t> strides;
    for (const View& v : views) {
      first += laidOut(v, false, strides) ? 0 : elements(v);
      last += laidOut(v, true, strides) ? 0 : elements(v);
    }
    return last < first || (last == first && width_ == 2);
  }

  void place(CudnnConv::Which which, const View& v, bool last, bool made, bool padded) {
    CudnnConv::Tensor& t = call_.tensors[which];
    t.dims = v.dims;
    if (!padded && laidOut(v, last, t.strides)) {
      out_.tensors_[which] = {v.at, 0};
      while (reinterpret_cast<uintptr_t>(v.at) % static_cast<uintptr_t>(t.alignment) != 0) t.alignment /= 2;
      return;
    }
    t.strides = denseStrides(v.dims, last);
    const size_t offset = out_.scratchBytes_;
    out_.scratchBytes_ += alignedBytes(static_cast<size_t>(elements(v) * width_));
    out_.tensors_[which] = {nullptr, offset};
    Copy& copy = out_.copies_.emplace_back();
    copy.offset = offset;
    copy.after = made;
    (made ? copy.to : copy.from) = padded ? v.tensor->at : v.at;
    std::vector<Axis> axes = axesOf(v, t.strides, which, padded);
    for (Axis& a : axes) // to the scratch; exchanged for the way back
      if (made) a = {a.rows, a.from, a.to, a.extent, -a.shift};
    arrange(std::move(axes), copy);
  }

  std::vector<Axis> axesOf(const View& v, const std::vector<int64_t>& dense, CudnnConv::Which which,
                           bool padded) {
    const bool window = which == CudnnConv::Window;
    const size_t joined = window ? 0 : 1; // the dim of groups and channels
    std::vector<Axis> axes;
    for (size_t a = 0; a < v.axes.size(); ++a) {
      const bool group = a == joined, channel = a == joined + 1;
      const size_t d = group || channel ? joined : a > joined ? a - 1 : a;
      const size_t given = spatial_.size() - c_.spatial.size();
      const int64_t from = a < 3 ? v.tensor->strides[a] : a < 3 + given ? 1 : v.tensor->strides[a - given];
      const int64_t extent = a < 3 ? v.axes[a] : v.dims[d];
      const int64_t to = group ? dense[d] * v.axes[joined + 1] : dense[d];
      const bool shifted = padded && a >= 3;
      axes.push_back({extent, to, from, shifted ? v.axes[a] : extent, shifted ? -spatial_[a - 3].low : 0});
    }
    std::erase_if(axes, [](const Axis& a) { return a.extent == 1 && a.rows == 1 && a.shift == 0; });
    return axes;
  }

  // Consecutive threads write consecutive elements.
  static void arrange(std::vector<Axis> axes, Copy& copy) {
    std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.to > b.to; });
    for (size_t d = 0; d < axes.size(); ++d) copy.axes[kAxes - axes.size() + d] = axes[d];
  }

  void addBias(bool last) {
    const bool forward = c_.kind == ConvKind::Forward;
    const PlacedConv::Tensor& made = forward ? c_.result : c_.image;
    const int64_t channels = forward ? c_.o : c_.c;
    if (!simplified_.bias) {
      call_.bias = true;
      CudnnConv::Tensor& t = call_.tensors[CudnnConv::Bias];
      t.dims.assign(spatial_.size() + 2, 1);
      t.dims[1] = c_.groups * channels;
      t.strides = denseStrides(t.dims, last);
      std::byte* at = const_cast<std::byte*>(c_.bias);
      while (reinterpret_cast<uintptr_t>(at) % static_cast<uintptr_t>(t.alignment) != 0) t.alignment /= 2;
      out_.tensors_[CudnnConv::Bias] = {at, 0};
      return;
    }
    Copy& copy = out_.copies_.emplace_back();
    copy.to = made.at, copy.from = const_cast<std::byte*>(c_.bias);
    copy.after = copy.adds = true;
    const int64_t extents[] = {c_.n, c_.groups, channels}, from[] = {0, channels, 1};
    std::vector<Axis> axes;
    for (size_t a = 0; a < made.strides.size(); ++a) {
      const int64_t extent = a < 3 ? extents[a] : forward ? c_.spatial[a - 3].result : c_.spatial[a - 3].size;
      axes.push_back({extent, made.strides[a], a < 3 ? from[a] : 0, extent, 0});
    }
    arrange(std::move(axes), copy);
  }

  CudaConv& out_;
  const PlacedConv& c_;
  Simplified simplified_;
  int64_t width_;
  CudnnConv call_;
  std::vector<ConvSpatial> spatial_;
  std::vector<int64_t> sizes_, crop_; // of the image that cuDNN sees, and the rows of it that it skips
};

Result<CudaConv> CudaConv::plan(const Cudnn& library, CudaDeviceQueue& queue, const PlacedConv& conv,
                                bool deterministic, bool tf32) {
  bool empty = conv.n < 1 || conv.groups < 1 || conv.c < 1 || conv.o < 1;
  for (const ConvSpatial& s : conv.spatial) empty |= s.size < 1 || s.length < 1 || s.result < 1;
  if (empty) return machineError("cuDNN does not support convolutions over empty tensors");
  Result<CudaConv> planned = machineError("cuDNN has no engine");
  for (Simplified s : {Simplified{false, false}, Simplified{true, false}, Simplified{true, true}}) {
    if (s.bias && !s.strides && !conv.bias) continue;
    CudaConv out;
    CudnnConv asked = Planner(out, conv, s).run();
    asked.deterministic = deterministic;
    asked.tf32 = tf32;
    if (auto plan = library.plan(asked, kMaxWorkspaceBytes)) {
      out.plan_.push_back(*plan);
      planned = std::move(out);
      break;
    } else
      planned = plan.error();
  }
  if (!planned) return planned;
  // The workspace comes first, so that it has the alignment of the scratch.
  const size_t workspace = alignedBytes(planned->plan_.front().workspaceBytes());
  for (Copy& c : planned->copies_) c.offset += workspace;
  for (Tensor& t : planned->tensors_)
    if (!t.at) t.offset += workspace;
  planned->scratchBytes_ += workspace;
  for (const Copy& c : planned->copies_) {
    const SourceUnit unit = copyKernel(conv.dtype, c.adds);
    if (!queue.has(unit.name))
      if (Status s = queue.compile(unit); !s) return s.error();
  }
  return planned;
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
  return queue.launch(coordinate, copyKernel(dtype_, c.adds).name, numbers[0], arguments);
}

Status CudaConv::run(const Cudnn& library, CudaDeviceQueue& queue, int64_t coordinate, void* scratch) const {
  for (const Copy& c : copies_)
    if (!c.after)
      if (Status s = copy(queue, coordinate, c, scratch); !s) return s;
  Status done = queue.start(coordinate, [&](const CudaDevice&, const CudaStream& stream) {
    std::array<void*, CudnnConv::kTensors> tensors = {};
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i] = tensors_[i].in(scratch);
    return library.run(plan_.front(), tensors, scratch, stream);
  });
  for (const Copy& c : copies_)
    if (c.after && done) done = copy(queue, coordinate, c, scratch);
  return done;
}

std::vector<SourceUnit> convKernels(DType dtype) {
  return {copyKernel(dtype, false), copyKernel(dtype, true)};
}

} // namespace dtc
