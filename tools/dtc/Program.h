#pragma once
// The flags shared by all verbs that read a program, and the functions that load it.
#include "Environment.h"
#include "dtc/Session/ProgramText.h"
#include <optional>

namespace CLI {
class App;
}

namespace dtc {

// For -o of pages, which are .html, or .json for their data. Error (Usage): the name asks for another format.
[[nodiscard]] Status checkPageName(const std::string& out);
// Writes a verb's output to the file of -o, or to standard output for "-". Returns the exit code.
[[nodiscard]] int writeOut(Environment&, const std::string& path, const std::string& text);

// Declares FILE, --entry, --mesh, --dim, --sharding and --bind.
void addProgramOptions(CLI::App&, ProgramOptions&);
void addBindOption(CLI::App&, ProgramOptions&);

// Reads the text of FILE; of a package, which is kept in `env`, its program. Error: for example an unsupported
// format. `hlo`: accept XLA's HLO text.
[[nodiscard]] Result<SourceText> readProgram(Environment&, const ProgramOptions&, bool hlo = false);
// Reads, parses and verifies FILE. Diagnostics are reported; the error then has no message.
[[nodiscard]] Result<Module> loadProgram(Environment&, const ProgramOptions&);
// The same; of a text with errors, what was parsed, and `diags` has the errors. An error if that is nothing.
[[nodiscard]] Result<Module> loadPartly(Environment&, const ProgramOptions&, Diagnostics& diags);
// As loadProgram, for text in memory; text that looks like MLIR is imported.
[[nodiscard]] Result<Module> loadText(Environment&, SourceText, const ReadOptions&);
// The same, but always imports the text as MLIR.
[[nodiscard]] Result<Module> loadImported(Environment&, SourceText);

// Declares -O, --policy, --reduce-dtype, --strict-nonfinite, --reduction-order and --no-overlap.
void addLoweringOptions(CLI::App&, LoweringFlags&);
// Declares the propagation flags: --policy, --reduce-dtype and --strict-nonfinite.
void addPropagationOptions(CLI::App&, LoweringFlags&);
// Declares --pipeline-schedule.
void addPipelineOption(CLI::App&, LoweringFlags&);

// Notes each flag that only passes of lower levels than the text's read.
void noteIdleFlags(Environment&, const LoweringFlags&, Level from);

} // namespace dtc
