#pragma once
// Lowers a fused region to loop IR: expresses every output's element through the rules of the region's ops.
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/RegionParts.h"
#include "dtc/Kernel/LoopIr.h"
#include "dtc/Ops/record/Scalar.h"
#include "dtc/Support/Result.h"

namespace dtc {

struct Lowered {
  loops::Kernel kernel;
  std::vector<uint32_t> inputs;  // operand numbers of the fused op, by input buffer
  std::vector<uint32_t> outputs; // result numbers, by output buffer
  std::vector<Dim> sizes;        // by size argument
};

// The size arguments of a kernel or library call: one per symbol or shard size in a dim. Dims that are equal
// on every device of the op's mesh (6/(a, b) and 3/b where a has 2) share one argument.
class SizeArgs {
public:
  SizeArgs(Module& m, OpId fused) : m_(m), mesh_(meshOfBlock(m, m[fused].parent)) {}
  [[nodiscard]] loops::Size of(Dim d);
  std::vector<Dim> list;

private:
  uint32_t argument(Dim d);
  Module& m_;
  MeshId mesh_;
};

class RegionLowering;
// By OpRecord::element (LowerElement.cpp): the element of a result of `op` at these coordinates.
[[nodiscard]] loops::NodeId lowerElement(RegionLowering&, OpId op, uint32_t result,
                                         const std::vector<loops::AffineId>& at, loops::NodeId guard);
// By OpRecord::stores; false if the region's last op does not store the results itself.
[[nodiscard]] bool lowerOwnStores(RegionLowering&);

class RegionLowering {
public:
  using Index = std::vector<loops::AffineId>;
  RegionLowering(Module& m, OpId fused) : m_(m), fused_(fused), sizes_(m, fused) {}
  // Error (Bug): an op of the region has no loops; the message names it.
  [[nodiscard]] Result<Lowered> run();
  // The same with the results of one op (`op`, of which the first has the most dims) and the data movement of
  // them: loops over the coordinates of the op's results, which data movement stores elsewhere. All results
  // share one nest, in the order of the op, in whatever layouts they are stored. Empty where a yield is not
  // such a value.
  [[nodiscard]] std::optional<Lowered> runOverResults(OpId op);
  // The data movement around an op that is a kernel by itself: a nest of one store for each of `values`, which
  // are operands of the op, or other values that the region only moves, and the op's results that it yields.
  // A nest copies an operand from an input buffer to a contiguous tensor, a result from such a tensor to an
  // output buffer; these tensors are the last buffers. Empty if some other op has a part in it.
  [[nodiscard]] std::optional<Lowered> around(OpId op, std::span<const ValueId> values);

private:
  friend class RegionElement;
  friend class RuleLowering;
  friend loops::NodeId lowerElement(RegionLowering&, OpId, uint32_t, const Index&, loops::NodeId);
  friend bool lowerOwnStores(RegionLowering&);
  // Facts about one op, queried once.
  struct OpInfo {
    bool ok = false;
    Rule rule;
    ScalarExpr scalar, finish;
    bool hasFinish = false;
    bool byElement = false;         // the record's element function instead of rule and scalar
    std::vector<ValueId> expansion; // results of a Rows op's decomposition
  };

  void makeBuffers();
  void addOutput(uint32_t result);
  bool addMoved(uint32_t output, ValueId result);
  bool moveIndex(OpId move, Index& at);
  Index addDomain(const Type&); // a new nest
  [[nodiscard]] uint32_t outputOf(ValueId v) const;
  bool shareNest(ValueId v, loops::AffineId& address, loops::NodeId& node, size_t& nest);
  bool bijective(const Index& at, const Type& type, loops::AxisSet& axes);
  bool shareWalked(ValueId v, loops::AffineId& address, loops::NodeId& node, size_t& nest);
  bool reducesColumns(ValueId v); // keeps the last of its operand's dims
  bool joinNest(ValueId v, const Index& at, size_t nest, loops::AffineId& address, loops::NodeId& node);
  bool alignWith(const Index& domain, const Type& domainType, const Type& type, Index& at);
  bool alignWithRows(size_t nest, const Type& type, Index& at);

