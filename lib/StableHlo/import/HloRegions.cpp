#include "import/HloRegions.h"
#include "dtc/Ops/record/Scalar.h"
#include "import/HloImporter.h"

#include <algorithm>

namespace dtc {

namespace {

struct NamedFold {
  std::string_view op;
  HloFold numbers, bools;
};
constexpr HloFold kSum{PendingKind::Sum, "add", "sum", "cumsum", "sum"},
    kProduct{PendingKind::Prod, "mul", "prod", "cumprod", "prod"},
    kMax{PendingKind::Max, "max", "max", "cummax", "max"},
    kMin{PendingKind::Min, "min", "min", "cummin", "min"}, kAny{PendingKind::Any, "or", "any", {}, "or"},
    kAll{PendingKind::All, "and", "all", {}, "and"}, kOr{PendingKind::Any, "or", {}, {}, "or"},
    kAnd{PendingKind::All, "and", {}, {}, "and"}, kXor{PendingKind::Sum, "xor", {}, {}, "xor"};
// On i1, arithmetic is logical.
constexpr NamedFold kFolds[] = {
    {"add", kSum, kAny}, {"multiply", kProduct, kAll}, {"maximum", kMax, kAny}, {"minimum", kMin, kAll},
    {"or", kOr, kAny},   {"and", kAnd, kAll},          {"xor", kXor, kXor}};

constexpr size_t kLongestExpression = 4096;
constexpr int kDeepestExpression = 64; // the text is untrusted: a value may depend on itself

} // namespace

const HloFold* foldOf(const HloContext& c, const MlirRegion& region, DType dtype) {
  const std::string_view op = c.regionOp(region);
  for (const NamedFold& f : kFolds)
    if (f.op == op) return isBool(dtype) ? &f.bools : &f.numbers;
  return nullptr;
}

bool isNeutral(const HloContext& c, ValueId init, const HloFold& fold) {
  const Module& m = c.module;
  const DType dtype = m.typeOf(init).dtype;
  for (OpId o = m.definingOp(init); o.valid() && m[o].numOperands == 1; o = m.definingOp(init))
    init = m.operand(o, 0); // of one element
  const Attr* a = splatOf(m, init);
  if (!a) return false;
  const ScalarValue neutral = reduceIdentity(fold.kind, dtype);
  if (a->kind == Attr::Float) return a->f == neutral.f;
  if (isFloat(dtype)) return static_cast<double>(a->i) == neutral.f;
  return a->i == (fold.kind == PendingKind::All && isInteger(dtype) ? -1 : neutral.i);
}

std::vector<ValueId> foldRegion(HloContext& c, const MlirRegion& region, std::span<const ValueId> a,
                                std::span<const ValueId> b, std::span<const int64_t> shape) {
  std::vector<ValueId> args(a.begin(), a.end());
  args.insert(args.end(), b.begin(), b.end());
  std::vector<ValueId> out = c.inlineRegion(region, args, shape);
  if (!out.empty() && out.size() != a.size()) {
    c.fail("has a region that returns " + std::to_string(out.size()) + " values, but expected " +
           std::to_string(a.size()));
    return {};
  }
  return out;
}

bool readFolded(HloContext& c, HloFolded& f) {
  if (c.lifted()) return c.fail("reduces tensors, but an elementwise function is expected here");
  if (!c.expectRegions(1)) return false;
  const size_t n = c.numOperands() / 2;
  if (n == 0 || c.numOperands() != 2 * n) return c.fail("needs as many initial values as operands");
  for (size_t i = 0; i < n; ++i) {
    f.inputs.push_back(c.operand(i));
    f.inits.push_back(c.operand(n + i));
    if (!f.inputs[i].valid() || !f.inits[i].valid()) return false;
    if (c.rankOf(f.inits[i]) != 0) return c.fail("needs initial values of one element");
    if (c.shapeOf(f.inputs[i]) != c.shapeOf(f.inputs[0])) return c.fail("needs operands of one shape");
  }
  f.shape = c.shapeOf(f.inputs[0]);
  f.region = &c.op.regions[0];
  if (n == 1 && c.dtypeOf(f.inputs[0]) == c.dtypeOf(f.inits[0]))
    f.fold = foldOf(c, *f.region, c.dtypeOf(f.inputs[0]));
  return true;
}

const MlirOp* regionMaker(const MlirRegion& region, const MlirUse& value) {
  for (const MlirOp& op : region.ops)
    for (const MlirResult& r : op.results)
      if (r.name == value.name) return &op;
  return nullptr;
}

std::string_view compareWord(const HloContext& c, const MlirOp& op, std::string_view attribute) {
  return HloContext(c.importer, op).word(attribute);
}

static std::string expressionOf(const HloContext& c, const MlirRegion& region, const MlirUse& value,
                                std::span<const std::string> names, int depth) {
  for (size_t i = 0; i < region.args.size() && i < names.size(); ++i)
    if (region.args[i].name == value.name) return names[i];
  const MlirOp* op = depth < kDeepestExpression ? regionMaker(region, value) : nullptr;
  if (!op || op->numResults() != 1 || !op->regions.empty()) return {};
  const std::string_view name = op->name.substr(op->name.find('.') + 1);
  std::string text(name);
  if (name == "compare") text += " " + std::string(compareWord(c, *op, "comparison_direction"));
  text += "(";
  for (const MlirUse& use : op->operands) {
    const std::string inner = expressionOf(c, region, use, names, depth + 1);
    if (inner.empty() || text.size() + inner.size() > kLongestExpression) return {};
    text += (text.back() == '(' ? "" : ",") + inner;
  }
  return text + ")";
}

std::string regionExpression(const HloContext& c, const MlirRegion& region, const MlirUse& value,
                             std::span<const std::string> names) {
  return expressionOf(c, region, value, names, 0);
}

ValueId regionValue(HloContext& c, const MlirRegion& region, const MlirUse& value,
                    std::span<const ValueId> args, std::span<const int64_t> shape) {
  MlirRegion part = region;
  if (part.ops.empty()) return {};
  part.ops.back().operands = {value};
  const std::vector<ValueId> out = c.inlineRegion(part, args, shape);
  return out.size() == 1 ? out[0] : ValueId();
}

ValueId totalOrderKey(HloContext& c, ValueId x) {
  const DType d = c.dtypeOf(x);
  if (!isFloat(d)) return x;
  const DType bits = dtypeBytes(d) == 1   ? DType::I8
                     : dtypeBytes(d) == 2 ? DType::I16
                     : dtypeBytes(d) == 4 ? DType::I32
                                          : DType::I64;
  const ValueId raw = c.emit("bitcast", {x}, {{"dtype", c.dtypeAttr(bits)}});
  const ValueId sign = c.emit("shr", {raw, c.literal(8 * dtypeBytes(d) - 1, bits)});
  const ValueId maxValue = c.module.makeLiteral(c.intAttr(intMax(bits)), bits, c.op.nameRange);
  return c.emit("xor", {raw, c.emit("and", {sign, maxValue})});
}

ValueId sliceAlong(HloContext& c, ValueId x, size_t dim, int64_t start, int64_t count, int64_t stride) {
  if (!x.valid()) return x;
  std::vector<int64_t> limit = c.shapeOf(x), first(limit.size(), 0), step(limit.size(), 1);
  if (start == 0 && stride == 1 && count == limit[dim]) return x;
  first[dim] = start;
  limit[dim] = count == 0 ? start : start + (count - 1) * stride + 1;
  step[dim] = stride;
  return c.emit("slice", {x},
                {{"start", c.intsAttr(first)}, {"limit", c.intsAttr(limit)}, {"stride", c.intsAttr(step)}});
}

ValueId padWith(HloContext& c, ValueId x, ValueId value, std::span<const int64_t> low,
                std::span<const int64_t> high, std::span<const int64_t> interior) {
  auto none = [](std::span<const int64_t> v) {
    return std::all_of(v.begin(), v.end(), [](int64_t i) { return i == 0; });
  };
  if (!x.valid() || (none(low) && none(high) && none(interior))) return x;
  return c.emit("pad", {x, value},
                {{"low", c.intsAttr(low)}, {"high", c.intsAttr(high)}, {"interior", c.intsAttr(interior)}});
}

int64_t elementsOf(std::span<const int64_t> shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

} // namespace dtc
