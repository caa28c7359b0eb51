#pragma once
// Diagnostics for tools: one JSON document, or SARIF 2.1.0 (which GitHub code scanning reads).
#include "dtc/Support/Diagnostics.h"
#include <optional>
#include <span>

namespace dtc {

// A diagnostic whose places are lines and columns of a named file, so that it outlives the text.
struct DiagnosticRecord {
  struct Place {
    std::string file;   // as shown to people; empty where there is none
    LineCol begin, end; // `end` is past the last character
    bool hasLines = false;
  };
  struct Remark {
    Place place;
    std::string message;
  };
  Severity severity = Severity::Error;
  std::string kind, message;
  Place place;
  std::vector<Place> also; // further ranges that the message is about
  std::vector<Remark> notes;
};

[[nodiscard]] std::vector<DiagnosticRecord> recordsOf(const Diagnostics&, const SourceText&);

// [{"severity": "error", "kind": "unknown-op", "message": …, "file": …, "line": 2, "column": 8, "end": {"line", "column"},
// "notes": [{"message", "file", "line", "column", "end"}]}]; what has no place has null for file, line, column and end.
[[nodiscard]] std::string diagnosticsJson(std::span<const DiagnosticRecord>);

// A SARIF log of one run of this version of dtc.
[[nodiscard]] std::string diagnosticsSarif(std::span<const DiagnosticRecord>, std::string_view version);

} // namespace dtc
