#pragma once
// Mesh axes from lists of devices: a device's number is treated as a row-major index, and an axis as a range of its
// digits. Formats that state which device holds which shard (GSPMD's strings, ONNX's annotations) have no axes.
#include "dtc/Sharding/Sharding.h"
#include <optional>
#include <set>
#include <vector>

namespace dtc {

// The digit (index / post) % size of a device's number; `pre` is the product of the sizes major to it.
struct DigitRange {
  int64_t pre = 1, size = 1;
};

// The digits that generate a list of numbers, minor to major; empty where there are none. `numbers[0]` is the
// base.
struct NumberDigit {
  int64_t stride = 1, count = 1;
};
[[nodiscard]] std::vector<NumberDigit> digitsOf(const std::vector<int64_t>& numbers);

// The digits of the devices in the order of a list, major to minor; nothing unless the list is a transposed grid of
// all devices.
[[nodiscard]] std::optional<std::vector<DigitRange>> digitOrder(const std::vector<int64_t>& devices);
// Assigns each size of a grid the digits that make it up, major to minor; splits a digit that is longer. Nothing if
// the sizes do not match the digits.
[[nodiscard]] std::optional<std::vector<std::vector<DigitRange>>>
splitDigits(const std::vector<int64_t>& sizes, std::vector<DigitRange> order);

// The sizes of the axes whose boundaries, as products of the sizes major to them, are those of the digits; one axis of
// all devices, which then has sub-axes, if they are not multiples of each other.
[[nodiscard]] std::vector<int64_t> axisSizes(const std::set<int64_t>& boundaries, int64_t devices);
// A range of a device number's digits as axes of the mesh and sub-axes, major to minor.
[[nodiscard]] std::vector<AxisRef> axesOfDigits(const DigitRange&, const Mesh&);
// "x", "y", "z", "x3", …
[[nodiscard]] std::string axisName(size_t number);

} // namespace dtc
