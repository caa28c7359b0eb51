#pragma once
// What stands between CLI11 and a person: its help as pages of ours, its errors in our words.
#include "Verbs.h"
#include <optional>

namespace CLI {
class ParseError;
} // namespace CLI

namespace dtc {

// A page of a verb: the flags of no named group; with `all`, every group.
[[nodiscard]] std::string verbHelp(const Verb&, const CLI::App&, bool all);

// Declares what every verb has: -h, --help, --help-all, --diagnostics.
void addCommonOptions(CLI::App&);

// The format that --diagnostics asks for, read before the other flags so that errors in those have it too.
[[nodiscard]] DiagnosticsFormat diagnosticsFormatOf(const std::vector<std::string>& words);

// What CLI11 refused, in our words: "unknown backend 'gpu'; did you mean 'cuda'?".
[[nodiscard]] Error commandLineError(const Verb&, const CLI::App&, const CLI::ParseError&);

// A flag that takes no value and is given one, `--check=yes`: CLI11 takes many words for true or false.
[[nodiscard]] std::optional<Error> flagWithValue(const Verb&, const CLI::App&,
                                                 const std::vector<std::string>& words);

// A word that no option of the verb takes: an unknown flag, or one argument too many.
[[nodiscard]] Error unexpectedWord(const Verb&, const CLI::App&, const std::string& word);

} // namespace dtc
