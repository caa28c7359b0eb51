#include "Handles.h"

#include <new>

namespace dtc {

dtc_status statusOf(Error::Kind kind) {
  constexpr dtc_status codes[] = {DTC_ERROR_INPUT, DTC_ERROR_USAGE, DTC_ERROR_MACHINE, DTC_ERROR_BUG};
  return codes[kind];
}

dtc_status report(ApiError&& error, dtc_error** to) noexcept {
  const dtc_status code = statusOf(error.kind);
  if (to) *to = new (std::nothrow) dtc_error{std::move(error), {}};
  return code;
}

dtc_status report(const Error& error, dtc_error** to) noexcept {
  const dtc_status code = statusOf(error.kind);
  if (!to) return code;
  *to = nullptr;
  try {
    return report(apiError(error), to);
  } catch (...) { // no memory for the message
    return code;
  }
}

Status checkGiven(std::initializer_list<Given> all) {
  for (const Given& one : all)
    if (!one.pointer) return usageError(std::string("the pointer '") + one.name + "' is null");
  return Ok{};
}

static dtc_diagnostic diagnosticOf(Severity severity, const char* kind, const std::string& message,
                                   const DiagnosticRecord::Location& at, size_t notes) {
  constexpr const char* names[] = {"error", "warning", "note"};
  dtc_diagnostic d{};
  d.severity = names[static_cast<int>(severity)];
  d.kind = kind, d.message = message.c_str(), d.file = at.file.c_str();
  if (at.hasLines) {
    d.line = at.begin.line, d.column = at.begin.column;
    d.end_line = at.end.line, d.end_column = at.end.column;
  }
  d.num_notes = notes;
  return d;
}

} // namespace dtc

using namespace dtc;

uint32_t dtc_abi_version(void) { return DTC_ABI_VERSION; }

dtc_status dtc_error_status(const dtc_error* error) { return error ? statusOf(error->error.kind) : DTC_OK; }
const char* dtc_error_message(const dtc_error* error) { return error ? error->error.text.c_str() : ""; }

const char* dtc_error_json(const dtc_error* error) {
  if (!error) return "[]";
  // An error is used by one thread at a time.
  auto& json = const_cast<dtc_error*>(error)->json;
  try {
    if (json.empty()) json = error->error.json();
  } catch (...) {
    return "[]";
  }
  return json.c_str();
}

size_t dtc_error_num_diagnostics(const dtc_error* error) { return error ? error->error.records.size() : 0; }

void dtc_error_diagnostic(const dtc_error* error, size_t index, dtc_diagnostic* out) {
  if (!out) return;
  *out = {};
  if (index >= dtc_error_num_diagnostics(error)) return;
  const DiagnosticRecord& r = error->error.records[index];
  *out = diagnosticOf(r.severity, r.kind.c_str(), r.message, r.location, r.notes.size());
}

void dtc_error_note(const dtc_error* error, size_t index, size_t note, dtc_diagnostic* out) {
  if (!out) return;
  *out = {};
  if (index >= dtc_error_num_diagnostics(error) || note >= error->error.records[index].notes.size()) return;
  const DiagnosticRecord::Remark& n = error->error.records[index].notes[note];
  *out = diagnosticOf(Severity::Note, "", n.message, n.location, 0);
}

void dtc_error_free(dtc_error* error) { delete error; }
