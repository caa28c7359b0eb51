#pragma once
// Helpers for the calls of LAPACK and cuSOLVER.
#include "import/HloContext.h"

namespace dtc {

// A character argument: a number in mhlo.backend_config. Nothing after a report.
[[nodiscard]] std::optional<char> letterOf(HloContext&, std::string_view name);

} // namespace dtc
