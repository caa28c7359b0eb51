#pragma once
// Recognizes common mistakes of Python and MLIR users and suggests the form that dtc reads. Each function reports
// and returns false, or true if parsing can continue.
#include "text/ValueScope.h"

namespace dtc {

class Mistakes : TokenReader {
public:
  Mistakes(const TokenReader& in, ValueScope& scope) : TokenReader(in), scope_(scope) {}

  void mistypedKeywords(); // of the whole text
  bool mistypedTerminator(bool isFunction);
  bool missingBefore(std::string_view what);
  bool noOpHere(std::string_view expected);
  bool operandsInParentheses(const Statement&);
  bool commaMissing();
  bool misplacedAttributes();
  bool shardingWithoutColon();
  bool dtypeAsOperand();
  [[nodiscard]] std::string operandHint() const; // for a missing operand
  [[nodiscard]] std::string blockHint() const;   // for a missing block

private:
  [[nodiscard]] std::string lineText(size_t first, size_t end) const;

  ValueScope& scope_;
};

} // namespace dtc
