#pragma once
// Programs of other compilers as modules: StableHLO text (with the func, chlo, check, mhlo and Shardy dialects) as JAX and its
// kin print it, in the generic form and in the pretty forms of several years.
#include "dtc/IR/Text.h"

namespace dtc {

// What does not import, one entry per op of the text.
struct ImportProblem {
  std::string op; // "stablehlo.custom_call"
  SourceRange range;
  std::string message;
};

// Is this text MLIR, to judge by how it begins? (comments and blanks aside; `.dt` begins with mesh, func @ or spmd)
[[nodiscard]] bool looksLikeMlir(std::string_view text);

// The module that the text says, its values named and placed as there; `source` becomes Module::source, so that every later
// message points into it. False after having reported what is wrong. The text may come from anyone: nesting, sizes and
// memory are bounded (docs/security.md). The module is not verified yet.
[[nodiscard]] bool importMlir(SourceText source, const OpRegistry&, Module& out, Diagnostics& diags);

// Goes on after each op that does not import and lists them all in `problems`; in `kept`, those that import as `custom`, which
// cannot be run. Errors of the text's form are reported to `diags`, and end it.
[[nodiscard]] bool reportMlir(SourceText source, const OpRegistry&, std::vector<ImportProblem>& problems,
                              std::vector<ImportProblem>& kept, Diagnostics& diags);

} // namespace dtc
