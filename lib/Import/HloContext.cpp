#include "HloContext.h"

#include "HloImporter.h"
#include "HloSmall.h"
#include "MlirLexer.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Tensor.h"

#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

constexpr DiagKind kImport{"import-unsupported", "'{0}' does not import: it {1}"};
// Constants of at most so many elements are written as lists, others as bytes.
constexpr int64_t kListedElements = 32;

std::string shapeText(std::span<const int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

} // namespace

HloContext::HloContext(HloImporter& importer, const MlirOp& op)
    : importer(importer), module(importer.module), diags(importer.diags), op(op) {
  results_.resize(op.resultTypes.size());
  given_.resize(op.resultTypes.size());
}

// --- errors ---

bool HloContext::fail(const std::string& why) { return failAt(op.nameRange, why); }

bool HloContext::failAt(SourceRange where, const std::string& why) {
  diags.error(kImport, where.valid() ? where : op.nameRange, op.name, why);
  return false;
}

bool HloContext::failAttr(std::string_view name, const std::string& why) {
  for (const MlirNamedAttr& a : op.attrs)
    if (a.name == name && a.nameRange.valid())
      return failAt(a.nameRange, "has the attribute '" + std::string(name) + "', which " + why);
  return fail("has the attribute '" + std::string(name) + "', which " + why);
}

// --- operands and results ---

ValueId HloContext::operand(size_t i) {
  if (i < operands_.size() && operands_[i].parts.size() == 1) return operands_[i].parts[0];
  fail(i < operands_.size() ? "has an operand " + std::to_string(i) + " that is no tensor"
                            : "needs more operands: there is no operand " + std::to_string(i));
  return {};
}

std::vector<ValueId> HloContext::tensors(size_t first) {
  std::vector<ValueId> out;
  for (size_t i = first; i < operands_.size(); ++i)
    out.insert(out.end(), operands_[i].parts.begin(), operands_[i].parts.end());
  return out;
}

bool HloContext::expectOperands(size_t count) {
  if (operands_.size() == count) return true;
  return fail("takes " + std::to_string(count) + (count == 1 ? " operand" : " operands") + ", but " +
              std::to_string(operands_.size()) + " are given");
}

std::vector<int64_t> HloContext::shapeOf(ValueId v) const {
  return v.valid() ? typeOf(v).staticShape() : std::vector<int64_t>();
}

bool HloContext::lifted() const { return importer.lifted(); }

TypeId HloContext::typeFrom(const MlirType* t, SourceRange where) {
  return importer.typeFrom(t, where, op.name);
}

TypeId HloContext::resultType(size_t i) {
  if (i < op.resultTypes.size())
    return typeFrom(op.resultTypes[i], op.resultTypes[i] ? op.resultTypes[i]->range : op.nameRange);
  fail("has no result " + std::to_string(i) + " in its types");
  return {};
}

std::vector<int64_t> HloContext::resultShape(size_t i) {
  TypeId t = resultType(i);
  return t.valid() ? module.types[t].staticShape() : std::vector<int64_t>();
}

DType HloContext::resultDType(size_t i) {
  TypeId t = resultType(i);
  return t.valid() ? module.types[t].dtype : DType::F32;
}

// Ops that only move what is a value of its dtype already, or choose among such.
static bool onlyMoves(std::string_view op) {
  static constexpr std::string_view names[] = {"and",
                                               "broadcast",
                                               "broadcast_in_dim",
                                               "concatenate",
                                               "constant",
                                               "dynamic_slice",
                                               "dynamic_update_slice",
                                               "gather",
                                               "maximum",
                                               "minimum",
                                               "or",
                                               "pad",
                                               "reshape",
                                               "reverse",
                                               "select",
                                               "slice",
                                               "sort",
                                               "transpose",
                                               "xor",
                                               "optimization_barrier"};
  return op.starts_with("stablehlo.") && std::ranges::find(names, op.substr(10)) != std::end(names);
}

bool HloContext::give(size_t i, ValueId v) {
  if (!v.valid()) return false;
  TypeId wanted = resultType(i);
  if (!wanted.valid()) return false;
  if (const HloSmall* small = findHloSmall(op.resultTypes[i]); small && !onlyMoves(op.name))
    v = confined(*this, v, *small);
  if (!v.valid()) return false;
  bool same = lifted() ? typeOf(v).dtype == module.types[wanted].dtype : module[v].type == wanted;
  if (!same)
    return fail("gives " + printType(module, module[v].type) + ", but its type says " +
                printType(module, wanted));
  results_[i].parts.assign(1, v);
  given_[i] = true;
  return true;
}

bool HloContext::giveAll(std::span<const ValueId> values) {
  if (values.size() != numResults())
    return fail("gives " + std::to_string(values.size()) + " results, but its types say " +
                std::to_string(numResults()));
  bool ok = true;
  for (size_t i = 0; i < values.size(); ++i) ok &= give(i, values[i]);
  return ok;
}

