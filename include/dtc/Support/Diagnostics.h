#pragma once
// Diagnostics are data: a kind (with its format), a location, typed arguments, notes; a single renderer
// formats them. Errors of the *input* are reported here, and the function returns false / nullopt; errors of
// the machine are Result (Result.h); bugs of dtc are DTC_CHECK.
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace dtc {

// A range of byte offsets in the module's text; begin == end == kNone if there is none.
struct SourceRange {
  static constexpr uint32_t kNone = 0xffffffffu;
  uint32_t begin = kNone, end = kNone;
  [[nodiscard]] bool valid() const { return begin != kNone; }
};

// An input text with its display name ("mlp.dt", "<stdin>").
struct SourceText {
  struct Imported {
    std::string name;
    uint32_t begin = 0;
  };
  std::string name;
  std::string text;
  std::vector<Imported> imported = {}; // the files that it imports, appended to `text`, by offset
};

// A kind of diagnostic: a stable id ("contract-mismatch") and a format with {0}, {1}, … for the arguments.
// Declared `inline constexpr DiagKind kFoo{"foo", "…"};` next to the code that reports it.
struct DiagKind {
  const char* id;
  const char* format;
};

enum class Severity : uint8_t { Error, Warning, Note };

struct Note {
  SourceRange range;
  std::string message;
  bool shown = false; // with its line and a caret, like an error's location
};

struct Diagnostic {
  Severity severity = Severity::Error;
  const DiagKind* kind = nullptr;
  SourceRange range;             // the caret range
  std::vector<SourceRange> also; // further ranges underlined on the same line
  std::vector<std::string> args;
  std::vector<Note> notes;
  [[nodiscard]] std::string message() const;

  Diagnostic& note(SourceRange r, std::string text) {
    notes.push_back({r, std::move(text)});
    return *this;
  }
  // A note that shows its line with a caret, for a location that the user should look at, such as an
  // annotation.
  Diagnostic& noteAt(SourceRange r, std::string text) {
    notes.push_back({r, std::move(text), true});
    return *this;
  }
  Diagnostic& alsoAt(SourceRange r) {
    also.push_back(r);
    return *this;
  }
};

// What a function returns after it has reported an error: false, or an empty optional.
struct Failure {
  template <std::same_as<bool> Bool> operator Bool() const { return false; }
  template <class T> operator std::optional<T>() const { return std::nullopt; }
};

class Diagnostics {
public:
  static constexpr size_t kMaxErrors = 20; // ir.md: a run reports at most 20 errors

  template <class... Args> Diagnostic& error(const DiagKind& kind, SourceRange range, const Args&... args) {
    return add(Severity::Error, kind, range, {toArg(args)...});
  }
  // `return diags.fail(kFoo, loc, …);`
  template <class... Args> Failure fail(const DiagKind& kind, SourceRange range, const Args&... args) {
    error(kind, range, args...);
    return {};
  }
  template <class... Args> Diagnostic& warning(const DiagKind& kind, SourceRange range, const Args&... args) {
    return add(Severity::Warning, kind, range, {toArg(args)...});
  }
  [[nodiscard]] bool hasErrors() const { return errors_ != 0; }
  [[nodiscard]] size_t numErrors() const { return errors_; }
  [[nodiscard]] bool full() const { return errors_ >= kMaxErrors; } // callers may stop early
  [[nodiscard]] const std::vector<Diagnostic>& all() const { return list_; }
  void clear() { list_.clear(), errors_ = 0; }
  // Adds a note to each error after the first `errors`.
  void noteSince(size_t errors, SourceRange, const std::string& text);

private:
  static std::string toArg(std::string_view s) { return std::string(s); }
  static std::string toArg(const std::string& s) { return s; }
  static std::string toArg(const char* s) { return s; }
  template <std::integral T> static std::string toArg(T v) { return std::to_string(v); }
  Diagnostic& add(Severity s, const DiagKind& kind, SourceRange range, std::vector<std::string> args);
  std::vector<Diagnostic> list_;
  Diagnostic overflow_; // receives everything after the 20th error
  size_t errors_ = 0;
};

// The text of all diagnostics: "file:line:col: error: …", the line (limited to 160 columns around its caret),
// carets, notes. `color` adds terminal escapes.
[[nodiscard]] std::string renderDiagnostics(const Diagnostics&, const SourceText&, bool color);

// Line and column of a byte offset (both 1-based; columns count characters).
struct LineCol {
  uint32_t line = 1, column = 1;
};
[[nodiscard]] LineCol lineColumn(std::string_view text, uint32_t offset);

// A location as people read it, in the file that the text came from.
struct SourcePlace {
  std::string_view file;
  LineCol at;
};
[[nodiscard]] SourcePlace placeOf(const SourceText&, uint32_t offset);
// "mlp.dt:12", with `column` "mlp.dt:12:8"; "" if the range is outside of the text, or the text has no name.
[[nodiscard]] std::string placeText(const SourceText&, SourceRange, bool column = false);

// The nearest of `candidates` to a mistyped `word` (Damerau-Levenshtein, at most a third of its length away),
// or "".
[[nodiscard]] std::string_view nearestWord(std::string_view word,
                                           const std::vector<std::string_view>& candidates);

} // namespace dtc
