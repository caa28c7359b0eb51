#pragma once
// The imports of a module (docs/ir.md): `import "optim"` names a module of dtc's library, `import "layers.dt"` a file.
#include "dtc/Support/Diagnostics.h"

namespace dtc {

struct ImportStatement {
  std::string name;
  SourceRange range; // of the string
};
// Those of a text, in order; of a text that has no tokens none. parseModule expects the texts that they name after
// the module's own (SourceText::imported).
[[nodiscard]] std::vector<ImportStatement> importsOf(std::string_view text);

} // namespace dtc
