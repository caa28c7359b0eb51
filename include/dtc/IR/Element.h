#pragma once
// How a kernel makes one element of a result, for ops whose index rule cannot say it (OpRecord::element): concat, gather, pad.
// An op describes its element to this builder; lib/Kernel makes loops of it.
#include "dtc/IR/OpRecord.h"
#include <optional>

namespace dtc {

// What OpRecord::element returns where rule and scalar say it after all, for these attributes.
inline constexpr uint32_t kElementByRule = 0xffffffffu;

// A pass of a radix sort goes by a byte of the keys; so many elements of a row are one unit of it.
inline constexpr int64_t kSortDigits = 256, kSortTile = 4096;

class ElementBuilder {
public:
  using Node = uint32_t;
  virtual ~ElementBuilder() = default;

  // --- coordinates: i64 ---
  virtual Node at(size_t dim) = 0; // of the result, from 0
  virtual Node index(int64_t v) = 0;
  virtual Node size(Dim d) = 0; // on the device that runs it
  virtual Node add(Node a, Node b) = 0;
  virtual Node sub(Node a, Node b) = 0;
  virtual Node mul(Node a, int64_t by) = 0;
  virtual Node mul(Node a, Dim by) = 0;
  virtual Node floorDiv(Node a, Dim by) = 0; // by > 0, as in mod; of a tensor without elements by may be 0
  virtual Node mod(Node a, Dim by) = 0;
  Node floorDiv(Node a, int64_t by) { return floorDiv(a, Dim(by)); }
  Node mod(Node a, int64_t by) { return mod(a, Dim(by)); }

  // --- values ---
  // Operand `operand` at these coordinates. `inside` says that they are always within its shape; else what lies outside
  // reads as 0 (ir.md, "Edges").
  virtual Node load(size_t operand, std::span<const Node> at, bool inside = false) = 0;
  virtual Node number(double v, DType dtype) = 0;
  virtual Node
  convert(Node x, DType dtype) = 0; // also a coordinate to a value and an integer value to a coordinate (I64)
  // An intrinsic of lib/Ops/Scalar by name: "lt", "and", "select", "max"; arguments share a dtype as it asks.
  virtual Node call(const char* intrinsic, std::initializer_list<Node> args) = 0;
  // A loop over 0 … extent-1: its coordinate, the sum and the greatest of `body` over some of them, and the greatest coordinate at which `match`
  // (bool) holds, as i32, or -1 (scatter).
  virtual Node loop(Dim extent) = 0;
  virtual Node sum(std::span<const Node> loops, Node body) = 0;
  virtual Node greatest(std::span<const Node> loops, Node body) = 0;
  virtual Node lastWhere(Node loop, Node match) = 0;
  // The index (i32) along dim `dim` of operand `operand` of its greatest (least) element, the first of equals, NaN before
  // all; `coordinates` are those of the operand, that of `dim` ignored.
  virtual Node argReduce(bool greatest, size_t operand, std::span<const Node> coordinates, size_t dim) = 0;

  // --- whole results, in an order (OpRecord::stores) ---
  static constexpr Node kAlways = 0xffffffffu;
  // Loops of their own begin: the elements that they store are no others' of the op.
  virtual void begin() = 0;
  // A coordinate of these loops. Along `axis` in any order, all at once; along `steps` in order, one after the other.
  virtual Node axis(Dim extent) = 0;
  virtual Node steps(Dim extent) = 0;
  // Stores of the same loops are done in the order of the calls at every place of the axes that stand in all of their
  // coordinates. `combine`: an intrinsic of what is there and `value`. `when`: a bool.
  virtual void store(size_t result, std::span<const Node> at, Node value, Node when = kAlways,
                     const char* combine = nullptr) = 0;
  // The operand's element to the same place of result 0; nothing is done where both lie in the same memory.
  virtual void copy(size_t operand, std::span<const Node> at, Node when = kAlways) = 0;
  // What `combine` makes of x at all steps so far, this one included unless `exclusive`, and of `first` before them, if it is given
  // (not of LastWhere).
  enum class Running : uint8_t { Sum, Prod, Max, Min, LogAddExp, LastWhere };
  virtual Node running(Running combine, Node x, Node steps, bool exclusive = false, Node first = kAlways) = 0;
  // Result 0 (i32): along `dim`, the order of the operand's elements, NaN greatest, the first of equals first.
  virtual void sortOrder(size_t operand, size_t dim, bool descending) = 0;
  // Result 0: a pass of a radix sort over tiles of rows, the last dim of operand 0; with one operand the first half of it, the
  // counts, with two the second (lib/Ops/SortDigits.cpp).
  virtual void sortDigit(int digit, bool descending) = 0;
};

} // namespace dtc
