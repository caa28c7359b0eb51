// Regions and calls. Their operands, arguments and yields are bound by RegionKind; the reader gives them their types.
#include "RecordParts.h"

namespace dtc {
namespace {

// The types of a region's results are those that it yields, a call's those of the function: written by whoever made the op.
bool typesAsWritten(const OpQuery& q, std::vector<TypeId>& results) {
  results.assign(q.writtenTypes.begin(), q.writtenTypes.end());
  return true;
}

// Nothing crosses an op of regions by itself: its blocks are sharded as blocks.
OpRecord control(const char* name, const char* summary, RegionKind regions) {
  OpRecord r{.name = name, .family = "control", .summary = summary};
  r.operandClasses = kAnyDType | kComplex; // blocks and functions take what they are given
  r.results = "ys...";
  r.sameDType = false;
  r.infer = typesAsWritten;
  r.resultType = OpRecord::ResultType::Custom;
  r.throughNone = true;
  r.lowering = Lowering::Control;
  r.flopsPerPoint = 0;
  r.regions = regions;
  r.numRegions = static_cast<int>(numBlocks(regions));
  return r;
}

} // namespace

void addControlOps(OpRegistry& ops) {
  OpRecord cond = control("cond", "the first block where p is true, else the second", RegionKind::Cond);
  cond.operands = "p";
  cond.operandTypes = "bool";
  ops.add(std::move(cond));

  OpRecord whileLoop =
      control("while", "the second block as long as the first yields true", RegionKind::While);
  whileLoop.operands = "starts...";
  whileLoop.attrs = {{"max_trips", AttrType::Int, "", "more iterations than that are an error"}};
  ops.add(std::move(whileLoop));

  OpRecord forLoop =
      control("for", "the block for i = lo … hi-1: carried values, then what is stacked along a new dim 0",
              RegionKind::For);
  forLoop.operands = "lo, hi, starts...";
  forLoop.operandTypes = "i32, i32, any";
  forLoop.attrs = {{"max_trips", AttrType::Int, "", "more iterations than that are an error"}};
  ops.add(std::move(forLoop));

  OpRecord local =
      control("local", "the per-device view: all mesh axes are manual inside", RegionKind::Local);
  local.operands = "starts...";
  local.attrs = {
      {"free", AttrType::Axes, "",
       "axes along which every device does the same: shardings go on through the region along them"}};
  ops.add(std::move(local));

  OpRecord recompute = control("recompute", "the block, computed again in the backward pass instead of kept",
                               RegionKind::Recompute);
  recompute.operands = "starts...";
  ops.add(std::move(recompute));

  OpRecord fused = control("fused", "the block as one kernel or library call", RegionKind::Fused);
  fused.operands = "starts...";
  fused.attrs = {{"kind", AttrType::String, "", "what makes it: \"gemm\", \"rows\", \"pointwise\", …"},
                 {"order", AttrType::String, "", "\"fixed\": each sum is made element by element, in order"}};
  ops.add(std::move(fused));

  OpRecord call = control("call", "the results of a function", RegionKind::None);
  call.operands = "args...";
  call.isCall = true;
  ops.add(std::move(call));

  OpRecord gradient =
      control("value_and_grad", "the results of a function, the first a float scalar, then its gradients",
              RegionKind::None);
  gradient.operands = "args...";
  gradient.attrs = {{"wrt", AttrType::Ints, "", "which arguments; all float ones if left out"}};
  gradient.isCall = true;
  ops.add(std::move(gradient));
}

} // namespace dtc
