#pragma once
// The pretty form of an op. One grammar covers all ops: between an op's name and its types there is a sequence
// of items (values, words, lists, `name = attribute`, parentheses, regions), which normalizePretty then names.
#include "mlir/MlirParser.h"

namespace dtc {

class PrettyOp {
public:
  PrettyOp(MlirParser& parser, MlirOp& op) : p_(parser), op_(op) {}
  bool parse(); // false after a report

  // --- for MlirParser::signature ---
  // `dims = [0]`, `LT`, `applies stablehlo.add`, `dense<0>`. False without a report where the word begins
  // another op.
  bool word();
  bool afterSignature();

private:
  bool item(bool& ended);
  bool value(MlirAttr& out);
  bool raw(MlirAttr& out);
  bool bracketList(MlirAttr& out);
  bool parenthesized();
  bool parenthesizedItem();
  [[nodiscard]] bool isDictionary() const;
  bool braces();
  bool region();
  bool reducerArgs();
  bool shortReducer();

  MlirParser& p_;
  MlirOp& op_;
  std::vector<MlirArg> pending_; // arguments named before the region
  size_t starts_ = 0;            // of `reduce(%a init: %b)`: how many pairs
  std::vector<MlirUse> inits_;   // the %b of those
  std::string_view reducer_;     // of `applies stablehlo.add`
  SourceRange reducerRange_;
};

// Maps the attribute names of the pretty form to the generic ones, and names unnamed ones (MlirNames.cpp).
void normalizePretty(MlirOp& op);

} // namespace dtc
