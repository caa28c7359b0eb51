// Regions and calls. The parser binds operands, arguments and yields by RegionKind and infers their types.
#include "record/RecordParts.h"

namespace dtc {
// The result types of a region are those of its yields, and of a call those of the function; the creator of
// the op writes them.
static bool typesAsWritten(const OpQuery& q, std::vector<TypeId>& results) {
  results.assign(q.writtenTypes.begin(), q.writtenTypes.end());
  return true;
}

// Shardings do not propagate through an op with regions; its blocks are handled separately.
static OpRecord control(const char* name, const char* summary, RegionKind regions) {
  OpRecord r{.name = name, .family = "control", .summary = summary};
  r.operandClasses = kAnyDType | kComplex; // blocks and functions take any dtype
  r.results = "ys...";
  r.sameDType = false;
  r.infer = typesAsWritten;
  r.resultType = OpRecord::ResultType::Custom;
  r.lowering = Lowering::Control;
  r.flopsPerPoint = 0;
  r.regions = regions;
  r.numRegions = static_cast<int>(numBlocks(regions));
  return r;
}

void addControlOps(OpRegistry& ops) {
  OpRecord& cond =
      ops.add(control("cond", "runs the first block if p is true, else the second", RegionKind::Cond));
  cond.operands = "p";
  cond.operandTypes = "bool";

  OpRecord& whileLoop =
      ops.add(control("while", "runs the second block as long as the first yields true", RegionKind::While));
  whileLoop.operands = "starts...";
  whileLoop.attrs = {
      {"max_trips", AttrType::Int, "", "upper bound of the number of iterations; exceeding it is an error"}};

  OpRecord& forLoop = ops.add(control(
      "for",
      "runs the block for i = lo … hi-1; returns the carried values, then values stacked along a new dim 0",
      RegionKind::For));
  forLoop.operands = "lo, hi, starts...";
  forLoop.operandTypes = "i32, i32, any";
  forLoop.attrs = {
      {"max_trips", AttrType::Int, "", "upper bound of the number of iterations; exceeding it is an error"}};

  OpRecord& local =
      ops.add(control("local", "the per-device view: all mesh axes are manual inside", RegionKind::Local));
  local.operands = "starts...";
  local.attrs = {{"free", AttrType::Axes, "",
                  "axes that are not manual: shardings propagate through the region along them"}};

  OpRecord& recompute = ops.add(control(
      "recompute", "rematerializes the block in the backward pass instead of keeping its intermediates",
      RegionKind::Recompute));
  recompute.operands = "starts...";

  OpRecord& fused = ops.add(control("fused", "the block as one kernel or library call", RegionKind::Fused));
  fused.operands = "starts...";
  fused.attrs = {
      {"kind", AttrType::String, "",
       "the implementation: \"pointwise\", \"view\", \"copy\", \"row\", \"reduce\", \"columns\", "
       "\"reductions\", \"gemm\", "
       "\"attention\", \"ordered\" or \"whole\"; default: a generated kernel"},
      {"order", AttrType::String, "", "\"fixed\": sums are computed sequentially, in element order"},
      {"gelu", AttrType::String, "",
       "\"library\": the library may compute gelu's tanh form and its gradient"}};

  OpRecord& call = ops.add(control("call", "the results of a function", RegionKind::None));
  call.operands = "args...";
  call.isCall = true;

  OpRecord& gradient = ops.add(
      control("value_and_grad", "the results of a function, the first a float scalar, then its gradients",
              RegionKind::None));
  gradient.operands = "args...";
  gradient.attrs = {{"wrt", AttrType::Ints, "", "arguments to differentiate; default: all float ones"}};
  gradient.isCall = true;
  gradient.differentiates = true;
}

} // namespace dtc
