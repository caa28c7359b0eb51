#pragma once
// Import of StableHLO text (with the func, chlo, check, mhlo and Shardy dialects), as printed by JAX and
// similar front ends, in the generic form and in the pretty forms of several years.
#include "dtc/IR/text/Text.h"
#include "dtc/Import/graph/Problem.h"

namespace dtc {

// True if the text looks like MLIR, judged by its first token after comments and blanks (`.dt` begins with
// mesh, func @ or spmd).
[[nodiscard]] bool looksLikeMlir(std::string_view text);

// The module of the text, with its value names and locations; `source` becomes Module::source, so that every
// later message points into it. Returns false after reporting an error. The text may be untrusted: nesting,
// sizes and memory are bounded (docs/security.md). The module is not verified.
[[nodiscard]] bool importMlir(SourceText source, const OpRegistry&, Module& out, Diagnostics& diags);

// Continues after each op that does not import and lists them all in `problems`; `kept` lists those imported
// as `custom`, which cannot run. Syntax errors are reported to `diags` and end the import.
[[nodiscard]] bool reportMlir(SourceText source, const OpRegistry&, std::vector<ImportProblem>& problems,
                              std::vector<ImportProblem>& kept, Diagnostics& diags);

} // namespace dtc
