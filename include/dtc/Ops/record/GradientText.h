#pragma once
// The language of OpRecord::grad: statements separated by ";", each a scalar expression (Scalar.h) over the names
// of operands and results, and the cotangents dy, d<result>. `name = expression` defines a name; the others are
// the cotangents of the operands, in order. `none`: zero, or not differentiable; `unknown`: not zero, but there is
// no formula. A function may be any op.
//
//   "s = sigmoid(x * $beta); dy * s"
#include "dtc/Ops/Expr.h"

namespace dtc {

struct GradientText {
  explicit GradientText(std::string_view text);
  [[nodiscard]] static bool isFormula(std::string_view cotangent);        // neither `none` nor `unknown`
  std::vector<std::pair<std::string_view, std::string_view>> definitions; // names, expressions
  std::vector<std::string_view> cotangents;                               // one per operand

  // Appends the ops; one value per cotangent, invalid where there is no formula. `values`: the named values;
  // `op`: the query of the op, for $name.
  [[nodiscard]] std::vector<ValueId>
  build(Builder&, const OpQuery& op, std::span<const std::pair<std::string_view, ValueId>> values) const;
};

} // namespace dtc
