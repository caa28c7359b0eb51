#include "ReduceParts.h"

namespace dtc {

OpRecord reduction(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "reduce", .summary = summary};
  r.attrs = {{"dims", AttrType::Dims, "all", "reduced dims; [] reduces nothing"},
             {"keepdim", AttrType::Bool, "false", "leave size 1 in their places"}};
  r.operandClasses = kNumbers;
  r.scalar = "a";
  r.samples =
      "T[5, 3]\nT[5, 3] {dims = [1]}\nT[2, 5, 3] {dims = [0, 2]}\nT[5, 3] {dims = [0], keepdim = true}";
  return r;
}

bool reduceRuleOf(const OpQuery& q, Rule& rule, const std::vector<int64_t>& dims, FactorKind kind,
                  PendingKind reduce) {
  addOperandFactors(q, 0, rule);
  TensorMap result;
  for (size_t d = 0; d < q.type(0).rank(); ++d) {
    if (std::binary_search(dims.begin(), dims.end(), static_cast<int64_t>(d))) {
      rule.factors[d].kind = kind;
      rule.factors[d].reduce = reduce;
      if (q.boolAttr("keepdim")) result.dims.push_back(oneDim());
    } else {
      result.dims.push_back(plainDim(static_cast<uint16_t>(d)));
    }
  }
  rule.results.assign(std::max<uint32_t>(1, numResultsOf(q)), result);
  return true;
}

static constexpr DiagKind kEmptyArg{"empty-arg-reduction",
                                    "'{0}': dim {1} of {2} has no elements to choose from"};
bool searchedVerify(const OpQuery& q) {
  auto dim = q.dimAttr("dim", q.type(0).rank());
  if (dim && !(q.type(0).dims[static_cast<size_t>(*dim)] == Dim(0))) return true;
  if (dim) q.diags->error(kEmptyArg, q.loc, q.record->name, *dim, q.operandText(0));
  return false;
}

std::optional<Dim> elementsReduced(const OpQuery& q) {
  if (q.has("count")) return q.sizeAttr("count");
  auto dims = q.dimsAttr("dims", q.type(0).rank());
  Dim count(1);
  for (int64_t d : dims.value_or(std::vector<int64_t>{})) {
    auto product = q.module->dims.mul(count, q.type(0).dims[static_cast<size_t>(d)]);
    if (!product) return std::nullopt;
    count = *product;
  }
  return count;
}

ValueId countOf(Builder& b, const Type& type, std::span<const int64_t> dims) {
  double known = 1;
  ValueId symbols;
  for (int64_t d : dims) {
    const Dim size = type.dims[static_cast<size_t>(d)];
    if (size.isStatic()) {
      known *= static_cast<double>(size.value());
      continue;
    }
    if (!symbols.valid())
      symbols = b.constant(1, b.module.tensorType(type.dtype, std::initializer_list<int64_t>{}));
    symbols = b.value("mul", {symbols, b.module.makeSymbol(size, type.dtype, b.loc)});
  }
  const ValueId number = b.literal(known, type.dtype);
  return symbols.valid() ? b.value("mul", {symbols, number}) : number;
}

Reduced reducedOf(Builder& b, OpId op, std::span<const ValueId> dy) {
  OpQuery q = queryOf(b.module, op, b.diags);
  return {b.module,
          b.module.operand(op, 0),
          b.module.result(op),
          dy.empty() ? ValueId() : dy[0],
          *q.dimsAttr("dims", q.type(0).rank()),
          q.boolAttr("keepdim")};
}

ValueId withDims(Builder& b, const Reduced& r, ValueId v) {
  return r.keepdim || r.dims.empty() ? v : b.value("expand_dims", {v}, {{"dims", b.ints(r.dims)}});
}

ValueId spread(Builder& b, const Reduced& r, ValueId v) {
  const Type type = r.m.typeOf(r.x);
  Attr shape;
  shape.kind = Attr::List;
  for (Dim d : type.dims) shape.list.push_back(sizeAttr(r.m, d));
  ValueId with = withDims(b, r, v);
  if (r.dims.empty()) return with;
  return b.value("broadcast", {with}, {{"shape", r.m.attrs.intern(std::move(shape))}});
}

ValueId floatMask(Builder& b, ValueId predicate, DType dtype) {
  return b.value("convert", {predicate}, {{"dtype", b.word(dtypeName(dtype))}});
}

ValueId putBack(Builder& b, OpId op, ValueId index, ValueId dy) {
  Module& m = b.module;
  Diagnostics none;
  const OpQuery q = queryOf(m, op, none);
  const int64_t dim = *q.dimAttr("dim", q.type(0).rank());
  if (!q.boolAttr("keepdim")) {
    const AttrId dims = b.ints({&dim, 1});
    index = b.value("expand_dims", {index}, {{"dims", dims}});
    dy = b.value("expand_dims", {dy}, {{"dims", dims}});
  }
  return b.value("scatter", {b.constant(0, m[m.operand(op, 0)].type), index, dy},
                 {{"dim", b.integer(dim)}, {"reduce", m.attrs.string(m.strings.intern("sum"))}});
}

} // namespace dtc
