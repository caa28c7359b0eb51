#include "Environment.h"

#include "dtc/Support/OutOfMemory.h"
#include "dtc/Support/Words.h"
#include "dtc/Version.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <unistd.h>

namespace dtc {

namespace {

bool canRewriteLines() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) && term && std::string_view(term) != "dumb";
}

bool wantsColor() {
  const char* no = std::getenv("NO_COLOR");
  return canRewriteLines() && !(no && *no);
}

int exitCodeOf(const Error& error) {
  switch (error.kind) {
  case Error::Input: return kExitInput;
  case Error::Usage: return kExitUsage;
  case Error::Machine: return kExitMachine;
  case Error::Bug: return kExitBug;
  }
  return kExitBug;
}

// The kind of an error without a source location.
const char* kindOf(const Error& error) {
  switch (error.kind) {
  case Error::Input: return "input";
  case Error::Usage: return "command-line";
  case Error::Machine: return "machine";
  case Error::Bug: return "bug";
  }
  return "bug";
}

std::string readAll(std::FILE* file, size_t limit) {
  std::string text;
  char buffer[1 << 16];
  while (text.size() <= limit) {
    size_t n = std::fread(buffer, 1, sizeof buffer, file);
    if (n == 0) break;
    text.append(buffer, n);
  }
  return text;
}

Error cannotRead(const std::string& path, int number) {
  return {isMachineErrno(number) ? Error::Machine : Error::Input,
          "cannot read " + path + ": " + std::strerror(number)};
}

// The byte offset of a 1-based line and column (in characters).
std::optional<uint32_t> offsetOf(std::string_view text, LineCol at) {
  size_t begin = 0;
  for (uint32_t line = 1; line < at.line; ++line) {
    begin = text.find('\n', begin);
    if (begin == std::string_view::npos) return std::nullopt;
    ++begin;
  }
  for (uint32_t column = 1; column < at.column && begin < text.size(); ++column) do
      ++begin;
    while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80);
  return static_cast<uint32_t>(std::min(begin, text.size()));
}

} // namespace

Environment::Environment() : color(wantsColor()), status(canRewriteLines()) {}

Environment::Environment(std::string input) : status(false), inMemory_(true), input_(std::move(input)) {}

void Environment::out(std::string_view text) {
  StatusLine::Writing writing(status);
  if (!text.empty()) writing.endsLine(text.back() == '\n' || !isatty(STDOUT_FILENO));
  if (inMemory_)
    outText += text;
  else if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    outFailed_ = true;
}

void Environment::err(std::string_view text) {
  if (diagnostics == DiagnosticsFormat::Text)
    writeErr(text);
  else
    writeErr(keepDiagnostics(text));
}

std::string Environment::keepDiagnostics(std::string_view text) {
  std::string rest;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    bool kept = false;
    for (auto [word, severity] :
         {std::pair("error: ", Severity::Error), std::pair("warning: ", Severity::Warning),
          std::pair("note: ", Severity::Note)}) {
      if (!line.starts_with(word)) continue;
      line.remove_prefix(std::string_view(word).size());
      while (line.ends_with('\n')) line.remove_suffix(1);
      told_.push_back({.severity = severity, .kind = "general", .message = std::string(line)});
      kept = true;
      break;
    }
    if (!kept) rest += line;
  }
  return rest;
}

void Environment::writeErr(std::string_view text) {
  if (text.empty()) return;
  StatusLine::Writing writing(status);
  if (!text.empty()) writing.endsLine(text.back() == '\n');
  if (inMemory_)
    errText += text;
  else
    std::fwrite(text.data(), 1, text.size(), stderr);
}

// Run-time errors begin with the location of their op, "gpt.dt:12:8: …"; they are rendered as diagnostics.
static std::optional<Diagnostic> locatedDiagnostic(const Error& error, const SourceText& source) {
  static constexpr DiagKind kRun{"run-time", "{0}"};
  std::string_view rest = error.message;
  if (source.name.empty() || !rest.starts_with(source.name + ":")) return std::nullopt;
  rest.remove_prefix(source.name.size() + 1);
  LineCol at;
  for (uint32_t* number : {&at.line, &at.column}) {
    const auto n = takeNumber<uint32_t>(rest);
    if (!n || !rest.starts_with(':')) return std::nullopt;
    *number = *n;
    rest.remove_prefix(1);
  }
  const auto offset = offsetOf(source.text, at);
  if (!offset || !rest.starts_with(" ")) return std::nullopt;
  uint32_t end = *offset;
  auto isWord = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  while (end < source.text.size() && isWord(source.text[end])) ++end;
  Diagnostic d;
  d.kind = &kRun;
  d.range = {*offset, std::max(end, *offset + 1)};
  d.args = {std::string(rest.substr(1))};
  return d;
}

int Environment::fail(const Error& error) {
  if (error.message.empty()) return exitCodeOf(error);
  if (auto d = locatedDiagnostic(error, currentSource)) {
    Diagnostics diags;
    diags.error(*d->kind, d->range, d->args[0]);
    report(diags, currentSource);
    return exitCodeOf(error);
  }
  const std::string kind = kindOf(error);
  if (diagnostics != DiagnosticsFormat::Text) {
    told_.push_back({.kind = kind, .message = error.message});
    return exitCodeOf(error);
  }
  std::string_view red = color ? "\x1b[1;31m" : "", reset = color ? "\x1b[0m" : "";
  const size_t lineEnd = std::min(error.message.find('\n'), error.message.size());
  const bool rendered = error.message.substr(0, lineEnd).ends_with(']') && lineEnd < error.message.size();
  err(std::string(red) + "error: " + std::string(reset) + error.message.substr(0, lineEnd) +
      (rendered ? "" : " [" + kind + "]") + error.message.substr(lineEnd) +
      (error.message.ends_with('\n') ? "" : "\n"));
  return exitCodeOf(error);
}

int Environment::report(const Diagnostics& diags, const SourceText& source) {
  if (diagnostics == DiagnosticsFormat::Text)
    err(renderDiagnostics(diags, source, color));
  else
    for (DiagnosticRecord& r : recordsOf(diags, source)) told_.push_back(std::move(r));
  return diags.hasErrors() ? kExitInput : kExitDone;
}

Result<SourceText> Environment::read(const std::string& path, size_t limit) {
  if (path == "-") {
    if (inMemory_) return SourceText{"<stdin>", input_};
    std::optional<StatusLine::Writing> typing;
    if (isatty(STDIN_FILENO)) typing.emplace(status); // no status line while the user types
    errno = 0;
    SourceText source{"<stdin>", readAll(stdin, limit)};
    if (std::ferror(stdin))
      return machineError(std::string("cannot read standard input: ") + std::strerror(errno));
    return source;
  }
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) return cannotRead(path, errno);
  errno = 0;
  SourceText source{path, readAll(file, limit)};
  bool failed = std::ferror(file) != 0;
  int why = errno;
  std::fclose(file);
  if (failed) return cannotRead(path, why);
  return source;
}

void Environment::writeDocument() {
  if (diagnostics == DiagnosticsFormat::Json) writeErr(diagnosticsJson(told_));
  if (diagnostics == DiagnosticsFormat::Sarif) writeErr(diagnosticsSarif(told_, DTC_VERSION));
}

bool Environment::finish() {
  if (inMemory_) return true;
  return std::fflush(stdout) == 0 && !outFailed_;
}

} // namespace dtc
