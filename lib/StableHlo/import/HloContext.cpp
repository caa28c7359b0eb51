#include "import/HloContext.h"

#include "dtc/Import/graph/Problem.h"
#include "dtc/Import/rows/Shapes.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Tensor.h"
#include "dtc/Support/Words.h"
#include "import/HloImporter.h"
#include "import/HloSmall.h"
#include "mlir/MlirLexer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dtc {

static std::string shapeText(std::span<const int64_t> shape) { return "[" + joined(shape) + "]"; }

HloContext::HloContext(HloImporter& importer, const MlirOp& op)
    : importer(importer), module(importer.module), diags(importer.diags), op(op) {
  results_.resize(op.resultTypes.size());
  given_.resize(op.resultTypes.size());
}

// --- errors ---

bool HloContext::fail(const std::string& why) { return failAt(op.nameRange, why); }

bool HloContext::failAt(SourceRange where, const std::string& why) {
  return diags.fail(kImportUnsupported, where.valid() ? where : op.nameRange, op.name, why);
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
  fail(i < operands_.size() ? "has an operand " + std::to_string(i) + " that is not a tensor"
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
              std::to_string(operands_.size()) + " were given");
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

// Data-movement ops and selections among values of the dtype.
static bool isDataMovement(std::string_view op) {
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

bool HloContext::setResult(size_t i, ValueId v) {
  if (!v.valid()) return false;
  TypeId wanted = resultType(i);
  if (!wanted.valid()) return false;
  if (const HloSmall* small = findHloSmall(op.resultTypes[i]); small && !isDataMovement(op.name))
    v = confined(*this, v, *small);
  if (!v.valid()) return false;
  bool same = lifted() ? typeOf(v).dtype == module.types[wanted].dtype : module[v].type == wanted;
  if (!same)
    return fail("computes " + printType(module, module[v].type) + ", but its declared type is " +
                printType(module, wanted));
  results_[i].parts.assign(1, v);
  given_[i] = true;
  return true;
}

bool HloContext::setResults(std::span<const ValueId> values) {
  if (values.size() != numResults())
    return fail("has " + std::to_string(values.size()) + " results, but declares " +
                std::to_string(numResults()));
  bool ok = true;
  for (size_t i = 0; i < values.size(); ++i) ok &= setResult(i, values[i]);
  return ok;
}

bool HloContext::setResultParts(size_t i, std::vector<ValueId> parts) {
  if (i >= results_.size()) return fail("has no result " + std::to_string(i) + " in its types");
  std::vector<TypeId> types;
  if (!importer.flatten(op.resultTypes[i], op.nameRange, op.name, types)) return false;
  bool same = types.size() == parts.size();
  for (size_t k = 0; same && k < parts.size(); ++k) {
    if (!parts[k].valid()) return false;
    same = module[parts[k]].type == types[k];
  }
  if (!same) return fail("computes tensors that differ from its declared type");
  results_[i].parts = std::move(parts);
  given_[i] = true;
  return true;
}

// --- emitting ---

OpId HloContext::emitOp(OpName name, std::span<const ValueId> operands, Attributes attrs,
                        std::span<const TypeId> types) {
  for (ValueId v : operands)
    if (!v.valid()) return {};
  AttrList list = importer.locationOf(op.loc);
  for (const Attribute& a : attrs) {
    if (!a.value.valid() && a.optional) continue;
    if (!a.value.valid()) return {};
    list.push_back({module.strings.intern(a.name), a.value});
  }
  return importer.appendOp(name, operands, std::move(list), types, op.nameRange);
}

ValueId HloContext::build(const std::function<ValueId(Builder&)>& write) {
  std::vector<OpId> fresh;
  Builder b(module, importer.block(), fresh, diags);
  b.loc = op.nameRange;
  b.common = importer.locationOf(op.loc);
  b.forFile = true;
  try {
    const ValueId v = write(b);
    std::vector<OpId>& ops = module[importer.block()].ops;
    ops.insert(ops.end(), fresh.begin(), fresh.end());
    return v;
  } catch (const BuildError& e) {
    fail("does not match its operands: " + e.what);
    return {};
  }
}

ValueId HloContext::emit(OpName name, std::span<const ValueId> operands, Attributes attrs) {
  OpId o = emitOp(name, operands, attrs);
  return o.valid() && module[o].numResults > 0 ? module.result(o) : ValueId();
}

ValueId HloContext::emit(OpName name, std::initializer_list<ValueId> operands, Attributes attrs) {
  return emit(name, std::span<const ValueId>(operands.begin(), operands.size()), attrs);
}

ValueId HloContext::emitTyped(OpName name, std::initializer_list<ValueId> operands, Attributes attrs,
                              TypeId type) {
  if (!type.valid()) return {};
  OpId o = emitOp(name, {operands.begin(), operands.size()}, attrs, {&type, 1});
  return o.valid() ? module.result(o) : ValueId();
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

ValueId HloContext::constant(const HloNumbers& n, TypeId type) {
  if (!type.valid()) return {};
  const auto one = static_cast<size_t>(dtypeBytes(n.dtype));
  bool splat = n.count() > 0;
  for (size_t i = one; splat && i < n.bytes.size(); ++i) splat = n.bytes[i] == n.bytes[i - one];
  Tensor t(n.dtype, splat ? std::vector<int64_t>{1} : module.types[type].staticShape());
  std::copy_n(n.bytes.begin(), t.bytes().size(), t.bytes().begin());
  return emitTyped("constant", {}, {{"value", tensorAttr(module, t)}}, type);
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
  bool changes = false;
  for (size_t i = 0; i < perm.size(); ++i) changes |= perm[i] != static_cast<int64_t>(i);
  return x.valid() && changes ? emit("transpose", {x}, {{"perm", intsAttr(perm)}}) : x;
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
    fail("has a region of " + std::to_string(region.args.size()) + " arguments, but expected " +
         std::to_string(operands.size()));
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
      fail("has a region that returns a tensor of shape " + shapeText(shapeOf(v)) +
           ", but expected a scalar");
      return {};
    }
    v = broadcastTo(v, shape);
    if (!v.valid()) return {};
  }
  return *values;
}

// Constraints on one element are ignored: JAX puts them into reducers.
static bool isConstraint(const MlirOp& op) {
  return op.name == "sdy.sharding_constraint" ||
         (op.name == "stablehlo.custom_call" && std::ranges::any_of(op.attrs, [](const MlirNamedAttr& a) {
            return a.name == "call_target_name" && a.value.text == "Sharding";
          }));
}

static std::string_view throughConstraints(const MlirRegion& region, std::string_view name) {
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
    return throughConstraints(region, use.name) == name;
  };
  const bool fits = only && only->operands.size() == 2 && only->results.size() == 1 &&
                    last.operands.size() == 1 && is(last.operands[0], only->results[0].name) &&
                    is(only->operands[0], region.args[0].name) &&
                    is(only->operands[1], region.args[1].name) && only->regions.empty();
  return fits ? only->name.substr(only->name.find('.') + 1) : std::string_view();
}

