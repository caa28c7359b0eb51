#include "backend/cpu/CpuConv.h"

#include "dtc/Sharding/Sharding.h"
#include "dtc/Support/OutOfMemory.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace dtc {
namespace {

// Channel block of oneDNN's blocked layouts.
constexpr int64_t kChannelBlock = 16;

// An axis: its extent, its dim in each tensor, and the granularity of splits.
struct Axis {
  int64_t PlacedConv::* extent;
  int image, window, result; // -1: not a dim of this tensor
  int64_t together = 1;
};
constexpr Axis kImages = {&PlacedConv::n, 0, -1, 0};
constexpr Axis kGroups = {&PlacedConv::groups, 1, 0, 1};
constexpr Axis kOutputs = {&PlacedConv::o, -1, 1, 2, kChannelBlock};
constexpr Axis kInputs = {&PlacedConv::c, 2, 2, -1, kChannelBlock};

const PlacedConv::Tensor& madeOf(const PlacedConv& c) {
  return c.kind == ConvKind::Forward ? c.result : c.kind == ConvKind::Image ? c.image : c.window;
}

void advance(PlacedConv::Tensor& t, int axis, int64_t by, DType dtype) {
  if (axis >= 0) t.at += by * t.strides[static_cast<size_t>(axis)] * dtypeBytes(dtype);
}

// The convolution over [begin, begin + count) of an axis. Channels can be split only with one group.
PlacedConv narrow(PlacedConv c, const Axis& axis, int64_t begin, int64_t count) {
  advance(c.image, axis.image, begin, c.dtype);
  advance(c.window, axis.window, begin, c.dtype);
  advance(c.result, axis.result, begin, c.dtype);
  if (c.bias) {
    const bool forward = c.kind == ConvKind::Forward;
    const int64_t channels = axis.extent == &PlacedConv::groups ? forward ? c.o : c.c
                             : axis.extent == (forward ? &PlacedConv::o : &PlacedConv::c) ? 1
                                                                                          : 0;
    c.bias += begin * channels * dtypeBytes(c.dtype);
  }
  c.*axis.extent = count;
  return c;
}

// Chooses the parallel axis that gives the largest number of equal parts.
const Axis& splitAxis(const PlacedConv& c, int64_t parts) {
  std::vector<const Axis*> axes;
  if (c.kind != ConvKind::Window) axes.push_back(&kImages);
  axes.push_back(&kGroups);
  if (c.groups == 1 && c.kind != ConvKind::Image) axes.push_back(&kOutputs);
  if (c.groups == 1 && c.kind != ConvKind::Forward) axes.push_back(&kInputs);
  const auto parallelism = [&](const Axis* a) { return std::min(c.*a->extent / a->together, parts); };
  return **std::max_element(axes.begin(), axes.end(),
                            [&](auto* a, auto* b) { return parallelism(a) < parallelism(b); });
}

int64_t flopsOf(const PlacedConv& c) {
  int64_t flops = 2 * c.n * c.groups * c.c * c.o;
  for (const ConvSpatial& s : c.spatial) flops *= s.length * s.result;
  return flops;
}

bool isEmpty(const PlacedConv& c) {
  return flopsOf(c) == 0 || std::ranges::any_of(c.spatial, [](auto& s) { return s.size < 1; });
}

// Initializes output elements with the bias, or 0.
void fill(const PlacedConv& c, size_t axis, std::byte* at, const std::byte* bias) {
  const PlacedConv::Tensor& t = madeOf(c);
  const auto width = static_cast<size_t>(dtypeBytes(c.dtype));
  if (axis == t.strides.size()) {
    bias ? void(std::memcpy(at, bias, width)) : void(std::memset(at, 0, width));
    return;
  }
  const bool window = c.kind == ConvKind::Window, forward = c.kind == ConvKind::Forward;
  const int64_t front[] = {window ? c.groups : c.n, window ? c.o : c.groups, forward ? c.o : c.c};
  int64_t extent = 0;
  if (axis < 3) {
    extent = front[axis];
  } else {
    const ConvSpatial& s = c.spatial[axis - 3];
    extent = window ? s.length : forward ? s.result : s.size;
  }
  const int64_t each = !bias ? 0 : axis == 1 ? front[2] : axis == 2 ? 1 : 0;
  for (int64_t i = 0; i < extent; ++i)
    fill(c, axis + 1, at + i * t.strides[axis] * dtypeBytes(c.dtype),
         bias ? bias + i * each * dtypeBytes(c.dtype) : bias);
}

// Crops image elements outside of all windows and adjusts the padding. Returns whether cropped elements
// belong to the output.
bool crop(PlacedConv& c, DtcConv& out) {
  bool cropped = false;
  for (size_t d = 0; d < c.spatial.size(); ++d) {
    ConvSpatial& s = c.spatial[d];
    if (s.low < 0) {
      advance(c.image, static_cast<int>(3 + d), -s.low, c.dtype);
      s.size += s.low, s.low = 0;
      cropped = true;
    }
    const int64_t read = s.stride * (s.result - 1) + s.dilation * (s.length - 1) + 1 - s.low;
    // oneDNN allows a remainder shorter than a stride. If windows cover only padding, no element remains.
    if (s.size - read >= s.stride || read <= 0) s.size = std::max<int64_t>(read, 0), cropped = true;
    out.dims[d] = {
        s.size, s.length, s.result, s.stride, s.dilation, s.low, std::max<int64_t>(read - s.size, 0)};
  }
  return cropped && c.kind == ConvKind::Image;
}

// The factor multiplied with padding, which is dense in some order of dims; empty without padding.
std::span<const std::byte> factorOfPadding(const PlacedConv& c) {
  if (c.kind == ConvKind::Image) return {};
  bool padded = false;
  const bool window = c.kind == ConvKind::Window;
  int64_t count = c.groups * c.o * (window ? c.n : c.c);
  for (const ConvSpatial& s : c.spatial) {
    padded |= s.low > 0 || s.stride * (s.result - 1) + s.dilation * (s.length - 1) + 1 - s.low > s.size;
    count *= window ? s.result : s.length;
  }
  if (!padded) return {};
  return {(window ? c.result : c.window).at, static_cast<size_t>(count * dtypeBytes(c.dtype))};
}

// Whether any float in `bytes` is infinite or NaN; `exponent` is the mask of its exponent bits.
template <typename Bits> bool hasNonFinite(std::span<const std::byte> bytes, Bits exponent) {
  const auto* numbers = reinterpret_cast<const Bits*>(bytes.data());
  Bits maxExponent = 0;
  for (size_t i = 0; i < bytes.size() / sizeof(Bits); ++i)
    maxExponent = std::max(maxExponent, static_cast<Bits>(numbers[i] & exponent));
  return maxExponent == exponent;
}

} // namespace

