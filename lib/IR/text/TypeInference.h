#pragma once
// Infers the types that a statement does not state: of literals (ir.md), of the arguments and results of
// blocks, and of calls, which bind the callee's symbolic sizes.
#include "dtc/IR/CallSizes.h"
#include "text/TypeParser.h"

namespace dtc {

class TypeInference : TokenReader {
public:
  TypeInference(const TokenReader& in, TypeParser& types, FunctionNames& functions)
      : TokenReader(in), types_(types), functions_(functions) {}

  bool typeLiteral(ValueId, DType); // only if it is an untyped literal or symbol
  bool typeOperands(Statement&);    // literal operands, by the op's record

  struct Argument {
    TypeId type; // invalid: unknown
    ShardingId sharding;
  };
  // One for each bind; false after an error.
  bool blockArguments(const Statement&, std::vector<Argument>&);
  [[nodiscard]] MeshId meshOfBinds(const Statement&) const;
  // Of an op whose blocks have been parsed.
  bool typeYields(const Statement&, OpId);
  bool regionResults(const Statement&, OpId, std::vector<TypeId>&);

  // False after an error. Nothing if the sizes of the results depend on poisoned operands. Of a generic function,
  // the callee becomes its instance.
  bool callResults(Statement&, std::optional<std::vector<TypeId>>& out);

private:
  [[nodiscard]] std::optional<DType> likeOperands(const Statement&, size_t operand) const;
  bool localArgument(const ParsedBind&, Argument&);
  bool stacked(const Statement&, OpId, TypeId element, TypeId& out);
  [[nodiscard]] std::optional<DType> yieldType(const Statement&, OpId, uint32_t region, size_t i) const;
  bool calleeOf(const Statement&, FuncId&);
  bool misfit(const Statement&, const Function&, const SizeMismatch&);
  bool gradients(const Statement&, const Function&, std::vector<TypeId>&);

  TypeParser& types_;
  FunctionNames& functions_;
};

} // namespace dtc
