#pragma once
// The language of OpRecord::scalar and ::finish: what one result element is made of.
//
//   a b c …      the operands' elements (an absent optional operand is 0)     acc    the combined value (finish only)
//   $name        a number from the attributes (OpQuery::numberOf)             index(d)  the result's coordinate along dim d
//   1 0.5 inf nan   + - * /   < <= > >= == !=   f(x, y): an intrinsic
//
// An expression is parsed once per record, typed once per op, and then evaluated or printed: the evaluator and both kernel
// printers read the same typed tree. The edges are those of ir.md, "Edges".
#include "dtc/IR/OpRecord.h"
#include <array>

namespace dtc {

// One row per function of the language; the operators are rows too (add, sub, mul, div, neg, lt, …).
struct Intrinsic {
  const char* name; // kernels call dtc_<name>(…), defined for every dtype it takes in the device header
  uint8_t arity;
  enum Result : uint8_t {
    Same,    // the arguments are brought to one dtype, which is the result's
    Bool,    // likewise, but the result is bool
    Cast,    // to the dtype of the op's result (cast, bitcast)
    Select,  // (bool, x, y): x and y are brought to one dtype
    Part,    // of one complex argument the dtype of its parts (real, imag)
    Complex, // of two floats the complex dtype with such parts
    First,   // arguments keep their dtypes, the first one's is the result's (pow)
  } result;
  const char* infix; // C++'s operator, where it means the same on floats; else nullptr
  double (*onFloats)(double, double, double); // nullptr: not defined on floats
  int64_t (*onInts)(DType, int64_t, int64_t,
                    int64_t); // bool and integers, wrapped; nullptr: not defined on them
};
[[nodiscard]] std::span<const Intrinsic> intrinsics();
[[nodiscard]] const Intrinsic* findIntrinsic(std::string_view name);

// A node of the tree; children stand before their parents, the root is the last.
struct ScalarNode {
  enum Kind : uint8_t { Operand, Accumulator, Attribute, Index, Number, Call } kind = Number;
  uint16_t position = 0;          // Operand: 0 is a; Index: the result's dim, once typed
  DType dtype = DType::F64;       // once typed
  double number = 0;              // Number
  int64_t integer = 0;            // Number of an integer or bool dtype, once typed (u64 as the same bits)
  bool exact = false;             // Number: `integer` was written as such, and `number` may be rounded
  std::string name;               // Attribute
  const Intrinsic* fn = nullptr;  // Call
  std::array<uint16_t, 3> args{}; // Call; Index: args[0]
};
struct ScalarExpr {
  std::vector<ScalarNode> nodes;
};

// The record's text is part of dtc: a malformed one is a bug (DTC_CHECK).
[[nodiscard]] ScalarExpr parseScalar(std::string_view text);

// Gives every node its dtype: operands as in `operandTypes` (absent ones become 0), numbers that of what they meet, $names
// their values, a `select` on a constant its branch. `acc` is of `accumulator`'s dtype. Nothing but nodes that the root
// needs is left. Floats of any width are evaluated in double: rounding is the caller's (once, at the end).
[[nodiscard]] ScalarExpr typeScalar(const ScalarExpr&, std::span<const DType> operandTypes, DType result,
                                    const OpQuery& attributes, DType accumulator = DType::F64);
// The record's expression for this op: scalarFor, else scalar, else "a".
[[nodiscard]] std::string scalarText(const OpQuery&);
// Both in one: of the record's `scalar` (or "a" where it has none), with the op's own dtypes.
[[nodiscard]] ScalarExpr scalarOf(const OpQuery&, DType result);

// A value of a float dtype is in `f`, of bool and integers in `i` (wrapped; u64 as the same bits).
struct ScalarValue {
  double f = 0;
  int64_t i = 0;
};
// Of a typed expression. `index`: the result element's coordinates (may be empty where the expression has no index()).
// `scratch`: reused between calls. The value is of the root's dtype; convertScalar brings it to the result's.
[[nodiscard]] ScalarValue evalScalar(const ScalarExpr&, std::span<const ScalarValue> operands,
                                     std::span<const int64_t> index, std::vector<ScalarValue>& scratch,
                                     ScalarValue acc = {});
// As the op `convert`: float to integer truncates and saturates, NaN gives 0; to bool: not equal 0. Floats are not rounded.
[[nodiscard]] ScalarValue convertScalar(ScalarValue, DType from, DType to);
// What a reduction of this kind starts with and how it combines, in `dtype` (Avg as Sum).
[[nodiscard]] ScalarValue reduceIdentity(PendingKind, DType);
[[nodiscard]] ScalarValue reduceCombine(PendingKind, DType, ScalarValue, ScalarValue);

// The expression as text again, for reports and tests: "(a * b) + c".
[[nodiscard]] std::string printScalar(const ScalarExpr&);

} // namespace dtc
