#include "Complex.h"
#include "dtc/IR/Homomorphism.h"

#include <algorithm>
#include <bit>

namespace dtc {
namespace {

using Form = OpRecord::ComplexForm;

std::string reasonOf(const Diagnostics& diags) {
  return diags.hasErrors() ? diags.all().front().message() : "cannot be evaluated on these operands";
}

TypeId partOf(Module& m, TypeId t) {
  const Type type = m.types[t];
  return m.tensorType(partType(type.dtype), type.dims);
}

// The op over real tensors: `operands` are planes.
Result<std::vector<Tensor>> evaluatePlane(const OpQuery& query, std::span<const Tensor* const> operands,
                                          std::span<const TypeId> resultTypes, const Env& env,
                                          Precision precision) {
  std::vector<TypeId> types, results;
  for (size_t i = 0; i < operands.size(); ++i) types.push_back(partOf(*query.module, query.operandTypes[i]));
  for (TypeId t : resultTypes) results.push_back(partOf(*query.module, t));
  Diagnostics diags;
  OpQuery plane = query;
  plane.operandTypes = types;
  plane.operands = {};
  plane.writtenTypes = results;
  plane.diags = &diags;
  PreparedRule rule;
  if (!prepareRule(plane, results, rule)) return inputError(reasonOf(diags));
  return evaluateLoops(plane, rule, operands, results, env, precision);
}

// Both planes of each complex operand; a real one is used for both.
struct Planes {
  std::vector<std::array<Tensor, 2>> owned;
  std::vector<std::array<const Tensor*, 2>> of;
  explicit Planes(std::span<const Tensor* const> operands) : owned(operands.size()), of(operands.size()) {
    for (size_t i = 0; i < operands.size(); ++i)
      for (int part = 0; part < 2; ++part) {
        const auto p = static_cast<size_t>(part);
        of[i][p] = operands[i];
        if (!isComplex(operands[i]->dtype())) continue;
        owned[i][p] = operands[i]->plane(part);
        of[i][p] = &owned[i][p];
      }
  }
};

void joinParts(std::vector<Tensor>& results, const std::vector<Tensor>& real,
               const std::vector<Tensor>& imaginary) {
  for (size_t r = 0; r < results.size(); ++r)
    results[r] = isComplex(results[r].dtype()) ? Tensor::fromPlanes(real[r], imaginary[r]) : real[r];
}

void add(Tensor& sum, const Tensor& term, bool negative) {
  for (int64_t i = 0; i < sum.numElements(); ++i)
    sum.setFloat(i, sum.getFloat(i) + (negative ? -term.getFloat(i) : term.getFloat(i)));
}

// Every choice of one plane per factor is a term: real if the number of imaginary ones is even, negative if
// it is 2 or 3 modulo 4. An additive operand is part of the first term of its plane.
Result<std::vector<Tensor>> product(const OpQuery& query, std::span<const Tensor* const> operands,
                                    std::span<const TypeId> resultTypes, const Env& env, Precision precision,
                                    std::vector<Tensor> results) {
  Rule rule;
  Diagnostics diags;
  OpQuery own = query;
  own.diags = &diags;
  if (!ruleOf(own, rule)) return inputError(reasonOf(diags));
  size_t factors = operands.size(); // additive operands come last
  for (const Join& j : rule.joins) factors = std::min<size_t>(factors, j.operand);
  Planes planes(operands);
  Tensor sums[2];
  for (unsigned choice = 0; choice < 1u << factors; ++choice) {
    const unsigned imaginary = static_cast<unsigned>(std::popcount(choice)), part = imaginary % 2;
    const bool first = choice < 2;
    std::vector<const Tensor*> chosen;
    for (size_t i = 0; i < factors; ++i) chosen.push_back(planes.of[i][choice >> i & 1]);
    if (first)
      for (size_t i = factors; i < operands.size(); ++i) chosen.push_back(planes.of[i][part]);
    DTC_TRY(auto term, evaluatePlane(query, chosen, resultTypes, env, precision));
    if (first)
      sums[part] = std::move(term[0]);
    else
      add(sums[part], term[0], imaginary % 4 >= 2);
  }
  results[0] = Tensor::fromPlanes(sums[0], sums[1]);
  return results;
}

// Elementwise, with operands of size 1 broadcast.
void function(const OpQuery& query, std::span<const Tensor* const> operands, Tensor& result) {
  const std::vector<int64_t>& shape = result.shape();
  std::vector<std::vector<int64_t>> strides;
  for (const Tensor* t : operands) {
    std::vector<int64_t> own = t->strides(), s(shape.size());
    const size_t lead = shape.size() - t->rank();
    for (size_t d = 0; d < t->rank(); ++d) s[lead + d] = t->shape()[d] == 1 ? 0 : own[d];
    strides.push_back(std::move(s));
  }
  std::vector<std::complex<double>> in(operands.size());
  std::vector<int64_t> index(shape.size());
  for (int64_t i = 0; i < result.numElements(); ++i) {
    for (size_t k = 0; k < operands.size(); ++k) {
      int64_t at = 0;
      for (size_t d = 0; d < shape.size(); ++d) at += index[d] * strides[k][d];
      in[k] = operands[k]->getComplex(at);
    }
    const std::complex<double> v = query.record->complexValue(in);
    if (isComplex(result.dtype()))
      result.setComplex(i, v);
    else
      result.setFloat(i, v.real());
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

} // namespace

static bool hasComplex(const OpQuery& q, std::span<const TypeId> resultTypes) {
  auto complex = [&](TypeId t) { return isComplex(q.module->types[t].dtype); };
  return std::ranges::any_of(q.operandTypes, complex) || std::ranges::any_of(resultTypes, complex);
}

bool isComplexOp(const OpQuery& q, std::span<const TypeId> resultTypes) {
  if (q.record->complex == Form::None || q.record->complex == Form::Own) return false;
  return hasComplex(q, resultTypes);
}

decltype(OpRecord::eval) evalOf(const OpQuery& q, std::span<const TypeId> resultTypes) {
  return q.record->complexEval && hasComplex(q, resultTypes) ? q.record->complexEval : q.record->eval;
}

Result<std::vector<Tensor>> evaluateComplex(const OpQuery& query, std::span<const Tensor* const> operands,
                                            std::span<const TypeId> resultTypes, const Env& env,
                                            Precision precision, std::vector<Tensor> results) {
  const bool scaled = isScaledByNumber(query);
  if (!scaled && query.record->complex == Form::Product)
    return product(query, operands, resultTypes, env, precision, std::move(results));
  if (!scaled && query.record->complex == Form::Function) {
    function(query, operands, results[0]);
    return results;
  }
  Planes planes(operands);
  std::vector<const Tensor*> chosen[2];
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool number = scaled && query.module->values[query.operands[i].index].kind != ValueKind::OpResult &&
                        query.module->values[query.operands[i].index].kind != ValueKind::BlockArg;
    chosen[0].push_back(planes.of[i][0]);
    chosen[1].push_back(planes.of[i][number ? 0 : 1]); // a literal is real
  }
  DTC_TRY(auto real, evaluatePlane(query, chosen[0], resultTypes, env, precision));
  DTC_TRY(auto imaginary, evaluatePlane(query, chosen[1], resultTypes, env, precision));
  joinParts(results, real, imaginary);
  return results;
}

} // namespace dtc
