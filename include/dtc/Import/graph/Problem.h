#pragma once
// What an importer reports about a file's ops.
#include "dtc/Support/Diagnostics.h"

namespace dtc {

// The unsupported parts of a file, one entry per op.
struct ImportProblem {
  std::string op; // "stablehlo.custom_call", "aten.nonzero.default"
  SourceRange range;
  std::string message;
  std::string where = {}; // in the user's source: "model.py:12 (blocks.0)"
};

inline constexpr DiagKind kImportUnknownOp{"import-unknown-op", "unsupported op '{0}'{1}"};
inline constexpr DiagKind kImportUnsupported{"import-unsupported", "'{0}' does not import: it {1}"};
inline constexpr DiagKind kImportType{"import-type", "'{0}' has the unsupported type {1}: {2}"};
inline constexpr DiagKind kImportStatedType{"import-type", "'{0}' declares %{1} as {2}, but its type is {3}"};
inline constexpr DiagKind kImportOutputType{
    "import-output-type", "the file declares the output '{0}' as {1}, but the program computes {2}"};

} // namespace dtc
