#pragma once
// What a run of dtc has instead of globals: its streams, its command line, where it is. Tests make one whose streams are
// strings, and so run the whole compiler in process.
#include "StatusLine.h"
#include "dtc/Support/DiagnosticsJson.h"
#include "dtc/Support/Result.h"
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

// Exit codes (docs/cli.md).
inline constexpr int kExitDone = 0, kExitInput = 1, kExitUsage = 2, kExitMachine = 3, kExitBug = 70;

// --diagnostics: as people read them, or for tools as one document at the end.
enum class DiagnosticsFormat : unsigned char { Text, Json, Sarif };

class Environment {
public:
  // The process's own streams.
  Environment();
  // Streams in memory: standard input reads as `input`; what is written is kept in outText and errText.
  explicit Environment(std::string input);

  std::vector<std::string> commandLine; // with the program's name
  bool color = false;                   // of standard error
  std::string outText, errText;
  DiagnosticsFormat diagnostics = DiagnosticsFormat::Text;
  // What a bug report needs: the text that is being compiled.
  SourceText currentSource;
  // What is being done, for a person who waits; nobody sees it where standard error is no terminal.
  StatusLine status;

  void out(std::string_view text); // results
  void err(std::string_view text); // what is said to a person
  // "error: …" on standard error; the exit code that belongs to the kind of error.
  int fail(const Error&);
  // Prints diagnostics; 1 if there are errors, else 0.
  int report(const Diagnostics&, const SourceText&);
  // The text of a file, or of standard input for "-" (shown as <stdin>). At most `limit` bytes are read, and one more to
  // tell that there are more.
  Result<SourceText> read(const std::string& path, size_t limit);
  // Flushes; false where standard output did not take everything.
  [[nodiscard]] bool finish();
  // The document of --diagnostics json or sarif, to standard error; nothing for text.
  void writeDocument();

private:
  // Keeps the lines "error: …", "warning: …" and "note: …" for the document; what remains is for people.
  std::string keepDiagnostics(std::string_view text);
  void writeErr(std::string_view text);
  std::vector<DiagnosticRecord> told_; // where `diagnostics` is not Text

  bool inMemory_ = false;
  std::string input_;
  bool outFailed_ = false;
};

} // namespace dtc
