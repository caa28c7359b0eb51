#include "run/Extents.h"

#include "dtc/Support/DType.h"
#include "dtc/Support/SmallVector.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace dtc {

namespace {

// Steps in bytes, from the largest on; the last one is that of an element's bytes.
struct MemoryStep {
  int64_t stride = 0, count = 0;
};
using MemorySteps = SmallVector<MemoryStep, 8>;

// From the lowest address on. Neighbors that are one row of equal steps are joined.
MemorySteps stepsOf(const BorrowedTensor& t) {
  const int64_t width = dtypeBytes(t.dtype);
  MemorySteps all;
  int64_t row = width;
  for (size_t d = t.shape.size(); d-- > 0; row *= t.shape[d]) {
    const int64_t stride = t.strides.empty() ? row : t.strides[d] * width;
    if (t.shape[d] != 1) all.push_back({std::abs(stride), t.shape[d]});
  }
  all.push_back({1, width});
  std::ranges::sort(all, [](const MemoryStep& a, const MemoryStep& b) { return a.stride > b.stride; });
  MemorySteps out;
  for (const MemoryStep& s : all) {
    if (!out.empty() && out.back().stride == s.stride * s.count)
      out.back() = {s.stride, out.back().count * s.count};
    else
      out.push_back(s);
  }
  return out;
}

// Each step is longer than all shorter ones together.
bool isNested(const MemorySteps& steps) {
  int64_t reach = 0;
  for (size_t i = steps.size(); i-- > 0; reach += steps[i].stride * (steps[i].count - 1))
    if (steps[i].stride <= reach) return false;
  return true;
}

// The first bytes of the runs of contiguous elements, in order.
std::vector<uintptr_t> runsOf(const MemorySteps& steps, uintptr_t begin) {
  std::vector<uintptr_t> out{begin};
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    const size_t count = out.size();
    for (int64_t k = 1; k < steps[i].count; ++k)
      for (size_t j = 0; j < count; ++j) out.push_back(out[j] + static_cast<uintptr_t>(k * steps[i].stride));
  }
  std::ranges::sort(out);
  return out;
}

bool overlapsItself(const BorrowedTensor& t) {
  const MemorySteps steps = stepsOf(t);
  if (isNested(steps)) return false;
  if (std::ranges::any_of(steps, [](const MemoryStep& s) { return s.stride == 0; })) return true;
  const std::vector<uintptr_t> runs = runsOf(steps, 0);
  const auto length = static_cast<uintptr_t>(steps.back().count);
  for (size_t i = 1; i < runs.size(); ++i)
    if (runs[i] < runs[i - 1] + length) return true;
  return false;
}

// Two boxes of one larger tensor, as slices of it are: in some dim of that they are apart, or they share elements.
// Empty: they are not such boxes. `from`: of b's begin after a's.
std::optional<bool> boxesOverlap(const MemorySteps& a, const MemorySteps& b, int64_t from) {
  MemorySteps strides;
  for (const MemorySteps* own : {&a, &b})
    for (const MemoryStep& s : *own)
      if (std::ranges::find(strides, s.stride, &MemoryStep::stride) == strides.end()) strides.push_back(s);
  std::ranges::sort(strides, [](const MemoryStep& x, const MemoryStep& y) { return x.stride > y.stride; });
  const auto countIn = [](const MemorySteps& own, int64_t stride) {
    const auto found = std::ranges::find(own, stride, &MemoryStep::stride);
    return found == own.end() ? 1 : found->count;
  };
  bool apart = false;
  for (size_t i = 0; i < strides.size(); ++i) {
    const int64_t stride = strides[i].stride, na = countIn(a, stride), nb = countIn(b, stride);
    const int64_t at = from / stride;
    from %= stride;
    if (i > 0) {
      const int64_t room = strides[i - 1].stride / stride;
      if (strides[i - 1].stride % stride != 0 || na > room || at + nb > room) return std::nullopt;
    }
    apart |= at >= na; // at is not negative
  }
  return !apart;
}

bool overlap(const BorrowedTensor& a, const BorrowedTensor& b) {
  const MemorySteps sa = stepsOf(a), sb = stepsOf(b);
  const uintptr_t atA = extentOf(a).begin, atB = extentOf(b).begin;
  if (atB < atA) return overlap(b, a);
  if (isNested(sa) && isNested(sb))
    if (const auto known = boxesOverlap(sa, sb, static_cast<int64_t>(atB - atA))) return *known;
  const std::vector<uintptr_t> ra = runsOf(sa, atA), rb = runsOf(sb, atB);
  const auto la = static_cast<uintptr_t>(sa.back().count), lb = static_cast<uintptr_t>(sb.back().count);
  for (size_t i = 0, j = 0; i < ra.size() && j < rb.size();) {
    if (ra[i] < rb[j] + lb && rb[j] < ra[i] + la) return true;
    ra[i] < rb[j] ? ++i : ++j;
  }
  return false;
}

} // namespace

void Extent::add(const Extent& other) {
  begin = std::min(begin, other.begin), end = std::max(end, other.end);
}

Extent extentOf(const BorrowedTensor& t) {
  if (t.skip || std::ranges::find(t.shape, 0) != t.shape.end()) return {};
  const int64_t width = dtypeBytes(t.dtype);
  int64_t low = 0, high = width, row = width;
  for (size_t d = t.shape.size(); d-- > 0;) {
    const int64_t step = t.strides.empty() ? row : t.strides[d] * width;
    row *= t.shape[d];
    (step < 0 ? low : high) += step * (t.shape[d] - 1);
  }
  const auto at = reinterpret_cast<uintptr_t>(t.data);
  return {at + static_cast<uintptr_t>(low), at + static_cast<uintptr_t>(high)};
}

Status checkDisjoint(std::span<const BorrowedTensor> results) {
  struct Placed {
    Extent extent;
    size_t result;
  };
  SmallVector<Placed, 16> placed;
  for (size_t i = 0; i < results.size(); ++i) {
    const Extent e = extentOf(results[i]);
    if (e.end <= e.begin) continue;
    if (!results[i].strides.empty() && overlapsItself(results[i]))
      return usageError("the memory of result " + std::to_string(i) + " overlaps itself: elements share it");
    placed.push_back({e, i});
  }
  std::ranges::sort(placed, {}, [](const Placed& p) { return p.extent.begin; });
  uintptr_t end = 0; // of all before
  for (size_t i = 0; i < placed.size(); ++i) {
    const bool any = placed[i].extent.begin < end;
    end = std::max(end, placed[i].extent.end);
    for (size_t j = 0; any && j < i; ++j) {
      const size_t first = std::min(placed[j].result, placed[i].result),
                   last = std::max(placed[j].result, placed[i].result);
      if (placed[j].extent.overlaps(placed[i].extent) && overlap(results[first], results[last]))
        return usageError("the memory of the results " + std::to_string(first) + " and " +
                          std::to_string(last) + " overlaps");
    }
  }
  return Ok{};
}

} // namespace dtc