// --- attributes, in every form that producers write ---

constexpr int64_t kMaxInts = 1 << 20; // elements of one attribute

static std::string_view sourceOf(const HloContext& c) { return c.module.source.text; }

// "i64: 0, 1, -1" after array<; the element type precedes the colon.
static std::optional<std::vector<int64_t>> arrayInts(std::string_view source, std::string_view body) {
  MlirLexer lex(source, body);
  lex.next();
  std::vector<int64_t> out;
  if (lex.atEnd()) return out;
  if (!lex.accept(':')) return std::nullopt;
  while (!lex.atEnd()) {
    MlirToken t = lex.next();
    auto v = t.kind == MlirTok::Int                  ? mlirInteger(t.text)
             : t.isWord("true") || t.isWord("false") ? std::optional<int64_t>(t.text == "true")
                                                     : std::nullopt;
    if (!v || (!lex.atEnd() && !lex.accept(','))) return std::nullopt;
    out.push_back(*v);
  }
  return out;
}

static bool listInts(const MlirAttr& a, std::vector<int64_t>& out) {
  if (a.kind == MlirAttr::Int || a.kind == MlirAttr::Bool) {
    out.push_back(a.integer);
    return true;
  }
  if (a.kind != MlirAttr::List) return false;
  for (const MlirAttr& e : a.list)
    if (!listInts(e, out)) return false;
  return true;
}

const MlirAttr* HloContext::attr(std::string_view name) const {
  for (const MlirNamedAttr& a : op.attrs)
    if (a.name == name) return importer.tree.resolve(a.value);
  return nullptr;
}

std::optional<std::vector<int64_t>> HloContext::ints(std::string_view name, int64_t count) {
  if (!has(name)) {
    fail("needs the attribute '" + std::string(name) + "'");
    return std::nullopt;
  }
  return intsOr(name, {}, count);
}

