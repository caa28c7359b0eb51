#include "dtc/Support/DiagnosticsJson.h"

#include "DiagnosticOrder.h"
#include "dtc/Support/Json.h"

#include <algorithm>

namespace dtc {

namespace {

DiagnosticRecord::Location locationOf(const SourceText& source, SourceRange range) {
  DiagnosticRecord::Location location;
  location.file = source.name;
  if (!range.valid()) return location;
  location.hasLines = true;
  const SourcePlace begin = placeOf(source, range.begin);
  location.file = begin.file;
  location.begin = begin.at;
  location.end = placeOf(source, std::max(range.end, range.begin)).at;
  return location;
}

std::string_view severityName(Severity s) {
  return s == Severity::Error ? "error" : s == Severity::Warning ? "warning" : "note";
}

std::string positionJson(LineCol at) {
  return "{\"line\": " + std::to_string(at.line) + ", \"column\": " + std::to_string(at.column) + "}";
}

// "file", "line", "column", "end"
std::string locationJson(const DiagnosticRecord::Location& p) {
  std::string out = "\"file\": " + (p.file.empty() ? "null" : jsonString(p.file));
  if (!p.hasLines) return out + ", \"line\": null, \"column\": null, \"end\": null";
  return out + ", \"line\": " + std::to_string(p.begin.line) +
         ", \"column\": " + std::to_string(p.begin.column) + ", \"end\": " + positionJson(p.end);
}

std::string recordJson(const DiagnosticRecord& d) {
  std::string out = "{\"severity\": \"" + std::string(severityName(d.severity)) +
                    "\", \"kind\": " + jsonString(d.kind) + ", \"message\": " + jsonString(d.message) + ", " +
                    locationJson(d.location);
  out += ", \"also\": [";
  for (size_t i = 0; i < d.also.size(); ++i) out += (i ? ", {" : "{") + locationJson(d.also[i]) + "}";
  out += "], \"notes\": [";
  for (size_t i = 0; i < d.notes.size(); ++i)
    out += (i ? ", " : "") + std::string("{\"message\": ") + jsonString(d.notes[i].message) + ", " +
           locationJson(d.notes[i].location) + "}";
  return out + "]}";
}

// A file name as a relative or file URI: characters that are not allowed in a path are percent-encoded.
std::string uriOf(std::string_view file) {
  if (file.starts_with('<') && file.ends_with('>')) file = file.substr(1, file.size() - 2); // <stdin>
  std::string out = file.starts_with('/') ? "file://" : "";
  constexpr std::string_view kPlain = "-._~/!$&'()*+,;=@";
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (char c : file) {
    const auto b = static_cast<unsigned char>(c);
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (word || kPlain.find(c) != std::string_view::npos)
      out += c;
    else
      (out += '%') += {kHex[b >> 4], kHex[b & 15]};
  }
  return out;
}

std::string locationSarif(const DiagnosticRecord::Location& p, std::string_view message) {
  std::string out = "{";
  if (!p.file.empty()) {
    out += R"("physicalLocation": {"artifactLocation": {"uri": )" + jsonString(uriOf(p.file)) + "}";
    if (p.hasLines)
      out += ", \"region\": {\"startLine\": " + std::to_string(p.begin.line) +
             ", \"startColumn\": " + std::to_string(p.begin.column) +
             ", \"endLine\": " + std::to_string(p.end.line) +
             ", \"endColumn\": " + std::to_string(p.end.column) + "}";
    out += "}";
  }
  if (!message.empty())
    out += std::string(p.file.empty() ? "" : ", ") + "\"message\": {\"text\": " + jsonString(message) + "}";
  return out + "}";
}

std::string resultSarif(const DiagnosticRecord& d, size_t rule) {
  std::string out = "{\"ruleId\": " + jsonString(d.kind) + ", \"ruleIndex\": " + std::to_string(rule) +
                    ", \"level\": \"" + std::string(severityName(d.severity)) +
                    "\", \"message\": {\"text\": " + jsonString(d.message) + "}, \"locations\": [";
  if (!d.location.file.empty()) out += locationSarif(d.location, "");
  out += "], \"relatedLocations\": [";
  for (size_t i = 0; i < d.notes.size(); ++i)
    out += (i ? ", " : "") + locationSarif(d.notes[i].location, d.notes[i].message);
  return out + "]}";
}

} // namespace

std::vector<DiagnosticRecord> recordsOf(const Diagnostics& diags, const SourceText& source) {
  std::vector<DiagnosticRecord> out;
  for (const Diagnostic* shown : byLocation(diags)) {
    const Diagnostic& d = *shown;
    DiagnosticRecord& r = out.emplace_back();
    r.severity = d.severity;
    r.kind = d.kind ? d.kind->id : "";
    r.message = d.message();
    r.location = locationOf(source, d.range);
    for (SourceRange range : d.also) r.also.push_back(locationOf(source, range));
    for (const Note& n : d.notes) r.notes.push_back({locationOf(source, n.range), n.message});
  }
  return out;
}

std::string diagnosticsJson(std::span<const DiagnosticRecord> records) {
  std::string out = "[";
  for (size_t i = 0; i < records.size(); ++i) out += (i ? ",\n " : "\n ") + recordJson(records[i]);
  return out + (records.empty() ? "]\n" : "\n]\n");
}

std::string diagnosticsSarif(std::span<const DiagnosticRecord> records, std::string_view version) {
  std::vector<std::string> kinds;
  for (const DiagnosticRecord& d : records) kinds.push_back(d.kind);
  std::sort(kinds.begin(), kinds.end());
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  std::string rules, results;
  for (const std::string& k : kinds)
    rules += (rules.empty() ? "" : ", ") + std::string("{\"id\": ") + jsonString(k) +
             ", \"help\": {\"text\": " + jsonString("`dtc help " + k + "` explains it") + "}}";
  for (const DiagnosticRecord& d : records) {
    const auto rule = std::lower_bound(kinds.begin(), kinds.end(), d.kind) - kinds.begin();
    results += (results.empty() ? "\n  " : ",\n  ") + resultSarif(d, static_cast<size_t>(rule));
  }
  return "{\"$schema\": \"https://json.schemastore.org/sarif-2.1.0.json\", \"version\": \"2.1.0\", \"runs\": "
         "[{\n"
         " \"tool\": {\"driver\": {\"name\": \"dtc\", \"version\": " +
         jsonString(version) + ", \"rules\": [" + rules +
         "]}},\n \"columnKind\": \"unicodeCodePoints\",\n \"results\": [" + results + "]}]}\n";
}

} // namespace dtc
