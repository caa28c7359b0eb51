#include "ExpectedDiagnostics.h"
#include "dtc/Support/Words.h"

namespace dtc {

namespace {

struct Expected {
  Severity severity = Severity::Error;
  uint32_t line = 0; // line of the diagnostic; 0: any
  uint32_t from = 0; // line of the expectation
  std::string text;
  bool met = false;
};

std::string_view severityName(Severity s) {
  return s == Severity::Error ? "error" : s == Severity::Warning ? "warning" : "note";
}

// Parses an expectation after "expected-": "error@+1 {{…}}".
bool readExpected(std::string_view& rest, uint32_t line, Expected& out) {
  out.from = out.line = line;
  bool known = false;
  for (Severity s : {Severity::Error, Severity::Warning, Severity::Note})
    if (rest.starts_with(severityName(s))) {
      out.severity = s;
      rest.remove_prefix(severityName(s).size());
      known = true;
      break;
    }
  if (!known) return false;
  if (rest.starts_with("@unknown")) {
    out.line = 0;
    rest.remove_prefix(8);
  } else if (rest.starts_with("@")) {
    rest.remove_prefix(1);
    if (rest.starts_with("+")) rest.remove_prefix(1);
    const auto offset = takeNumber<int32_t>(rest);
    if (!offset) return false;
    out.line = static_cast<uint32_t>(static_cast<int32_t>(line) + *offset);
  }
  size_t open = rest.find("{{"), close = rest.find("}}");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return false;
  out.text = rest.substr(open + 2, close - open - 2);
  rest.remove_prefix(close + 2);
  return true;
}

std::vector<Expected> expectations(std::string_view text) {
  std::vector<Expected> all;
  uint32_t line = 1;
  for (size_t at = 0; at < text.size(); ++line) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string_view rest = text.substr(at, end - at);
    constexpr std::string_view kWord = "expected-";
    for (size_t found = rest.find(kWord); found != std::string_view::npos; found = rest.find(kWord)) {
      rest.remove_prefix(found + kWord.size());
      Expected e;
      if (readExpected(rest, line, e)) all.push_back(std::move(e));
    }
    at = end + 1;
  }
  return all;
}

bool matchExpected(std::vector<Expected>& all, Severity severity, uint32_t line, std::string_view message) {
  for (Expected& e : all) {
    if (e.met || e.severity != severity || (e.line && e.line != line)) continue;
    if (message.find(e.text) == std::string_view::npos) continue;
    e.met = true;
    return true;
  }
  return false;
}

std::string at(const SourceText& source, uint32_t line) {
  return source.name + ":" + std::to_string(line) + ": ";
}

} // namespace

std::string unexpectedDiagnostics(const Diagnostics& diags, const SourceText& source) {
  std::vector<Expected> all = expectations(source.text);
  std::string problems;
  auto lineOf = [&](SourceRange r) { return r.valid() ? lineColumn(source.text, r.begin).line : 0; };
  for (const Diagnostic& d : diags.all()) {
    uint32_t line = lineOf(d.range);
    if (!matchExpected(all, d.severity, line, d.message()))
      problems += at(source, line) + "unexpected " + std::string(severityName(d.severity)) + ": " +
                  d.message() + "\n";
    for (const Note& n : d.notes) matchExpected(all, Severity::Note, lineOf(n.range), n.message);
  }
  for (const Expected& e : all)
    if (!e.met)
      problems += at(source, e.from) + "expected " + std::string(severityName(e.severity)) + " \"" + e.text +
                  "\" was not produced\n";
  return problems;
}

} // namespace dtc