std::optional<std::vector<int64_t>> HloContext::intsOr(std::string_view name, std::vector<int64_t> fallback,
                                                       int64_t count) {
  const MlirAttr* a = attr(name);
  if (!a) return fallback;
  std::vector<int64_t> out;
  std::string why = "is not a list of integers";
  bool ok = false;
  if (a->kind == MlirAttr::Array) {
    auto v = arrayInts(sourceOf(*this), a->body);
    ok = v.has_value();
    if (v) out = std::move(*v);
  } else if (a->kind == MlirAttr::Dense && a->type && a->type->kind == MlirType::Tensor) {
    int64_t n = 1;
    for (int64_t d : a->type->dims) n = d < 0 || d > kMaxInts || n > kMaxInts ? kMaxInts + 1 : n * d;
    if (n > kMaxInts) {
      failAttr(name, "is too large");
      return std::nullopt;
    }
    bool flags = a->type->element == "i1";
    auto numbers = readNumbers(sourceOf(*this), importer.tree, *a, flags ? DType::Bool : DType::I64, n, why);
    ok = numbers.has_value();
    for (size_t i = 0; ok && i < static_cast<size_t>(n); ++i) {
      size_t at = numbers->splat ? 0 : i;
      int64_t v = 0;
      if (flags)
        v = static_cast<int64_t>(numbers->bytes[at]);
      else
        std::memcpy(&v, numbers->bytes.data() + at * sizeof v, sizeof v);
      out.push_back(v);
    }
  } else {
    ok = listInts(*a, out);
  }
  if (ok && count >= 0 && static_cast<int64_t>(out.size()) != count) {
    ok = false;
    why = "has " + std::to_string(out.size()) + " elements, but expected " + std::to_string(count);
  }
  if (ok) return out;
  failAttr(name, why);
  return std::nullopt;
}

std::optional<int64_t> HloContext::integer(std::string_view name) {
  if (has(name)) return integerOr(name, 0);
  fail("needs the attribute '" + std::string(name) + "'");
  return std::nullopt;
}

std::optional<int64_t> HloContext::integerOr(std::string_view name, int64_t fallback) {
  const MlirAttr* a = attr(name);
  if (!a) return fallback;
  if (a->kind == MlirAttr::Int || a->kind == MlirAttr::Bool) return a->integer;
  if (a->kind == MlirAttr::List || a->kind == MlirAttr::Dense || a->kind == MlirAttr::Array) {
    auto one = intsOr(name, {}, 1);
    if (one) return one->front();
    return std::nullopt;
  }
  failAttr(name, "is not an integer");
  return std::nullopt;
}

const MlirTree& HloContext::tree() const { return importer.tree; }

std::optional<std::vector<int64_t>> HloContext::bodyInts(const MlirAttr& dialect, std::string_view name) {
  MlirLexer lex(sourceOf(*this), dialect.body);
  std::vector<int64_t> out;
  for (MlirToken t = lex.next(); t.kind != MlirTok::End; t = lex.next()) {
    if (!t.isWord(name) || !lex.accept('=')) continue;
    bool list = lex.accept('[');
    while (lex.peek().kind == MlirTok::Int) {
      auto v = mlirInteger(lex.next().text);
      if (v) out.push_back(*v);
      if (!v || !list || !lex.accept(',')) break;
    }
    if (!list || lex.accept(']')) return out;
    failAt(t.range(), "expected a list of integers for '" + std::string(name) + "'");
    return std::nullopt;
  }
  return out;
}

std::optional<double> HloContext::real(std::string_view name) {
  const MlirAttr* a = attr(name);
  if (a && a->kind == MlirAttr::Float) return a->real;
  if (a && a->kind == MlirAttr::Int) {
    // 0x7FC00000 : f32 is the float with these bits.
    if (a->text.find("0x") == std::string_view::npos) return a->real;
    DType d = a->type && hloDType(a->type->element) ? *hloDType(a->type->element) : DType::F64;
    Tensor t(d, {});
    if (isFloat(d)) {
      std::memcpy(t.bytes().data(), &a->integer, t.bytes().size());
      return t.getFloat(0);
    }
  }
  if (a)
    failAttr(name, "is not a number");
  else
    fail("needs the attribute '" + std::string(name) + "'");
  return std::nullopt;
}

std::optional<bool> HloContext::flagOr(std::string_view name, bool fallback) {
  const MlirAttr* a = attr(name);
  if (!a) return fallback;
  if (a->kind == MlirAttr::Unit) return true;
  if (a->kind == MlirAttr::Bool) return a->integer != 0;
  failAttr(name, "is not true or false");
  return std::nullopt;
}

std::string_view HloContext::word(std::string_view name) const {
  const MlirAttr* a = attr(name);
  if (!a) return {};
  if (a->kind == MlirAttr::Word || a->kind == MlirAttr::String || a->kind == MlirAttr::SymbolRef)
    return a->text;
  if (a->kind != MlirAttr::Dialect && a->kind != MlirAttr::Raw) return {};
  // "comparison_direction LT"
  MlirLexer lex(sourceOf(*this), a->body);
  std::string_view last;
  while (lex.peek().kind == MlirTok::Word) last = lex.next().text;
  return last;
}

std::string HloContext::text(std::string_view name) const {
  const MlirAttr* a = attr(name);
  if (!a || (a->kind != MlirAttr::String && a->kind != MlirAttr::SymbolRef)) return {};
  return unescapeMlir(a->text);
}

} // namespace dtc