CpuConvs::~CpuConvs() {
  for (const Step& s : steps_)
    for (const Part& p : s.parts)
      if (p.made) oneDnn_.destroyConv(p.made);
}

Result<CpuConvs::Part> CpuConvs::partOf(const PlacedConv& given) {
  Part out;
  PlacedConv c = given;
  DtcConv d{};
  const bool empty = isEmpty(c);
  if (empty || crop(c, d)) out.filled = given;
  if (empty || isEmpty(c)) {
    out.filled = given;
    return out;
  }
  d.type = c.dtype == DType::BF16 ? DtcGemmBf16 : DtcGemmF32;
  d.kind = static_cast<int>(c.kind);
  d.spatial = static_cast<int>(c.spatial.size());
  d.groups = c.groups, d.n = c.n, d.c = c.c, d.o = c.o;
  std::ranges::copy(c.image.strides, d.imageStrides);
  std::ranges::copy(c.window.strides, d.windowStrides);
  std::ranges::copy(c.result.strides, d.resultStrides);
  out.window = c.window.at;
  d.image = c.image.at, d.window = c.window.at, d.result = c.result.at, d.bias = c.bias;
  char error[200] = "";
  const EndsWithoutMemory ends;
  out.made = oneDnn_.createConv(&d, error, sizeof error);
  if (!out.made && *error) return machineError(std::string("oneDNN rejects the convolution: ") + error);
  out.missing = !out.made;
  return out;
}

