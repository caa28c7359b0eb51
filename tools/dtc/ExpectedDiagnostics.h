#pragma once
// --verify-diagnostics: checks the diagnostics of a text against expectations in its comments.
//
//   // expected-error@+1 {{part of the message}}      on the next line; @-1, or nothing for this line
//   // expected-warning {{…}}   expected-note {{…}}   notes need not be expected
#include "dtc/Support/Diagnostics.h"

namespace dtc {

// Describes expected diagnostics that were not produced, and unexpected errors and warnings; "" if all match.
[[nodiscard]] std::string unexpectedDiagnostics(const Diagnostics&, const SourceText&);

} // namespace dtc
