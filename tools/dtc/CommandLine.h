#pragma once
// Formats CLI11's help pages and errors.
#include "Verbs.h"
#include <optional>

namespace CLI {
class Option;
class ParseError;
} // namespace CLI

namespace dtc {

// What a flag's value is called, "FILE" or "cpu|cuda"; empty for a flag that takes none.
[[nodiscard]] std::string valueTypeOf(const CLI::Option&);

// The help page of a verb: flags without a named group, or all groups with `all`.
[[nodiscard]] std::string verbHelp(const Verb&, const CLI::App&, bool all);

// Declares the flags of every verb: -h, --help, --help-all, --diagnostics.
void addCommonOptions(CLI::App&);

// The format given by --diagnostics, read first so that errors in other flags use it too.
[[nodiscard]] DiagnosticsFormat diagnosticsFormatOf(const std::vector<std::string>& words);

// Translates a CLI11 error: "unknown backend 'gpu'; did you mean 'cuda'?".
[[nodiscard]] Error commandLineError(const Verb&, const CLI::App&, const CLI::ParseError&);

// An error for a value given to a flag that takes none, `--check=yes`. CLI11 would accept many spellings of
// true and false.
[[nodiscard]] std::optional<Error> flagWithValue(const Verb&, const CLI::App&,
                                                 const std::vector<std::string>& words);

// An argument as a shell reads it, on one line.
[[nodiscard]] std::string shellWord(std::string_view word);

// The error for an unknown flag or an unexpected argument.
[[nodiscard]] Error unexpectedWord(const Verb&, const CLI::App&, const std::string& word);

} // namespace dtc