  loops::NodeId value(ValueId v, const Index& at, loops::NodeId guard);
  loops::NodeId opValue(OpId op, uint32_t result, const Index& at, loops::NodeId guard);
  loops::NodeId byRule(OpId op, uint32_t result, const Index& at, loops::NodeId guard);
  loops::NodeId literal(const Value& v);
  OpInfo& infoOf(OpId op);
  void expand(OpId op, OpInfo& info);
  void readScalars(const OpQuery& query, OpInfo& info, DType result);
  loops::NodeId guarded(ValueId v, const Index& at, loops::NodeId guard);
  loops::NodeId insideOf(const Type& t, const Index& at);
  bool alwaysInside(const Type& t, const Index& at); // insideOf() is invalid
  bool isAxisOf(Dim dim, loops::AffineId at);
  [[nodiscard]] loops::NodeId unrounded(loops::NodeId x, DType stored) const;
  loops::AffineId addressOf(const Type& t, const Index& at);
  loops::NodeId fail(OpId op, const std::string& why);

  Module& m_;
  OpId fused_;
  SizeArgs sizes_;
  Lowered out_;
  loops::Kernel& k_ = out_.kernel;
  std::string error_;
  Diagnostics diags_;
  std::unordered_map<ValueId, uint32_t> bufferOf_;
  std::unordered_map<uint32_t, OpInfo> infos_;
  struct Evaluated {
    Index at;
    loops::NodeId guard, node;
    size_t nest;
  };
  std::unordered_map<ValueId, std::vector<Evaluated>> memo_;
  struct Domain {
    Index at;
    TypeId type;
    std::optional<uint32_t> part; // of the region, if parts have nests of their own
  };
  std::vector<Domain> domains_; // by nest
  size_t nest_ = 0;             // under construction
  // The axes of a nest that its reductions run over, and the axes that those sharing their loops depend on. A
  // value that depends on an axis that is reduced elsewhere runs inside of that axis's loop, so the two sets
  // must be disjoint: see reduceAxes().
  struct NestAxes {
    loops::AxisSet reduced = 0, needed = 0;
  };
  std::unordered_map<size_t, NestAxes> nestAxes_;
  std::optional<RegionParts> parts_; // of a region whose parts have nests of their own
  bool crowded_ = false;             // a reduction could not share an axis of the nest
  bool columns_ = false;             // rows, and reductions of their columns, in one nest
  std::vector<OpId> scratch_;        // ops created by decompositions
};

// An op by its index rule and scalar expression: pointwise ops, reductions, contractions, data movement of
// whole dims (LowerRule.cpp).
class RuleLowering {
public:
  using Index = RegionLowering::Index;
  // Coordinates of the rule's factors at one point of a result; invalid: not determined by the result.
  using Coordinates = std::vector<loops::AffineId>;
  RuleLowering(RegionLowering& region, OpId op, const Rule& rule, loops::NodeId guard = {})
      : l_(region), k_(region.k_), op_(op), rule_(rule), guard_(guard) {}
  // The element of a result at these coordinates.
  loops::NodeId run(uint32_t result, const Index& at);
  // The factors' coordinates as functions of a tensor's. False where they cannot be separated.
  bool factorCoordinates(const TensorMap&, const Index& at, Coordinates& out);
  // And back; `inside`: the index is in bounds. False where a computed value is the index.
  bool operandIndex(const TensorMap&, const Coordinates&, Index& at, bool& inside);

private:
  std::vector<loops::AxisId> reduceAxes(Coordinates& coords, const Index& at);
  // One node per operand that `e` uses, at the factors' coordinates; the others stay invalid.
  std::vector<loops::NodeId> operandValues(const ScalarExpr& e, const Coordinates& coords);
  loops::NodeId reduced(loops::NodeId body, std::vector<loops::AxisId> axes, DType dtype);
  loops::NodeId apply(const ScalarExpr& e, std::span<const loops::NodeId> operands, const Index& at,
                      loops::NodeId acc, DType result);
  loops::NodeId power(loops::NodeId base, loops::NodeId exponent);

  RegionLowering& l_;
  loops::Kernel& k_;
  OpId op_;
  const Rule& rule_;
  loops::NodeId guard_;
};

} // namespace dtc
