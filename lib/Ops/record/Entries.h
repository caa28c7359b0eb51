#pragma once
// The diagnostic for a list attribute of the wrong length.
#include "record/ShapeParts.h"

namespace dtc {

// "needs 2 entries in 'start', one for each dim, but 1 is given"
bool reportEntries(const OpQuery&, std::string_view attribute, size_t given, size_t wanted,
                   std::string_view each = "dim");

} // namespace dtc
