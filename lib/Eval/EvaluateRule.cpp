#include "EvaluateRule.h"

#include "Columns.h"
#include "Complex.h"
#include "Composite.h"
#include "Contract.h"
#include "dtc/IR/infer/RuleText.h"
#include "dtc/Support/Words.h"

#include <algorithm>

namespace dtc {
namespace {

// The accumulators of a reduction, one per point of the outer loops, in loop order.
struct Combined {
  std::vector<double> floats;
  std::vector<int64_t> ints;
  DType dtype = DType::F64;
};

std::vector<const LinearForm*> formsOf(const Nest& nest) {
  std::vector<const LinearForm*> forms = {&nest.result};
  for (const LinearForm& f : nest.operands) forms.push_back(&f);
  for (const LinearForm& f : nest.indices) forms.push_back(&f);
  return forms;
}

// Iterates loops [0, last) point by point and the last loop by columns: fn(column point, its number of
// elements, the offset and stride of the result).
template <class Fn> void forEachColumn(const Nest& nest, std::span<const Tensor* const> operands, Fn&& fn) {
  std::vector<int64_t> sizes = nest.sizes, strides;
  std::vector<const LinearForm*> forms = formsOf(nest);
  int64_t inner = sizes.empty() ? 1 : sizes.back();
  if (inner == 0) return; // whatever the number of outer points
  for (const LinearForm* f : forms) strides.push_back(sizes.empty() ? 0 : f->coefficients.back());
  if (!sizes.empty()) sizes.pop_back();
  size_t numOperands = nest.operands.size(), numIndices = nest.indices.size();
  std::span<const int64_t> allStrides = strides;
  std::vector<int64_t> offsets;
  forEachPoint(sizes, forms, [&](const std::vector<int64_t>& start) {
    for (int64_t done = 0; done < inner; done += kColumn) {
      offsets = start;
      for (size_t k = 0; k < offsets.size(); ++k) offsets[k] += done * strides[k];
      std::span<const int64_t> at = offsets;
      ColumnProgram::Point p{operands, at.subspan(1, numOperands), allStrides.subspan(1, numOperands),
                             at.subspan(1 + numOperands, numIndices),
                             allStrides.subspan(1 + numOperands, numIndices)};
      fn(p, std::min(kColumn, inner - done), offsets[0], strides[0]);
    }
  });
}

// Adds one term to a float reduction. `wide` holds a sum or product in extended precision.
double combineFloat(PendingKind kind, DType dtype, Accumulate accumulate, double acc, double term,
                    long double& wide) {
  if (accumulate == Accumulate::Extended && (kind == PendingKind::Sum || kind == PendingKind::Prod)) {
    wide = kind == PendingKind::Sum ? wide + term : wide * term;
    return static_cast<double>(wide);
  }
  double next = reduceCombine(kind, dtype, {acc, 0}, {term, 0}).f;
  return accumulate == Accumulate::Single ? static_cast<float>(next) : next;
}

Combined reduceLoops(const Nest& nest, const ScalarExpr& scalar, std::span<const Tensor* const> operands,
                     Accumulate accumulate) {
  Nest inner = nest;
  inner.coalesce(inner.numOuter, inner.sizes.size());
  DType dtype = scalar.nodes.back().dtype;
  Combined out{{}, {}, dtype};
  ColumnProgram program(scalar);
  int64_t total = nest.count(0, nest.numOuter), perPoint = nest.count(nest.numOuter, nest.sizes.size());
  ScalarValue identity = reduceIdentity(nest.reduce, dtype);
  out.floats.assign(isFloat(dtype) ? static_cast<size_t>(total) : 0, identity.f);
  out.ints.assign(isFloat(dtype) ? 0 : static_cast<size_t>(total), identity.i);
  std::vector<long double> wide(accumulate == Accumulate::Extended ? out.floats.size() : 1, identity.f);
  int64_t element = 0; // enumerates points of the full nest: outer ones are perPoint apart
  forEachColumn(inner, operands, [&](const ColumnProgram::Point& p, int64_t n, int64_t, int64_t) {
    program.run(p, n);
    for (int64_t k = 0; k < n; ++k, ++element) {
      auto at = static_cast<size_t>(element / perPoint);
      if (isFloat(dtype))
        out.floats[at] = combineFloat(nest.reduce, dtype, accumulate, out.floats[at], program.floats()[k],
                                      wide[wide.size() > 1 ? at : 0]);
      else
        out.ints[at] = reduceCombine(nest.reduce, dtype, {0, out.ints[at]}, {0, program.ints()[k]}).i;
    }
  });
  return out;
}

// Computes every result element from `expr`, over the outer loops; `combined` are the values of `acc`, in
// loop order.
void mapLoops(const Nest& outer, const ScalarExpr& expr, std::span<const Tensor* const> operands,
              const Combined* combined, Tensor& result) {
  Nest nest = outer;
  nest.coalesce(0, nest.sizes.size());
  ColumnProgram program(expr);
  size_t element = 0;
  forEachColumn(nest, operands, [&](ColumnProgram::Point p, int64_t n, int64_t offset, int64_t stride) {
    if (combined && isFloat(combined->dtype)) p.accFloats = combined->floats.data() + element;
    if (combined && !isFloat(combined->dtype)) p.accInts = combined->ints.data() + element;
    program.run(p, n);
    storeColumn(result, offset, stride, n, program.dtype(), program.floats(), program.ints());
    element += static_cast<size_t>(n);
  });
}

ScalarExpr accumulatorOnly(DType dtype) {
  ScalarExpr e;
  ScalarNode acc;
  acc.kind = ScalarNode::Accumulator;
  acc.dtype = dtype;
  e.nodes.push_back(acc);
  return e;
}

Result<Tensor> runLoops(const PreparedRule& p, std::span<const Tensor* const> operands, Tensor result,
                        const Env& env, Accumulate accumulate) {
  DTC_TRY(auto nest, buildNest(p.rule, operands, result.shape(), env));
  if (nest.numOuter == nest.sizes.size() && !p.finish) {
    mapLoops(nest, p.scalar, operands, nullptr, result);
    return result;
  }
  std::vector<size_t> order;
  Combined combined;
  if (isContraction(nest, p.scalar)) {
    combined = {contract(nest, operands, accumulate, order), {}, DType::F64};
  } else {
    combined = reduceLoops(nest, p.scalar, operands, accumulate);
    for (size_t l = 0; l < nest.numOuter; ++l) order.push_back(l);
  }
  Nest outer = nest.reordered(order, order.size());
  mapLoops(outer, p.finish ? *p.finish : accumulatorOnly(combined.dtype), operands, &combined, result);
  return result;
}

bool isStaticType(const Module& m, TypeId t) { return m.types[t].isStatic(); }

bool isStaticAttr(const Module& m, AttrId id, bool sizes) {
  const Attr& a = m.attrs[id];
  if (a.kind == Attr::List)
    return std::ranges::all_of(a.list, [&](AttrId e) { return isStaticAttr(m, e, sizes); });
  return a.kind != Attr::Size && !(sizes && a.kind == Attr::Word);
}

bool speaksOfSizes(const Module& m, const OpRecord& record, StrId name) {
  return std::ranges::any_of(record.attrs, [&](const AttrSpec& spec) {
    return m.strings[name] == spec.name && (spec.type == AttrType::Size || spec.type == AttrType::Sizes);
  });
}

// The values of symbols and shard sizes in an attribute; an invalid id if one is unbound.
AttrId concreteAttr(Module& m, AttrId id, bool sizes, const Env& env) {
  Attr a = m.attrs[id];
  if (a.kind == Attr::List) {
    for (AttrId& e : a.list)
      if (e = concreteAttr(m, e, sizes, env); !e.valid()) return {};
    return m.attrs.intern(std::move(a));
  }
  if (a.kind != Attr::Size && !(sizes && a.kind == Attr::Word)) return id;
  Dim d = a.kind == Attr::Size ? a.dim : m.dims.intern({1, {a.text}, {}});
  auto n = env.sizeOf(d);
  return n ? m.attrs.integer(*n) : AttrId();
}

TypeId typeOfShape(Module& m, DType dtype, const std::vector<int64_t>& shape) {
  std::vector<Dim> dims(shape.begin(), shape.end());
  return m.tensorType(dtype, dims);
}

} // namespace

bool isConcrete(const OpQuery& q, std::span<const TypeId> resultTypes) {
  const Module& m = *q.module;
  auto fixed = [&](TypeId t) { return isStaticType(m, t); };
  return std::ranges::all_of(q.operandTypes, fixed) && std::ranges::all_of(resultTypes, fixed) &&
         std::all_of(q.attrs->begin(), q.attrs->end(), [&](const NamedAttr& a) {
           return isStaticAttr(m, a.value, speaksOfSizes(m, *q.record, a.name));
         });
}

std::unique_ptr<ConcreteQuery> makeConcrete(const OpQuery& q, std::span<const Tensor* const> operands,
                                            std::span<const TypeId> resultTypes, const Env& env) {
  Module& m = *q.module;
  auto c = std::make_unique<ConcreteQuery>();
  for (size_t i = 0; i < q.operandTypes.size(); ++i)
    c->operandTypes.push_back(typeOfShape(m, q.type(i).dtype, operands[i]->shape()));
  for (TypeId t : resultTypes) {
    auto shape = env.shapeOf(m.types[t]);
    if (!shape) return nullptr;
    c->resultTypes.push_back(typeOfShape(m, m.types[t].dtype, *shape));
  }
  for (const NamedAttr& a : *q.attrs) {
    AttrId value = concreteAttr(m, a.value, speaksOfSizes(m, *q.record, a.name), env);
    if (!value.valid()) return nullptr;
    c->attrs.push_back({a.name, value});
  }
  c->query = q;
  c->query.operandTypes = c->operandTypes;
  c->query.writtenTypes = c->resultTypes;
  c->query.attrs = &c->attrs;
  return c;
}

namespace {

inline constexpr DiagKind kResultTypes{"evaluated-types", "'{0}' returns {1} on these operands, not {2}"};

bool setResultTypes(const OpQuery& q, std::span<const TypeId> resultTypes) {
  std::vector<TypeId> given;
  if (!inferResultTypes(q, given)) return false;
  if (std::equal(given.begin(), given.end(), resultTypes.begin(), resultTypes.end())) return true;
  auto text = [&](std::span<const TypeId> types) {
    return joined(types, ", ", [&](TypeId t) { return typeText(*q.module, t); });
  };
  return q.diags->fail(kResultTypes, q.loc, q.record->name, text(given), text(resultTypes));
}

} // namespace

bool prepareRule(const OpQuery& query, std::span<const TypeId> resultTypes, PreparedRule& p) {
  p.ofComplex = isComplexOp(query, resultTypes);
  p.eval = evalOf(query, resultTypes);
  p.composite = query.record->isComposite();
  if (p.eval || p.ofComplex || p.composite) return setResultTypes(query, resultTypes);
  if (resultTypes.empty()) return true;
  if (!ruleOf(query, p.rule)) return false;
  DType dtype = query.module->types[resultTypes[0]].dtype;
  p.scalar = scalarOf(query, dtype);
  if (!query.record->finish) return true;
  std::vector<DType> dtypes;
  for (size_t i = 0; i < query.operandTypes.size(); ++i) dtypes.push_back(query.type(i).dtype);
  p.finish = typeScalar(parseScalar(query.record->finish), dtypes, dtype, query, p.scalar.nodes.back().dtype);
  return true;
}

Result<std::vector<Tensor>> evaluateLoops(const OpQuery& query, const PreparedRule& prepared,
                                          std::span<const Tensor* const> operands,
                                          std::span<const TypeId> resultTypes, const Env& env,
                                          Precision precision) {
  std::vector<Tensor> results;
  for (TypeId t : resultTypes) {
    const Type& type = query.module->types[t];
    DType held = heldDType(type.dtype, precision);
    auto shape = env.shapeOf(type);
    if (!shape) return inputError("has an unbound size; bind symbols with --dim NAME=SIZE");
    if (!fitsInMemory(held, *shape)) return inputError("has a result that is too large to evaluate");
    results.emplace_back(held, *shape);
  }
  if (prepared.ofComplex)
    return evaluateComplex(query, operands, resultTypes, env, precision, std::move(results));
  if (prepared.composite) return evaluateComposite(query, operands, resultTypes, precision);
  if (prepared.eval) {
    Diagnostics diags;
    OpQuery own = query;
    own.diags = &diags;
    own.exact = precision == Precision::R64;
    std::vector<Tensor*> out;
    for (Tensor& t : results) out.push_back(&t);
    if (prepared.eval(own, operands, out)) return results;
    return inputError(diags.hasErrors() ? diags.all().front().message()
                                        : "cannot be evaluated on these operands");
  }
  if (results.empty()) return results; // print: the caller shows it
  if (results.size() != 1) return inputError("has several results and no evaluation of its own");
  const DType dtype = query.module->types[resultTypes[0]].dtype;
  Accumulate accumulate = Accumulate::Double;
  if (precision == Precision::R64 && dtype == DType::F64) accumulate = Accumulate::Extended;
  if (precision == Precision::Rd && accumulationType(dtype) == DType::F32) accumulate = Accumulate::Single;
  DTC_TRY(results[0], runLoops(prepared, operands, std::move(results[0]), env, accumulate));
  return results;
}

} // namespace dtc
