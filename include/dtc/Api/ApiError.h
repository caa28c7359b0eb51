#pragma once
// An error of the API: text for people, and the same as data. Nothing is printed and nothing ends the process.
#include "dtc/Support/DiagnosticsJson.h"
#include "dtc/Support/Result.h"

namespace dtc {

struct ApiError {
  Error::Kind kind = Error::Bug;
  std::string text;                      // with the lines of the program and carets, as `dtc` prints it
  std::vector<DiagnosticRecord> records; // at least one
  [[nodiscard]] std::string json() const { return diagnosticsJson(records); }
};

// From an error and the diagnostics that were reported before it, which refer to `source`. An error that begins
// with a location in the source becomes a diagnostic.
[[nodiscard]] ApiError apiError(const Error&, const Diagnostics&, const SourceText&);
[[nodiscard]] ApiError apiError(const Error&);
// The word for the kind in records without a location: "input", "usage", "machine", "bug".
[[nodiscard]] const char* kindName(Error::Kind);

// The exception that is being handled, as an error: out of memory, a bug of dtc. Call it in a catch block.
[[nodiscard]] Error errorOfException() noexcept;

} // namespace dtc
