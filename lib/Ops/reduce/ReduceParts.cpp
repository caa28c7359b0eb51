#include "reduce/ReduceParts.h"

namespace dtc {

OpRecord reduction(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "reduce", .summary = summary};
  r.attrs = {{"dims", AttrType::Dims, "all", "the dims to reduce; [] reduces nothing"},
             {"keepdim", AttrType::Bool, "false", "keep reduced dims with size 1"}};
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

static constexpr DiagKind kEmptyArg{"empty-arg-reduction", "'{0}': dim {1} of {2} has no elements"};
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

Expr countOf(Builder& b, const Type& type, std::span<const int64_t> dims) {
  double known = 1;
  Expr symbols;
  for (int64_t d : dims) {
    const Dim size = type.dims[static_cast<size_t>(d)];
    if (size.isStatic()) {
      known *= static_cast<double>(size.value());
      continue;
    }
    if (!symbols.valid())
      symbols = Expr(b, b.constant(1, b.module.tensorType(type.dtype, std::initializer_list<int64_t>{})));
    symbols = symbols * b.module.makeSymbol(size, type.dtype, b.loc);
  }
  return symbols.valid() ? symbols * known : Expr(b, b.literal(known, type.dtype));
}

Reduced reducedOf(Builder& b, OpId op, std::span<const ValueId> dy) {
  OpQuery q = queryOf(b.module, op, b.diags);
  return {Expr(b, b.module.operand(op, 0)), Expr(b, b.module.result(op)),
          dy.empty() ? Expr() : Expr(b, dy[0]), *q.dimsAttr("dims", q.type(0).rank()), q.boolAttr("keepdim")};
}

Expr withDims(const Reduced& r, Expr v) { return r.keepdim || r.dims.empty() ? v : expand_dims(v, r.dims); }

Expr spread(const Reduced& r, Expr v) {
  const Expr with = withDims(r, v);
  return r.dims.empty() ? with : broadcast(with, r.x.dims());
}

Expr putBack(Builder& b, OpId op, Expr index, Expr dy) {
  Module& m = b.module;
  Diagnostics none;
  const OpQuery q = queryOf(m, op, none);
  const int64_t dim = *q.dimAttr("dim", q.type(0).rank());
  if (!q.boolAttr("keepdim")) {
    index = expand_dims(index, {dim});
    dy = expand_dims(dy, {dim});
  }
  const Expr zeros(b, b.constant(0, m[m.operand(op, 0)].type));
  return scatter(zeros, index, dy, {.dim = dim, .reduce = "sum"});
}

} // namespace dtc
