#pragma once
// --verify-diagnostics: a text says which diagnostics it must give.
//
//   // expected-error@+1 {{part of the message}}      on the next line; @-1, or nothing for this line
//   // expected-warning {{…}}   expected-note {{…}}   notes need not be expected
#include "dtc/Support/Diagnostics.h"

namespace dtc {

// What was expected and did not come, and the errors and warnings that came unexpected: text for a person, or "".
[[nodiscard]] std::string unexpectedDiagnostics(const Diagnostics&, const SourceText&);

} // namespace dtc
