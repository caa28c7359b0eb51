#pragma once
// The mesh axes along which a value of local text may differ between devices (ir.md, the last
// paragraph).
#include "dtc/IR/OpRecord.h"

namespace dtc {

// A set of parts of mesh axes. An axis that the text uses only unsplit is one part; an axis with sub-axes is
// divided at their boundaries.
using AxisSet = uint64_t;

class Varying {
public:
  // For the blocks of an spmd function, or of one `local` region.
  Varying(const Module&, FuncId);
  Varying(const Module&, OpId local);

  [[nodiscard]] AxisSet operator()(ValueId v) const {
    const size_t at = v.index - first_; // of a value from outside: larger than the table
    return at < sets_.size() ? sets_[at] : 0;
  }
  // The axes used by the collectives of a block, including nested blocks and called functions; all axes if it
  // prints or checks values.
  [[nodiscard]] AxisSet usedBy(BlockId) const;
  [[nodiscard]] AxisSet usedByOp(OpId) const; // without its blocks
  // The axes that shard or leave pending.
  [[nodiscard]] AxisSet ofSharding(ShardingId) const;
  [[nodiscard]] AxisSet ofAxis(const AxisRef& a) const { return covered(a, false); }
  [[nodiscard]] static std::vector<AxisRef> axesOf(const Module&, OpId); // of its Axes attribute
  // The axes along which the result of an op that sends shards between devices varies. `pairs` are [from,
  // to]; the operand varies along `operand`. Empty if all devices end up with the same data.
  [[nodiscard]] AxisSet ofPairs(OpId o, AxisSet operand) const;
  // The axes of the op's `axes` attribute; `wholly`: only the parts contained in them.
  [[nodiscard]] AxisSet ofAttr(OpId, bool wholly) const;
  [[nodiscard]] std::string text(AxisSet) const;          // "dp, tp"
  [[nodiscard]] int64_t sizeOf(AxisSet) const;            // devices along all of them
  [[nodiscard]] std::vector<AxisRef> axes(AxisSet) const; // major to minor, with the parts of one axis merged
  [[nodiscard]] std::vector<AxisSet> allParts() const;    // one singleton set per part, in mesh order
  [[nodiscard]] MeshId mesh() const { return mesh_; }

private:
  struct Part {
    size_t axis;        // of the mesh
    int64_t begin, end; // covers the digits [begin, end) of the axis: a sub-axis a:(begin)(end/begin)
  };
  void makeParts();
  void findCommon();
  [[nodiscard]] std::vector<AxisRef> namedAxes() const;
  void makeSets();
  [[nodiscard]] AxisSet covered(const AxisRef&, bool wholly) const;
  [[nodiscard]] AxisSet usedByCall(OpId) const;
  void block(BlockId, AxisSet predicate);
  void op(OpId, AxisSet predicate);
  void regions(OpId, AxisSet predicate);
  void carried(OpId, BlockId body, size_t firstArg, size_t firstStart, AxisSet predicate);
  void results(OpId, AxisSet);
  void add(ValueId, AxisSet);

  const Module& m_;
  MeshId mesh_;
  FuncId func_; // invalid for a `local` region
  BlockId root_;
  mutable std::unordered_map<FuncId, AxisSet> usedByCallee_;
  std::vector<Part> parts_;
  AxisSet common_ = 0;        // the devices that run the function have one index along these parts
  uint32_t first_ = 0;        // the first value of the blocks
  std::vector<AxisSet> sets_; // by value - first_
  bool changed_ = false;
};

} // namespace dtc
