#pragma once
// Evaluates one op on one device's tensors, from its rule and scalar expression: the factors are the loop
// nest.
#include "dtc/Eval/Eval.h"

#include "Env.h"
#include "dtc/Ops/record/Scalar.h"

namespace dtc {

// The dtype in which values are stored: with R64 that of the highest precision.
[[nodiscard]] inline DType heldDType(DType d, Precision p) {
  if (p != Precision::R64) return d;
  return isFloat(d) ? DType::F64 : isComplex(d) ? DType::C128 : d;
}

// The size-independent preparation of an op.
struct PreparedRule {
  bool ofComplex = false;                  // the record's complex columns define it, and nothing below is set
  decltype(OpRecord::eval) eval = nullptr; // the record's own function defines it, and nothing below is set
  bool composite = false;                  // defined by its decomposition, and nothing below is set
  Rule rule;
  ScalarExpr scalar;                // typed
  std::optional<ScalarExpr> finish; // typed
};
// Whether all sizes of the op's types and attributes are static. Otherwise it is prepared again from its
// concrete query, on each device and for each value of a symbol.
[[nodiscard]] bool isConcrete(const OpQuery&, std::span<const TypeId> resultTypes);
// The query with concrete sizes: those of the operands, and env's for the others. Empty if a symbol is
// unbound.
struct ConcreteQuery {
  OpQuery query;
  std::vector<TypeId> operandTypes, resultTypes;
  AttrList attrs;
};
[[nodiscard]] std::unique_ptr<ConcreteQuery> makeConcrete(const OpQuery&,
                                                          std::span<const Tensor* const> operands,
                                                          std::span<const TypeId> resultTypes, const Env&);
// False, with a diagnostic in query.diags, also if the results do not have the op's types: a record's own
// evaluation relies on them.
[[nodiscard]] bool prepareRule(const OpQuery&, std::span<const TypeId> resultTypes, PreparedRule&);

// Computes the results of one op on one device. `operands` have the stored dtypes (R64: f64 for floats), as
// have the returned results, of shapes `shapes`. On failure the message describes the fault without op and
// location.
[[nodiscard]] Result<std::vector<Tensor>> evaluateLoops(const OpQuery&, const PreparedRule&,
                                                        std::span<const Tensor* const> operands,
                                                        std::span<const TypeId> resultTypes, const Env&,
                                                        Precision);

} // namespace dtc
