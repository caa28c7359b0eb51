#pragma once
// Reading a program: the options that every verb which takes one shares, and what they do.
#include "Environment.h"
#include "dtc/IR/Text.h"
#include <optional>

namespace CLI {
class App;
}

namespace dtc {

struct ProgramOptions {
  std::string file;
  std::string entry; // "@f" or "f"; empty: none given
  std::vector<std::string> meshes, dims;
};

// Text of a verb: to the file of -o, or to standard output where that is "-". The verb's exit code.
[[nodiscard]] int writeOut(Environment&, const std::string& path, const std::string& text);

// FILE --entry --mesh --dim
void addProgramOptions(CLI::App&, ProgramOptions&);

// --mesh and --dim as the parser takes them.
[[nodiscard]] Result<ParseOptions> parseOptionsOf(const ProgramOptions&);

// The text of FILE. Nothing after having said what is wrong: of another format, which it is. `hlo`: XLA's text is taken, too.
[[nodiscard]] std::optional<SourceText> readProgram(Environment&, const ProgramOptions&, int& exitCode,
                                                    bool hlo = false);
// Reads, parses and verifies. Nothing after having said what is wrong; `exitCode` then says how.
inline constexpr const char* kOptLevelHelp = "0: op by op, compiled quickly; 1: fused; 2: and no host work "
                                             "between steps; 3: and the fastest of some schedules";
[[nodiscard]] std::optional<Module> loadProgram(Environment&, const ProgramOptions&, int& exitCode);
// The same for a text at hand; MLIR text is imported, to judge by how it begins.
[[nodiscard]] std::optional<Module> loadText(Environment&, SourceText, const ParseOptions&, int& exitCode);
// The same for text that is to be imported whatever it begins with.
[[nodiscard]] std::optional<Module> loadImported(Environment&, SourceText, int& exitCode);
// Reads .dt text, or imports MLIR text; not verified.
[[nodiscard]] bool readText(SourceText, const ParseOptions&, Module&, Diagnostics&);

// --policy and --reduce-dtype, each "" where it is not given: a wrong value is an error of the command line.
[[nodiscard]] Status checkChoices(const std::string& policy, const std::string& reduceDType);

// An error of the text that is one of the command line: --mesh names an axis that the mesh does not have, asks for more
// devices than there can be, or is given with a partitioned program.
[[nodiscard]] Status overrideProblem(const Module&, const ParseOptions&, const Diagnostics&);
// Do --mesh's meshes exist, and is the program one whose sizes may be changed?
[[nodiscard]] Status checkOverrides(const Module&, const ParseOptions&);

// The functions that --entry means: the one named; else @main; else the only one that no other calls; else all of those.
[[nodiscard]] Result<std::vector<FuncId>> entriesOf(const Module&, const std::string& entry);
// For verbs that take one: where several are left, an error that lists them.
[[nodiscard]] Result<FuncId> entryOf(const Module&, const std::string& entry);

} // namespace dtc
