#pragma once
// The parser of MLIR text (MlirTree.h): files, functions, regions, generic ops. The pretty form of an op is in
// MlirPretty.h.
#include "mlir/MlirAttributes.h"

namespace dtc {

class PrettyOp;

class MlirParser : public MlirAttributeParser {
public:
  using MlirAttributeParser::MlirAttributeParser;
  bool file();

  // --- for PrettyOp; false after a report ---
  bool region(MlirRegion& out); // at '{'
  bool use(MlirUse& out);
  // ": (t, t) -> t", ": t, t" and what follows it; `pretty` is null for a generic op.
  bool signature(MlirOp& op, PrettyOp* pretty);

private:
  bool alias();
  bool resources();
  bool resourceBlobs();
  bool moduleOp();
  bool genericModule();
  bool function(MlirOp& op);
  bool functionArgs(MlirOp& op);
  bool functionResults(MlirOp& op);
  bool genericFunction(MlirOp& op);
  bool regionBody(MlirRegion& out);
  bool blockHeader(MlirRegion& out);
  bool statement(MlirOp& op);
  bool results(MlirOp& op);
  bool genericOp(MlirOp& op);
  bool genericRegions(MlirOp& op);
  bool operandList(MlirOp& op, char closer);
  bool trailingLoc(MlirOp& op);
  bool resultTypes(MlirOp& op, bool arrow);
};

} // namespace dtc
