#include "Environment.h"

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
  StatusLine::Writing writing(status);
  if (!text.empty()) writing.endsLine(text.back() == '\n');
  if (inMemory_)
    errText += text;
  else
    std::fwrite(text.data(), 1, text.size(), stderr);
}

int Environment::fail(const Error& error) {
  std::string_view red = color ? "\x1b[1;31m" : "", reset = color ? "\x1b[0m" : "";
  err(std::string(red) + "error: " + std::string(reset) + error.message + "\n");
  switch (error.kind) {
  case Error::Input: return kExitInput;
  case Error::Usage: return kExitUsage;
  case Error::Machine: return kExitMachine;
  case Error::Bug: return kExitBug;
  }
  return kExitBug;
}

int Environment::report(const Diagnostics& diags, const SourceText& source) {
  err(renderDiagnostics(diags, source, color));
  return diags.hasErrors() ? kExitInput : kExitDone;
}

Result<SourceText> Environment::read(const std::string& path, size_t limit) {
  if (path == "-") {
    if (inMemory_) return SourceText{"<stdin>", input_};
    std::optional<StatusLine::Writing> typing;
    if (isatty(STDIN_FILENO)) typing.emplace(status); // nothing is written between the lines of who types it
    return SourceText{"<stdin>", readAll(stdin, limit)};
  }
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) return inputError("cannot read " + path + ": " + std::strerror(errno));
  errno = 0;
  SourceText source{path, readAll(file, limit)};
  bool failed = std::ferror(file) != 0;
  int why = errno;
  std::fclose(file);
  if (failed) return inputError("cannot read " + path + ": " + std::strerror(why));
  return source;
}

bool Environment::finish() {
  if (inMemory_) return true;
  return std::fflush(stdout) == 0 && !outFailed_;
}

} // namespace dtc
