// Resize.
#include "import/OnnxContext.h"

#include "dtc/Support/SpacedPositions.h"

#include <algorithm>
#include <cmath>

namespace dtc::onnx {

namespace {

// Along one axis: its sizes, and where element o of the result is in x.
struct Axis {
  int64_t axis = 0, size = 0, result = 0;
  long double factor = 1; // of the sizes, as the node states it
  double roiStart = 0, roiEnd = 1;
  double scale = 1, offset = 0; // element o is at scale * o + offset
};

class ResizeNode {
public:
  explicit ResizeNode(OnnxContext& c) : c_(c), x_(c.in(0)) {}
  ImportResults run();

private:
  void readAxes();
  void readSizes();
  void keepRatio(const std::string& policy);
  void place(Axis&) const;
  [[nodiscard]] std::string rounding() const;
  [[nodiscard]] Expr extrapolated(Expr y) const;

  OnnxContext& c_;
  Expr x_;
  std::vector<Axis> axes_;
  std::string transformation_, mode_;
};

void ResizeNode::readAxes() {
  const auto axes = dimsOf(c_.b, c_.ints("axes", allDims(x_.rank())), x_.rank());
  std::vector<double> roi;
  if (transformation_ == "tf_crop_and_resize") {
    roi = c_.knownReals(1, "the region");
    if (roi.size() != 2 * axes.size()) c_.fail("has a region that is not a start and an end for each axis");
    if (c_.in(1).dtype() == DType::F32)
      for (double& r : roi) r = static_cast<double>(fractionOfFloat(static_cast<float>(r)));
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    Axis& a = axes_.emplace_back();
    a.axis = axes[i];
    const Dim size = x_.dims().at(static_cast<size_t>(a.axis));
    a.size = size.isStatic() ? size.value() : -1;
    if (!roi.empty()) a.roiStart = roi.at(i), a.roiEnd = roi.at(i + axes.size());
  }
}

// The largest or smallest factor is that of all axes.
void ResizeNode::keepRatio(const std::string& policy) {
  if (policy == "stretch") return;
  if (policy != "not_larger" && policy != "not_smaller")
    c_.fail("has the unsupported policy '" + policy + "'");
  long double factor = axes_.empty() ? 1 : axes_[0].factor;
  for (const Axis& a : axes_)
    factor = policy == "not_larger" ? std::min(factor, a.factor) : std::max(factor, a.factor);
  for (Axis& a : axes_) {
    a.factor = factor;
    a.result = static_cast<int64_t>(std::floor(factor * static_cast<long double>(a.size) + 0.5L));
  }
}

void ResizeNode::readSizes() {
  const bool hasSizes = c_.has(3) && c_.in(3).dims() != Dims{Dim(0)};
  if (hasSizes) {
    const auto sizes = c_.sizesIf(3);
    const auto list = sizes ? *sizes : std::vector<ImportInt>();
    if (!sizes) (void)c_.known(3, "the sizes");
    if (list.size() != axes_.size()) c_.fail("has another number of sizes than of axes");
    for (size_t i = 0; i < axes_.size(); ++i) {
      Axis& a = axes_[i];
      if (list[i].size) { // a symbolic size that stays as it is
        if (*list[i].size != x_.dims().at(static_cast<size_t>(a.axis)))
          c_.fail("resizes to a symbolic size; bind it with --dim");
        continue;
      }
      a.result = list[i].number;
      if (a.size > 0) a.factor = static_cast<long double>(a.result) / static_cast<long double>(a.size);
      if (a.result < 0 || a.result > 1 << 24) c_.fail("has a size that is out of range");
    }
    return keepRatio(c_.text("keep_aspect_ratio_policy", "stretch"));
  }
  const auto factors = c_.knownReals(2, "the scales");
  if (factors.size() != axes_.size()) c_.fail("has another number of scales than of axes");
  for (size_t i = 0; i < axes_.size(); ++i) {
    Axis& a = axes_[i];
    a.factor = fractionOfFloat(static_cast<float>(factors.at(i))); // 0.6 is 3/5
    const long double exact = static_cast<long double>(a.size) * (a.roiEnd - a.roiStart) * a.factor;
    const auto result = std::floor(static_cast<double>(exact)); // rounded, that 5 * 3/5 is 3
    if (a.size >= 0 && (!(result >= 0) || result > 1 << 24)) c_.fail("has a scale that is out of range");
    a.result = static_cast<int64_t>(result);
  }
}

// In long double, so that the numbers are those of exact fractions, rounded once.
void ResizeNode::place(Axis& a) const {
  using Real = long double;
  const auto in = static_cast<Real>(a.size), out = static_cast<Real>(a.result), exact = in * a.factor;
  const Real half = 0.5L / a.factor - 0.5L;
  Real scale = 1 / a.factor, offset = 0;
  if (transformation_ == "half_pixel") {
    offset = half;
  } else if (transformation_ == "half_pixel_symmetric") {
    offset = (in - out / a.factor) / 2 + half;
  } else if (transformation_ == "pytorch_half_pixel") {
    if (a.result > 1) offset = half;
    if (a.result <= 1) scale = 0;
  } else if (transformation_ == "align_corners") {
    // The last element is the last one of x, as ONNX's text, PyTorch and ONNX Runtime have it. ONNX's tests of scales
    // below 1 have the size before it was rounded.
    const Real last = (a.factor < 1 ? Real(static_cast<double>(exact)) : out) - 1;
    scale = last > 0 ? (in - 1) / last : 0;
  } else if (transformation_ == "tf_crop_and_resize") {
    const Real span = Real(a.roiEnd) - a.roiStart;
    scale = a.result > 1 ? span * (in - 1) / (out - 1) : 0;
    offset = a.roiStart * (in - 1) + (a.result > 1 ? 0 : span * (in - 1) / 2);
  } else if (transformation_ != "asymmetric") {
    c_.fail("has the unsupported coordinate transformation '" + transformation_ + "'");
  }
  a.scale = static_cast<double>(scale), a.offset = static_cast<double>(offset);
}

std::string ResizeNode::rounding() const {
  const std::string mode = c_.text("nearest_mode", "round_prefer_floor");
  static constexpr std::pair<const char*, const char*> names[] = {{"round_prefer_floor", "half_down"},
                                                                  {"round_prefer_ceil", "half_up"},
                                                                  {"floor", "floor"},
                                                                  {"ceil", "ceil"}};
  for (const auto& [theirs, ours] : names)
    if (mode == theirs) return ours;
  c_.fail("has the unsupported nearest_mode '" + mode + "'");
}

// Crops that reach beyond the image have a value there.
Expr ResizeNode::extrapolated(Expr y) const {
  if (transformation_ != "tf_crop_and_resize") return y;
  const double value = c_.real("extrapolation_value", 0);
  for (const Axis& a : axes_) {
    Tensor inside(DType::Bool, {a.result});
    bool all = true;
    const SpacedPositions positions(a.scale, a.offset);
    for (int64_t o = 0; o < a.result; ++o) {
      const long double at = positions.at(o);
      const bool in = at >= 0 && at <= static_cast<long double>(a.size - 1);
      inside.setInt(o, in);
      all &= in;
    }
    if (all) continue;
    Dims dims(y.rank(), Dim(1));
    dims[static_cast<size_t>(a.axis)] = a.result;
    y = select(reshapeTo(constantOf(c_.b, inside), dims), y, filled(c_.b, y.dtype(), {}, value));
  }
  return y;
}

ImportResults ResizeNode::run() {
  transformation_ = c_.text("coordinate_transformation_mode", "half_pixel");
  mode_ = c_.text("mode", "nearest");
  if (mode_ != "nearest" && mode_ != "linear" && mode_ != "cubic")
    c_.fail("has the unsupported mode '" + mode_ + "'");
  readAxes();
  readSizes();
  std::ranges::sort(axes_, {}, &Axis::axis);
  std::vector<int64_t> dims, sizes;
  std::vector<AttrId> scales, offsets;
  for (Axis& a : axes_) {
    if (a.size >= 0) place(a);
    if (a.size == a.result && a.scale == 1 && a.offset == 0) continue;
    if (a.size < 0) {
      if (a.factor == 1) continue;
      c_.fail("resizes a symbolic size; bind it with --dim");
    }
    dims.push_back(a.axis), sizes.push_back(a.result);
    scales.push_back(c_.module.attrs.real(a.scale)), offsets.push_back(c_.module.attrs.real(a.offset));
  }
  std::erase_if(axes_, [](const Axis& a) { return a.size < 0; });
  if (dims.empty()) return x_;
  const std::string round = rounding();
  // Integers are resized as floats.
  const DType own = x_.dtype(), wide = isFloat(own) ? own : DType::F64;
  const Expr y = resize(x_.as(wide), {.dims = dims,
                                      .sizes = sizes,
                                      .scales = c_.module.attrs.list(scales),
                                      .offsets = c_.module.attrs.list(offsets),
                                      .mode = mode_,
                                      .rounding = round,
                                      .cubic = c_.real("cubic_coeff_a", -0.75),
                                      .antialias = c_.integer("antialias", 0) != 0,
                                      .exclude_outside = c_.integer("exclude_outside", 0) != 0});
  return extrapolated(y).as(own);
}

ImportResults resizeRow(OnnxContext& c) { return ResizeNode(c).run(); }

// Resize's predecessor, of opsets 7 to 9: element o of the result is at o / scale.
ImportResults upsample(OnnxContext& c) {
  const Expr x = c.in(0);
  const std::string mode = c.text("mode", "nearest");
  if (mode != "nearest" && mode != "linear") c.fail("has the unsupported mode '" + mode + "'");
  auto factors = c.has("scales") ? c.reals("scales") : c.knownReals(1, "the scales");
  for (double& f : factors) f = static_cast<double>(fractionOfFloat(static_cast<float>(f)));
  if (factors.size() != x.rank()) c.fail("has another number of scales than of axes");
  const std::vector<int64_t> shape = c.shapeOf(x);
  std::vector<int64_t> dims, sizes;
  std::vector<AttrId> scales, offsets;
  for (size_t i = 0; i < factors.size(); ++i) {
    const double result = std::floor(static_cast<double>(shape[i]) * factors[i]);
    if (!(factors[i] >= 1) || result > 1 << 24) c.fail("has a scale that is out of range");
    if (factors[i] == 1) continue;
    dims.push_back(static_cast<int64_t>(i)), sizes.push_back(static_cast<int64_t>(result));
    scales.push_back(c.module.attrs.real(1 / factors[i])), offsets.push_back(c.module.attrs.real(0));
  }
  if (dims.empty()) return x;
  const DType own = x.dtype();
  return resize(x.as(isFloat(own) ? own : DType::F64), {.dims = dims,
                                                        .sizes = sizes,
                                                        .scales = c.module.attrs.list(scales),
                                                        .offsets = c.module.attrs.list(offsets),
                                                        .mode = mode,
                                                        .rounding = "floor"})
      .as(own);
}

constexpr OnnxRow kResizeRows[] = {{"Resize", resizeRow, 11}, {"Upsample", upsample, 7}};

} // namespace

std::span<const OnnxRow> resizeRows() { return kResizeRows; }

} // namespace dtc::onnx
