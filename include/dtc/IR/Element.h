#pragma once
// Builds one element of a result, for ops that an index rule cannot express (OpRecord::element): concat,
// gather, pad. An op describes its element to this builder; lib/Kernel turns it into loops.
#include "dtc/IR/OpRecord.h"
#include <optional>

namespace dtc {

// Returned by OpRecord::element if rule and scalar suffice for these attributes.
inline constexpr uint32_t kElementByRule = 0xffffffffu;

// A radix sort pass sorts by one byte of the keys, in tiles of kSortTile elements of a row.
inline constexpr int64_t kSortDigits = 256, kSortTile = 4096;

class ElementBuilder {
public:
  using Node = uint32_t;
  virtual ~ElementBuilder() = default;

  // --- coordinates: i64 ---
  virtual Node at(size_t dim) = 0; // of the result, 0-based
  virtual Node index(int64_t v) = 0;
  virtual Node size(Dim d) = 0; // on the executing device
  virtual Node add(Node a, Node b) = 0;
  virtual Node sub(Node a, Node b) = 0;
  virtual Node mul(Node a, int64_t by) = 0;
  virtual Node mul(Node a, Dim by) = 0;
  virtual Node floorDiv(Node a, Dim by) = 0; // by > 0, as in mod; by may be 0 if the tensor has no elements
  virtual Node mod(Node a, Dim by) = 0;
  Node floorDiv(Node a, int64_t by) { return floorDiv(a, Dim(by)); }
  Node mod(Node a, int64_t by) { return mod(a, Dim(by)); }

  // --- values ---
  // Operand `operand` at these coordinates. `inside` promises that they are in bounds; otherwise an element
  // that is out of bounds reads as 0 (ir.md, "Edges").
  virtual Node load(size_t operand, std::span<const Node> at, bool inside = false) = 0;
  virtual Node number(double v, DType dtype) = 0;
  virtual Node
  // Also converts a coordinate to a value, and an integer value to a coordinate (I64).
  convert(Node x, DType dtype) = 0;
  // An intrinsic of lib/Ops/Scalar by name: "lt", "and", "select", "max". Arguments have the dtypes that it
  // requires.
  virtual Node call(const char* intrinsic, std::initializer_list<Node> args) = 0;
  // `loop` is the coordinate of a loop over [0, extent). `sum` and `maxOver` reduce `body` over some
  // loops; `lastWhere` is the max coordinate at which `match` (bool) holds, as i32, or -1 (scatter).
  virtual Node loop(Dim extent) = 0;
  virtual Node sum(std::span<const Node> loops, Node body) = 0;
  virtual Node maxOver(std::span<const Node> loops, Node body) = 0;
  virtual Node lastWhere(Node loop, Node match) = 0;
  // argmax (`isMax`) or argmin of operand `operand` along dim `dim`, as i32: the lowest index among equal
  // elements, and NaN beats all. `coordinates` are those of the operand; that of `dim` is ignored.
  virtual Node argReduce(bool isMax, size_t operand, std::span<const Node> coordinates, size_t dim) = 0;

  // --- whole results, with ordered stores (OpRecord::stores) ---
  static constexpr Node kAlways = 0xffffffffu;
  // Starts a new loop nest. Loop nests of one op store disjoint elements.
  virtual void begin() = 0;
  // A coordinate of the loop nest. `axis` iterations are independent; `steps` iterations run in order.
  virtual Node axis(Dim extent) = 0;
  virtual Node steps(Dim extent) = 0;
  // Stores of one loop nest run in call order for each coordinate of the axes that all of them use. `combine`
  // is an intrinsic applied to the stored value and `value`. `when` is a bool predicate.
  virtual void store(size_t result, std::span<const Node> at, Node value, Node when = kAlways,
                     const char* combine = nullptr) = 0;
  // Copies the operand's element to the same coordinates of result 0; a no-op if both share memory.
  virtual void copy(size_t operand, std::span<const Node> at, Node when = kAlways) = 0;
  // A scan: `combine` over x at all steps so far, excluding the current one if `exclusive`, starting from
  // `first` if given (not supported for LastWhere).
  enum class Running : uint8_t { Sum, Prod, Max, Min, LogAddExp, LastWhere };
  virtual Node running(Running combine, Node x, Node steps, bool exclusive = false, Node first = kAlways) = 0;
  // Result 0 (i32): argsort of the operand along `dim`. Stable; NaN is the max.
  virtual void sortOrder(size_t operand, size_t dim, bool descending) = 0;
  // Result 0: one radix sort pass over tiles of rows (the last dim of operand 0). With one operand the first
  // half of the pass (the counts), with two operands the second (lib/Ops/scan/SortDigits.cpp).
  virtual void sortDigit(int digit, bool descending) = 0;
};

} // namespace dtc
