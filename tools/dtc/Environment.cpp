#include "Environment.h"

#include "dtc/Session/ProgramText.h"
#include "dtc/Support/OutOfMemory.h"
#include "dtc/Version.h"

#include <algorithm>
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

} // namespace

Environment::Environment() : color(wantsColor()), status(canRewriteLines()) {}

Environment::Environment(std::string input) : status(false), inMemory_(true), input_(std::move(input)) {}

void Environment::out(std::string_view text) {
  if (muted_) return;
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
  if (muted_) {
    mutedText_ += text;
    return;
  }
  StatusLine::Writing writing(status);
  if (!text.empty()) writing.endsLine(text.back() == '\n');
  if (inMemory_)
    errText += text;
  else
    std::fwrite(text.data(), 1, text.size(), stderr);
}

int Environment::fail(const Error& error, const char* name) {
  if (error.message.empty()) return exitCodeOf(error);
  if (auto d = locatedDiagnostic(error, currentSource)) {
    Diagnostics diags;
    diags.error(*d->kind, d->range, d->args[0]);
    report(diags, currentSource);
    return exitCodeOf(error);
  }
  const std::string kind = name ? name : kindOf(error);
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
    if (inMemory_) return SourceText{"<text>", input_}; // as lib/Api names a program without a file
    if (inputRead_) return SourceText{"<stdin>", input_};
    std::optional<StatusLine::Writing> typing;
    if (isatty(STDIN_FILENO)) typing.emplace(status); // no status line while the user types
    errno = 0;
    input_ = readStream(stdin, limit);
    inputRead_ = true;
    if (std::ferror(stdin))
      return machineError(std::string("cannot read standard input: ") + std::strerror(errno));
    return SourceText{"<stdin>", input_};
  }
  return readFile(path, limit);
}

std::string Environment::mutedErrors() const {
  std::string text = mutedText_;
  for (const DiagnosticRecord& r : told_)
    if (muted_ && r.severity == Severity::Error) text += (text.empty() ? "error: " : "\n  ") + r.message;
  return text;
}

void Environment::writeDocument() {
  if (diagnostics == DiagnosticsFormat::Json) writeErr(diagnosticsJson(told_));
  if (diagnostics == DiagnosticsFormat::Sarif) writeErr(diagnosticsSarif(told_, DTC_VERSION));
}

Status Environment::finish() {
  if (!inMemory_ && std::fflush(stdout) != 0) outFailed_ = true;
  return outFailed_ ? Status(machineError("cannot write to standard output")) : Status(Ok{});
}

} // namespace dtc
