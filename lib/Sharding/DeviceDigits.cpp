#include "dtc/Sharding/DeviceDigits.h"

#include <algorithm>

namespace dtc {

std::vector<NumberDigit> digitsOf(const std::vector<int64_t>& numbers) {
  std::vector<NumberDigit> digits;
  const auto n = static_cast<int64_t>(numbers.size());
  auto at = [&](int64_t i) { return numbers[static_cast<size_t>(i)] - numbers[0]; };
  for (int64_t block = 1; block < n;) {
    const int64_t stride = at(block);
    int64_t count = 2;
    while (block * count < n && at(block * count) == stride * count) ++count;
    while (count > 1 && n % (block * count) != 0) --count;
    if (count < 2 || stride <= 0) return {};
    digits.push_back({stride, count});
    block *= count;
  }
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, sum = 0;
    for (const NumberDigit& d : digits) {
      sum += rest % d.count * d.stride;
      rest /= d.count;
    }
    if (sum != at(i)) return {};
  }
  return digits;
}

std::optional<std::vector<DigitRange>> digitOrder(const std::vector<int64_t>& devices) {
  const auto all = static_cast<int64_t>(devices.size());
  std::vector<DigitRange> order;
  for (const NumberDigit& d : digitsOf(devices))
    if (all % (d.stride * d.count) == 0) order.insert(order.begin(), {all / (d.stride * d.count), d.count});
  int64_t covered = 1;
  for (const DigitRange& r : order) covered *= r.size;
  if (devices.empty() || devices[0] != 0 || covered != all) return std::nullopt;
  return order;
}

std::optional<std::vector<std::vector<DigitRange>>> splitDigits(const std::vector<int64_t>& sizes,
                                                                std::vector<DigitRange> order) {
  std::vector<std::vector<DigitRange>> out;
  size_t at = 0;
  for (int64_t left : sizes) {
    std::vector<DigitRange>& ranges = out.emplace_back();
    while (left > 1) {
      while (at < order.size() && order[at].size == 1) ++at;
      if (at == order.size()) return std::nullopt;
      DigitRange& r = order[at];
      if (left % r.size == 0) {
        ranges.push_back(r);
        left /= r.size;
        ++at;
      } else if (r.size % left == 0) {
        ranges.push_back({r.pre, left});
        r = {r.pre * left, r.size / left};
        left = 1;
      } else {
        return std::nullopt;
      }
    }
  }
  return out;
}

std::vector<int64_t> axisSizes(const std::set<int64_t>& boundaries, int64_t devices) {
  std::vector<int64_t> sizes;
  int64_t last = 1;
  for (int64_t b : boundaries) {
    if (b == 1) continue;
    if (b % last != 0) return {devices}; // one axis and its sub-axes
    if (b > last) sizes.push_back(b / last);
    last = b;
  }
  return sizes;
}

std::vector<AxisRef> axesOfDigits(const DigitRange& range, const Mesh& mesh) {
  std::vector<AxisRef> axes;
  int64_t pre = 1;
  for (const MeshAxis& a : mesh.axes) {
    const int64_t begin = std::max(pre, range.pre), end = std::min(pre * a.size, range.pre * range.size);
    if (begin < end) axes.push_back(mesh.canonical({a.name, begin / pre, end / begin}));
    pre *= a.size;
  }
  return axes;
}

std::string axisName(size_t number) {
  return number < 3 ? std::string(1, static_cast<char>('x' + number)) : "x" + std::to_string(number);
}

} // namespace dtc
