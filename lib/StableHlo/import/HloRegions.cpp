#include "import/HloRegions.h"
#include "dtc/Import/rows/Shapes.h"
#include "dtc/Ops/record/Scalar.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Tensor.h"
#include "import/HloImporter.h"

#include <algorithm>
#include <charconv>
#include <cmath>

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

// A constant of one element as text that is the same for every way to write it; NaNs are not told apart.
static std::string constantText(const Module& m, const Attr& a, DType dtype) {
  if (a.kind == Attr::String) { // the bytes, in hexadecimal
    const std::string_view hex = m.strings[a.text];
    Tensor t(dtype, {1});
    if (hex.size() != 2 + 2 * t.bytes().size()) return {};
    for (size_t i = 0; i < t.bytes().size(); ++i) {
      unsigned byte = 0;
      std::from_chars(&hex[2 + 2 * i], &hex[2 + 2 * i] + 2, byte, 16);
      t.bytes()[i] = static_cast<std::byte>(byte);
    }
    return isFloat(dtype) && std::isnan(t.getFloat(0)) ? "nan" : std::string(hex);
  }
  if (a.kind != Attr::Float && a.kind != Attr::Int && a.kind != Attr::Bool) return {};
  if (isFloat(dtype) && a.kind == Attr::Float && std::isnan(a.f)) return "nan";
  char number[40];
  std::snprintf(number, sizeof number, "%.17g", a.kind == Attr::Float ? a.f : static_cast<double>(a.i));
  return isFloat(dtype) ? number : std::to_string(a.i);
}

// A constant of the region.
static std::string ownConstant(const HloContext& c, const MlirOp& op) {
  const MlirAttr* value = findAttr(op.attrs, "value");
  const std::optional<DType> dtype =
      op.resultTypes.size() == 1 ? hloDType(op.resultTypes[0]->element) : std::nullopt;
  std::string why;
  auto numbers =
      value && dtype ? readNumbers(c.module.source.text, c.tree(), *value, *dtype, 1, why) : std::nullopt;
  if (!numbers || numbers->count() != 1) return {};
  Tensor t(*dtype, {1});
  std::copy(numbers->bytes.begin(), numbers->bytes.end(), t.bytes().begin());
  return constantText(c.module, c.module.attrs[tensorAttr(c.module, t)], *dtype);
}

// A value from outside of the region.
static std::string outerValue(const HloContext& c, const MlirUse& use) {
  const HloValue* v = c.importer.lookup(use);
  if (!v || v->parts.size() != 1) return {};
  const ValueId id = v->parts[0];
  const OpId maker = c.module.definingOp(id);
  if (maker.valid() && c.module.record(maker).isConstant)
    if (const AttrId value = c.module.attr(maker, "value"); value.valid())
      if (std::string text = constantText(c.module, c.module.attrs[value], c.module.typeOf(id).dtype);
          !text.empty())
        return text;
  return "outer" + std::to_string(id.index);
}

// All that an attribute says.
static void appendAttr(const MlirAttr& a, std::string& out, int depth) {
  out += ' ';
  out += a.text;
  out += a.body;
  out += ' ' + std::to_string(a.integer) + ' ' + std::to_string(a.real);
  if (a.type) out += a.type->element;
  if (depth == 0) return;
  for (const MlirAttr& e : a.list) appendAttr(e, out, depth - 1);
  for (const MlirNamedAttr& e : a.dict) (out += e.name), appendAttr(e.value, out, depth - 1);
}

// The op with what its attributes and its result's type add: "compare LT", "add".
static std::string operationText(const HloContext& c, const MlirOp& op) {
  const std::string_view name = op.name.substr(op.name.find('.') + 1);
  std::string text(name);
  if (name == "compare") {
    text += " " + std::string(compareWord(c, op, "comparison_direction"));
    return compareWord(c, op, "compare_type") == "TOTALORDER" ? text + " TOTALORDER" : text;
  }
  for (const MlirNamedAttr& a : op.attrs) (text += a.name), appendAttr(a.value, text, 4);
  for (const MlirAttr& a : op.items) appendAttr(a, text, 4);
  if (name.find("convert") != std::string_view::npos)
    for (const MlirType* t : op.resultTypes) (text += " ") += t->element;
  return text;
}

static std::string expressionOf(const HloContext& c, const MlirRegion& region, const MlirUse& value,
                                std::span<const std::string> names, int depth) {
  for (size_t i = 0; i < region.args.size() && i < names.size(); ++i)
    if (region.args[i].name == value.name) return names[i];
  const MlirOp* op = depth < kDeepestExpression ? regionMaker(region, value) : nullptr;
  if (!op) return depth < kDeepestExpression ? outerValue(c, value) : std::string();
  if (op->numResults() != 1 || !op->regions.empty()) return {};
  if (op->name.ends_with(".constant")) return ownConstant(c, *op);
  std::string text = operationText(c, *op) + "(";
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
  part.ops.back().operandTypes.clear(); // those of what the region returns
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
  for (int64_t d : shape) {
    if (d == 0) return 0;
    n = checkedMul(n, d).value_or(INT64_MAX);
  }
  return n;
}

} // namespace dtc
