#pragma once
// Along which mesh axes a value of local text may differ between devices (ir.md §2.3, the last paragraph).
#include "dtc/IR/OpRecord.h"

namespace dtc {

// A set of parts of mesh axes. An axis that the text names only as a whole is one part; where it names sub-axes, the axis
// is cut at their borders.
using AxisSet = uint64_t;

class Varying {
public:
  // Of the blocks of an spmd function, or of one `local` region.
  Varying(const Module&, FuncId);
  Varying(const Module&, OpId local);

  [[nodiscard]] AxisSet operator()(ValueId v) const {
    auto it = sets_.find(v);
    return it == sets_.end() ? 0 : it->second;
  }
  // The axes that the collectives of a block use (all of them, where it prints or checks values), with those of the blocks within and of the functions that they call.
  [[nodiscard]] AxisSet usedBy(BlockId) const;
  [[nodiscard]] AxisSet usedByOp(OpId) const; // without its blocks
  // The axes that cut or leave pending.
  [[nodiscard]] AxisSet ofSharding(ShardingId) const;
  [[nodiscard]] AxisSet ofAxis(const AxisRef& a) const { return covered(a, false); }
  [[nodiscard]] static std::vector<AxisRef> axesOf(const Module&, OpId); // of its Axes attribute
  // Of the op's `axes`; `wholly`: only the parts within them.
  // What the result of an op that sends pieces between devices, `pairs` of [from, to], varies along, where its operand varies
  // along `operand`: nothing where they end up the same.
  [[nodiscard]] AxisSet ofPairs(OpId o, AxisSet operand) const;
  [[nodiscard]] AxisSet ofAttr(OpId, bool wholly) const;
  [[nodiscard]] std::string text(AxisSet) const;          // "dp, tp"
  [[nodiscard]] int64_t sizeOf(AxisSet) const;            // devices along all of them
  [[nodiscard]] std::vector<AxisRef> axes(AxisSet) const; // major to minor, parts of one axis put together
  [[nodiscard]] std::vector<AxisSet> allParts() const;    // one set each, in the order of the mesh
  [[nodiscard]] MeshId mesh() const { return mesh_; }

private:
  struct Part {
    size_t axis;        // of the mesh
    int64_t begin, end; // covers the digits [begin, end) of the axis: a sub-axis a:(begin)(end/begin)
  };
  void makeParts();
  void addBorders(BlockId, std::vector<std::vector<int64_t>>& borders) const;
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
  std::vector<BlockId> roots_;
  mutable std::unordered_map<FuncId, AxisSet> usedByCallee_;
  std::vector<Part> parts_;
  std::unordered_map<ValueId, AxisSet> sets_; // those that vary
  bool changed_ = false;
};

} // namespace dtc