Result<std::optional<Backend::Placed>> CpuConvs::place(const PlacedConv& c, int64_t maxParts) {
  const auto number = static_cast<uint32_t>(steps_.size());
  const std::span<const std::byte> factor = factorOfPadding(c);
  Step made{{}, factor.data(), factor.size(), c.dtype, {c.image.at, c.window.at, c.result.at, c.bias}};
  const int64_t wanted = std::clamp<int64_t>(flopsOf(c) / kPartFlops, 1, maxParts);
  const Axis& axis = splitAxis(c, wanted);
  const int64_t blocks = (c.*axis.extent + axis.together - 1) / axis.together;
  const int64_t parts = std::clamp<int64_t>(blocks, 1, wanted);
  bool missing = false;
  for (int64_t i = 0; i < parts && !missing; ++i) {
    const Interval within = shardInterval(blocks, parts, i);
    const int64_t begin = within.begin * axis.together,
                  end = std::min((within.begin + within.size()) * axis.together, c.*axis.extent);
    DTC_TRY(auto part, partOf(narrow(c, axis, begin, end - begin)));
    missing = part.missing;
    if (part.made) scratchBytes_ = std::max(scratchBytes_, oneDnn_.convScratchBytes(part.made));
    made.parts.push_back(std::move(part));
  }
  steps_.push_back(std::move(made)); // owned by steps_
  if (missing) return std::optional<Backend::Placed>();
  return std::optional(Backend::Placed{number, static_cast<uint32_t>(parts)});
}

bool CpuConvs::paddingMatters(uint32_t step) const {
  const Step& s = steps_[step];
  return s.kept ? s.keptMatters : factorIsNonFinite(s);
}

bool CpuConvs::factorIsNonFinite(const Step& s) {
  const std::span<const std::byte> factor(s.factor, s.factorBytes);
  return s.dtype == DType::BF16 ? hasNonFinite<uint16_t>(factor, 0x7f80)
                                : hasNonFinite<uint32_t>(factor, 0x7f800000);
}

void CpuConvs::keep(size_t range) {
  if (range >= factorsOf_.size()) return;
  for (const uint32_t step : factorsOf_[range])
    steps_[step].kept = true, steps_[step].keptMatters = factorIsNonFinite(steps_[step]);
}

void CpuConvs::release(size_t range) {
  if (range >= factorsOf_.size()) return;
  for (const uint32_t step : factorsOf_[range]) steps_[step].kept = false;
}

void CpuConvs::addPointers(PointerSlots& slots) {
  for (uint32_t number = 0; number < steps_.size(); ++number) {
    Step& s = steps_[number];
    if (const auto range = s.factor ? slots.rangeOf(s.factor) : std::nullopt) {
      if (factorsOf_.size() <= *range) factorsOf_.resize(*range + 1);
      factorsOf_[*range].push_back(number);
    }
    slots.add(s.factor);
    std::set<size_t> used;
    for (const void* p : s.tensors)
      if (const auto range = slots.rangeOf(p)) used.insert(*range);
    for (Part& p : s.parts) {
      if (p.filled) {
        for (std::byte** at : {&p.filled->image.at, &p.filled->window.at, &p.filled->result.at})
          slots.add(*at);
        slots.add(p.filled->bias);
      }
      for (const size_t range : used) {
        if (!p.made) continue;
        if (usersOf_.size() <= range) usersOf_.resize(range + 1);
        usersOf_[range].push_back(p.made);
        if (slots.rangeOf(s.tensors[1]) == range)
          packed_.add(std::make_shared<ConvWindow>(oneDnn_, p.made), p.window, range);
      }
    }
  }
}

void CpuConvs::rebind(const MemoryRange& from, size_t range, std::byte* to) const {
  if (range >= usersOf_.size()) return;
  for (void* made : usersOf_[range]) oneDnn_.rebindConv(made, from.at, static_cast<size_t>(from.bytes), to);
}

Status CpuConvs::run(uint32_t step, uint32_t part, void* scratch) const {
  const Part& p = steps_[step].parts[part];
  if (p.filled) fill(*p.filled, 0, madeOf(*p.filled).at, p.filled->bias);
  if (p.made && oneDnn_.runConv(p.made, scratch) != 0)
    return machineError("oneDNN could not execute the convolution");
  return Ok{};
}

} // namespace dtc