bool HloContext::giveParts(size_t i, std::vector<ValueId> parts) {
  if (i >= results_.size()) return fail("has no result " + std::to_string(i) + " in its types");
  std::vector<TypeId> types;
  if (!importer.flatten(op.resultTypes[i], op.nameRange, op.name, types)) return false;
  bool same = types.size() == parts.size();
  for (size_t k = 0; same && k < parts.size(); ++k) {
    if (!parts[k].valid()) return false;
    same = module[parts[k]].type == types[k];
  }
  if (!same) return fail("gives other tensors than its type says");
  results_[i].parts = std::move(parts);
  given_[i] = true;
  return true;
}

// --- emitting ---

OpId HloContext::emitOp(std::string_view name, std::span<const ValueId> operands, Attributes attrs,
                        std::span<const TypeId> types) {
  for (ValueId v : operands)
    if (!v.valid()) return {};
  AttrList list = importer.placeOf(op.loc);
  for (const Attribute& a : attrs) {
    if (!a.value.valid() && a.optional) continue;
    if (!a.value.valid()) return {};
    list.push_back({module.strings.intern(a.name), a.value});
  }
  return importer.appendOp(name, operands, std::move(list), types, op.nameRange);
}

ValueId HloContext::emit(std::string_view name, std::span<const ValueId> operands, Attributes attrs) {
  OpId o = emitOp(name, operands, attrs);
  return o.valid() && module[o].numResults > 0 ? module.result(o) : ValueId();
}

ValueId HloContext::emit(std::string_view name, std::initializer_list<ValueId> operands, Attributes attrs) {
  return emit(name, std::span<const ValueId>(operands.begin(), operands.size()), attrs);
}

ValueId HloContext::emitTyped(std::string_view name, std::initializer_list<ValueId> operands,
                              Attributes attrs, TypeId type) {
  if (!type.valid()) return {};
  OpId o = emitOp(name, {operands.begin(), operands.size()}, attrs, {&type, 1});
  return o.valid() ? module.result(o) : ValueId();
}

AttrId HloContext::listAttr(std::span<const AttrId> v) {
  Attr a;
  a.kind = Attr::List;
  a.list.assign(v.begin(), v.end());
  return module.attrs.intern(std::move(a));
}

TypeId HloContext::tensorType(DType d, std::span<const int64_t> shape) {
  std::vector<Dim> dims(shape.begin(), shape.end());
  return module.tensorType(d, dims);
}

ValueId HloContext::literal(double v, DType dtype) {
  AttrId a = isFloat(partType(dtype)) ? realAttr(roundToFloat(partType(dtype), v))
             : isBool(dtype)          ? boolAttr(v != 0)
                                      : intAttr(floatToInt(dtype, v));
  return module.makeLiteral(a, dtype, op.nameRange);
}

ValueId HloContext::splat(double v, DType dtype, std::span<const int64_t> shape) {
  AttrId a = isFloat(partType(dtype)) ? realAttr(roundToFloat(partType(dtype), v))
             : isBool(dtype)          ? boolAttr(v != 0)
                                      : intAttr(floatToInt(dtype, v));
  return emitTyped("constant", {}, {{"value", a}}, tensorType(dtype, shape));
}

namespace {

std::string hexText(std::span<const std::byte> bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out = "0x";
  out.reserve(2 + bytes.size() * 2);
  for (std::byte b : bytes) {
    out.push_back(digits[static_cast<unsigned>(b) >> 4]);
    out.push_back(digits[static_cast<unsigned>(b) & 15]);
  }
  return out;
}

// Can each element be written as a number, so that the same bits are read back?
bool hasNumbers(const HloNumbers& n, const Tensor& t) {
  if (!isFloat(n.dtype)) return isBool(n.dtype) || isInteger(n.dtype);
  for (int64_t i = 0; i < t.numElements(); ++i)
    if (std::isnan(t.getFloat(i))) return false;
  return true;
}

AttrId numberAttr(Module& m, const Tensor& t, int64_t i) {
  if (isFloat(t.dtype())) return m.attrs.real(t.getFloat(i));
  if (isBool(t.dtype())) return m.attrs.boolean(t.getInt(i) != 0);
  Attr a;
  a.i = t.getInt(i);
  a.isUnsigned = t.dtype() == DType::U64 && a.i < 0;
  return m.attrs.intern(std::move(a));
}

AttrId nested(Module& m, const Tensor& t, std::span<const int64_t> shape, int64_t& at) {
  if (shape.empty()) return numberAttr(m, t, at++);
  Attr list;
  list.kind = Attr::List;
  for (int64_t i = 0; i < shape[0]; ++i) list.list.push_back(nested(m, t, shape.subspan(1), at));
  return m.attrs.intern(std::move(list));
}

} // namespace

