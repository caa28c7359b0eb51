#pragma once
// Parses blocks, statements and their operands, and appends the ops to the module. The values that a statement
// with an error should have defined become *poisoned* (no type), which suppresses follow-up errors.
#include "text/AttrParser.h"
#include "text/TypeInference.h"

namespace dtc {

class StatementParser : TokenReader {
public:
  StatementParser(const TokenReader& in, TypeParser& types, AttrParser& attrs, ValueScope& scope,
                  Mistakes& mistakes, FunctionNames& functions)
      : TokenReader(in), types_(types), attrs_(attrs), scope_(scope), mistakes_(mistakes),
        inference_(in, types, functions) {}

  void functionBody(FuncId); // at its "{"
  // Statements up to a `yield` and its values, appended to `out`.
  bool snippet(BlockId parent, std::vector<OpId>& out, std::vector<ValueId>& yields);

private:
  void block(BlockId, bool isFunction);
  void terminator(BlockId, bool isFunction);
  void literalReturns(BlockId);
  void statement(BlockId);
  void recover(size_t start);
  bool statementBody(BlockId, Statement&);
  bool resultNames(Statement&);
  bool findRecord(Statement&);

  bool operands(BlockId, Statement&);
  [[nodiscard]] bool atOperand(const Statement&) const;
  bool operandList(BlockId, std::vector<ParsedOperand>&);
  bool operand(BlockId, ParsedOperand&);
  bool valueOperand(BlockId, ParsedOperand&);
  bool indexed(BlockId, ParsedOperand&);
  bool calleeOperands(BlockId, Statement&);
  bool loopBounds(BlockId, Statement&);
  bool bound(BlockId, ParsedOperand&);
  bool binds(BlockId, Statement&);

  bool callStatement(BlockId, Statement&);
  bool regionStatement(BlockId, Statement&);
  bool regionBlocks(const Statement&, OpId, const std::vector<TypeInference::Argument>&);

  bool resultTypes(Statement&);
  OpId makeOp(BlockId, const Statement&, uint32_t regions);
  bool inferred(const Statement&, OpId, std::vector<TypeId>&);
  void addResults(OpId, uint32_t count);
  bool setResults(const Statement&, OpId, const std::vector<TypeId>&);
  bool checkWritten(const Statement&, size_t i, TypeId inferred);

  TypeParser& types_;
  AttrParser& attrs_;
  ValueScope& scope_;
  Mistakes& mistakes_;
  TypeInference inference_;
  FuncId func_; // whose body is parsed
  std::unordered_set<std::string> unknownOps_;
};

} // namespace dtc
