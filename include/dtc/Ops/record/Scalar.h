#pragma once
// The language of OpRecord::scalar and ::finish, which defines one result element.
//
//   a b c …      the operands' elements (an absent optional operand is 0)
//   acc          the combined value (finish only)
//   $name        a number from the attributes (OpQuery::numberOf)
//   index(d)     the result's coordinate along dim d
//   1 0.5 inf nan   + - * /   < <= > >= == !=   f(x, y): an intrinsic
//
// An expression is parsed once per record and typed once per op, and then evaluated or printed: the evaluator
// and both kernel printers share the typed tree. Edge cases are those of ir.md, "Edges".
#include "dtc/IR/OpRecord.h"
#include <array>

namespace dtc {

// One row per function of the language; operators are functions too (add, sub, mul, div, neg, lt, …).
struct Intrinsic {
  const char* name; // kernels call dtc_<name>(…), which the device header defines for every supported dtype
  uint8_t arity;
  enum Result : uint8_t {
    Same,    // arguments are converted to a common dtype, which is that of the result
    Bool,    // as Same, but the result is bool
    Cast,    // to the dtype of the op's result (cast, bitcast)
    Select,  // (bool, x, y): x and y are converted to a common dtype
    Part,    // of one complex argument, the dtype of its parts (real, imag)
    Complex, // of two floats, the complex dtype with such parts
    First,   // arguments keep their dtypes; the result has that of the first (pow)
  } result;
  const char* infix;                          // the C++ operator, if it is equivalent on floats; else nullptr
  double (*onFloats)(double, double, double); // nullptr: not defined on floats
  // bool and integers, wrapped; nullptr: not defined on them
  int64_t (*onInts)(DType, int64_t, int64_t, int64_t);
  // The StableHLO or CHLO op that computes it on tensors with the same edge cases; of a comparison, its
  // direction. nullptr: it is exported as several ops (ExportScalar.cpp).
  const char* stableHlo = nullptr;
  // It takes some tens of instructions: kernels keep its result rather than computing it again.
  bool costly = false;
};
[[nodiscard]] std::span<const Intrinsic> intrinsics();
[[nodiscard]] const Intrinsic* findIntrinsic(std::string_view name);
[[nodiscard]] bool isCostly(std::string_view intrinsic);

// A node of the tree; children precede their parents, and the root is last.
struct ScalarNode {
  enum Kind : uint8_t { Operand, Accumulator, Attribute, Index, Number, Call } kind = Number;
  uint16_t position = 0;          // Operand: 0 is a; Index: the result's dim, once typed
  DType dtype = DType::F64;       // once typed
  double number = 0;              // Number
  int64_t integer = 0;            // Number of an integer or bool dtype, once typed (u64 as the same bits)
  bool exact = false;             // Number: `integer` is exact as written, and `number` may be rounded
  std::string name;               // Attribute; Call
  const Intrinsic* fn = nullptr;  // Call
  std::array<uint16_t, 3> args{}; // Call; Index: args[0]
  uint8_t arity = 0;              // Call
};
struct ScalarExpr {
  std::vector<ScalarNode> nodes;
};

// The text is part of dtc: a malformed one is a bug (DTC_CHECK).
[[nodiscard]] ScalarExpr parseScalar(std::string_view text);
// The same with operands by name: an operand's position is that of its name. A function may be any op, which
// is then ScalarNode::name without an intrinsic; such an expression is not typed, but built (GradientText.h).
[[nodiscard]] ScalarExpr parseNamed(std::string_view text, const std::vector<std::string_view>& names);

// Assigns dtypes: operands from `operandTypes` (absent ones become 0), numbers from the expression around
// them, $names their values; a `select` on a constant becomes its branch. `acc` has the dtype `accumulator`.
// Nodes that the root does not need are removed. Floats of any width are evaluated in double; the caller
// rounds once at the end.
[[nodiscard]] ScalarExpr typeScalar(const ScalarExpr&, std::span<const DType> operandTypes, DType result,
                                    const OpQuery& attributes, DType accumulator = DType::F64);
// The record's expression for this op: scalarFor, else scalar, else "a".
[[nodiscard]] std::string scalarText(const OpQuery&);
// Both steps: the record's expression, with the op's own dtypes.
[[nodiscard]] ScalarExpr scalarOf(const OpQuery&, DType result);

// A value of a float dtype is in `f`, of bool and integers in `i` (wrapped; u64 as the same bits).
struct ScalarValue {
  double f = 0;
  int64_t i = 0;
};
// Evaluates a typed expression. `index`: the coordinates of the result element (may be empty if the
// expression has no index()). `scratch`: reused between calls. The value has the root's dtype; convertScalar
// converts it to the result's.
[[nodiscard]] ScalarValue evalScalar(const ScalarExpr&, std::span<const ScalarValue> operands,
                                     std::span<const int64_t> index, std::vector<ScalarValue>& scratch,
                                     ScalarValue acc = {});
// The semantics of `convert`: float to integer truncates and saturates, NaN becomes 0; to bool: nonzero.
// Floats are not rounded.
[[nodiscard]] ScalarValue convertScalar(ScalarValue, DType from, DType to);
// The initial value of a reduction of this kind, and its combination, in `dtype` (Avg as Sum).
[[nodiscard]] ScalarValue reduceIdentity(PendingKind, DType);
[[nodiscard]] ScalarValue reduceCombine(PendingKind, DType, ScalarValue, ScalarValue);

// The expression as text, for reports and tests: "(a * b) + c".
[[nodiscard]] std::string printScalar(const ScalarExpr&);

} // namespace dtc
