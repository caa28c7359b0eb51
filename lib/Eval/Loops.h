#pragma once
// One op on one device's tensors, from its rule and scalar expression: the factors are the loop nest.
#include "dtc/Eval/Eval.h"

#include "Env.h"
#include "dtc/Ops/Scalar.h"

namespace dtc {

// The dtype that values are kept in: with R64 that of the greatest precision.
[[nodiscard]] inline DType heldDType(DType d, Precision p) {
  if (p != Precision::R64) return d;
  return isFloat(d) ? DType::F64 : isComplex(d) ? DType::C128 : d;
}

// What evaluation needs of an op, worked out once: nothing of it depends on sizes.
struct PreparedRule {
  bool ofComplex = false;                  // the record's complex columns say it, and nothing below is set
  decltype(OpRecord::eval) eval = nullptr; // the record's own function says it all, and nothing below is set
  Rule rule;
  ScalarExpr scalar;                // typed
  std::optional<ScalarExpr> finish; // typed
};
// Do all sizes of the op's types and attributes stand as numbers? Else it is prepared anew from its concrete query, on each
// device and for each value of a symbol.
[[nodiscard]] bool isConcrete(const OpQuery&, std::span<const TypeId> resultTypes);
// The query with sizes as numbers: those of the operands, and env's for the rest. Nothing where a symbol is not bound.
struct ConcreteQuery {
  OpQuery query;
  std::vector<TypeId> operandTypes, resultTypes;
  AttrList attrs;
};
[[nodiscard]] std::unique_ptr<ConcreteQuery> makeConcrete(const OpQuery&,
                                                          std::span<const Tensor* const> operands,
                                                          std::span<const TypeId> resultTypes, const Env&);
// False with a diagnostic in query.diags, also where the results are not of the types that the op gives: a record's own
// evaluation trusts them.
[[nodiscard]] bool prepareRule(const OpQuery&, std::span<const TypeId> resultTypes, PreparedRule&);

// The results of one op on one device. `operands` have the dtypes they are held in (R64: f64 for floats); results of
// `shapes` and held dtypes come back in `results`. On failure the message says what is wrong, without op and place.
[[nodiscard]] Result<std::vector<Tensor>> evaluateLoops(const OpQuery&, const PreparedRule&,
                                                        std::span<const Tensor* const> operands,
                                                        std::span<const TypeId> resultTypes, const Env&,
                                                        Precision);

} // namespace dtc
