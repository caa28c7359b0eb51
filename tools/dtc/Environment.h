#pragma once
// The state of one run of dtc, instead of globals: streams, command line, status. Tests create one with
// in-memory streams to run the whole compiler in process.
#include "StatusLine.h"
#include "dtc/Files/Package.h"
#include "dtc/Support/DiagnosticsJson.h"
#include "dtc/Support/Result.h"
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

// Exit codes (docs/cli.md).
inline constexpr int kExitDone = 0, kExitInput = 1, kExitUsage = 2, kExitMachine = 3, kExitBug = 70;

// --diagnostics: text for people, or one document for tools at exit.
enum class DiagnosticsFormat : unsigned char { Text, Json, Sarif };

class Environment {
public:
  // Uses the streams of the process.
  Environment();
  // Uses in-memory streams: standard input reads `input`; output goes to outText and errText.
  explicit Environment(std::string input);

  std::vector<std::string> commandLine; // including the program name
  std::vector<std::string> operands;    // after `--`, of a verb that takes a command
  bool color = false;                   // whether standard error is colored
  std::string outText, errText;
  DiagnosticsFormat diagnostics = DiagnosticsFormat::Text;
  // The text being compiled, for bug reports.
  SourceText currentSource;
  // The package that the program was read from, if it was one.
  std::optional<Package> package;
  // The current phase, shown only if standard error is a terminal.
  StatusLine status;

  void out(std::string_view text); // results
  void err(std::string_view text); // messages
  // From now on, nothing is written: results are dropped, messages are kept. For processes whose rank is not 0.
  void mute() { muted_ = true; }
  [[nodiscard]] const std::string& mutedText() const { return mutedText_; }
  // The same with --diagnostics json or sarif, whose document is not written yet: its errors as text.
  [[nodiscard]] std::string mutedErrors() const;
  bool connected = false; // to the other processes of the run, which agree on who writes
  // Prints "error: …" to standard error, unless the error has no message, because it has been reported; returns
  // the exit code for the kind of error.
  int fail(const Error&, const char* name = nullptr);
  // Prints diagnostics; returns 1 if there are errors, else 0.
  int report(const Diagnostics&, const SourceText&);
  // Reads a file, or standard input for "-" (named <stdin>). Stops soon after `limit` bytes: a longer text is
  // how callers detect oversized input. Standard input is kept, and can be read again.
  Result<SourceText> read(const std::string& path, size_t limit);
  // Flushes standard output. Error (Machine): a write failed, now or before.
  [[nodiscard]] Status finish();
  // Writes the document of --diagnostics json or sarif to standard error; nothing for text.
  void writeDocument();

private:
  // Moves "error: …", "warning: …" and "note: …" lines to the document; returns the remaining text.
  std::string keepDiagnostics(std::string_view text);
  void writeErr(std::string_view text);
  std::vector<DiagnosticRecord> told_; // if `diagnostics` is not Text

  bool inMemory_ = false, inputRead_ = false;
  std::string input_;
  bool outFailed_ = false, muted_ = false;
  std::string mutedText_;
};

} // namespace dtc
