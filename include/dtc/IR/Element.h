#pragma once
// How a kernel makes one element of a result, for ops whose index rule cannot say it (OpRecord::element): concat, gather, pad.
// An op describes its element to this builder; lib/Kernel makes loops of it.
#include "dtc/IR/OpRecord.h"

namespace dtc {

// What OpRecord::element returns where rule and scalar say it after all, for these attributes.
inline constexpr uint32_t kElementByRule = 0xffffffffu;

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
  virtual Node floorDiv(Node a, int64_t by) = 0; // by > 0, as in mod
  virtual Node mod(Node a, int64_t by) = 0;

  // --- values ---
  // Operand `operand` at these coordinates. `inside` says that they are always within its shape; else what lies outside
  // reads as 0 (ir.md, "Edges").
  virtual Node load(size_t operand, std::span<const Node> at, bool inside = false) = 0;
  virtual Node number(double v, DType dtype) = 0;
  virtual Node
  convert(Node x, DType dtype) = 0; // also a coordinate to a value and an integer value to a coordinate (I64)
  // An intrinsic of lib/Ops/Scalar by name: "lt", "and", "select", "max"; arguments share a dtype as it asks.
  virtual Node call(const char* intrinsic, std::initializer_list<Node> args) = 0;
  // A loop over 0 … extent-1: its coordinate, the sum of `body` over some of them, and the greatest coordinate at which `match`
  // (bool) holds, as i32, or -1 (scatter).
  virtual Node loop(Dim extent) = 0;
  virtual Node sum(std::span<const Node> loops, Node body) = 0;
  virtual Node lastWhere(Node loop, Node match) = 0;
  // The index (i32) along dim `dim` of operand `operand` of its greatest (least) element, the first of equals, NaN before
  // all; `coordinates` are those of the operand, that of `dim` ignored.
  virtual Node argReduce(bool greatest, size_t operand, std::span<const Node> coordinates, size_t dim) = 0;
};

} // namespace dtc