ValueId HloContext::constant(const HloNumbers& n, TypeId type) {
  if (!type.valid()) return {};
  std::vector<int64_t> shape = module.types[type].staticShape();
  auto count = static_cast<int64_t>(n.count());
  auto one = static_cast<size_t>(dtypeBytes(n.dtype));
  bool splat = count > 0;
  for (size_t i = one; splat && i < n.bytes.size(); ++i) splat = n.bytes[i] == n.bytes[i - one];
  Tensor t(n.dtype, {splat ? 1 : count});
  std::copy_n(n.bytes.begin(), t.bytes().size(), t.bytes().begin());
  AttrId value;
  int64_t at = 0;
  if (count == 0)
    value = isFloat(partType(n.dtype)) ? realAttr(0) : isBool(n.dtype) ? boolAttr(false) : intAttr(0);
  else if (!hasNumbers(n, t) || (!splat && count > kListedElements))
    value = stringAttr(hexText(t.bytes()));
  else
    value = splat ? numberAttr(module, t, 0) : nested(module, t, shape, at);
  return emitTyped("constant", {}, {{"value", value}}, type);
}

ValueId HloContext::reshape(ValueId x, std::span<const int64_t> shape) {
  if (!x.valid() || std::ranges::equal(shapeOf(x), shape)) return x;
  return emit("reshape", {x}, {{"shape", intsAttr(shape)}});
}

ValueId HloContext::broadcastTo(ValueId x, std::span<const int64_t> shape) {
  if (!x.valid() || std::ranges::equal(shapeOf(x), shape)) return x;
  return emit("broadcast", {x}, {{"shape", intsAttr(shape)}});
}

ValueId HloContext::transpose(ValueId x, std::span<const int64_t> perm) {
  bool moves = false;
  for (size_t i = 0; i < perm.size(); ++i) moves |= perm[i] != static_cast<int64_t>(i);
  return x.valid() && moves ? emit("transpose", {x}, {{"perm", intsAttr(perm)}}) : x;
}

ValueId HloContext::convert(ValueId x, DType dtype) {
  if (!x.valid() || dtypeOf(x) == dtype) return x;
  return emit("convert", {x}, {{"dtype", dtypeAttr(dtype)}});
}

// --- regions ---

bool HloContext::expectRegions(size_t count) {
  if (op.regions.size() == count) return true;
  return fail("needs " + std::to_string(count) + " regions, but has " + std::to_string(op.regions.size()));
}

std::vector<ValueId> HloContext::inlineRegion(const MlirRegion& region, std::span<const ValueId> operands,
                                              std::span<const int64_t> shape) {
  if (region.args.size() != operands.size()) {
    fail("has a region of " + std::to_string(region.args.size()) + " arguments where " +
         std::to_string(operands.size()) + " are asked for");
    return {};
  }
  std::vector<HloValue> args(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].valid()) return {};
    args[i] = {region.args[i].type, {operands[i]}};
  }
  auto values = importer.regionLifted(region, args);
  if (!values) return {};
  for (ValueId& v : *values) {
    size_t rank = rankOf(v);
    if (rank > shape.size()) {
      fail("has a region that gives a tensor of shape " + shapeText(shapeOf(v)) + " for an element");
      return {};
    }
    v = broadcastTo(v, shape);
    if (!v.valid()) return {};
  }
  return *values;
}

// Constraints of one element say nothing: JAX puts them into reducers.
static bool isConstraint(const MlirOp& op) {
  return op.name == "sdy.sharding_constraint" ||
         (op.name == "stablehlo.custom_call" && std::ranges::any_of(op.attrs, [](const MlirNamedAttr& a) {
            return a.name == "call_target_name" && a.value.text == "Sharding";
          }));
}

static std::string_view behindConstraints(const MlirRegion& region, std::string_view name) {
  for (size_t i = region.ops.size(); i-- > 0;) {
    const MlirOp& op = region.ops[i];
    if (isConstraint(op) && op.results.size() == 1 && op.operands.size() == 1 && op.results[0].name == name)
      name = op.operands[0].name;
  }
  return name;
}

std::string_view HloContext::regionOp(const MlirRegion& region) const {
  if (region.args.size() != 2 || region.ops.size() < 2) return {};
  const MlirOp *only = nullptr, &last = region.ops.back();
  for (const MlirOp& op : std::span(region.ops).first(region.ops.size() - 1)) {
    if (isConstraint(op)) continue;
    if (only) return {};
    only = &op;
  }
  auto is = [&](const MlirUse& use, std::string_view name) {
    return behindConstraints(region, use.name) == name;
  };
  const bool fits = only && only->operands.size() == 2 && only->results.size() == 1 &&
                    last.operands.size() == 1 && is(last.operands[0], only->results[0].name) &&
                    is(only->operands[0], region.args[0].name) &&
                    is(only->operands[1], region.args[1].name) && only->regions.empty();
  return fits ? only->name.substr(only->name.find('.') + 1) : std::string_view();
}

} // namespace dtc
