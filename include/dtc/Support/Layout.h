#pragma once
// Layouts: functions from coordinates to memory offsets, given as a hierarchical shape with a stride for each
// leaf, (4, (2, 3)):(6, (3, 1)). Transpose, reshape, slice, split, broadcast and the even shards of a tensor
// are layouts of the same bytes, and the operations below compose them: a closed algebra, so that views of
// views need no special cases.
//
// The algebra is that of CuTe (NVIDIA CUTLASS 3, media/docs/cute/02_layout_algebra.md; its laws are proved in
// J. Carlisle et al., "CuTe Layout Representation and Algebra", and C. Shah, "A Note on the Algebra of CuTe
// Layouts"), with one difference: here the LAST mode is the fastest, as in every tensor of dtc, so that the
// linear index of a coordinate is its row-major index. To compare, read CuTe's tuples from right to left.
//
// Pure values, used by sharding, passes, kernels and reports.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtc {

// A leaf, `shape` elements at distance `stride`, or a node of modes, the last of which is the fastest. A node
// without modes has one element, at offset 0. Sizes are at least 0; sizes and offsets are below 2^63
// (DTC_CHECK).
class Layout {
public:
  Layout() = default;
  Layout(int64_t shape, int64_t stride) : leaf_(true), shape_(shape), stride_(stride) {}
  explicit Layout(std::vector<Layout> modes) : modes_(std::move(modes)) {}

  [[nodiscard]] bool isLeaf() const { return leaf_; }
  [[nodiscard]] int64_t shape() const { return shape_; }   // of a leaf
  [[nodiscard]] int64_t stride() const { return stride_; } // of a leaf
  [[nodiscard]] const std::vector<Layout>& modes() const { return modes_; }
  // A leaf is its own single mode.
  [[nodiscard]] size_t rank() const { return leaf_ ? 1 : modes_.size(); }
  [[nodiscard]] const Layout& mode(size_t i) const { return leaf_ ? *this : modes_[i]; }

  [[nodiscard]] int64_t size() const; // of the domain: the product of all shapes
  // One more than the max offset; 0 for an empty layout. Strides must not be negative.
  [[nodiscard]] int64_t cosize() const;
  // The offset of a row-major linear index, 0 <= index < size().
  [[nodiscard]] int64_t operator()(int64_t index) const;
  // The offset of one linear index per mode.
  [[nodiscard]] int64_t operator()(std::span<const int64_t> coordinates) const;

  friend bool operator==(const Layout&, const Layout&) = default;

private:
  bool leaf_ = false;
  int64_t shape_ = 1, stride_ = 0;
  std::vector<Layout> modes_;
};

// --- construction ---
[[nodiscard]] Layout rowMajor(std::span<const int64_t> shape);
// "(4, (2, 3)):(6, (3, 1))", "7:2", "():()".
[[nodiscard]] std::string layoutText(const Layout&);

// --- equivalent layouts ---
// The fewest leaves with the same offset for every linear index: modes of one element are removed, contiguous
// neighbors are merged. A single leaf is returned as one.
[[nodiscard]] Layout coalesce(const Layout&);

// --- the algebra; empty if no layout expresses the result ---
// r(i) = a(b(i)), with the hierarchy of b refined if a mode maps to several modes of a. Requires b's offsets
// to be in a's domain.
[[nodiscard]] std::optional<Layout> composition(const Layout& a, const Layout& b);

// --- views of a tensor, one mode per dim ---
// The same elements in the same row-major order with another shape; empty if that requires a copy.
[[nodiscard]] std::optional<Layout> reshaped(const Layout&, std::span<const int64_t> shape);
// Part of a mode, and its offset.
struct LayoutPart {
  Layout layout;
  int64_t offset = 0;
};
// Elements `begin`, `begin + step`, … (`count` of them) of a mode.
[[nodiscard]] std::optional<LayoutPart> sliceOf(const Layout&, size_t dim, int64_t begin, int64_t count,
                                                int64_t step);

} // namespace dtc
