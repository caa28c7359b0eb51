#pragma once
// Machine-readable diagnostics: one JSON document, or SARIF 2.1.0 (for GitHub code scanning).
#include "dtc/Support/Diagnostics.h"
#include <span>

namespace dtc {

// A diagnostic whose locations are lines and columns of a named file, independent of the text.
struct DiagnosticRecord {
  struct Location {
    std::string file;   // display name; empty if there is none
    LineCol begin, end; // `end` is past the last character
    bool hasLines = false;
  };
  struct Remark {
    Location location;
    std::string message;
  };
  Severity severity = Severity::Error;
  std::string kind, message;
  Location location;
  std::vector<Location> also; // further ranges of the message
  std::vector<Remark> notes;
};

[[nodiscard]] std::vector<DiagnosticRecord> recordsOf(const Diagnostics&, const SourceText&);

// [{"severity": "error", "kind": "unknown-op", "message": …, "file": …, "line": 2, "column": 8, "end":
// {"line", "column"}, "notes": [{"message", "file", "line", "column", "end"}]}]; without a location, file,
// line, column and end are null.
[[nodiscard]] std::string diagnosticsJson(std::span<const DiagnosticRecord>);

// A SARIF log of one run of this version of dtc.
[[nodiscard]] std::string diagnosticsSarif(std::span<const DiagnosticRecord>, std::string_view version);

} // namespace dtc
