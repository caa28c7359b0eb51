#pragma once
// Layouts: functions from coordinates to offsets in memory, as a hierarchical shape with a stride for each of its leaves,
// (4, (2, 3)):(6, (3, 1)). Transpose, reshape, slice, split, broadcast and the even pieces of a tensor are layouts of the same
// bytes, and the operations below are what views of views come to: a closed algebra, so that no view of a view needs a case
// of its own.
//
// The algebra is that of CuTe (NVIDIA CUTLASS 3, media/docs/cute/02_layout_algebra.md; its laws are proved in J. Carlisle et
// al., "CuTe Layout Representation and Algebra", and C. Shah, "A Note on the Algebra of CuTe Layouts"), with one difference:
// here the LAST mode runs fastest, as in every tensor of dtc, so that the linear index of a coordinate is its row-major one.
// Read CuTe's tuples from right to left to compare.
//
// Pure values on the ground floor: sharding, passes, kernels and reports all speak of them.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtc {

// A leaf, `shape` elements each `stride` after the one before, or a node of modes, the last of which runs fastest. A node
// without modes has one element, at offset 0. Sizes are at least 0; sizes and offsets stay below 2^63 (DTC_CHECK).
class Layout {
public:
  Layout() = default;
  Layout(int64_t shape, int64_t stride) : leaf_(true), shape_(shape), stride_(stride) {}
  explicit Layout(std::vector<Layout> modes) : modes_(std::move(modes)) {}

  [[nodiscard]] bool isLeaf() const { return leaf_; }
  [[nodiscard]] int64_t shape() const { return shape_; }   // of a leaf
  [[nodiscard]] int64_t stride() const { return stride_; } // of a leaf
  [[nodiscard]] const std::vector<Layout>& modes() const { return modes_; }
  // A leaf is its own only mode.
  [[nodiscard]] size_t rank() const { return leaf_ ? 1 : modes_.size(); }
  [[nodiscard]] const Layout& mode(size_t i) const { return leaf_ ? *this : modes_[i]; }

  [[nodiscard]] int64_t size() const; // of the domain: the product of all shapes
  // One more than the greatest offset; 0 of an empty layout. Strides must not be negative.
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

// --- making ---
[[nodiscard]] Layout rowMajor(std::span<const int64_t> shape);
[[nodiscard]] Layout colMajor(std::span<const int64_t> shape);
// "(4, (2, 3)):(6, (3, 1))", "7:2", "():()".
[[nodiscard]] std::string layoutText(const Layout&);

// --- the same function, written otherwise ---
[[nodiscard]] Layout flatten(const Layout&); // all leaves as the modes of one node, in order
// The fewest leaves that give every linear index the same offset: modes of one element go, neighbours of one walk join. A
// single leaf comes back as one.
[[nodiscard]] Layout coalesce(const Layout&);

// --- the algebra; nothing where no layout says the result ---
// r(i) = a(b(i)), with the hierarchy of b refined where its modes fall into several of a. Needs b's offsets within a's domain.
[[nodiscard]] std::optional<Layout> composition(const Layout& a, const Layout& b);
// The least layout c whose offsets, added to those of a, cover [0, reach) without meeting one twice (and maybe more, where a
// itself passes `reach` or does not divide it). Needs an injective a (strides 0 aside) whose strides nest.
[[nodiscard]] std::optional<Layout> complement(const Layout& a, int64_t reach);
// r with a(r(i)) = i for each i < size(r), as large as there is one; 1:0 at least.
[[nodiscard]] Layout rightInverse(const Layout& a);
// r with r(a(i)) = i for each i < size(a), for an injective a.
[[nodiscard]] std::optional<Layout> leftInverse(const Layout& a);
// [blocks, within]: the domain of a seen as tiles of b's size. Mode 1 is a over the first tile, mode 0 walks from tile to tile.
[[nodiscard]] std::optional<Layout> logicalDivide(const Layout& a, const Layout& b);
// [b, a]: copies of a, laid out as b says. Mode 1 is a.
[[nodiscard]] std::optional<Layout> logicalProduct(const Layout& a, const Layout& b);

// --- views of a tensor, one mode per dim ---
[[nodiscard]] Layout permuted(const Layout&,
                              std::span<const int64_t> perm); // mode i of the result is mode perm[i]
// The same elements in the same row-major order in another shape; nothing where that needs a copy.
[[nodiscard]] std::optional<Layout> reshaped(const Layout&, std::span<const int64_t> shape);
// Mode `dim` repeated `times` times, which it must have one element for.
[[nodiscard]] Layout broadcastMode(const Layout&, size_t dim, int64_t times);
// Piece `index` of `count` along a mode whose size `count` divides, and where it begins; nothing where it does not divide.
struct LayoutPiece {
  Layout layout;
  int64_t offset = 0;
};
[[nodiscard]] std::optional<LayoutPiece> pieceOf(const Layout&, size_t dim, int64_t count, int64_t index);
// Elements `begin`, `begin + step`, … (`count` of them) along a mode.
[[nodiscard]] std::optional<LayoutPiece> sliceOf(const Layout&, size_t dim, int64_t begin, int64_t count,
                                                 int64_t step);

} // namespace dtc
